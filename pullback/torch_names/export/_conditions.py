"""Conditions on sizes, as texts that a file may bring: read by a parser of their own, never run."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Condition", "checked"]

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CALLS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs}
_LONGEST = 2000


def checked(text: str, names: set[str]) -> str:
    """A text that is arithmetic on these names and numbers, and nothing else; ValueError if not."""
    if len(text) > _LONGEST:
        raise ValueError("a condition on sizes is too long")
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"a condition on sizes cannot be read: {text!r}") from error
    _check(tree, names, text)
    return text


def _check(node: ast.AST, names: set[str], text: str) -> None:
    parts: list[ast.AST]
    match node:
        case ast.Constant(value=bool() | int() | float()):
            return
        case ast.Name(id=name) if name in names:
            return
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            parts = [left, right]
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _BINARY:
            parts = [left, right]
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=inner):
            parts = [inner]
        case ast.BoolOp(values=values):
            parts = list(values)
        case ast.Call(func=ast.Name(id=called), args=given, keywords=[]) if called in _CALLS:
            parts = list(given)
        case ast.Call(func=ast.Name(id="len"), args=[part], keywords=[]) if _is_part(part):
            parts = [one for one in _of_part(part) if not _is_none(one)]
        case _:
            raise ValueError(f"a condition on sizes is no arithmetic: {text!r}")
    for one in parts:
        _check(one, names, text)


def _is_part(node: ast.AST) -> bool:
    """Whether a text is `range(n)[start:stop:step]`, whose length a slice of a dimension has."""
    match node:
        case ast.Subscript(
            value=ast.Call(func=ast.Name(id="range"), args=[_], keywords=[]), slice=ast.Slice()
        ):
            return True
    return False


def _of_part(node: Any) -> list[Any]:
    every = [node.value.args[0], node.slice.lower, node.slice.upper, node.slice.step]
    return [ast.Constant(value=None) if one is None else one for one in every]


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _value(node: Any, sizes: Mapping[str, int]) -> Any:
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[part]):
            count, *given = (_value(one, sizes) for one in _of_part(part))
            return len(range(count)[slice(*given)])
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return sizes[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_value(left, sizes), _value(right, sizes))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _BINARY[type(op)](_value(left, sizes), _value(right, sizes))
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return not _value(inner, sizes)
        case ast.UnaryOp(operand=inner):
            return -_value(inner, sizes)
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_value(one, sizes) for one in values)
        case ast.BoolOp(values=values):
            return any(_value(one, sizes) for one in values)
        case ast.Call(func=ast.Name(id=called), args=given):
            return _CALLS[called](*(_value(one, sizes) for one in given))
    raise AssertionError("was checked")


class Condition:
    """A comparison of sizes, and how it came out when the program was traced."""

    def __init__(self, text: str, outcome: bool, names: set[str]) -> None:
        self.text, self.outcome = checked(text, names), outcome
        self._tree = ast.parse(text, mode="eval").body

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether it comes out as it did."""
        try:
            return bool(_value(self._tree, sizes)) is self.outcome
        except (ArithmeticError, TypeError, ValueError):  # what a file may bring: a step of 0
            return False

    def __str__(self) -> str:
        return self.text if self.outcome else f"not ({self.text})"

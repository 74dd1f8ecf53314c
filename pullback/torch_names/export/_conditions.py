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
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_CALLS: dict[str, Callable[..., Any]] = {
    "min": min, "max": max, "abs": abs, "int": int, "round": round,
}  # fmt: skip
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
        case ast.Compare(left=left, ops=ops, comparators=rest) if _are_known(ops):
            parts = [left, *rest]
        case ast.Call(func=ast.Name(id="len"), args=[part], keywords=[]) if _cut(part) is not None:
            parts = [one for one in _cut(part) or () if not _is_none(one)]
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=inner):
            parts = [inner]
        case ast.BoolOp(values=values):
            parts = list(values)
        case ast.Call(func=ast.Name(id=called), args=given, keywords=[]) if called in _CALLS:
            parts = list(given)
        case _:
            raise ValueError(f"a condition on sizes is no arithmetic: {text!r}")
    for one in parts:
        _check(one, names, text)


def _are_known(ops: list[ast.cmpop]) -> bool:
    return all(type(op) in _BINARY for op in ops)


def _cut(node: ast.AST) -> list[ast.AST] | None:
    """Of `range(length)[start:stop:step]` the four numbers, as a part of a dimension has them."""
    match node:
        case ast.Subscript(
            value=ast.Call(func=ast.Name(id="range"), args=[length], keywords=[]),
            slice=ast.Slice(
                lower=ast.AST() as start, upper=ast.AST() as stop, step=ast.AST() as by
            ),
        ):
            return [length, start, stop, by]
    return None


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _value(node: Any, sizes: Mapping[str, int]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return sizes[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_value(left, sizes), _value(right, sizes))
        case ast.Compare(left=left, ops=ops, comparators=rest):
            found = [_value(one, sizes) for one in (left, *rest)]
            pairs = zip(ops, found, found[1:], strict=False)
            return all(_BINARY[type(op)](a, b) for op, a, b in pairs)
        case ast.Call(func=ast.Name(id="len"), args=[part]):
            cut = _cut(part)
            assert cut is not None  # as was checked
            length, *bounds = cut
            start, stop, by = (None if _is_none(one) else _value(one, sizes) for one in bounds)
            return len(range(_value(length, sizes))[start:stop:by])
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
        except (ArithmeticError, ValueError, TypeError):  # of numbers that are none of sizes
            return False

    def __str__(self) -> str:
        return self.text if self.outcome else f"not ({self.text})"

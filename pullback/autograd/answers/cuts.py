"""Where a program's source takes a value out of the graph, when nothing of that graph is left.

`side = self.b(h).detach()` leaves no trace: the graph of `self.b(h)` is gone with the tensor that
had it. What is left is the source. A parameter is looked for where it is used by name (`self.b` in
methods of the module that has `b`, `w` in functions that made the loss), and from there the way of
its values outwards: through the expression, a `with` block or a decorator, and assigned names.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from pullback.core.origin import Origin, internal

__all__ = ["Cut", "cut_of_name", "cut_within"]

_ATTRIBUTES = {"detach": "detach()", "detach_": "detach_()", "data": ".data"}
# They give numbers, also of tensors that are used otherwise, so others are asked for first.
_NUMBERS = {"item": "item()", "tolist": "tolist()"}
_BLOCKS = ("no_grad", "inference_mode")


class Cut(NamedTuple):
    """What ends the history, and where."""

    how: str
    code: CodeType
    line: int

    def __str__(self) -> str:
        # The source of a script has that of its functions, whose lines only they have.
        _, _, code, start = max(self._places(self.code, 0), key=lambda place: place[:2])
        return f"{self.how} at {Origin(code, start)}"

    def _places(self, code: CodeType, depth: int) -> Iterator[tuple[int, int, CodeType, int]]:
        """Instructions up to the line, in a function and those inside it, with line and depth."""
        yield 0, depth, code, 0
        for start, _, line in code.co_lines():
            if line is not None and line <= self.line:
                yield line, depth, code, start
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                yield from self._places(inner, depth + 1)


def cut_within(modules: dict[str, Any], name: str, codes: Iterable[CodeType]) -> Cut | None:
    """What cuts a parameter of a module off, innermost module first; None if the source has none.

    `modules` are those of the model by path, with the model itself under ""; `codes` the functions
    that made the loss, which may say `model.b`.
    """
    path = name
    while path:
        owner, _, attribute = path.rpartition(".")
        methods = _methods(type(modules[owner])) if owner in modules else ()
        found = _first(methods, f"self.{attribute}")
        if found is not None:
            return found
        path = owner
    return _first(codes, f".{name.partition('.')[0]}")


def cut_of_name(codes: Iterable[CodeType], name: str) -> Cut | None:
    """What cuts a variable of this name off in one of these functions."""
    return _first(codes, name)


def _methods(cls: type) -> list[CodeType]:
    """The methods of a class that the user wrote."""
    values = [value for base in cls.__mro__ for value in vars(base).values()]
    functions = [inspect.unwrap(value) for value in values if isinstance(value, FunctionType)]
    return [one.__code__ for one in functions if not internal[one.__code__.co_filename]]


def _first(codes: Iterable[CodeType], wanted: str) -> Cut | None:
    trees = [(code, tree) for code in codes if (tree := _tree(code)) is not None]
    for attributes in (_ATTRIBUTES, _NUMBERS):
        for code, tree in trees:
            found = _Way(tree, attributes).cut_from(wanted)
            if found is not None:
                how, line = found
                return Cut(how, code, line + code.co_firstlineno - 1)
    return None


@functools.lru_cache(256)
def _tree(code: CodeType) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError):  # no source, or a part of a line
        return None


class _Way:
    """The way of a value outwards through one function."""

    def __init__(self, tree: ast.AST, attributes: dict[str, str]) -> None:
        self.tree = tree
        self.attributes = attributes
        self.parents = {
            child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)
        }

    def cut_from(self, wanted: str) -> tuple[str, int] | None:
        """How and in which line of the function the first cut is that something comes to."""
        waiting, seen = [wanted], {wanted}
        while waiting:
            text = waiting.pop(0)
            for node in ast.walk(self.tree):
                if _name_of(node) != text or not isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]  # a name has one
                    continue
                found, targets = self._outwards(node)
                if found is not None:
                    return found
                waiting += [one for one in targets if one not in seen]
                seen.update(targets)
        return None

    def _outwards(self, node: ast.AST) -> tuple[tuple[str, int] | None, list[str]]:
        """A cut above a mention, and the names that its statement assigns."""
        targets: list[str] = []
        above = self.parents.get(node)
        while above is not None:
            if isinstance(above, ast.Attribute) and above.attr in self.attributes:
                return (self.attributes[above.attr], above.end_lineno or above.lineno), targets
            if isinstance(above, ast.With | ast.FunctionDef):
                ends = [item.context_expr for item in getattr(above, "items", ())]
                ends += getattr(above, "decorator_list", [])
                for end in ends:
                    how = _block(end)
                    if how:
                        return (how, end.lineno), targets
            if isinstance(above, ast.Assign):
                named = [_name_of(one) for each in above.targets for one in ast.walk(each)]
                targets = [one for one in named if one not in ("", "self")]
            node, above = above, self.parents.get(above)
        return None, targets


def _name_of(node: ast.AST) -> str:
    """`w`, `self.w`, or `.w` of another name; "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{'self' if node.value.id == 'self' else ''}.{node.attr}"
    return ""


def _block(end: ast.expr) -> str:
    """What a `with` item or decorator does to recording, in words; "" if nothing."""
    called = end.func if isinstance(end, ast.Call) else end
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    if name in _BLOCKS:
        return f"{name}()"
    given = end.args[0] if isinstance(end, ast.Call) and end.args else None
    off = isinstance(given, ast.Constant) and given.value is False
    return "set_grad_enabled(False)" if name == "set_grad_enabled" and off else ""

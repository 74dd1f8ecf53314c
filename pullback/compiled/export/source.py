"""Where functions, classes and constants of the package are written: their files, as trees."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from types import CodeType
from typing import Any

import pullback

__all__ = ["Source", "bound_by", "source_of"]

_ABOVE = Path(pullback.__file__).parent.parent
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

Definition = ast.FunctionDef | ast.Lambda


class Source:
    """A text, as a tree, and the functions in it by their first lines."""

    def __init__(self, name: str, text: str) -> None:
        """`name`: what is said of where a part comes from."""
        self.name = name
        self.tree = ast.parse(text)
        self.functions: dict[int, list[Definition]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, Definition):
                self.functions.setdefault(_first_line(node), []).append(node)

    def function(self, code: CodeType) -> Definition | None:
        """The function that has this code; None where that cannot be told."""
        found = self.functions.get(code.co_firstlineno, [])
        if len(found) < 2:
            return found[0] if found else None
        places = [one for one in code.co_positions() if None not in one and one[3]]
        holding = [one for one in found if places and all(_holds(one, place) for place in places)]
        # Of those within one another, the inner one.
        return max(holding, key=lambda one: (one.lineno, one.col_offset), default=None)

    def class_(self, name: str) -> ast.ClassDef | None:
        """The class of this name in the module itself."""
        found = (
            one for one in self.tree.body if isinstance(one, ast.ClassDef) and one.name == name
        )
        return next(found, None)

    @cached_property
    def bindings(self) -> dict[str, list[ast.stmt]]:
        """The statements of the module that give a name its value, or put something into it."""
        found: dict[str, list[ast.stmt]] = {}
        for statement in self.tree.body:
            for name in bound_by(statement) | _filled(statement):
                found.setdefault(name, []).append(statement)
        return found

    @cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """What the module imports by name: from which module, and its name there."""
        return {
            one.asname or one.name: (statement.module or "", one.name)
            for statement in self.tree.body
            if isinstance(statement, ast.ImportFrom)
            for one in statement.names
        }


def _first_line(node: Definition) -> int:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return min([node.lineno, *[one.lineno for one in decorators]])


def _holds(node: Definition, place: Any) -> bool:
    """Whether an instruction's place is in the body of a function."""
    first, last, start, end = place
    body: Any = node.body if isinstance(node, ast.Lambda) else node
    inside = (body.lineno, body.col_offset) <= (first, start)
    return inside and (last, end) <= (body.end_lineno, body.end_col_offset)


def bound_by(node: ast.AST) -> set[str]:
    """The names that a node binds in its own scope."""
    return set(_bound(node))


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
        return
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, _COMPREHENSIONS):
        yield from (n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
        return
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.Import | ast.ImportFrom):
        for one in node.names:
            yield one.asname or one.name.partition(".")[0]
    elif isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name
    for child in ast.iter_child_nodes(node):
        yield from _bound(child)


def _filled(node: ast.stmt) -> set[str]:
    """The tables that a statement of a module puts something into: `NAME[key] = value`."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    tables = [one.value for one in targets if isinstance(one, ast.Subscript)]
    return {one.id for one in tables if isinstance(one, ast.Name)}


def source_of(file: str) -> Source | None:
    """The source of a file, or of code that the package wrote; None where there is none."""
    if not file.startswith("<"):
        return _parsed(file, "")
    text = "".join(linecache.getlines(file))  # another one may have the same title
    return _parsed(file, text) if text else None


@lru_cache(4096)
def _parsed(file: str, text: str) -> Source | None:
    text = text or "".join(linecache.getlines(file))
    return Source(_said(file), text) if text else None


def _said(file: str) -> str:
    """What is said of where a part comes from: no path of this machine."""
    if file.startswith("<"):
        return file.strip("<>").removeprefix("pullback ")
    path = Path(file)
    return path.relative_to(_ABOVE).as_posix() if path.is_relative_to(_ABOVE) else path.name

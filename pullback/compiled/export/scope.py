"""What a function, class or statement of a module finds outside of itself, as expressions."""

from __future__ import annotations

import ast
import builtins
import functools
from importlib import import_module
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy

from pullback.compiled.export.homes import Home, is_never, operator_of
from pullback.compiled.export.values import CannotWrite
from pullback.core.arrays import LIBRARIES
from pullback.core.home import is_in_package, scope_name
from pullback.operators.declare import Op
from pullback.operators.dispatch.layers import code_of
from pullback.operators.running.on_arrays import kernel

if TYPE_CHECKING:
    from pullback.compiled.export.definitions import Definitions

__all__ = ["Scope"]


class Scope:
    """The names that mean something where a definition stands; see `rewriting.Names`."""

    def __init__(
        self, to: Definitions, scope: dict[str, Any], function: FunctionType | None = None
    ) -> None:
        """`function`: whose closure is looked into first."""
        self.to, self.scope = to, scope
        self.brought: dict[str, Home] = {}
        self.closed: dict[str, Any] = {}
        if function is not None:
            cells = zip(code_of(function).co_freevars, function.__closure__ or (), strict=True)
            self.closed = {name: cell.cell_contents for name, cell in cells}

    def bring(self, name: str, module: str, attribute: str) -> None:
        """An import within a function binds a name."""
        self.brought[name] = (module, attribute)

    def value(self, name: str, attributes: list[str]) -> Any:
        """The object that it is; `Ellipsis` where that is not known."""
        found: Any
        if name in self.brought:
            module, attribute = self.brought[name]
            found = getattr(import_module(module), attribute)
        else:
            found = self.closed.get(name, self.scope.get(name, ...))
        for one in attributes:
            found = getattr(found, one, ...)
        return found

    def is_never(self, value: Any) -> bool:
        """Whether it is a class that no array of an exported program is of, or a table of such."""
        return value is LIBRARIES or (isinstance(value, type) and is_never(value))

    def expression(
        self, name: str, attributes: list[str], bound: frozenset[str]
    ) -> tuple[ast.expr | None, int]:
        """What stands for a name from outside, and how many of the attributes it takes in."""
        if self.value(name, []) is ...:
            if not hasattr(builtins, name):
                raise CannotWrite(f"the name {name}")
            return None, 0
        value, home, used = self._found(name, attributes)
        return self._text(value, attributes[used - 1] if used else name, home, bound), used

    def partial(
        self, name: str, attributes: list[str], bound: frozenset[str]
    ) -> tuple[ast.expr, list[ast.expr]] | None:
        """Where it is a function with arguments bound: that function, and the arguments."""
        value, home, used = self._found(name, attributes)
        op = operator_of(value)
        value = value if op is None else kernel(op)
        if used == len(attributes) and isinstance(value, numpy.ufunc):
            return self._text(value, name, None, bound), []
        if used < len(attributes) or type(value) is not functools.partial or value.keywords:
            return None
        args = [self._text(one, name, None, bound) for one in value.args]
        return self._text(value.func, name, home, bound), args

    def _found(self, name: str, attributes: list[str]) -> tuple[Any, Home | None, int]:
        """The object, the module that has it by which name, and the attributes that it takes."""
        value, used = self.value(name, []), 0
        home = self.brought.get(name)
        if home is None and name not in self.closed and "__name__" in self.scope:
            home = (scope_name(self.scope), name)
        while used < len(attributes) and _is_opened(value):
            home = (
                (scope_name(vars(value)), attributes[used])
                if isinstance(value, ModuleType)
                else None
            )
            value = getattr(value, attributes[used])
            used += 1
        return value, home, used

    def _text(self, value: Any, hint: str, home: Home | None, bound: frozenset[str]) -> ast.expr:
        text = self.to.of(value, hint, home)
        if home is None and isinstance(value, int | float | str | numpy.dtype):
            # Not as it is: `x is 1` is a warning, and a dtype would be made in each call.
            text = text if isinstance(value, bool) else self.to.constant(hint, text)
        if home is not None and "__name__" in self.scope and hint not in self.brought:
            self.to.uses(scope_name(self.scope), text)
        if text.partition(".")[0] in bound:
            text = self.to.alias(text)
        return ast.Name(text) if text.isidentifier() else ast.parse(text, mode="eval").body


def _is_opened(value: Any) -> bool:
    """Whether attributes of it are looked up now: a module of ours, or an operator."""
    if isinstance(value, ModuleType):
        return is_in_package(scope_name(vars(value)))
    return isinstance(value, Op) or operator_of(value) is not None

"""Objects of the package as source that stands by itself: what kernels reach, tree-shaken.

A kernel names functions, classes and constants of its module and of others; each of them is copied
once, from its own source. Constants of a module are copied as the statements that make them, so
what a module finds out about its NumPy is found out anew. Modules stay together, in an order in
which they import each other.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import sys
from collections.abc import Callable
from itertools import chain, count
from types import FunctionType
from typing import Any, NamedTuple

from pullback.compiled.export.homes import (
    Home,
    home_of,
    home_of_name,
    is_never,
    is_ours,
    operator_of,
)
from pullback.compiled.export.plain import KERNEL_OVERRIDES, Operator
from pullback.compiled.export.rewriting import rewritten
from pullback.compiled.export.scope import Scope
from pullback.compiled.export.source import bound_by, source_of
from pullback.compiled.export.values import CannotWrite, by_value, named_elsewhere
from pullback.core.home import home_of as module_of
from pullback.core.home import scope_name
from pullback.operators.choice import written
from pullback.operators.dispatch.layers import code_of, own_of
from pullback.operators.formula.in_python import function_of_steps, plain_function
from pullback.operators.formula.steps import Steps

__all__ = ["Definitions"]

_TEXTUAL = (int, str, bytes, bool, type(None), type(...))
_TAKEN = frozenset(dir(builtins)) | frozenset(keyword.kwlist) | {"program"}
_WORDS = re.compile(r"[^\W\d]\w*")
_WIDTH = 100


def _is_from_formula(value: Any) -> bool:
    """Whether a forward is written from a formula, and not by hand."""
    return hasattr(value, "kernels") and hasattr(value, "__wrapped__")


class _Part(NamedTuple):
    """A definition: where it was, and its text."""

    module: str
    line: int
    where: str
    text: str


class Definitions:
    """The part of an exported module beside its program: imports, and what the program calls."""

    def __init__(self) -> None:
        self.imports: set[str] = set()
        self.parts: list[_Part] = []
        self._used = set(_TAKEN)
        self._known: dict[Any, str] = {}  # id, or what else tells an object -> its name
        self._kept: list[Any] = []  # what is known by its id
        self._constants: dict[str, str] = {}  # text -> name
        self._aliases: dict[str, str] = {}
        self._owners: dict[str, str] = {}  # name -> the module that it is from
        self._before: dict[str, set[str]] = {}  # module -> those whose names it uses
        self._begun: set[int] = set()
        self._waiting: list[Callable[[], None]] = []  # what writes the bodies of what has a name

    # Texts ----------------------------------------------------------------------------------

    def texts(self) -> tuple[list[str], list[str]]:
        """Imports, and all else, module by module, in an order in which Python may run it."""
        ranks: dict[str, int] = {}
        for module in sorted({one.module for one in self.parts}, key=lambda name: (not name, name)):
            self._rank(module, ranks, set())
        lines: list[str] = []
        where, was_long = "", True
        for one in sorted(self.parts, key=lambda one: (ranks[one.module], one.line)):
            is_long = "\n" in one.text
            if one.where != where:
                lines += ["", "", f"# {one.where} ".ljust(_WIDTH, "-"), ""]
            lines += [""] * (2 * (is_long or was_long) if one.where == where else is_long)
            lines.append(one.text)
            where, was_long = one.where, is_long
        lines += ["", ""] if self._aliases else []
        lines += [f"{alias} = {name}" for name, alias in self._aliases.items()]
        return [f"import {name}" for name in sorted(self.imports)], lines

    def _rank(self, module: str, ranks: dict[str, int], begun: set[str]) -> None:
        """Number the modules whose names a module uses, and then itself: they do not go round."""
        if module not in begun and module not in ranks:
            begun.add(module)
            for other in sorted(self._before.get(module, ())):
                self._rank(other, ranks, begun)
            ranks[module] = len(ranks)

    def finish(self) -> None:
        """Write what was named so far, and what that names in turn."""
        while self._waiting:
            self._waiting.pop()()

    # Values ---------------------------------------------------------------------------------

    def of(self, value: Any, hint: str, home: Home | None = None) -> str:
        """An expression for a value; `home`: a module that has it, by which name."""
        if home is None and isinstance(value, _TEXTUAL):
            return repr(value)
        known = None if isinstance(value, _TEXTUAL) else self._known.get(id(value))
        if known is not None:
            return known
        value = KERNEL_OVERRIDES.get(value, value) if isinstance(value, FunctionType) else value
        value = written(value)
        named = named_elsewhere(self, value)
        if named is not None:
            return named
        op = operator_of(value)
        if op is not None:
            return f"{self.of(Operator, '')}({self.of(op.forward, op.name)})"
        if isinstance(value, Steps) or _is_from_formula(value):
            return self._of_formula(value, hint)
        if isinstance(value, FunctionType) and is_ours(value):
            return self._function(value, hint)
        if isinstance(value, type) and is_ours(value):
            return self._class(value)
        found = None if home is None else home_of_name(*home)
        if found is None and is_ours(type(value)):
            found = home_of(value)
        if found is not None and vars(sys.modules[found[0]]).get(found[1]) is value:
            return self._statement(*found)
        return repr(value) if isinstance(value, _TEXTUAL) else by_value(self, value, hint)

    def constant(self, hint: str, text: str) -> str:
        """A name for an expression, evaluated once; for use when the program runs."""
        name = self._constants.get(text)
        if name is None:
            name = self._constants[text] = self._name(hint, "")
            self.parts.append(_Part("", len(self.parts), "constants", f"{name} = {text}"))
        return name

    def function(self, hint: str, text: Callable[[str], str]) -> str:
        """A function of the program's own, by its text with a name."""
        name = self._name(hint, "")
        self.parts.append(_Part("", len(self.parts), "parts of the program", text(name)))
        return name

    # Names ----------------------------------------------------------------------------------

    def imported(self, module: str) -> str:
        """The name of a module of Python's or NumPy's, which will be imported."""
        self.imports.add(module)
        self._used.add(module.partition(".")[0])
        return module

    def alias(self, text: str) -> str:
        """Another name, for a place where the usual one means something else."""
        known = self._aliases.get(text)
        if known is None:
            known = self._aliases[text] = self._name(f"{text.replace('.', '_')}_", "")
        return known

    def uses(self, module: str, text: str) -> None:
        """A module's own names lead to what another one defines, which therefore ran before."""
        for name in _WORDS.findall(text):
            owner = self._owners.get(name)
            if owner is not None and owner != module:
                self._before.setdefault(module, set()).add(owner)

    def _name(self, wanted: str, where: str, module: str = "") -> str:
        wanted = wanted if wanted.isidentifier() else "kernel"
        room = where.removesuffix(".py").rpartition("/")[2]
        first = [wanted, f"{wanted}_{room}"] if room.isidentifier() else [wanted]
        choices = chain(first, (f"{wanted}_{number}" for number in count(2)))
        name = next(one for one in choices if one not in self._used)
        self._used.add(name)
        if module:
            self._owners[name] = module
        return name

    def _keep(self, value: Any, name: str) -> str:
        self._known[id(value)] = name
        self._kept.append(value)
        return name

    # Definitions ----------------------------------------------------------------------------

    def _function(self, function: FunctionType, hint: str) -> str:
        code, defaults = code_of(function), own_of(function).__defaults__ or ()
        key = (id(code), *self._closed_over(function), *map(id, defaults))
        known = self._known.get(key)
        if known is not None:
            return self._keep(function, known)
        source = source_of(code.co_filename)
        node = None if source is None else source.function(code)
        if source is None or node is None:
            raise CannotWrite(f"the function {function.__qualname__}, whose source is not known")
        where, line, module = source.name, node.lineno, scope_name(function.__globals__)
        wanted = hint if function.__name__ == "<lambda>" else function.__name__
        name = self._known[key] = self._name(wanted, where, module)
        self._kept += [code, *defaults]

        def write() -> None:
            made = rewritten(
                self._plain(node, function), Scope(self, function.__globals__, function)
            )
            made.name = name
            place = line if module else len(self.parts)
            self.parts.append(_Part(module, place, where, ast.unparse(made)))

        self._waiting.append(write)
        return self._keep(function, name)

    def _of_formula(self, value: Any, hint: str) -> str:
        """A function that is written from a formula: in plain Python, as if by hand."""
        name = self._keep(value, self._name(hint, ""))

        def write() -> None:
            self.imported("numpy")
            if isinstance(value, Steps):
                text = function_of_steps(name, value, self.of)
            else:
                text = plain_function(name, value.kernels, self.of)
            self.parts.append(_Part("", len(self.parts), "formulas", text))

        self._waiting.append(write)
        return name

    def _closed_over(self, function: FunctionType) -> list[str]:
        """What a function closes over, as text: copies of one for arrays have copies of others."""
        if id(function) in self._begun:
            raise CannotWrite(f"the function {function.__qualname__}, which closes over itself")
        self._begun.add(id(function))
        names, cells = code_of(function).co_freevars, function.__closure__ or ()
        made = [self.of(cell.cell_contents, n) for n, cell in zip(names, cells, strict=True)]
        self._begun.discard(id(function))
        return made

    def _plain(self, node: Any, function: FunctionType) -> ast.FunctionDef:
        """A function's node without decorators; a lambda as a function; defaults as they are."""

        def default(one: ast.expr, value: Any) -> ast.expr:
            names = [inner.id for inner in ast.walk(one) if isinstance(inner, ast.Name)]
            if all(name in function.__globals__ for name in names):
                return one
            return ast.parse(self.of(value, "default"), mode="eval").body

        args, named = node.args, function.__kwdefaults__ or {}
        pairs = zip(args.defaults, own_of(function).__defaults__ or (), strict=True)
        keywords = zip(args.kw_defaults, args.kwonlyargs, strict=True)
        arguments = ast.arguments(
            args.posonlyargs, args.args, args.vararg, args.kwonlyargs,
            [one and default(one, named[arg.arg]) for one, arg in keywords], args.kwarg,
            [default(one, value) for one, value in pairs],
        )  # fmt: skip
        body = [ast.Return(node.body)] if isinstance(node, ast.Lambda) else node.body
        return ast.FunctionDef("_", arguments, body, [], lineno=0)

    def _class(self, cls: type) -> str:
        own = module_of(cls)
        module = sys.modules[own]
        source = source_of(module.__file__ or "")
        node = None if source is None else source.class_(cls.__qualname__)
        if source is None or node is None:
            raise CannotWrite(f"the class {own}.{cls.__qualname__}")
        where, line = source.name, node.lineno
        name = self._name(cls.__name__, where, own)

        def write() -> None:
            if is_never(cls):
                docstring = ast.Expr(ast.Constant("Stands for a class that no array here is of."))
                made = ast.ClassDef(name, [], [], [docstring], [])
            else:
                made = rewritten(node, Scope(self, vars(module)))
                made.name = name
            self.parts.append(_Part(own, line, where, ast.unparse(made)))

        self._waiting.append(write)
        return self._keep(cls, name)

    def _statement(self, module: str, name: str) -> str:
        known = self._known.get((module, name))
        if known is not None:
            return known
        source = source_of(sys.modules[module].__file__ or "")
        found = [] if source is None else source.bindings.get(name, [])
        if source is None or not found:
            raise CannotWrite(f"{module}.{name}")
        where = source.name
        for one in sorted(set().union(*map(bound_by, found))):
            if (module, one) not in self._known:
                self._known[module, one] = self._name(one, where, module)

        def write() -> None:
            for statement in found:
                made = rewritten(statement, Scope(self, vars(sys.modules[module])))
                if isinstance(made, ast.FunctionDef):
                    made.name = self._known[module, made.name]
                self.parts.append(_Part(module, statement.lineno, where, ast.unparse(made)))

        self._waiting.append(write)
        return self._known[module, name]

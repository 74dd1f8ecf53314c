"""Public names that are no functions of operators, as lines of a stub: where or what each is."""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from types import FunctionType, MethodType, ModuleType
from typing import Any

from generate import signatures
from generate.types_of import Imports, ours, seen_at
from pullback.core.dtype import dtype
from pullback.core.layout import layout, memory_format
from pullback.core.tensor import Tensor


def line(name: str, value: Any, imports: Imports, *, own: str = "pullback") -> str:
    """The lines of a name of the module `own`."""
    for kind in (dtype, layout, memory_format):
        if isinstance(value, kind):
            return f"{name}: {ours(kind.__name__, imports)}"
    if isinstance(value, ModuleType):
        parent, _, last = seen_at(value.__name__).rpartition(".")
        return f"from {parent} import {last} as {name}"
    if value is None:
        return f"{name}: None"
    if type(value) in (bool, int, float, str):
        return f"{name}: {imports.name(type(value).__name__, 'builtins')}"
    home = getattr(value, "__module__", "")
    if isinstance(value, type) and issubclass(value, Tensor) and value is not Tensor:
        return f"class {name}({ours('Tensor', imports)}): ..."
    if home == own or not _is_there(value):
        inner = inspect.unwrap(value)  # of a guard, which asks before it calls
        if getattr(inner, "__module__", own) == own or not _is_there(inner):
            return _written_out(name, value, imports)
        value = inner
    return f"from {seen_at(value.__module__)} import {value.__name__} as {name}"


def _is_there(value: Any) -> bool:
    """Whether it is found where it says it is, by its name."""
    home, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    return bool(home and name) and getattr(import_module(str(home)), str(name), None) is value


def _written_out(name: str, value: Any, imports: Imports) -> str:
    if type(value) is type:
        return _class(name, value, imports)
    if isinstance(value, FunctionType | MethodType):
        said = signatures.stub(name, value, imports, plain=True)
        made_by = getattr(value, "__globals__", {}).get("__name__")
        mark = imports.name("contextmanager", "contextlib") if made_by == "contextlib" else ""
        return f"@{mark}\n{said}" if mark else said
    return f"{name}: {_instance(value, imports)}"


def _instance(value: Any, imports: Imports) -> str:
    kind = type(value)
    ours_or_pythons = kind.__module__.startswith("pullback.") or (
        kind.__module__ in sys.stdlib_module_names and kind.__module__ != "builtins"
    )
    known = ours_or_pythons and not kind.__name__.startswith("_") and _is_there(kind)
    return imports.name(kind.__name__, kind.__module__) if known else ours("Any", imports)


# Classes -----------------------------------------------------------------------------------------


def _class(name: str, kind: type, imports: Imports) -> str:
    """A small class, written where only the stub shows it."""
    bases = [imports.name(b.__name__, b.__module__) for b in kind.__bases__ if b is not object]
    body = [
        "    " + one
        for member, value in vars(kind).items()
        for one in _member(member, value, imports)
    ]
    head = f"class {name}({', '.join(bases)}):" if bases else f"class {name}:"
    return "\n".join([head, *body]) if body else f"{head} ..."


def _member(name: str, value: Any, imports: Imports) -> list[str]:
    if isinstance(value, property):
        said = signatures.stub(name, value.fget, imports, method=True, plain=True)
        return [f"@{imports.name('property', 'builtins')}", *said.splitlines()]
    if isinstance(value, staticmethod | classmethod):
        mark = [] if name == "__new__" else [f"@{imports.name(type(value).__name__, 'builtins')}"]
        said = signatures.stub(name, value.__func__, imports, plain=True)
        return [*mark, *said.splitlines()]
    if isinstance(value, FunctionType):
        return signatures.stub(name, value, imports, method=True, plain=True).splitlines()
    return [] if name.startswith("__") else [f"{name}: {ours('Any', imports)}"]

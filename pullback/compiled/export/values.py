"""Expressions for values: numbers, containers, arrays, and objects as pickle would restore them."""

from __future__ import annotations

import base64
import builtins
import copyreg
import functools
import sys
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Protocol

import numpy

from pullback.compiled.export.homes import is_ours

__all__ = ["CannotWrite", "Writer", "by_value", "named_elsewhere"]

_SMALL = 256  # elements of an array that is written as numbers, not as bytes
# What a module may import: Python's, NumPy's, and what kernels ask for where it is installed.
_THERE = sys.stdlib_module_names | {"ml_dtypes", "numpy", "scipy"}
_CACHED = type(functools.cache(lambda: None))
_NEW = copyreg.__newobj__  # type: ignore[attr-defined]  # what pickle calls for most objects


class CannotWrite(Exception):  # noqa: N818 (a reason, made an error by who knows the operator)
    """What has no source that stands by itself."""


class Writer(Protocol):
    """Who collects what expressions need (`definitions.py`)."""

    def of(self, value: Any, hint: str) -> str:
        """An expression for a value."""

    def imported(self, module: str) -> str:
        """The name of a module of Python's or NumPy's, which will be imported."""

    def constant(self, hint: str, text: str) -> str:
        """A name for an expression."""


def by_value(to: Writer, value: Any, hint: str) -> str:
    """An expression for a value that no module holds by name; `hint` is what it may be called."""
    kind = type(value)
    if kind in (float, complex):
        text = repr(value)
        return text if "n" not in text else f"{kind.__name__}({text!r})"  # nan, inf
    if kind in (tuple, list, set, frozenset):
        inner = ", ".join(to.of(one, hint) for one in value)
        if kind is tuple:
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        return f"[{inner}]" if kind is list else f"{kind.__name__}([{inner}])"
    if kind is dict:
        pairs = [f"{to.of(key, hint)}: {to.of(one, hint)}" for key, one in value.items()]
        return f"{{{', '.join(pairs)}}}"
    if kind is slice:
        parts = (value.start, value.stop, value.step)
        return f"slice({', '.join(to.of(one, hint) for one in parts)})"
    if kind is range:
        return repr(value)
    if isinstance(value, numpy.dtype):
        return _dtype(to, value)
    if isinstance(value, numpy.generic):
        return f"{_array(to, numpy.asarray(value))}[()]"
    if kind is numpy.ndarray:
        return to.constant(hint, _array(to, value))
    if isinstance(value, functools.partial):
        return _partial(to, value, hint)
    if isinstance(value, _CACHED):
        size, inner = value.cache_parameters()["maxsize"], to.of(value.__wrapped__, hint)
        return to.constant(hint, f"{to.imported('functools')}.lru_cache({size})({inner})")
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        inner = ", ".join(to.of(one, hint) for one in value)
        return f"{to.of(kind, kind.__name__)}({inner})"
    return _object(to, value, hint)


def _dtype(to: Writer, dtype: Any) -> str:
    """NumPy's, or one of another library that adds it to NumPy."""
    module = dtype.type.__module__
    if module.partition(".")[0] == "numpy":
        return f"{to.imported('numpy')}.dtype({dtype.name!r})"
    return f"{to.imported('numpy')}.dtype({to.imported(module)}.{dtype.type.__name__})"


def _array(to: Writer, array: Any) -> str:
    name, dtype = to.imported("numpy"), _dtype(to, array.dtype)
    if not array.size:
        return f"{name}.empty({array.shape}, {dtype})"
    if array.size <= _SMALL and array.dtype.kind in "biufc":
        return f"{name}.array({to.of(array.tolist(), '')}, {dtype})"
    data = base64.b85encode(numpy.ascontiguousarray(array).tobytes()).decode()
    made = f"{name}.frombuffer({to.imported('base64')}.b85decode({data!r}), {dtype})"
    return f"{made}.reshape({array.shape})"


def _partial(to: Writer, value: functools.partial[Any], hint: str) -> str:
    parts = [to.of(value.func, hint), *[to.of(one, hint) for one in value.args]]
    parts += [f"{name}={to.of(one, name)}" for name, one in value.keywords.items()]
    return f"{to.imported('functools')}.partial({', '.join(parts)})"


def _object(to: Writer, value: Any, hint: str) -> str:
    """An object of a class of ours, as pickle would restore it."""
    said = f"an object of {type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, FunctionType):
        raise CannotWrite(f"the function {value.__qualname__} of {value.__module__}")
    if not is_ours(type(value)):
        raise CannotWrite(said)
    make, args, *rest = value.__reduce_ex__(2)
    state, named = rest[0] if rest else None, []
    if make is _NEW and len(args) == 1:
        fields = {**(state[0] or {}), **state[1]} if type(state) is tuple else state or {}
        named = [f"{name}={to.of(one, name)}" for name, one in fields.items()]
        make = restored
    elif state is not None:
        raise CannotWrite(said)
    parts = [*[to.of(one, hint) for one in args], *named]
    return to.constant(type(value).__name__.lower(), f"{to.of(make, hint)}({', '.join(parts)})")


def restored(cls: Any, /, **fields: Any) -> Any:
    """An object of a class that holds these fields."""
    made = object.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


def named_elsewhere(to: Writer, value: Any) -> str | None:
    """What Python's or NumPy's modules call it; None where they have it not."""
    if isinstance(value, ModuleType):
        if value.__name__.partition(".")[0] not in _THERE:
            raise CannotWrite(f"the module {value.__name__}")
        return to.imported(value.__name__)
    of = getattr(value, "__self__", None)
    if isinstance(value, BuiltinFunctionType) and isinstance(of, numpy.ufunc):
        return f"{to.of(of, '')}.{value.__name__}"
    name = (
        value.__name__ if isinstance(value, numpy.ufunc) else getattr(value, "__qualname__", None)
    )
    if not isinstance(name, str) or not callable(value):
        return None
    if getattr(builtins, name, None) is value:
        return name
    own = getattr(value, "__module__", None) or "numpy"
    for module in (own.lstrip("_"), own, "numpy"):  # `_functools`, `_operator`
        if module.partition(".")[0] in _THERE and _found(module, name) is value:
            return f"{to.imported(module)}.{name}"
    return None


def _found(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found

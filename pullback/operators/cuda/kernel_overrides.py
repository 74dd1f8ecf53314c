"""The package's own kernels on arrays of a device: each function copied, its array library renamed.

Kernels are written against an array namespace, mostly as `xp`, here and there as `numpy`. A copy of
such a function has the same code and other globals: `numpy` is the device's namespace, operators
are their forwards on it, functions of the package are such copies themselves, constants that are
arrays are on the device. So a kernel is written once. Where a device wants another program
altogether, `replace` enters that: for a whole operator as its kernel `on="cuda"`, else for the
helper that it stands for. Both are named as objects, so what does not exist fails when loaded.

Machinery (declarations, tensors, errors) is shared, not copied; classes are too. Plans that they
make are host arrays, and `namespace` brings those to the device when they meet one of its arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy

from pullback.core.home import home_of, is_in_package
from pullback.operators.arrays.direct import DIRECT
from pullback.operators.choice import choice_among, chooses_for, is_choice
from pullback.operators.conditions import always
from pullback.operators.dispatch.layers import own_of
from pullback.operators.kernels import Kernel

__all__ = ["KERNEL_OVERRIDES", "copied", "on_device", "override_of", "replace", "unbound_forward"]

# Functions of the package that are replaced as a whole: function -> function of a device.
KERNEL_OVERRIDES: dict[Any, Callable[..., Any]] = {}
# Constants, by the names that kernels have for them: no short cuts by the arrays' own `dot`, and no
# blocks that would stay in a cache.
_CONSTANTS = {"BLAS": frozenset(), "BLOCK": 1 << 40, "_BLOCK": 1 << 40}
# Classes whose methods compute.
CLASSES = frozenset({"_Layout", "_Sampling", "_Weights"})
# Modules that serve every array library as they are.
_SHARED = frozenset(("pullback.operators.arrays.strides", "pullback.operators.create.factory"))

_FAMILIES = tuple(
    f"operators.{family}"
    for family in (
        *("arrays", "pointwise", "special", "reduce", "shape", "indexing", "linalg", "fourier"),
        *("create", "deferred", "formula", "random", "tensor", "nn"),
    )
)
_CACHED = type(functools.cache(lambda: None))
# Names of NumPy's functions, as they appear when imported by name.
_NAMES = {
    id(value): name
    for name, value in vars(numpy).items()
    if isinstance(value, numpy.ufunc | FunctionType | BuiltinFunctionType)
    or type(value).__name__ == "_ArrayFunctionDispatcher"
} | {id(value): name for name, value in DIRECT.items()}


def on_device(value: Any, space: Any) -> Any:
    """`value` as a kernel of the device names it; `space` stands for NumPy there."""
    if value is numpy:
        return space
    if value is numpy.ndarray:
        return space.ndarray
    op = getattr(value, "op", None) if isinstance(value, FunctionType) else None
    if op is not None and op.function is value:
        return _known(space, value, lambda: forward_of(op, space))
    if isinstance(value, FunctionType):
        if is_choice(value):
            return _known(space, value, lambda: _choice(chooses_for(value), space))
        if not _is_ours(value):
            return override_of(value) or value
        return _copied(value, space)
    if isinstance(value, type):
        return (
            _known(space, value, lambda: _class(value, space))
            if value.__qualname__ in CLASSES
            else value
        )
    if isinstance(value, _CACHED):
        if isinstance(value.__wrapped__, type) and value.__wrapped__.__qualname__ in CLASSES:
            return _known(
                space, value, lambda: functools.cache(on_device(value.__wrapped__, space))
            )
        if not _is_ours(value.__wrapped__):
            return value
        return _known(space, value, lambda: functools.cache(on_device(value.__wrapped__, space)))
    if isinstance(value, ModuleType):
        if _is_copied(value.__name__):
            return _known(space, value, lambda: _Renamed(value, space))
        return value
    if isinstance(value, partial):
        return _known(space, value, lambda: _renamed_partial(value, space))
    if isinstance(value, numpy.ndarray):
        return _known(space, value, lambda: space.constant(value))
    if type(value) in (dict, tuple, list):
        return _known(space, value, lambda: _container(value, space))
    name = _NAMES.get(id(value))
    return value if name is None else getattr(space, name)


def forward_of(op: Any, space: Any) -> Any:
    """An operator's forward on the device, bound to its namespace; `.op.forward` is not bound."""
    forward = unbound_forward(op, space)
    bound: Any = partial(forward, space.xp)
    bound.op = SimpleNamespace(forward=forward, function=bound)
    return bound


def replace(functions: dict[Any, Callable[..., Any]]) -> None:
    """Have a device run others in place of these functions: helpers, or whole operators."""
    for function, own in functions.items():
        op = getattr(function, "op", None)
        if op is not None and all(one.function is not own for one in op.kernels):
            op.add_kernel(Kernel(op, own, always, on="cuda"))
        plain = function.__wrapped__ if isinstance(function, _CACHED) else function
        KERNEL_OVERRIDES[plain if op is None else op.meaning] = own


def override_of(function: Any) -> Any:
    """What a device runs in place of a function of the package; None where it runs a copy."""
    return KERNEL_OVERRIDES.get(function)


def unbound_forward(op: Any, space: Any) -> Any:
    """The same, not bound to a namespace."""
    has_own = any(one.on == "cuda" for one in op.kernels)
    return _choice(op, space) if has_own else on_device(op.forward, space)


def _choice(op: Any, space: Any) -> Any:
    """What a device has of an operator's kernels: its own, and the meaning."""
    meaning, own = on_device(op.meaning, space), [one for one in op.kernels if one.on == "cuda"]
    chosen = [one for one in own if one.function is not meaning]  # which one of them may stand for
    return choice_among(op, lambda: chosen, meaning) if chosen else meaning


def _is_ours(function: Any) -> bool:
    return _is_copied(home_of(function))


def _is_copied(module: str) -> bool:
    return is_in_package(module, *_FAMILIES) and module not in _SHARED


def _known(space: Any, value: Any, make: Callable[[], Any]) -> Any:
    # By identity; the original is kept, so that nothing else gets its number.
    found = space.copies.get(id(value))
    if found is None:
        found = space.copies[id(value)] = (value, make())
    return found[1]


def _copied(function: FunctionType, space: Any) -> Any:
    found = space.copies.get(id(function))
    if found is not None:
        return found[1]
    instead = override_of(function)
    kernels = getattr(function, "kernels", None)
    if kernels is not None:
        from pullback.operators.cuda.formulas import launched

        instead = launched(function, kernels, lambda one: copied(one, space))
    if instead is not None:
        space.copies[id(function)] = (function, instead)
        return instead
    return copied(function, space)


def copied(function: FunctionType, space: Any) -> Any:
    """The copy of a function, whatever is in its place: for what takes over some cases only."""
    own = own_of(function)  # what is before it has other defaults, too
    code = own.__code__
    scope = dict(function.__globals__)
    cells = function.__closure__ and tuple(CellType() for _ in function.__closure__)
    made = FunctionType(code, scope, function.__name__, None, cells)
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    # Entered first: functions may call one another.
    space.copies.setdefault(id(function), (function, made))
    made.__defaults__ = own.__defaults__ and tuple(
        on_device(one, space) for one in own.__defaults__
    )
    made.__kwdefaults__ = own.__kwdefaults__ and {
        name: on_device(one, space) for name, one in own.__kwdefaults__.items()
    }
    for name in _global_names(code):
        if name in scope:
            scope[name] = _named(name, scope[name], space)
    for cell, original in zip(cells or (), function.__closure__ or (), strict=True):
        try:
            cell.cell_contents = on_device(original.cell_contents, space)
        except ValueError:  # not filled yet
            continue
    return made


def _class(value: type, space: Any) -> type:
    """A class whose methods name the device's namespace."""
    kept = {
        name: on_device(one, space) if isinstance(one, FunctionType) else one
        for name, one in vars(value).items()
        if name not in ("__dict__", "__weakref__") and type(one).__name__ != "member_descriptor"
    }
    return type(value.__name__, value.__bases__, kept)


def _named(name: str, value: Any, space: Any) -> Any:
    other = _CONSTANTS.get(name)
    if other is not None and type(value) is type(other) and value not in (64,):
        return other
    return on_device(value, space)


def _container(value: Any, space: Any) -> Any:
    """A table of functions or constants with its entries renamed; itself where none changes."""
    if isinstance(value, dict):
        made = {key: on_device(one, space) for key, one in value.items()}
        changed = any(made[key] is not one for key, one in value.items())
        return made if changed else value
    listed = [on_device(one, space) for one in value]
    changed = any(one is not other for one, other in zip(listed, value, strict=True))
    return type(value)(listed) if changed else value


def _renamed_partial(value: partial[Any], space: Any) -> Any:
    keywords = {name: on_device(one, space) for name, one in value.keywords.items()}
    args = [space.xp if one is numpy else on_device(one, space) for one in value.args]
    return partial(on_device(value.func, space), *args, **keywords)


def _global_names(code: CodeType) -> Any:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


class _Renamed:
    """A module of kernels, as the device's copies see it."""

    def __init__(self, module: ModuleType, space: Any) -> None:
        self._module, self._space = module, space

    def __getattr__(self, name: str) -> Any:
        found = _named(name, getattr(self._module, name), self._space)
        setattr(self, name, found)
        return found

"""What autocast casts: operators that run in the narrow dtype, in float32, or in the widest given.

The lists are torch's for the CPU, found by experiment. Declared operators are asked for in
`interpret.call`; compositions that are to be cast as a whole are in `amp/compositions.py`.
Everything else runs in the dtypes it is given.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from pullback.core.autocast import Autocast, dtype_for
from pullback.core.dtype import float32
from pullback.core.mode import Mode, changed, current
from pullback.core.ports import ports
from pullback.core.tensor import Tensor
from pullback.operators.declare import Op

__all__ = ["AS_GIVEN", "NARROW", "POLICIES", "WIDE", "WIDEST", "call", "forget", "run"]

NARROW, WIDE, WIDEST, AS_GIVEN = "narrow", "float32", "widest", "as given"

# Declared operators, by name.
_OPERATORS = {
    NARROW: "mm bmm addmm addbmm baddbmm linear",
    WIDE: "trace view_as_complex",
    WIDEST: "index_copy",
}
POLICIES = {name: policy for policy, names in _OPERATORS.items() for name in names.split()}


def call(function: Any, policy: str, args: Any, kwargs: Any, mode: Mode) -> Any:
    """Run `function` with its tensors cast as `policy` says; inside, nothing more is cast."""
    settings = mode.autocast
    try:
        current.set(_outside(mode))
        if policy == AS_GIVEN:
            return function(*args, **kwargs)
        target = _target(policy, settings, args, kwargs)
        cast = tuple(_cast(value, target, settings, mode) for value in args)
        named = {name: _cast(value, target, settings, mode) for name, value in kwargs.items()}
        return function(*cast, **named)
    finally:
        current.set(mode)


def run(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any], mode: Mode) -> Any:
    """A declared operator's call inside a region: cast, or on its fast path as if outside."""
    policy = POLICIES.get(op.name)
    if policy is not None and "cpu" in mode.autocast.enabled and kwargs.get("out") is None:
        return call(op.function, policy, args, kwargs, mode)
    try:
        current.set(_outside(mode))
        return op.function(*args, **kwargs)
    finally:
        current.set(mode)


ports.fill(autocast=run)


def _outside(mode: Mode) -> Mode:
    """The same mode without autocast; making one takes 5 us, so the last one is kept."""
    known = _last.get()
    if known is None or known[0] is not mode:
        known = mode, changed(mode, autocast=None)
        _last.set(known)
    return known[1]


_last: ContextVar[tuple[Mode, Mode] | None] = ContextVar("pullback_outside", default=None)


def forget() -> None:
    """Let go of the modes of a region that ends."""
    _last.set(None)


def _target(policy: str, settings: Autocast, args: Any, kwargs: Any) -> Any:
    narrow = dtype_for(settings, "cpu")
    if policy == NARROW:
        return narrow
    if policy == WIDE:
        return float32
    given = (*args, *kwargs.values())
    wide = any(_eligible(value) and value.dtype is float32 for value in given)
    return float32 if wide else narrow


def _eligible(value: Any) -> bool:
    """Floating-point tensors of the CPU are cast, but never those of float64."""
    if not isinstance(value, Tensor) or value.device.type != "cpu":
        return False
    return value.dtype.is_floating_point and value._array.dtype.itemsize < 8


def _cast(value: Any, target: Any, settings: Autocast, mode: Mode) -> Any:
    if isinstance(value, Tensor):
        if not _eligible(value) or value.dtype is target:
            return value
        if target is not float32 and settings.cache_enabled and settings.nesting:
            return _cast_once(value, target, settings, mode)
        return value.to(target)
    if type(value) in (list, tuple):
        return type(value)(_cast(one, target, settings, mode) for one in value)
    return value


def _cast_once(value: Tensor, target: Any, settings: Autocast, mode: Mode) -> Tensor:
    """A parameter is cast once in a region, so that its gradients are summed before the cast."""
    if not (value.requires_grad and value.is_leaf and value.dtype is float32 and mode.grad):
        return value.to(target)
    key = id(value), target
    known = settings.cache.get(key)
    if known is None:
        known = settings.cache[key] = value, value.to(target)
    return known[1]

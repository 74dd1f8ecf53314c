"""Writes to tensors of which something is put off: the memory gets it put off the other way."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import CONJUGATED, NEGATED, Tensor
from pullback.operators.declare import Op
from pullback.operators.pointwise.arithmetic import conj as conj_now
from pullback.operators.pointwise.arithmetic import neg
from pullback.operators.running.inplace import check_fit

__all__ = ["as_stored", "memory_of", "written"]


def memory_of(target: Any) -> Tensor:
    """The memory as a plain tensor, a view with the same base and history."""
    from pullback.operators.deferred.views import _conj_view, _negative_view

    bits = target._bits
    made = _conj_view(target) if bits & CONJUGATED else target
    return _negative_view(made) if bits & NEGATED else made


def as_stored(target: Any, value: Any) -> Any:
    """A value, or number, as the memory holds it."""
    bits = target._bits
    if bits & CONJUGATED:
        value = conj_now(value if isinstance(value, Tensor) else complex(value))
    if bits & NEGATED:
        value = neg(value) if isinstance(value, Tensor) else -value
    return value


def written(op: Op, called: str, target: Tensor, bound: dict[str, Any]) -> Tensor:
    """An in-place form: its result is made, then stored."""
    # Of a copy: what a rule keeps of the target is its value before the write.
    made = op.function(**{**bound, op.inputs[0].name: target.clone()})
    check_fit(called, target, made._array)
    memory_of(target).copy_(as_stored(target, made))
    return target

"""In-place forms that change their target directly.

`inplace.py` computes a whole result and then writes it; what touches few elements of a large target
(an assignment to a slice, `index_add_`) must not. Here an operator's `write`, which takes the arguments
of its forward, changes the target's own array. It checks everything before it changes anything.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.arrays import Array, namespace
from pullback.core.dtype import from_numpy_dtype
from pullback.core.forward import LEVELS
from pullback.core.mode import fast, get_mode, settle
from pullback.core.tensor import Tensor
from pullback.core.version import INFERENCE_CELL, bump
from pullback.operators import interpret
from pullback.operators.declare import METHODS, Op
from pullback.operators.derive import tangents_of_write, write_tangents
from pullback.operators.inplace import _history, starts_write
from pullback.operators.strides import address, root

Write = Callable[..., None]

__all__ = ["call_writing", "check_no_partial_overlap", "is_plain_write", "number_array", "writing"]


def writing(function: Any, write: Write) -> Callable[..., Tensor]:
    """The in-place form of an operator, a method of Tensor, by a function that changes the target."""
    op: Op = function.op
    called = f"{op.name}_"

    @functools.wraps(function, updated=())
    def in_place(*args: Any, **kwargs: Any) -> Tensor:
        return call_writing(op, called, write, args, kwargs)

    in_place.__name__ = in_place.__qualname__ = called
    in_place.__doc__ = f"In-place form of `{op.name}`: changes the tensor itself."
    METHODS[called] = in_place
    return in_place


def call_writing(
    op: Op, called: str, write: Write, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Tensor:
    """Let `write` change the first tensor, count the write, and renew the tensor's history."""
    bound = interpret.bind(op, args, kwargs)
    mode = settle()
    target = bound[op.inputs[0].name]
    if not isinstance(target, Tensor):
        raise errors.not_a_tensor(called, op.inputs[0].name, target)
    if mode.levels:
        return mode.levels[-1].process_inplace(op, target, bound)  # type: ignore[no-any-return]
    values = {p.name: bound[p.name] for p in op.inputs}
    options = {p.name: bound[p.name] for p in op.params if not p.is_tensor}
    duals = tangents_of_write(op, bound, values) if LEVELS else None
    recording = starts_write(called, target, values, mode)
    arrays = interpret.input_arrays(op, values)
    interpret.normalise(op, options, arrays)
    history = _history(op, target, values, options, mode) if recording else None
    try:
        write(namespace(target._array), **arrays, **options)
    except (ValueError, TypeError) as error:
        raise interpret.explained(op, arrays, error) from None
    bump(target, called)
    if history is not None:
        history(mode)
    if duals is not None:
        write_tangents(target, duals)
    return target


def is_plain_write(target: Tensor, source: Tensor | None = None) -> bool:
    """Whether a write to `target` is the write and a count, and nothing else."""
    mode = get_mode()
    if mode is not fast.no_grad and (
        mode is not fast.plain or _has_history(target) or (source is not None and _has_history(source))
    ):
        return False
    # Strides of 0 are expanded memory, which must not be written; sizes of 1 may have them too.
    return target._cell is not INFERENCE_CELL and 0 not in target._array.strides


def _has_history(tensor: Tensor) -> bool:
    return tensor._node is not None and tensor.requires_grad


def number_array(op: str, value: Any, dtype: numpy.dtype[Any]) -> Array:
    """A Python number as an array of no dimensions, or a refusal where `dtype` cannot hold it."""
    kind = dtype.kind
    if kind == "b":
        return numpy.array(bool(value))
    if isinstance(value, complex) and kind != "c" and value.imag == 0:
        value = value.real
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise OverflowError(f"{op}: the number {value} has more than 64 bits.")
    if not _fits(value, dtype):
        raise RuntimeError(
            f"{op}: the value {value} cannot be converted to {from_numpy_dtype(dtype)} without "
            "overflow. Use a value that the tensor's dtype can hold, or convert the tensor first."
        )
    # A negative number for an unsigned dtype wraps around, as in torch.
    return numpy.array(int(value)).astype(dtype) if kind in "iu" else numpy.array(value, dtype)


def _fits(value: Any, dtype: numpy.dtype[Any]) -> bool:
    kind = dtype.kind
    if isinstance(value, complex):
        return kind == "c"
    if kind in "iu":
        limits = numpy.iinfo(dtype)
        # Integers may be negative for unsigned dtypes (they wrap), other numbers may not.
        lowest = limits.min if kind == "i" or not isinstance(value, int) else -limits.max
        return lowest <= value <= limits.max
    # Half precision takes anything: what is too large becomes infinite, as in torch.
    return kind == "V" or dtype.itemsize < 4 or _is_in_range(value, dtype)


def _is_in_range(value: float, dtype: numpy.dtype[Any]) -> bool:
    return not math.isfinite(value) or abs(value) <= numpy.finfo(dtype).max


def check_no_partial_overlap(op: str, target: Array, source: Array) -> None:
    """Refuse to copy between dense memory that overlaps in part; the very same memory is fine."""
    if source.base is None and target.base is None:
        return
    if root(source) is not root(target) or source.size == 0 or target.size == 0:
        return
    if not (source.flags.forc and target.flags.forc):
        return  # interleaved: whether elements meet is not worth finding out
    start, other = address(target), address(source)
    if start == other and source.nbytes == target.nbytes and source.strides == target.strides:
        return
    if start < other + source.nbytes and other < start + target.nbytes:
        raise RuntimeError(
            f"{op}: some elements of the input tensor and of the written tensor share one memory "
            "location (both are views of the same memory, and overlap in part). Clone the input first."
        )

"""In-place forms that change their target directly.

`inplace.py` computes a whole result and then writes it; what touches few elements of a large target
(an assignment to a slice, `index_add_`) must not. Here an operator's `write`, which takes the
arguments of its forward, changes the target's own array. It checks everything before it changes
anything.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.arrays import F32, F64, Array, Namespace, numbers32, numbers64
from pullback.core.arrays import number_array as remembered
from pullback.core.dtype import NARROW, OF_NUMBERS, from_numpy_dtype
from pullback.core.limits import finfo
from pullback.core.memory.narrow import converted
from pullback.core.memory.narrow import number_array as of_number
from pullback.core.mode import fast, get_mode
from pullback.core.overriding import Overridden
from pullback.core.promotion import is_half
from pullback.core.tensor import Tensor
from pullback.core.version import INFERENCE_CELL
from pullback.operators.arrays.blocks import ZEROS
from pullback.operators.declare import METHODS, Op
from pullback.operators.plan import plan_of
from pullback.operators.running.inplace import inplace_of
from pullback.operators.running.overlap import check_read_apart

_PLAIN = frozenset((int, float))
# Those that would read what they have written, were their source to overlap with the target.
_APART = frozenset(
    (
        *("index_add_", "index_copy_", "index_fill_", "index_put_", "put_", "scatter_"),
        "scatter_add_",
    )
)
LARGE_SINGLE = 3e38  # below the largest float32

__all__ = ["LARGE_SINGLE", "is_plain_write", "number_array", "scalar_of", "writing"]


def writing(
    function: Any, write: Callable[..., None], name: str | None = None
) -> Callable[..., Tensor]:
    """The in-place form of an operator, by a function that changes the target.

    Without `name` it is also the method of the operator's name with an underscore. It is that of
    an operator whose forward writes and returns the target itself. What `inplace.py` then does, to
    write the result to the target, costs nothing: NumPy sees that they are the same.
    """
    op: Op = copy.copy(function.op)
    called = name or f"{op.name}_"

    def forward(xp: Namespace, input: Array, *args: Any, **kwargs: Any) -> Array:
        # `numpy.add.at` and its like do not ask.
        if type(input) is numpy.ndarray and not getattr(input.flags, "writeable", True):
            raise errors.read_only(called)
        if called in _APART:
            given = (*args, *kwargs.values())
            check_read_apart(called, input, *_arrays_in(given))
        write(xp, input, *args, **kwargs)
        return input

    # Old values would be kept after the write: an operator that needs them computes, then writes.
    assert all(param.name != "input" for param in plan_of(op).inputs), op.name
    op.forward = op.meaning = forward
    op.kernels = ()
    forward.op = op  # type: ignore[attr-defined]  # how `inplace_of` finds it
    forward.__module__ = function.__module__
    forward.__wrapped__ = write  # type: ignore[attr-defined]  # whose family it belongs to
    in_place = inplace_of(forward, called)
    in_place.__doc__ = f"In-place form of `{called[:-1]}`: changes the tensor itself."
    if name is None:
        METHODS[called] = in_place
    return in_place


def _arrays_in(given: Any) -> list[Array]:
    found: list[Array] = []
    for one in given:
        if isinstance(one, numpy.ndarray):
            found.append(one)
        elif type(one) is tuple or type(one) is list:
            found += _arrays_in(one)
    return found


def is_plain_write(target: Tensor, source: Tensor | None = None) -> bool:
    """Whether a write to `target` is the write and a count, and nothing else."""
    mode = get_mode()
    if mode is not fast.no_grad and mode is not fast.forward:
        if mode is not fast.plain or (target._node is not None and target.requires_grad):
            return False
        if source is not None and source._node is not None and source.requires_grad:
            return False
    try:
        array = target._plain
        if source is not None:
            source._plain  # noqa: B018 (asks whether its class overrides calls)
    except Overridden:
        return False
    # Strides of 0 are expanded memory, which must not be written; sizes of 1 may have them too.
    # Memory that a tensor has to itself was not expanded.
    if target._cell is INFERENCE_CELL:
        return False
    return array.base is None or 0 not in array.strides


def finite_array(op: str, value: Any, dtype: numpy.dtype[Any]) -> Array:
    """As `number_array`; half precision does not make a finite number infinite either."""
    made = number_array(op, value, dtype)
    if is_half(dtype) and numpy.isinf(made) and math.isfinite(value):
        raise _overflow(op, value, dtype)
    return made


def scalar_of(op: str, value: Any, dtype: numpy.dtype[Any]) -> Any:
    """A factor as NumPy's scalar of a dtype; -1 wraps around for an unsigned one, as in torch."""
    return number_array(op, value, dtype)[()] if dtype.kind in "iu" else dtype.type(value)


def _overflow(op: str, value: Any, dtype: numpy.dtype[Any]) -> RuntimeError:
    return RuntimeError(
        f"{op}: the value {value} cannot be converted to {from_numpy_dtype(dtype)} without "
        "overflow. Use a value that the tensor's dtype can hold, or convert the tensor first."
    )


def number_array(op: str, value: Any, dtype: numpy.dtype[Any]) -> Array:
    """A number as a 0-d array, to be read only; refused where `dtype` cannot hold it."""
    single = dtype is F32 and type(value) in _PLAIN and -LARGE_SINGLE < value < LARGE_SINGLE
    if single or (dtype is F64 and type(value) in _PLAIN):
        if value == 0 and type(value) is int:  # not -0.0, for which no number is remembered
            return ZEROS[dtype]
        known = (numbers64 if dtype is F64 else numbers32).get(value)
        return remembered(value, dtype) if known is None else known
    kind = dtype.kind
    if kind == "b":
        return numpy.array(bool(value))
    if dtype.char == OF_NUMBERS:
        return of_number(value, dtype)
    if isinstance(value, complex) and kind not in "cW" and value.imag == 0:
        value = value.real
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        bits = value.bit_length()
        raise RuntimeError(f"{op}: a number of {bits} bits has more than the 64 that there are.")
    if not _fits(value, dtype):
        raise _overflow(op, value, dtype)
    if dtype in NARROW:
        return converted(numpy.array(value), dtype)
    # A negative number for an unsigned dtype wraps around, as in torch.
    return numpy.array(int(value)).astype(dtype) if kind in "iu" else numpy.array(value, dtype)


def _fits(value: Any, dtype: numpy.dtype[Any]) -> bool:
    kind = dtype.kind
    if isinstance(value, complex):
        return kind in "cW"
    if kind in "iu":
        limits = numpy.iinfo(dtype)
        # Integers may be negative for unsigned dtypes (they wrap), other numbers may not.
        lowest = limits.min if kind == "i" or not isinstance(value, int) else -limits.max
        return bool(lowest <= value <= limits.max)
    if dtype in NARROW and dtype.name.startswith("float8_e4"):
        return not math.isfinite(value) or abs(value) <= finfo(from_numpy_dtype(dtype)).max
    # Half precision takes anything: what is too large becomes infinite, as in torch.
    if kind in "VW" or dtype.itemsize < 4 or not math.isfinite(value):
        return True
    return bool(abs(value) <= numpy.finfo(dtype).max)


def check_outs(op: str, out: Any, arrays: Sequence[Array]) -> None:
    """Refuse an `out=` for several results that cannot take them all, before any is written."""
    if not isinstance(out, tuple | list):
        raise TypeError(f"{op}: out takes a tuple of Tensors, got {type(out).__name__}.")
    if len(out) != len(arrays):
        raise RuntimeError(f"{op}: out has {len(out)} tensors for {len(arrays)} results.")
    for target, array in zip(out, arrays, strict=True):
        if not isinstance(target, Tensor):
            raise errors.not_a_tensor(op, "out", target)
        if target._array.dtype != array.dtype:
            raise RuntimeError(
                f"{op}: out is {target.dtype}, and the results are {from_numpy_dtype(array.dtype)}."
            )

"""The larger and the smaller of two, and limits: which of the inputs decides gets the gradient."""

from __future__ import annotations

import math
from types import NoneType
from typing import Any

import numpy

from pullback.core.arrays import F32, F64
from pullback.core.errors import unsupported
from pullback.core.layout import cast_kept
from pullback.core.promotion import dtype_with_number
from pullback.core.tensor import Tensor
from pullback.operators.arrays.direct import clip
from pullback.operators.arrays.reductions import number
from pullback.operators.conditions import above, floating, host, says
from pullback.operators.declare import (
    REQUIRED,
    Array,
    Namespace,
    elementwise,
    kernel,
    method,
    quick,
)
from pullback.operators.formula.declare import pointwise
from pullback.operators.formula.formulas import slope
from pullback.operators.options import numpy_named, operand
from pullback.operators.pointwise.arithmetic import keep_where
from pullback.operators.running.inplace import inplace_of
from pullback.operators.running.writes import finite_array

FOUND_IN = {
    "torch": "clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clip=clamp clip_=clamp_"
}

# Two tensors ------------------------------------------------------------------------------------


def _won(g: Any, not_more: Any, tied: Any) -> Any:
    """Half for a tie. A NaN is not less, not more and not tied, so both sides get all of it."""
    return keep_where(g, ~not_more) + keep_where(g * 0.5, tied)


@elementwise(
    numbers=False,
    input=lambda g, input, other: _won(g, input <= other, input == other),
    other=lambda g, input, other: _won(g, input >= other, input == other),
    inplace=False,
)
def maximum(xp: Namespace, input: Array, other: Array) -> Array:
    """The larger of two elements, NaN if one is; a tie shares the gradient evenly.

    >>> import pullback as torch
    >>> torch.maximum(torch.tensor([1.0, 4.0]), torch.tensor([3.0, 2.0]))
    tensor([3., 4.])
    """
    if input.dtype.kind == "c":
        raise _unordered("maximum")
    return xp.maximum(input, other)


@elementwise(
    numbers=False,
    input=lambda g, input, other: _won(g, input >= other, input == other),
    other=lambda g, input, other: _won(g, input <= other, input == other),
    inplace=False,
)
def minimum(xp: Namespace, input: Array, other: Array) -> Array:
    """The smaller of two elements, NaN if one is; a tie shares the gradient evenly.

    >>> import pullback as torch
    >>> torch.minimum(torch.tensor([1.0, 4.0]), torch.tensor([3.0, 2.0]))
    tensor([1., 2.])
    """
    if input.dtype.kind == "c":
        raise _unordered("minimum")
    return xp.minimum(input, other)


def _unordered(op: str) -> RuntimeError:
    return RuntimeError(f"{op}: complex numbers are not ordered; compare their abs() or parts.")


@elementwise(
    numbers=False,
    input=lambda g, input, other: keep_where(g, (input >= other) | (other != other)),
    other=lambda g, input, other: keep_where(g, ~((input >= other) | (other != other))),
    inplace=False,
)
def fmax(xp: Namespace, input: Array, other: Array) -> Array:
    """The larger of two elements; a number wins over NaN. A tie's gradient goes to `input`.

    >>> import pullback as torch
    >>> torch.fmax(torch.tensor([1.0, float("nan")]), torch.tensor([2.0, 3.0]))
    tensor([2., 3.])
    """
    if input.dtype.kind == "c":
        raise unsupported("fmax", input)
    return xp.fmax(input, other)


@elementwise(
    numbers=False,
    input=lambda g, input, other: keep_where(g, (input <= other) | (other != other)),
    other=lambda g, input, other: keep_where(g, ~((input <= other) | (other != other))),
    inplace=False,
)
def fmin(xp: Namespace, input: Array, other: Array) -> Array:
    """The smaller of two elements; a number wins over NaN. A tie's gradient goes to `input`.

    >>> import pullback as torch
    >>> torch.fmin(torch.tensor([1.0, float("nan")]), torch.tensor([2.0, 3.0]))
    tensor([1., 3.])
    """
    if input.dtype.kind == "c":
        raise unsupported("fmin", input)
    return xp.fmin(input, other)


# Limits that are numbers ------------------------------------------------------------------------

# From this many elements on, clip's plain loop saves more than its call costs: 1.1 ms for 4 million
# float32, where maximum takes 2.0 ms.
_MANY = 20_000
_ZERO32, _ZERO64 = numpy.zeros((), F32), numpy.zeros((), F64)


def _relu(xp: Namespace, input: Array) -> Array:
    dtype = input.dtype
    if (dtype is F32 or dtype is F64) and xp is numpy:
        if input.size > _MANY:
            return input.clip(0, math.inf)
        return xp.maximum(input, _ZERO32 if dtype is F32 else _ZERO64)
    if dtype.kind in "bc":
        raise unsupported("relu", input)
    return xp.maximum(input, 0)


@pointwise(
    forward=_relu,
    input=slope(lambda xp, out: xp.where(out != 0, 1.0, 0.0)),
    name="relu",
    backward_node="ThresholdBackwardBackward0",
    inline="numpy.maximum(a0, _ZERO32) if a0.dtype is F32 and a0.size <= _MANY "
    "and ndarray is host_array else forward(numpy, a0)",
)
def relu(xp: Namespace, input: Array) -> Array:
    """Each element, or 0 where it is negative.

    >>> import pullback as torch
    >>> torch.relu(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return xp.maximum(input, 0.0)


def _promoted(op: str, input: Array, *limits: Any) -> Array:
    """`input` in the dtype that it has together with its limits."""
    if input.dtype.kind == "c":
        raise unsupported(op, input)
    dtype = input.dtype
    for limit in limits:
        dtype = dtype if limit is None else dtype_with_number(dtype, limit)
    return cast_kept(input, dtype)


def _bound(op: str, value: Any, dtype: Any) -> Array:
    """A number as an array of no dimensions, which ufuncs take sooner."""
    if dtype is F32 or dtype is F64:
        return number(value, dtype)
    return finite_array(op, value, dtype)


def _limited(xp: Namespace, op: str, input: Array, min: Any, max: Any) -> Array:
    dtype = input.dtype
    if dtype is not F32 and dtype is not F64:
        input = _promoted(op, input, min, max)
        dtype = input.dtype
    if min is not None:
        input = xp.maximum(input, _bound(op, min, dtype))
    return input if max is None else xp.minimum(input, _bound(op, max, dtype))


def _limit_into(out: Array, input: Array, min: Any, max: Any) -> None:
    """As `_limited`, of float32 or float64, over what is there."""
    clip(input, number(min, out.dtype), number(max, out.dtype), out)


def _within(g: Any, input: Any, min: Any, max: Any) -> Any:
    if min is None:
        return keep_where(g, input <= max)
    if max is None:
        return keep_where(g, input >= min)
    return keep_where(g, (input >= min) & (input <= max))


@elementwise(
    casts_out=False,
    input=_within,
    name="clamp.Scalar",
    promote=None,
    method=False,
    node="ClampBackward1",
    aten="clamp.default",
    out_kernel=_limit_into,
    # With limits that were met before.
    inline="clip(a0, low, high) if a0.dtype is F32 and ndarray is host_array "
    "and (low := numbers32.get($min)) is not None and (high := numbers32.get($max)) is not None "
    "else forward(numpy, a0, $min, $max)",
)
def _clamp_numbers(xp: Namespace, input: Array, min: Any = None, max: Any = None) -> Array:
    return _limited(xp, "clamp", input, min, max)


_both = says("min is not None", "max is not None")


@kernel(_clamp_numbers, when=_both & floating)
def _clip(input: Array, input_dtype: Any, min: float, max: float) -> Array:
    return input.clip(number(min, input_dtype), number(max, input_dtype))


@kernel(_clamp_numbers, when=_both & host & says("input_dtype.kind in 'fiu'") & above(_MANY))
def _clip_many(input: Array, min: float, max: float) -> Array:
    input = _promoted("clamp", input, min, max)
    low, high = (_bound("clamp", one, input.dtype) for one in (min, max))
    return input.clip(low, high)


@elementwise(
    casts_out=False,
    input=lambda g, input, min: keep_where(g, input >= min),
    name="clamp_min.Scalar",
    promote=None,
    method=False,
    node="ClampMinBackward0",
    aten="clamp_min.default",
)
def _clamp_min_number(xp: Namespace, input: Array, min: Any) -> Array:
    return _limited(xp, "clamp_min", input, min, None)


@elementwise(
    casts_out=False,
    input=lambda g, input, max: keep_where(g, input <= max),
    name="clamp_max.Scalar",
    promote=None,
    method=False,
    node="ClampMaxBackward0",
    aten="clamp_max.default",
)
def _clamp_max_number(xp: Namespace, input: Array, max: Any) -> Array:
    return _limited(xp, "clamp_max", input, None, max)


# Limits that are tensors ------------------------------------------------------------------------


def _below(g: Any, input: Any, min: Any, max: Any) -> Any:
    cut = input < min
    return keep_where(g, cut if max is None else cut & (min < max))


def _above(g: Any, input: Any, min: Any, max: Any) -> Any:
    cut = input > max
    return keep_where(g, cut if min is None else cut | (max < min))


@elementwise(
    casts_out=False,
    input=_within,
    min=_below,
    max=_above,
    name="clamp.Tensor",
    method=False,
    node="ClampBackward0",
    aten="clamp.Tensor",
)
def _clamp_tensors(
    xp: Namespace, input: Array, min: Array | None = None, max: Array | None = None
) -> Array:
    if input.dtype.kind == "c":
        raise unsupported("clamp", input)
    if min is not None:
        input = xp.maximum(input, min)
    return input if max is None else xp.minimum(input, max)


@elementwise(
    input=lambda g, input, min: keep_where(g, input >= min),
    min=lambda g, input, min: keep_where(g, input < min),
    name="clamp_min.Tensor",
    numbers=False,
    method=False,
    node="ClampMinBackward1",
    aten="clamp_min.Tensor",
)
def _clamp_min_tensor(xp: Namespace, input: Array, min: Array) -> Array:
    if input.dtype.kind == "c":
        raise unsupported("clamp_min", input)
    return xp.maximum(input, min)


@elementwise(
    input=lambda g, input, max: keep_where(g, input <= max),
    max=lambda g, input, max: keep_where(g, input > max),
    name="clamp_max.Tensor",
    numbers=False,
    method=False,
    node="ClampMaxBackward1",
    aten="clamp_max.Tensor",
)
def _clamp_max_tensor(xp: Namespace, input: Array, max: Array) -> Array:
    if input.dtype.kind == "c":
        raise unsupported("clamp_max", input)
    return xp.minimum(input, max)


# What users call --------------------------------------------------------------------------------

_REAL = (int, float)  # not `int | float`, which would be made anew each time
_NUMBERS = (*_REAL, NoneType)
_PLAIN = frozenset(_NUMBERS)  # to find a class in it takes half of the time of `isinstance`


def _no_limits() -> RuntimeError:
    return RuntimeError("clamp: neither `min` nor `max` is given, so there is nothing to do.")


@method
@quick
@numpy_named
def clamp(
    input: Any = REQUIRED,
    min: Any = None,
    max: Any = None,
    x: Any = None,
    a: Any = None,
    x1: Any = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """Limit each element to between `min` and `max`, numbers or tensors; None means no limit.

    >>> import pullback as torch
    >>> torch.clamp(torch.tensor([-1.0, 0.5, 2.0]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if x is not None or a is not None or x1 is not None:
        input = operand("clamp", "input", input, x=x, a=a, x1=x1)
    if min is None and max is None:
        raise _no_limits()
    if out is None and min.__class__ in _PLAIN and max.__class__ in _PLAIN:
        return _clamp_numbers(input, min, max)  # a keyword costs every call 0.04 us
    if isinstance(min, _NUMBERS) and isinstance(max, _NUMBERS):
        return _clamp_numbers(input, min, max, out=out)
    return _clamp_tensors(input, min, max, out=out)


@method
@quick
@numpy_named
def clamp_min(
    input: Any = REQUIRED,
    min: Any = REQUIRED,
    x: Any = None,
    a: Any = None,
    x1: Any = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """Raise each element to `min`, a number or a tensor, where it is below.

    >>> import pullback as torch
    >>> torch.clamp_min(torch.tensor([1.0, 3.0]), 2)
    tensor([2., 3.])
    """
    if x is not None or a is not None or x1 is not None:
        input = operand("clamp_min", "input", input, x=x, a=a, x1=x1)
    function = _clamp_min_number if isinstance(min, _REAL) else _clamp_min_tensor
    return function(input, min, out=out)


@method
@quick
@numpy_named
def clamp_max(
    input: Any = REQUIRED,
    max: Any = REQUIRED,
    x: Any = None,
    a: Any = None,
    x1: Any = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """Lower each element to `max`, a number or a tensor, where it is above.

    >>> import pullback as torch
    >>> torch.clamp_max(torch.tensor([1.0, 3.0]), 2)
    tensor([1., 2.])
    """
    if x is not None or a is not None or x1 is not None:
        input = operand("clamp_max", "input", input, x=x, a=a, x1=x1)
    function = _clamp_max_number if isinstance(max, _REAL) else _clamp_max_tensor
    return function(input, max, out=out)


_clamp_numbers_ = inplace_of(_clamp_numbers, "clamp_")
_clamp_tensors_ = inplace_of(_clamp_tensors, "clamp_")
_clamp_min_number_ = inplace_of(_clamp_min_number, "clamp_min_")
_clamp_min_tensor_ = inplace_of(_clamp_min_tensor, "clamp_min_")
_clamp_max_number_ = inplace_of(_clamp_max_number, "clamp_max_")
_clamp_max_tensor_ = inplace_of(_clamp_max_tensor, "clamp_max_")


@method
@quick
def clamp_(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """In-place form of `clamp`."""
    if min is None and max is None:
        raise _no_limits()
    numbers = min.__class__ in _PLAIN and max.__class__ in _PLAIN
    numbers = numbers or (isinstance(min, _NUMBERS) and isinstance(max, _NUMBERS))
    return (_clamp_numbers_ if numbers else _clamp_tensors_)(input, min, max)


@method
def clamp_min_(input: Tensor, min: Any) -> Tensor:
    """In-place form of `clamp_min`."""
    return (_clamp_min_number_ if isinstance(min, _REAL) else _clamp_min_tensor_)(input, min)


@method
def clamp_max_(input: Tensor, max: Any) -> Tensor:
    """In-place form of `clamp_max`."""
    return (_clamp_max_number_ if isinstance(max, _REAL) else _clamp_max_tensor_)(input, max)


# Losses use it too: a leading underscore keeps an operator in its room.
clamp_min_number = _clamp_min_number

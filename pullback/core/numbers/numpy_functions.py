"""NumPy's functions of whole arrays, for numbers of any type: which there are, and how.

What moves elements works as it is, what adds and multiplies is left to Python's operators, and what
compares takes numbers that have an order. Everything else is refused: NumPy knows nothing of these
numbers, and would do something.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from pullback.core.numbers.array import (
    NumberArray,
    flat,
    held,
    numbers_among,
    operand,
    plain,
    plain_tree,
    single,
    taken,
)
from pullback.core.numbers.types import NumberType, meant, no_meaning

__all__ = ["call", "check_order"]

# Functions that move elements and look at none.
_MOVING = """
    append array_split atleast_1d atleast_2d atleast_3d block broadcast_arrays broadcast_to choose
    column_stack compress concatenate copy copyto delete diag diag_indices_from diagflat diagonal
    dsplit dstack expand_dims extract fill_diagonal flip fliplr flipud hsplit hstack insert
    may_share_memory moveaxis ndim pad place put put_along_axis putmask ravel repeat reshape resize
    roll rollaxis rot90 select shape shares_memory size split squeeze stack swapaxes take
    take_along_axis tile transpose tril tril_indices_from triu vsplit vstack where iscomplexobj
    isrealobj as_strided sliding_window_view meshgrid unstack matrix_transpose
"""
# That add and multiply, by Python's operators.
_ADDING = """
    average convolve cross cumprod cumsum diff dot ediff1d einsum inner kron matmul mean outer prod
    sum tensordot trace vdot
"""
# That compare, which takes numbers of which one is always less than, equal to or greater.
_COMPARING = """
    amax amin argmax argmin argpartition argsort array_equal clip digitize lexsort max median min
    partition ptp quantile searchsorted sort trapezoid unique
"""
_MOVING_NAMES = frozenset(_MOVING.split())
_ADDING_NAMES = frozenset(_ADDING.split())
_COMPARING_NAMES = frozenset(_COMPARING.split())
_LIKE = {"zeros_like": 0, "ones_like": 1, "empty_like": 0}


def call(func: Any, args: Any, kwargs: Any) -> Any:
    """A function of NumPy's with an array of numbers among its arguments."""
    name = func.__name__
    numbers = numbers_among((*args, *kwargs.values()))
    own = _OWN.get(name)
    if own is not None:
        return own(numbers, *args, **kwargs)
    if name in _COMPARING_NAMES:
        check_order(name, numbers, args)
    elif name not in _MOVING_NAMES and name not in _ADDING_NAMES:
        raise no_meaning(name, numbers, "there is no such function for numbers of other types")
    given = plain_tree(args if name in _MOVING_NAMES else converted_tree(args, numbers))
    options = {key: plain_tree(one) for key, one in kwargs.items()}
    if meant(options.get("dtype")) is not None:
        del options["dtype"]
    return held_tree(func(*given, **options), numbers)


def converted_tree(values: Any, numbers: NumberType) -> Any:
    """Arrays of floats beside numbers, as numbers: NumPy would multiply the one with the other."""
    if type(values) in (list, tuple):
        return type(values)([converted_tree(one, numbers) for one in values])
    if type(values) is numpy.ndarray and values.dtype.kind in "fcO":
        return taken(values.astype(object), numbers)
    return values


def held_tree(value: Any, numbers: NumberType) -> Any:
    if isinstance(value, numpy.ndarray):
        return taken(value, numbers) if value.dtype.kind == "O" else value
    if type(value) in (list, tuple):
        return type(value)([held_tree(one, numbers) for one in value])
    if isinstance(value, numpy.generic | int | type(None) | str):
        return value
    return held(single(numbers.element(value)), numbers)


def check_order(name: str, numbers: NumberType, arrays: Any = ()) -> None:
    """Refuse to sort what is not decided to be less or greater: NumPy would not ask."""
    is_nan = numbers.functions.get("isnan")
    if is_nan is not None and any(
        is_nan(one) for array in flat(arrays) if type(array) is NumberArray for one in array.flat
    ):
        raise no_meaning(name, numbers, "NaN is among them, which has no place in an order")
    if numbers.encloses or numbers.is_complex or numbers.functions.get("less") is not None:
        raise no_meaning(name, numbers, "these numbers are not in an order that is always decided")


# Functions of their own ---------------------------------------------------------------------------


def _like(value: int) -> Callable[..., Any]:
    def make(numbers: NumberType, a: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("subok", None)
        if dtype is not None and meant(dtype) is None:
            return numpy.full_like(plain(a), value, dtype, *args, **kwargs)
        own = meant(dtype) or a.numbers
        made = numpy.full_like(plain(a), None, object, *args, **kwargs)
        made[...] = single(own.element(value))
        return held(made, own)

    return make


def _full_like(
    numbers: NumberType, a: Any, fill_value: Any, dtype: Any = None, **kwargs: Any
) -> Any:
    made = _like(0)(numbers, a, dtype, **kwargs)
    made[...] = fill_value
    return made


def _where(numbers: NumberType, condition: Any, *values: Any) -> Any:
    chosen = condition.astype(bool) if type(condition) is NumberArray else condition
    if not values:
        return numpy.where(chosen)
    return held(numpy.where(chosen, *[operand(numbers, one) for one in values]), numbers)


def _joining(function: Any) -> Callable[..., Any]:
    def join(numbers: NumberType, arrays: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("dtype", None)
        given = [operand(numbers, one) for one in arrays]
        return held(function(given, *args, **kwargs), numbers)

    return join


def _put_along_axis(numbers: NumberType, arr: Any, indices: Any, values: Any, axis: Any) -> None:
    numpy.put_along_axis(plain(arr), indices, operand(numbers, values), axis)


def _copyto(numbers: NumberType, dst: Any, src: Any, *args: Any, **kwargs: Any) -> None:
    own = meant(dst.dtype)
    numpy.copyto(plain(dst), src if own is None else operand(own, src), *args, **kwargs)


def _pad(
    numbers: NumberType, array: Any, *args: Any, constant_values: Any = 0, **kwargs: Any
) -> Any:
    if (args[1:] or (kwargs.get("mode", "constant"),))[0] == "constant":
        kwargs["constant_values"] = numbers.element(constant_values)
    return taken(numpy.pad(plain(array), *args, **kwargs), numbers)


def _truths(function: Any) -> Callable[..., Any]:
    """Of whether elements are other than zero."""

    def ask(numbers: NumberType, a: Any, *args: Any, **kwargs: Any) -> Any:
        return function(a.astype(bool), *args, **kwargs)

    return ask


def _part(which: str) -> Callable[..., Any]:
    return lambda numbers, val: getattr(val, which)


_OWN: dict[str, Callable[..., Any]] = {
    **{name: _like(value) for name, value in _LIKE.items()},
    **{name: _truths(getattr(numpy, name))
       for name in ("any", "all", "nonzero", "count_nonzero", "flatnonzero", "argwhere")},
    **{name: _joining(getattr(numpy, name))
       for name in ("concatenate", "stack", "hstack", "vstack", "column_stack", "dstack")},
    "full_like": _full_like,
    "where": _where,
    "put_along_axis": _put_along_axis,
    "copyto": _copyto,
    "pad": _pad,
    "real": _part("real"),
    "imag": _part("imag"),
    "result_type": lambda numbers, *args: numbers.numpy,
    "can_cast": lambda numbers, *args, **kwargs: True,
}  # fmt: skip

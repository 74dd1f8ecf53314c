"""Checks for options that name dimensions and shapes: said once, applied by annotation."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from pullback.core import errors


def as_dim(dim: Any, ndim: int, op: str) -> int:
    """A dimension as a non-negative int. A 0-d tensor has dimension 0 and -1, as in torch."""
    if type(dim) is int and 0 <= dim < ndim:
        return dim
    try:
        number = operator.index(dim)
    except TypeError:
        raise errors.not_an_int(op, "dim", dim) from None
    limit = ndim or 1
    if not -limit <= number < limit:
        raise errors.bad_dim(op, number, ndim)
    return number + limit if number < 0 else number


def as_dims(dims: Any, ndim: int, op: str) -> tuple[int, ...] | None:
    """Dimensions as a tuple of non-negative ints; None and () stay, and mean all of them."""
    if dims is None:
        return None
    if type(dims) is int:
        return (dims,) if 0 <= dims < ndim else (as_dim(dims, ndim, op),)
    if not isinstance(dims, tuple | list) and not isinstance(dims, Iterable):
        return (as_dim(dims, ndim, op),)
    checked = tuple([as_dim(dim, ndim, op) for dim in dims])
    if len(set(checked)) != len(checked):
        twice = next(dim for dim in checked if checked.count(dim) > 1)
        raise errors.repeated_dim(op, twice)
    return checked


def as_shape(shape: Any, ndim: int, op: str) -> tuple[int, ...]:
    """A shape as a tuple of ints."""
    if type(shape) is tuple:
        for size in shape:  # a loop: `all` over a generator takes twice as long
            if type(size) is not int:
                break
        else:
            return shape
    if not isinstance(shape, Iterable):
        shape = (shape,)
    try:
        return tuple(operator.index(size) for size in shape)
    except TypeError:
        raise TypeError(f"{op}(): a shape must consist of ints, got {shape!r}.") from None


def as_optional_dim(dim: Any, ndim: int, op: str) -> int | None:
    """As `as_dim`; None stays."""
    if type(dim) is int and 0 <= dim < ndim:
        return dim
    return None if dim is None else as_dim(dim, ndim, op)


# Option kind -> check(value, ndim of the first tensor, operator's name).
NORMALISE: dict[str, Callable[[Any, int, str], Any]] = {
    "dim": as_optional_dim,
    "dims": as_dims,
    "shape": as_shape,
}

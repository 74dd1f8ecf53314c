"""Indices where addresses have 32 bits, as in a browser: NumPy's own are that short there.

torch's indices are int64 everywhere, and so are ours: what finds indices is decorated by
`finds_indices`. The other way round NumPy takes no int64 for how often, where it would take no
address: `as_counts`. Where addresses have 64 bits neither does anything.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy

__all__ = ["SHORT", "as_counts", "as_indices", "finds_indices", "widened"]

P = ParamSpec("P")
T = TypeVar("T")

SHORT = numpy.dtype(numpy.intp).itemsize < 8


def _kept(numbers: Any) -> Any:
    return numbers


def _address_wide(numbers: Any) -> Any:
    return numbers.astype(numpy.intp, copy=False)


def _long(indices: Any) -> Any:
    """An array of indices, a number of NumPy's, a list of them, or None."""
    if type(indices) is list:
        return [_long(one) for one in indices]
    is_own = indices is not None and indices.dtype == numpy.intp
    return indices.astype(numpy.int64, copy=False) if is_own else indices


# Integers as NumPy takes them in `repeat`, `bincount` and `reduceat`.
as_counts: Callable[[Any], Any] = _address_wide if SHORT else _kept
# What NumPy found, as torch has it.
as_indices: Callable[[Any], Any] = _long if SHORT else _kept


def finds_indices(*places: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """For a function whose result is indices, or a tuple with indices at these places."""
    if SHORT:
        return functools.partial(widened, places=places)
    return _kept


def widened(function: Callable[P, Any], places: tuple[int, ...]) -> Callable[P, Any]:
    """The function, with NumPy's own indices among its results as int64.

    >>> from pullback.core.addresses import widened
    >>> pair = widened(lambda: (numpy.zeros(2, "i4"), numpy.zeros(2, numpy.intp)), (1,))
    >>> [array.dtype.name for array in pair()]
    ['int32', 'int64']
    """

    @functools.wraps(function)
    def wide(*args: P.args, **kwargs: P.kwargs) -> Any:
        made = function(*args, **kwargs)
        if made is None or not places:
            return _long(made)
        return tuple([_long(one) if at in places else one for at, one in enumerate(made)])

    return wide

"""Memory formats on arrays: what is made of images with their channels last has them last, too.

Kernels give arrays in the usual order; where the input is laid out otherwise the result is copied
into the same order of dimensions, at the end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pullback.core.arrays import Array, Namespace
from pullback.operators.arrays.row_major import row_major

__all__ = ["has_channels_last", "in_format_of", "keeps_format"]

# Number of dimensions -> the order of dimensions in memory, and the way back.
_ORDERS = {4: ((0, 2, 3, 1), (0, 3, 1, 2)), 5: ((0, 2, 3, 4, 1), (0, 4, 1, 2, 3))}


def has_channels_last(array: Array) -> bool:
    """Whether the channels vary fastest in memory, and it is not the usual order as well."""
    if array.flags.c_contiguous or array.ndim not in _ORDERS:
        return False
    return bool(array.transpose(_ORDERS[array.ndim][0]).flags.c_contiguous)


def in_format_of(source: Array, made: Any) -> Any:
    """`made`, an array or several, with its channels last in memory where `source` has them."""
    if not has_channels_last(source):
        return made
    if isinstance(made, tuple):
        return tuple(_channels_last(one) for one in made)
    return _channels_last(made)


def _channels_last(made: Array) -> Array:
    if made.ndim not in _ORDERS:
        return made
    order, back = _ORDERS[made.ndim]
    moved = made.transpose(order)
    return (moved if moved.flags.c_contiguous else row_major(moved)).transpose(back)


def keeps_format(forward: Callable[..., Any]) -> Callable[..., Any]:
    """An operator's arithmetic, with results in the memory format of its first array."""

    @functools.wraps(forward)
    def laid_out(xp: Namespace, *args: Any, **given: Any) -> Any:
        made = forward(xp, *args, **given)
        source = args[0] if args else next(iter(given.values()))
        return made if source.flags.c_contiguous else in_format_of(source, made)

    return laid_out

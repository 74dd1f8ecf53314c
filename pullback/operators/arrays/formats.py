"""Memory formats on arrays: what is made of images with their channels last has them last, too.

Kernels give arrays in the usual order; where the input is laid out otherwise the result is copied
into the same order of dimensions, at the end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from pullback.core.arrays import Array, Namespace
from pullback.core.layout import empty_like, order_kept
from pullback.operators.arrays.row_major import in_order, row_major

__all__ = [
    "copy_kept",
    "has_channels_last",
    "image_format_of",
    "in_format_of",
    "in_order_of",
    "joined_in_order",
    "keeps_format",
    "keeps_order",
    "ordered",
    "was_laid_out",
]

# Number of dimensions -> the order of dimensions in memory, and the way back.
_ORDERS = {4: ((0, 2, 3, 1), (0, 3, 1, 2)), 5: ((0, 2, 3, 4, 1), (0, 4, 1, 2, 3))}


def has_channels_last(array: Array) -> bool:
    """Whether the channels vary fastest in memory, and it is not the usual order as well."""
    if array.flags.c_contiguous or array.ndim not in _ORDERS:
        return False
    return bool(array.transpose(_ORDERS[array.ndim][0]).flags.c_contiguous)


def was_laid_out(array: Array) -> bool:
    """Whether channels are last, and not only by an image that was made a batch of one.

    Of `image.permute(2, 0, 1)[None]` most operators of torch make the usual order. That dimension
    has another step there than in a batch of one whose channels were put last.
    """
    if not has_channels_last(array):
        return False
    whole: bool = array.strides[0] >= array.strides[2] * array.shape[2]
    return whole or array.shape[0] > 1


def in_format_of(source: Array, made: Any, *, by_elements: bool = False) -> Any:
    """`made`, an array or several, with its channels last in memory where `source` has them.

    `by_elements`, as of an operator on elements, which keeps any order.
    """
    if not (has_channels_last(source) if by_elements else was_laid_out(source)):
        return made
    if isinstance(made, tuple):
        return tuple(_channels_last(one) for one in made)
    return _channels_last(made)


def image_format_of(source: Array, dims: int, made: Any) -> Any:
    """As `in_format_of` for images; of volumes some operators of torch make the usual order."""
    if dims < 3:
        return in_format_of(source, made)
    return in_order(made)


def _channels_last(made: Array) -> Array:
    if made.ndim not in _ORDERS:
        return made
    order, back = _ORDERS[made.ndim]
    moved = made.transpose(order)
    return (moved if moved.flags.c_contiguous else row_major(moved)).transpose(back)


def keeps_format(forward: Callable[..., Any], *, by_elements: bool = False) -> Callable[..., Any]:
    """An operator's arithmetic, with results in the memory format of its first array."""

    @functools.wraps(forward)
    def laid_out(xp: Namespace, *args: Any, **given: Any) -> Any:
        made = forward(xp, *args, **given)
        source = args[0] if args else next(iter(given.values()))
        if source.flags.c_contiguous:
            return made
        return in_format_of(source, made, by_elements=by_elements)

    return laid_out


def joined_in_order(joined: Array, parts: Iterable[Array]) -> Array:
    """What was joined of parts row-major, as torch has it, unless all have their channels last."""
    if joined.flags.c_contiguous or all(has_channels_last(part) for part in parts):
        return joined
    return row_major(joined)


def copy_kept(xp: Namespace, array: Array) -> Array:
    """A copy in the same order of dimensions; expanded ones keep their place in the shape."""
    if 0 not in array.strides:
        return array.copy(order="K")
    out = empty_like(xp, array)
    out[...] = array
    return out


def ordered(forward: Callable[..., Any]) -> Callable[..., Any]:
    """An operator's arithmetic, with a row-major result however its inputs lie, as in torch."""

    @functools.wraps(forward)
    def row_by_row(xp: Namespace, *args: Any, **given: Any) -> Any:
        return in_order(forward(xp, *args, **given))

    return row_by_row


def in_order_of(function: Callable[..., Array], *arrays: Array) -> Array:
    """What a function of arrays of one shape, or of none, gives, lying as the first of them does.

    It is called for dimensions in the order of memory, so it may fill its result row by row.
    """
    order = order_kept(arrays[0])
    made = function(*[one.transpose(order) if one.ndim else one for one in arrays])
    return made.transpose(sorted(range(len(order)), key=order.__getitem__))


def keeps_order(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Arithmetic of one array element by element, with a result that lies as its input does.

    NumPy's functions do that themselves; this is for forwards that fill memory of their own, which
    then see the dimensions in the order of memory.
    """

    @functools.wraps(forward)
    def turned(xp: Namespace, input: Array, *args: Any, **given: Any) -> Any:
        if input.flags.c_contiguous or input.ndim < 2:
            return forward(xp, input, *args, **given)
        return in_order_of(lambda one: forward(xp, one, *args, **given), input)

    return turned

"""What gives a tensor memory of its own: `clone`, and `contiguous` where there is need."""

from __future__ import annotations

from typing import Any

from pullback.core.layout import (
    contiguous_format,
    empty_in_order,
    is_in_format,
    memory_format,
    order_kept,
    order_of,
    preserve_format,
)
from pullback.operators.arrays.row_major import row_major
from pullback.operators.declare import Array, Namespace, elementwise, method


@elementwise(input=lambda g: g, inplace=False, promote=None)
def clone(xp: Namespace, input: Array, *, memory_format: Any = None) -> Array:
    """A copy with its own memory, in the same memory order unless a format is given.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0], requires_grad=True)
    >>> torch.clone(x)
    tensor([1.], grad_fn=<CloneBackward0>)
    """
    if memory_format is None or memory_format is preserve_format:
        if 0 not in input.strides:
            return input.copy(order="K")
        order = order_kept(input)
    elif memory_format is contiguous_format:
        return row_major(input)
    else:
        order = order_of("clone", memory_format, input.ndim)
    out = empty_in_order(xp, input.shape, input.dtype, order)
    out[...] = input
    return out


@method
def contiguous(input: Any, *, memory_format: memory_format = contiguous_format) -> Any:
    """The tensor itself if its memory is contiguous in the given format, else a contiguous copy.

    >>> import pullback as torch
    >>> x = torch.zeros(2, 3).T
    >>> x.is_contiguous(), x.contiguous().is_contiguous()
    (False, True)
    """
    array = input._array
    if memory_format is contiguous_format:
        return input if array.flags.c_contiguous else clone(input, memory_format=memory_format)
    if memory_format is preserve_format and array.flags.c_contiguous:
        return input
    order_of("contiguous", memory_format, array.ndim)  # refuses what is no order of these
    if is_in_format(array, memory_format):
        return input
    return clone(input, memory_format=memory_format)

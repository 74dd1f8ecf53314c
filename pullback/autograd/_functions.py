"""`Resize`: a Function that torch keeps at this path."""

from __future__ import annotations

import math
from typing import Any

from pullback.autograd.function import Function

__all__ = ["Resize"]


class Resize(Function):
    """`Resize.apply(t, sizes)`: the elements in another shape.

    >>> import pullback as torch
    >>> from pullback.autograd._functions import Resize
    >>> Resize.apply(torch.ones(4), (2, 2)).shape
    torch.Size([2, 2])
    """

    @staticmethod
    def forward(ctx: Any, tensor: Any, sizes: Any) -> Any:
        """The elements in the new shape."""
        if math.prod(sizes) != tensor.numel():
            raise RuntimeError(
                f"Resize: {tuple(sizes)} has {math.prod(sizes)} elements, the tensor "
                f"{tensor.numel()}; only the shape can change."
            )
        ctx.input_sizes = tensor.shape
        return tensor.contiguous().view(*sizes).clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        """The gradient in the old shape."""
        return g.contiguous().view(ctx.input_sizes), None

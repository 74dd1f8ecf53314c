"""The transforms under torch's private path, and `chunk_vmap`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pullback.func import grad, grad_and_value, vmap
from pullback.func.vmap import checked_inputs, in_chunks

__all__ = ["chunk_vmap", "grad", "grad_and_value", "vmap"]


def chunk_vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    chunks: int = 2,
) -> Callable[..., Any]:
    """`vmap` in so many parts, one after another; it needs less memory at a time.

    >>> import pullback as torch
    >>> from pullback._functorch.apis import chunk_vmap
    >>> chunk_vmap(torch.sum, chunks=3)(torch.ones(7, 2))
    tensor([2., 2., 2., 2., 2., 2., 2.])
    """

    @functools.wraps(func)
    def in_parts(*args: Any, **kwargs: Any) -> Any:
        if chunks < 1:
            raise RuntimeError(f"chunk_vmap: chunks must be at least 1, got {chunks}.")
        leaves, spec, dims, size = checked_inputs(func, in_dims, args)
        if chunks == 1 or not size:
            return vmap(func, in_dims, out_dims, randomness)(*args, **kwargs)
        # As tensor_split: the first parts are longer by one where the size is no multiple.
        lengths = [size // chunks + (part < size % chunks) for part in range(chunks)]
        lengths = [length for length in lengths if length]
        return in_chunks(func, leaves, spec, dims, out_dims, randomness, lengths, kwargs)

    return in_parts

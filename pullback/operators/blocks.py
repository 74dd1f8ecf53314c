"""Going through large arrays in blocks that stay in cache.

A chain of array functions passes over memory at each step; over a block it passes over the cache,
and its buffers are small enough for the allocator to hand out again at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pullback.core.arrays import Array, Namespace

# Elements in a block: few enough to stay in cache with the block's buffers, enough to make the
# calls cheap. Gelu of a million float32: 3.2 ms; in half of this 3.7, in twice of it 3.5, all at
# once 5 to 9.
BLOCK = 131072


def elementwise(xp: Namespace, kernel: Callable[..., None], x: Array, *others: Array) -> Array:
    """Run `kernel(xp, result, x, *others)` on flat blocks of arrays, which broadcast; a new array.

    Half precision is computed in single.
    """
    if any(array.shape != x.shape for array in others):
        x, *others = xp.broadcast_arrays(x, *others)
    if x.dtype.itemsize == 2:
        single = [array.astype(xp.float32) for array in (x, *others)]
        return elementwise(xp, kernel, *single).astype(x.dtype)
    out = xp.empty(x.shape, x.dtype)
    result = out.reshape(-1)
    flat = [array.reshape(-1) for array in (x, *others)]
    for block in slices(x.size, 1):
        kernel(xp, result[block], *[array[block] for array in flat])
    return out


def slices(rows: int, size: int, block: int = BLOCK) -> Iterator[slice]:
    """Slices of the first dimension, so that blocks of rows of `size` elements stay in cache."""
    step = max(block // max(size, 1), 1)
    for start in range(0, rows, step):
        yield slice(start, start + step)

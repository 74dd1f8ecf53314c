"""Going through large arrays in blocks that stay in cache.

A chain of array functions passes over memory at each step; over a block it passes over the cache,
and its buffers are small enough for the allocator to hand out again at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pullback.core.arrays import Array, Namespace

# Elements in a block: few enough to stay in cache with the block's buffers, enough to make the
# calls cheap. Erf of 4 million float32: 13 ms, 34 ms with blocks of 4096, 20 to 37 without.
BLOCK = 65536


def elementwise(xp: Namespace, kernel: Callable[..., None], x: Array, *others: Array) -> Array:
    """Run `kernel(xp, result, x, *others)` on flat blocks of arrays of one shape; a new array.

    Half precision is computed in single.
    """
    if x.dtype.itemsize == 2:
        single = [array.astype(xp.float32) for array in (x, *others)]
        return elementwise(xp, kernel, *single).astype(x.dtype)
    out = xp.empty(x.shape, x.dtype)
    result = out.reshape(-1)
    flat = [array.reshape(-1) for array in (x, *others)]
    for block in slices(x.size, 1):
        kernel(xp, result[block], *[array[block] for array in flat])
    return out


def slices(rows: int, size: int) -> Iterator[slice]:
    """Slices of the first dimension, so that blocks of rows of `size` elements stay in cache."""
    step = max(BLOCK // max(size, 1), 1)
    for start in range(0, rows, step):
        yield slice(start, start + step)

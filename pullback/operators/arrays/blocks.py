"""Going through large arrays in blocks that stay in cache.

A chain of array functions passes over memory at each step; over a block it passes over the cache,
and its buffers are small enough for the allocator to hand out again at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy

from pullback.core.arrays import F32, F64, Array, Namespace
from pullback.core.layout import cast_kept
from pullback.operators.arrays.formats import in_format_of
from pullback.operators.arrays.native import MANY, by_machine_code
from pullback.operators.arrays.threads import each

# Elements in a block: few enough to stay in cache with the block's buffers, enough to make the
# calls cheap. Gelu of a million float32: 3.3 ms; in an eighth of this 4.2, in a sixteenth 5.5. All
# at once it takes 3 to 3.4 ms where the cache holds all of its 12 MB.
BLOCK = 131072

# The most elements in a piece that a thread takes at a time. Between two array functions it waits
# for the interpreter if another one has it, some 30 us. Two threads gain 1.35 in layer norm, in
# half of this 1.1, in a quarter of it nothing; one thread takes as long in either.
PIECE = 262144

# `ONES.get(dtype, 1)`: a ufunc takes an array of no dimensions half a microsecond sooner than a
# Python number.
ONES = {dtype: numpy.ones((), dtype) for dtype in (F32, F64)}
ZEROS = {dtype: numpy.zeros((), dtype) for dtype in (F32, F64)}
for _number in (*ONES.values(), *ZEROS.values()):
    _number.flags.writeable = False


def elementwise(
    xp: Namespace,
    kernel: Callable[..., None],
    x: Array,
    *others: Array,
    formula: str = "",
    options: tuple[Any, ...] = (),
) -> Array:
    """Run `kernel(xp, result, x, *others)` on blocks of arrays, which broadcast; a new array.

    The kernel sees flat blocks, or a small array as it is, but none without dimensions: NumPy makes
    scalars of those. Half precision is computed in single. The same as machine code has the name
    `formula` and these options, if there is such.
    """
    for array in others:
        if array.shape != x.shape:
            x, *others = xp.broadcast_arrays(x, *others)
            break
    if x.dtype.itemsize == 2:
        single = [cast_kept(array, F32) for array in (x, *others)]
        made = elementwise(xp, kernel, *single, formula=formula, options=options)
        return made.astype(x.dtype)
    if formula and x.size >= MANY:
        found = by_machine_code(formula, (x, *others), *options)
        if found is not None:
            return found[0] if x.flags.c_contiguous else in_format_of(x, found[0])
    out = xp.empty(x.shape, x.dtype)
    if x.size <= BLOCK and x.ndim:
        kernel(xp, out, x, *others)
        return out if x.flags.c_contiguous else in_format_of(x, out)
    result = out.reshape(-1)
    flat = [array.reshape(-1) for array in (x, *others)]

    def work(block: slice) -> None:
        kernel(xp, result[block], *[array[block] for array in flat])

    each(work, pieces(x.size, 1))
    return out if x.flags.c_contiguous else in_format_of(x, out)


def image_by_image(
    xp: Namespace, kernel: Callable[..., None], dims: int, size: tuple[int, ...], *arrays: Array
) -> Array:
    """Run `kernel(out, *arrays)` on many images at a time; a new array of images of `size`.

    Images are the last `dims` dimensions of the arrays, which have the others in common.
    """
    x = arrays[0]
    lead = x.shape[: x.ndim - dims]
    out = xp.empty((*lead, *size), x.dtype)
    rows = math.prod(lead)
    parts = list(pieces(rows, max(out.size, x.size) // max(rows, 1)))
    if len(parts) < 2:
        kernel(out, *arrays)
        return out
    result, *images = [a.reshape(rows, *a.shape[len(lead) :]) for a in (out, *arrays)]

    def work(part: slice) -> None:
        kernel(result[part], *[array[part] for array in images])

    each(work, parts)
    return out


def slices(rows: int, size: int, block: int = BLOCK) -> Iterator[slice]:
    """Slices of the first dimension, so that blocks of rows of `size` elements stay in cache."""
    step = max(block // max(size, 1), 1)
    for start in range(0, rows, step):
        yield slice(start, start + step)


def pieces(rows: int, size: int) -> Iterator[slice]:
    """Slices of the first dimension for threads to take: of one length, as many as share well."""
    number = -(-rows * size // PIECE)
    if number > 2:
        number = 4 if number <= 4 else -(-number // 8) * 8
    step = max(-(-rows // max(number, 1)), 1)
    step = -(-step // 16) * 16 if step > 16 else step  # aligned as the whole is
    for start in range(0, rows, step):
        yield slice(start, start + step)

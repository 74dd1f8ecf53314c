"""One array function over large arrays, in parts on several threads.

Written lines ask for the size only once somebody wants several threads (`setting.splits`): the
question takes 0.03 us, a twentieth of a small call.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.ports import ports
from pullback.operators.arrays.threads import count, each, setting

__all__ = ["LARGE", "is_elementwise", "large", "ready"]

# From so many elements on: below, waking another thread takes as long as it saves.
LARGE = 1 << 19


def ready() -> None:
    """Have written lines ask for large arrays from now on, once several threads may work."""
    if not setting.splits and count() > 1:
        ports.split_large()


def is_elementwise(function: Any) -> bool:
    """Whether it is an array function with one result, each element of which has its own place."""
    return isinstance(function, numpy.ufunc) and function.signature is None and function.nout == 1


def large(ufunc: Any, *operands: Any, out: Array | None = None) -> Any:
    """`ufunc(*operands)`, one of which is large; with `out`, into that."""
    threads = count()
    given = None if threads == 1 else _alike(operands)
    if given is None or (out is not None and not _takes_parts(out, operands)):
        return ufunc(*operands) if out is None else ufunc(*operands, out)
    shape = max([a.shape for a in given], key=math.prod)
    result = out
    if result is None:
        result = numpy.empty(shape, ufunc(*[a.reshape(-1)[:1] for a in given]).dtype)
    made = result
    if all(a.shape == shape or a.size == 1 for a in given):  # rows may be few
        given, result = [a.reshape(-1) for a in given], result.reshape(-1)
    rows, ndim = len(result), result.ndim
    cut = [a.ndim == ndim and len(a) == rows for a in given]

    def work(part: slice) -> None:
        parts = [a[part] if one else a for a, one in zip(given, cut, strict=True)]
        ufunc(*parts, result[part])

    each(work, _parts(rows, threads))
    return made


def _alike(operands: tuple[Any, ...]) -> list[Array] | None:
    """Arrays of which one is as large as the result, and the others repeat along it, or None."""
    given = []
    shape: tuple[int, ...] = ()
    for a in operands:
        if type(a) is not numpy.ndarray:
            return None
        shape = max(shape, a.shape, key=math.prod)
        if not a.flags.c_contiguous:
            if any(a.strides):
                return None
            a = a[(slice(0, 1),) * a.ndim]  # one number, seen many times
        given.append(a)
    if all(a.shape != shape for a in given):
        return None
    fits = [a.ndim <= len(shape) and _repeats(a.shape[::-1], shape[::-1]) for a in given]
    return given if all(fits) else None


def _repeats(inner: tuple[int, ...], outer: tuple[int, ...]) -> bool:
    """Whether the sizes of an array, from the last on, broadcast to others and add none."""
    return all(n in (1, m) for n, m in zip(inner, outer, strict=False))


def _takes_parts(out: Array, operands: tuple[Any, ...]) -> bool:
    """Whether parts of the result may be written while others are not yet computed."""
    largest = max([a.size for a in operands])
    alone = [a is out or not numpy.may_share_memory(a, out) for a in operands]
    return out.size == largest and out.flags.c_contiguous and all(alone)


def _parts(rows: int, threads: int) -> list[slice]:
    """Two for each thread, so that one which is held up leaves half to the others."""
    step = -(-rows // (2 * threads))
    step = -(-step // 16) * 16 if step > 16 else step  # aligned as the whole is
    return [slice(start, start + step) for start in range(0, rows, step)]


def add_large(a: Array, b: Array, out: Array) -> Array:
    """`numpy.add(a, b, out)`, whatever their size."""
    return numpy.add(a, b, out) if a.size < LARGE else large(numpy.add, a, b, out=out)

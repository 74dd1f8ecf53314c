"""Attention in one kernel: no scores in memory, neither kept nor made.

The forward goes through the keys in tiles and keeps each query's log of its sum of exponentials;
the backward makes the weights again from that, once for the gradient of queries and once for those
of keys and values. So every sum has one order, and nothing is added up by atomics. Operands are
read where they are: the heads of one projection are views of it. Results are laid out as the next
operator wants them: heads beside each other in a row, and the gradients of such heads likewise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.operators.cuda.attention import halves, wide
from pullback.operators.cuda.launch import Kernel
from pullback.operators.cuda.stored import STORED, computed_in, head_of

__all__ = ["Attention"]

_ROOMS = (32, 64, 128)  # widths with a kernel
_GRID = 65535
_MATRICES = 80  # compute capability of the first device with the instructions of `halves`


class Attention:
    """The kernels, compiled for each dtype and width when first needed."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self._raw: Any = getattr(cupy, "RawModule", None)
        self._kernels: dict[tuple[str, str, int], Any] = {}
        self._matrices: bool | None = None

    def fits(self, query: Any, key: Any, value: Any) -> bool:
        """Whether there is a kernel for these, of one dtype and batch: not empty, not too wide."""
        kind = query.dtype.char
        if self._raw is None or kind not in STORED or not (query.size and key.size and value.size):
            return False
        width = max(query.shape[-1], value.shape[-1])
        if width > (64 if kind == "d" else 128) or max(query.shape[-2], key.shape[-2]) > 16 * _GRID:
            return False
        return kind in "fd" or self._has_matrices()

    def _has_matrices(self) -> bool:
        if self._matrices is None:
            self._matrices = int(self.cupy.cuda.Device().compute_capability) >= _MATRICES
        return self._matrices

    def _kernel(self, name: str, kind: str, room: int) -> Any:
        """A kernel, the rows of a block, and its threads."""
        known = self._kernels.get((name, kind, room))
        if known is None:
            writer: Any = wide if kind in "fd" else halves
            backward = name != "attend"
            text, rows, threads = writer.kernels_of(kind, room, backward=backward)
            module = self._raw(code=head_of(kind) + text)
            names = ("attend_queries", "attend_keys") if backward else ("attend",)
            for one in names:
                found = Kernel(self.cupy, module.get_function(f"pb_{one}")), rows, threads
                self._kernels[one, kind, room] = found
            known = self._kernels[name, kind, room]
        return known

    def forward(
        self, query: Any, key: Any, value: Any, factor: float, causal: bool
    ) -> tuple[Any, Any]:
        """The mixed values, and for each query the log of its sum of exponentials."""
        cupy, kind = self.cupy, query.dtype.char
        q, k, v = self._four(query), self._four(key), self._four(value)
        count, heads, queries, _ = q.shape
        depth = v.shape[-1]
        lse = cupy.ndarray((*query.shape[:-2], queries), computed_in(kind))
        if query.ndim == 4:
            out = four = cupy.ndarray((count, queries, heads, depth), q.dtype).transpose(0, 2, 1, 3)
        else:
            out = cupy.ndarray((*query.shape[:-1], depth), q.dtype)
            four = _four_of(out)
        numbers = _numbers(q, k, v, factor, causal)
        self._launch("attend", queries, (q, k, v, four, lse), (q, k, v, four), numbers, (q, k, v))
        return out, lse

    def gradients(
        self,
        g: Any,
        query: Any,
        key: Any,
        value: Any,
        out: Any,
        lse: Any,
        factor: float,
        causal: bool,
    ) -> tuple[Any, Any, Any]:
        """Those of query, key and value."""
        made = self._rooms(query, key, value)
        q, k, v, o, g = map(self._four, (query, key, value, out, g))
        dq, dk, dv = map(_four_of, made)
        delta = self.cupy.ndarray(lse.shape, lse.dtype)
        numbers, read = _numbers(q, k, v, factor, causal), (q, k, v, g)
        arrays: tuple[Any, ...] = (q, k, v, o, g, lse, dq, delta)
        self._launch("attend_queries", q.shape[2], arrays, (q, k, v, o, g, dq), numbers, read)
        arrays = (q, k, v, g, lse, delta, dk, dv)
        self._launch("attend_keys", k.shape[2], arrays, (q, k, v, g, dk, dv), numbers, read)
        return made

    def _launch(
        self,
        name: str,
        length: int,
        arrays: tuple[Any, ...],
        laid_out: tuple[Any, ...],
        numbers: tuple[Any, ...],
        read: tuple[Any, ...],
    ) -> None:
        q, v = read[0], read[2]
        width = max(q.shape[3], v.shape[3])
        room = next(one for one in _ROOMS if width <= one)
        kernel, rows, threads = self._kernel(name, q.dtype.char, room)
        size = q.itemsize
        steps = [step // size for one in laid_out for step in one.strides[:3]]
        grid = q.shape[0] * q.shape[1], -(-length // rows)
        kernel(grid, (threads,), (*arrays, *steps, *numbers, numpy.int32(_is_even(read))))

    def _four(self, x: Any) -> Any:
        """With four dimensions and rows in order: itself or a view where it can be."""
        x = _four_of(x)
        if x.strides[3] != x.itemsize and x.shape[3] > 1:
            x = self.cupy.ascontiguousarray(x)
        return x

    def _rooms(self, query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
        """Arrays for the gradients: parts of one, as the operands are, or each its own."""
        shape, strides = query.shape, query.strides
        same = shape == key.shape == value.shape and strides == key.strides == value.strides
        step = key.data.ptr - query.data.ptr
        if same and step > 0 and value.data.ptr - key.data.ptr == step:
            order = _dense_order((3, *shape), (step, *strides), query.itemsize)
            if order is not None:
                sides = [(3, *shape)[dim] for dim in order]
                back = [order.index(dim) for dim in range(len(order))]
                whole = self.cupy.ndarray(tuple(sides), query.dtype).transpose(*back)
                return whole[0], whole[1], whole[2]
        made = [self.cupy.ndarray(one.shape, one.dtype) for one in (query, key, value)]
        return made[0], made[1], made[2]


def _four_of(x: Any) -> Any:
    if x.ndim == 4:
        return x
    return x[(None,) * (4 - x.ndim)] if x.ndim < 4 else x.reshape(-1, *x.shape[-3:])


def _numbers(q: Any, k: Any, v: Any, factor: float, causal: bool) -> tuple[Any, ...]:
    sizes = q.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3]
    kind = computed_in(q.dtype.char)
    return *map(numpy.int32, sizes), kind(factor), numpy.int32(causal)


def _is_even(arrays: tuple[Any, ...]) -> bool:
    """Whether all rows begin and end at 16 bytes."""
    for one in arrays:
        if one.data.ptr % 16 or one.shape[3] * one.itemsize % 16:
            return False
        sides = zip(one.shape[:3], one.strides[:3], strict=True)
        if any(step % 16 for size, step in sides if size > 1):
            return False
    return True


def _dense_order(shape: Any, strides: Any, itemsize: int) -> list[int] | None:
    """The dimensions from the slowest to the fastest, if their elements fill memory, each once."""
    order = sorted(range(len(shape)), key=lambda dim: -strides[dim])
    wanted = itemsize * math.prod(shape)
    for dim in order:
        wanted //= shape[dim]
        if strides[dim] != wanted:
            return None
    return order

"""Eager kernels between native parts, and results: buffers of a program as NumPy's arrays.

An array over the arena is made once for each arena, one over a buffer of a call by NumPy's own
constructor, and pointers are read natively: a step costs a microsecond or two over its kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from pullback.core import dtype as dtypes

if TYPE_CHECKING:  # needed where programs are planned
    from pullback.compiled.ir.values import Val
    from pullback.compiled.plan.plan import Plan

__all__ = [
    "Between",
    "Geometry",
    "Operand",
    "Result",
    "geometry",
    "is_whole",
    "laid_out",
    "numpy_dtype",
]

_NUMPY = {"f4": numpy.float32, "f8": numpy.float64, "b1": numpy.bool_, "i8": numpy.int64,
          "i4": numpy.int32, "h2": numpy.float16}  # fmt: skip

# Shape, strides in bytes and first byte of what is shown of a buffer.
Geometry = tuple[tuple[int, ...], tuple[int, ...], int]


def numpy_dtype(name: str) -> Any:
    """NumPy's dtype of a name of the language; None of those that only pass through."""
    known = _NUMPY.get(name)
    if known is not None:
        return numpy.dtype(known)
    if name == "w2":
        return dtypes.bfloat16.numpy  # loads ml_dtypes
    return numpy.dtype(f"{name[0]}{name[1:]}") if name[0] in "fciu" else None


def geometry(v: Val) -> Geometry:
    """What a value shows of its base."""
    size = v.itemsize
    return v.shape, tuple([s * size for s in v.strides]), v.off * size


def is_whole(v: Val) -> bool:
    """Whether it shows all of its base, in row-major order."""
    from pullback.compiled.ir.values import contiguous

    if v.off != 0 or v.size != v.base.size:
        return False
    pairs = zip(v.shape, v.strides, contiguous(v.shape), strict=True)
    return all(n == 1 or s == wanted for n, s, wanted in pairs)


class Operand:
    """A value as an array: one that is held, a part of one, or a stretch of the arena."""

    __slots__ = ("dtype", "is_whole", "off", "shape", "slot", "strides", "where")

    def __init__(self, slot: int, where: int | None, dtype: Any, shown: Geometry, *,
                 is_whole: bool) -> None:  # fmt: skip
        """`where` is the buffer's place in the arena, None where it is held."""
        self.slot, self.where, self.dtype, self.is_whole = slot, where, dtype, is_whole
        self.shape, self.strides, self.off = shown

    def __call__(self, memory: Any, held: dict[int, Any]) -> Any:
        """The array, in a call with this memory and these buffers."""
        if self.where is not None:
            made = memory.views.get(self)
            if made is None:
                start = memory.start + self.where + self.off
                made = memory.views[self] = numpy.ndarray(
                    self.shape, self.dtype, memory.arena, start, self.strides
                )
            return made
        array = held[self.slot]
        return array if self.is_whole else _shown(array, self.shape, self.strides, self.off)


def _shown(array: Any, shape: tuple[int, ...], strides: tuple[int, ...], off: int) -> Any:
    """A part of an array's memory; views are counted from where it begins, whatever its strides."""
    if array.flags.c_contiguous:
        return numpy.ndarray(shape, array.dtype, array, off, strides)
    size = array.itemsize
    span = 1 + sum((n - 1) * (s // size) for n, s in zip(array.shape, array.strides, strict=True))
    flat = numpy.lib.stride_tricks.as_strided(array, (span,), (size,))
    return numpy.lib.stride_tricks.as_strided(flat[off // size :], shape, strides)


class Result:
    """An output: the array that the caller allocated, or a part of it."""

    __slots__ = ("geometry", "is_fresh", "slot")

    def __init__(self, slot: int, shown: Geometry | None, *, is_fresh: bool) -> None:
        self.slot, self.is_fresh, self.geometry = slot, is_fresh, shown

    @classmethod
    def of(cls, plan: Plan, v: Val) -> Result:
        """The result that a value is."""
        is_fresh = v.base.op not in ("input", "result")
        is_part = v.is_view and not (is_fresh and is_whole(v))
        return cls(plan.slot[v.base.id], geometry(v) if is_part else None, is_fresh=is_fresh)

    def __call__(self, held: dict[int, Any]) -> Any:
        """The array."""
        array = held[self.slot]
        return array if self.geometry is None else _shown(array, *self.geometry)


class Between:
    """An eager kernel between native parts: its inputs as arrays, its results in the table."""

    def __init__(self, kernel: Any, inputs: list[Operand], results: list[Any], put: Any) -> None:
        """`results`: number among what the kernel makes, slot, dtype and strides of each."""
        self.kernel, self.inputs, self.results, self.put = kernel, inputs, results, put

    @classmethod
    def of(cls, plan: Plan, token: Val, put: Any) -> Between:
        """The step of a call."""
        kernel = plan.builder.calls[token.attr]
        return cls(kernel, *parts_of(plan, token, lambda one: one), put)

    def __call__(self, memory: Any, held: dict[int, Any]) -> None:
        """Run it in a call with this memory and these buffers."""
        made = self.kernel([one(memory, held) for one in self.inputs])
        for number, slot, dtype, strides in self.results:
            array = made[number]
            if dtype is not None and array.dtype is not dtype and array.dtype != dtype:
                array = array.astype(dtype)
            lies_otherwise = array.strides != strides and array.size
            if lies_otherwise or (
                array.base is not None and numpy.may_share_memory(array, memory.arena)
            ):
                array = laid_out(array, strides)
            held[slot] = array
            self.put([array], memory.slot(slot))


def parts_of(plan: Plan, token: Val, now: Callable[[Any], Any]) -> tuple[list[Operand], list[Any]]:
    """What a call reads, and what it gives; `now` says what numbers are that vary."""
    inputs = []
    for v in token.ins:
        slot = plan.slot[v.base.id]
        where = plan.offsets.get(slot)
        shown: Any = now(geometry(v))
        inputs.append(Operand(slot, None if where is None else now(where), numpy_dtype(v.dtype),
                              shown, is_whole=v is v.base))  # fmt: skip
    results = [
        (v.attr, plan.slot[v.id], numpy_dtype(v.dtype), now(geometry(v))[1])
        for v in plan.values
        if v.op == "result" and v.ins[0] is token
    ]
    return inputs, results


def laid_out(array: Any, strides: tuple[int, ...]) -> Any:
    """A copy with these strides."""
    span = 1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True)) // array.itemsize
    memory = numpy.empty(max(span, 1), array.dtype)
    made = numpy.ndarray(array.shape, array.dtype, memory, 0, strides)
    made[...] = array
    return made

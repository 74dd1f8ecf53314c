"""A program in machine code: its table of pointers, its arena, and a call of it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import numpy

from pullback.compiled.capture.steps import Call, Value, live
from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.values import Val, contiguous
from pullback.compiled.llvm.machine import Code, machine
from pullback.compiled.llvm.module import ModuleText
from pullback.compiled.lower.program import Lowered
from pullback.compiled.plan.plan import Plan
from pullback.compiled.profiling import step_names, timed
from pullback.compiled.runtime.pointers import put_pointers
from pullback.operators.watching.observe import look

__all__ = ["LlvmProgram", "NativeProgram"]

_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_NUMPY = {"f4": numpy.float32, "f8": numpy.float64, "b1": numpy.bool_, "i8": numpy.int64,
          "i4": numpy.int32}  # fmt: skip
_LARGE = 1_000_000  # operations, some 15 us, from which on the interpreter's lock is released


class NativeProgram:
    """Values of the array language in machine code: arrays in, arrays out."""

    backend = "llvm"

    def __init__(
        self,
        builder: Builder,
        outputs: list[Val],
        threads: int = 1,
        wishes: dict[int, int] | None = None,
        shared: Any = None,
        parts: int | None = None,
    ) -> None:
        """`shared`: what it shares with others of its family, a `Sharing`.

        `parts`: into how many a shared loop is cut, if not into as many as there are threads.
        """
        self.builder = builder
        self.strides = [tuple(s * v.itemsize for s in v.strides) for v in builder.inputs]
        moving = frozenset() if shared is None else shared.moving
        self.plan = Plan(builder, outputs, parts or threads, wishes, moving)
        self.in_place = self.plan.in_place
        written = ModuleText(self.plan, machine())
        self.text = written.text
        self.words: list[int] = []  # numbers of this size that shared code reads from the table
        if shared is None:
            self.code = Code(written.text)
        else:
            self.code, self.words = shared.templates.code(written.text, written.slots)
        self.is_large = written.work > _LARGE
        self.slots = written.slots
        self.parts = self._parts(written, self.code)
        self._apart: Any = None  # the same step by step, for a profiler; made when first needed
        self.addresses = {slot: _address(name, threads) for name, slot in written.addresses.items()}
        # A result that is its base in another shape is allocated in that shape.
        shapes = {v.base.id: v.shape for v in outputs if _is_whole(v)}
        self.fresh = [(shapes.get(v.id, v.shape), _numpy_dtype(v.dtype), self.plan.slot[v.id])
                      for v in self.plan.fresh]  # fmt: skip
        self.outputs = [_Result(self.plan, v) for v in outputs]
        self._spare: list[_Memory] = []
        self._lock = threading.Lock()
        self._put = put_pointers()
        self.is_native = len(self.parts) <= 1 and all(p[2] is None for p in self.parts)

    def _parts(self, written: ModuleText, code: Code) -> list[Any]:
        parts: list[Any] = []
        for kind, what in written.parts:
            if kind == "native":
                address = code.address(what)
                parts.append((_FUNCTION(address), address, None))
            else:
                parts.append((None, 0, _Between(self.plan, what)))
        return parts

    def _laid_out(self, arrays: list[Any], held: dict[int, Any]) -> list[Any]:
        """Arrays with the strides that the program reads; of gradients, say, they may differ."""
        made = list(arrays)
        for slot, array in enumerate(arrays):
            if array.strides != self.strides[slot] and array.size > 1:
                if slot in self.in_place.values():
                    raise AssertionError("an input to be overwritten lies as the guards say")
                made[slot] = held[slot] = _laid_out(array, self.strides[slot])
        return made

    def examples(self) -> list[Any]:
        """Arrays of the shape and dtype of each output."""
        known = {slot: (shape, dtype) for shape, dtype, slot in self.fresh}
        return [numpy.empty(*known[one.slot]) for one in self.outputs]

    def memory(self) -> _Memory:
        """A table and an arena for one call; calls in flight have one each."""
        with self._lock:
            return self._spare.pop() if self._spare else _Memory(self)

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """Run the program."""
        memory = self.memory()
        table = memory.table
        held = dict(enumerate(arrays))
        if [array.strides for array in arrays] != self.strides:
            arrays = self._laid_out(arrays, held)
        if not self._put(arrays, table):
            raise TypeError("a program reads NumPy arrays alone")
        for shape, dtype, slot in self.fresh:
            array = held[slot] = numpy.empty(shape, dtype)
            table[slot] = array.__array_interface__["data"][0]
        if look.by is None:
            for function, _, between in self.parts:
                if function is not None:
                    function(memory.address)
                else:
                    between(memory, held)
        else:
            self._run_watched(memory, held)
        results = [one(held) for one in self.outputs]
        with self._lock:
            self._spare.append(memory)
        return results

    def _run_watched(self, memory: _Memory, held: dict[int, Any]) -> None:
        """Step by step, each with its time told to the profiler."""
        if self._apart is None:
            written = ModuleText(self.plan, machine(), apart=True)
            code = Code(written.text, keep=False)
            self._apart = (code, self._parts(written, code), step_names(self.plan))
        _, parts, names = self._apart
        for name, (function, _, between) in zip(names, parts, strict=True):
            with timed(name):
                if function is not None:
                    function(memory.address)
                else:
                    between(memory, held)


class LlvmProgram(NativeProgram):
    """Captured calls in machine code."""

    def __init__(
        self,
        calls: list[Call],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        constants: dict[int, Any],
        threads: int = 1,
        wishes: dict[int, int] | None = None,
        shared: Any = None,
    ) -> None:
        """`shared` as for any native program."""
        self.calls = live(calls, outputs)
        lowered = Lowered(self.calls, inputs, outputs, constants)
        self.how = lowered.how
        super().__init__(lowered.b, lowered.outputs, threads, wishes, shared)


class _Memory:
    """The table of a call: a pointer for each buffer; temporaries lie in the arena."""

    def __init__(self, program: NativeProgram) -> None:
        plan = program.plan
        words = numpy.array(program.words, numpy.uint64)
        self.table = numpy.concatenate([numpy.zeros(max(program.slots, 1), numpy.uint64), words])
        self.arena = numpy.empty(plan.arena + 64, numpy.uint8)
        start = self.arena.__array_interface__["data"][0]
        self.start = -start % 64
        for slot, offset in plan.offsets.items():
            self.table[slot] = start + self.start + offset
        for slot, address in program.addresses.items():
            self.table[slot] = address
        self.address = self.table.__array_interface__["data"][0]


class _Result:
    """An output: the array that the caller allocated, or a part of it."""

    def __init__(self, plan: Plan, v: Val) -> None:
        self.slot = plan.slot[v.base.id]
        self.is_fresh = v.base.op not in ("input", "result")
        self.geometry = None
        if v.is_view and not (self.is_fresh and _is_whole(v)):
            size = v.itemsize
            self.geometry = (v.shape, tuple(s * size for s in v.strides), v.off)

    def __call__(self, held: dict[int, Any]) -> Any:
        array = held[self.slot]
        if self.geometry is None:
            return array
        shape, strides, off = self.geometry
        return numpy.lib.stride_tricks.as_strided(_from(array, off), shape, strides)


def _is_whole(v: Val) -> bool:
    """Whether it shows all of its base, in row-major order."""
    if v.off or v.size != v.base.size:
        return False
    pairs = zip(v.shape, v.strides, contiguous(v.shape), strict=True)
    return all(n == 1 or s == wanted for n, s, wanted in pairs)


class _Between:
    """An eager kernel between native parts: its inputs as arrays, its results in the table."""

    def __init__(self, plan: Plan, token: Val) -> None:
        self.kernel = plan.builder.calls[token.attr]
        self.inputs = [_Operand(plan, v) for v in token.ins]
        self.results = [
            (v.attr, plan.slot[v.id], _numpy_dtype(v.dtype), v.strides)
            for v in plan.values
            if v.op == "result" and v.ins[0] is token
        ]

    def __call__(self, memory: _Memory, held: dict[int, Any]) -> None:
        made = self.kernel([one(memory, held) for one in self.inputs])
        for number, slot, dtype, strides in self.results:
            array = made[number]
            size = array.itemsize
            if dtype is not None and array.dtype != dtype:
                array = array.astype(dtype)
            wanted = tuple(s * size for s in strides)
            if array.strides != wanted and array.size:
                array = _laid_out(array, wanted)
            if numpy.may_share_memory(array, memory.arena):
                array = _laid_out(array, wanted)
            held[slot] = array
            memory.table[slot] = array.__array_interface__["data"][0]


def _laid_out(array: Any, strides: tuple[int, ...]) -> Any:
    span = 1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True)) // array.itemsize
    memory = numpy.empty(max(span, 1), array.dtype)
    made = numpy.lib.stride_tricks.as_strided(memory, array.shape, strides)
    made[...] = array
    return made


class _Operand:
    """A value as an array: one that is held, a part of one, or a stretch of the arena."""

    def __init__(self, plan: Plan, v: Val) -> None:
        base = v.base
        self.slot = plan.slot[base.id]
        self.where = plan.offsets.get(self.slot)
        self.size = v.itemsize
        self.dtype = _numpy_dtype(v.dtype)
        self.count = base.size
        self.strides = tuple(s * v.itemsize for s in v.strides)
        self.shape, self.off = v.shape, v.off
        self.is_whole = v is base

    def __call__(self, memory: _Memory, held: dict[int, Any]) -> Any:
        if self.where is not None:
            start = memory.start + self.where
            flat = memory.arena[start : start + self.count * self.size].view(self.dtype)
        else:
            array = held[self.slot]
            if self.is_whole:
                return array
            flat = array
            # Views are counted from where the base begins, whatever its strides.
            return numpy.lib.stride_tricks.as_strided(
                _from(flat, self.off), self.shape, self.strides
            )
        return numpy.lib.stride_tricks.as_strided(flat[self.off :], self.shape, self.strides)


def _from(array: Any, off: int) -> Any:
    """The memory of an array from an element on, as one row."""
    span = 1 + sum(
        (n - 1) * (s // array.itemsize) for n, s in zip(array.shape, array.strides, strict=True)
    )
    flat = numpy.lib.stride_tricks.as_strided(array, (span,), (array.itemsize,))
    return flat[off:]


def _numpy_dtype(name: str) -> Any:
    known = _NUMPY.get(name)
    if known is not None:
        return numpy.dtype(known)
    return numpy.dtype(f"{name[0]}{name[1:]}") if name[0] in "fciu" else None


def _address(name: str, threads: int) -> int:
    if name.startswith("gemm "):
        return machine().blas(name[5:]).address
    from pullback.compiled.runtime.threads import parallel_address

    return parallel_address(threads, int(name.removeprefix("parallel ")))

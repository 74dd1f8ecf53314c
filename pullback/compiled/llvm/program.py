"""A program in machine code: its table of pointers, its arena, and a call of it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import numpy

from pullback.compiled.capture.steps import Call, Value, live
from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.values import Val
from pullback.compiled.llvm.between import Between, Result, is_whole, laid_out, numpy_dtype
from pullback.compiled.llvm.machine import Code, machine
from pullback.compiled.llvm.module import ModuleText
from pullback.compiled.lower.program import Lowered
from pullback.compiled.plan.plan import Plan
from pullback.compiled.profiling import step_names, timed
from pullback.compiled.python.program import PythonProgram
from pullback.compiled.runtime.pointers import put_pointers
from pullback.operators.dispatch.observers import observers

__all__ = ["FUNCTION", "LARGE", "LlvmProgram", "Memory", "NativeProgram", "address_of"]

FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
LARGE = 1_000_000  # operations, some 15 us, from which on the interpreter's lock is released


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
        self.is_large = written.work > LARGE
        self.slots = written.slots
        self.arena, self.offsets = self.plan.arena, self.plan.offsets
        self.fault = self.plan.fault
        self._put = put_pointers()
        self.parts = self._parts(written, self.code)
        self._apart: Any = None  # the same step by step, for a profiler; made when first needed
        self.addresses = {
            slot: address_of(name, threads) for name, slot in written.addresses.items()
        }
        # A result that is its base in another shape is allocated in that shape.
        shapes = {v.base.id: v.shape for v in outputs if is_whole(v)}
        self.fresh = [(shapes.get(v.id, v.shape), numpy_dtype(v.dtype), self.plan.slot[v.id])
                      for v in self.plan.fresh]  # fmt: skip
        self.outputs = [Result.of(self.plan, v) for v in outputs]
        self._spare: list[Memory] = []
        self._lock = threading.Lock()
        self.is_native = len(self.parts) <= 1 and all(p[2] is None for p in self.parts)

    def _parts(self, written: ModuleText, code: Code) -> list[Any]:
        parts: list[Any] = []
        for kind, what in written.parts:
            if kind == "native":
                address = code.address(what)
                parts.append((FUNCTION(address), address, None))
            else:
                parts.append((None, 0, Between.of(self.plan, what, self._put)))
        return parts

    def _laid_out(self, arrays: list[Any], held: dict[int, Any]) -> list[Any]:
        """Arrays with the strides that the program reads; of gradients, say, they may differ."""
        made = list(arrays)
        for slot, array in enumerate(arrays):
            if array.strides != self.strides[slot] and array.size > 1:
                if slot in self.in_place.values():
                    raise AssertionError("an input to be overwritten lies as the guards say")
                made[slot] = held[slot] = laid_out(array, self.strides[slot])
        return made

    def examples(self) -> list[Any]:
        """Arrays of the shape and dtype of each output."""
        known = {slot: (shape, dtype) for shape, dtype, slot in self.fresh}
        return [numpy.empty(*known[one.slot]) for one in self.outputs]

    def memory(self) -> Memory:
        """A table and an arena for one call; calls in flight have one each."""
        with self._lock:
            return self._spare.pop() if self._spare else Memory(self)

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
        done = (self._run if observers.active is None else self._run_watched)(memory, held)
        results = [one(held) for one in self.outputs] if done else None
        with self._lock:
            self._spare.append(memory)
        return self._by_kernels(arrays) if results is None else results

    def _run(self, memory: Memory, held: dict[int, Any]) -> bool:
        """Part after part; False where an index names nothing."""
        for function, _, between in self.parts:
            if function is None:
                between(memory, held)
                continue
            function(memory.address)
            if memory.is_faulty():
                return False
        return True

    def _by_kernels(self, arrays: list[Any]) -> list[Any]:
        """The same by eager kernels, one of which says what is wrong."""
        raise NotImplementedError

    def _run_watched(self, memory: Memory, held: dict[int, Any]) -> bool:
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
            if memory.is_faulty():
                return False
        return True


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
        ahead: frozenset[int] | None = None,
    ) -> None:
        """`shared` as for any native program; `ahead`: numbers of the forward's values."""
        self.calls = live(calls, outputs)
        lowered = Lowered(self.calls, inputs, outputs, constants, stores=True, ahead=ahead)
        self.how = lowered.how
        self._ends = list(inputs), list(outputs)
        super().__init__(lowered.b, lowered.outputs, threads, wishes, shared)

    def _by_kernels(self, arrays: list[Any]) -> list[Any]:
        made = PythonProgram(self.calls, *self._ends)(arrays)
        for number, place in self.in_place.items():  # nothing was written to them so far
            arrays[place][...] = made[number]
        return made


class Memory:
    """The table of a call: a pointer for each buffer; temporaries lie in the arena."""

    def __init__(self, program: NativeProgram) -> None:
        words = numpy.array(program.words, numpy.uint64)
        self.table = numpy.concatenate([numpy.zeros(max(program.slots, 1), numpy.uint64), words])
        self.arena = numpy.empty(program.arena + 64, numpy.uint8)
        start = self.arena.__array_interface__["data"][0]
        self.start = -start % 64
        for slot, offset in program.offsets.items():
            self.table[slot] = start + self.start + offset
        for slot, address in program.addresses.items():
            self.table[slot] = address
        self.word: Any = None  # not 0 where an index named nothing
        if program.fault is not None:
            self.word = numpy.zeros(1, numpy.int64)
            self.table[program.fault] = self.fault
        self.address = self.table.__array_interface__["data"][0]
        self.views: dict[Any, Any] = {}  # arrays over the arena, by operand
        self._slots: dict[int, Any] = {}

    @property
    def fault(self) -> int | None:
        """Where the word is, if there is one."""
        return None if self.word is None else int(self.word.__array_interface__["data"][0])

    def is_faulty(self) -> bool:
        """Whether an index named nothing; asked once, it is forgotten."""
        if self.word is None or not self.word[0]:
            return False
        self.word[0] = 0
        return True

    def slot(self, number: int) -> Any:
        """The table from a slot on."""
        known = self._slots.get(number)
        if known is None:
            known = self._slots[number] = self.table[number:]
        return known


def address_of(name: str, threads: int) -> int:
    """What a slot beyond the buffers holds."""
    if name.startswith("gemm "):
        return machine().blas(name[5:]).address
    from pullback.compiled.runtime.threads import parallel_address

    return parallel_address(threads, int(name.removeprefix("parallel ")))

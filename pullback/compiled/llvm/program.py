"""A program in machine code: its table of pointers, its arena, and a call of it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy

from pullback.compiled.capture.steps import Call, Value, live
from pullback.compiled.llvm.between import Between, Operand, Result, laid_out, numpy_dtype
from pullback.compiled.llvm.described import kept_program
from pullback.compiled.llvm.kept import Kept
from pullback.compiled.llvm.machine import Code, machine
from pullback.compiled.llvm.recipe import Recipe, packed, unpacked
from pullback.compiled.lower.kernels import Check, Kernel
from pullback.compiled.profiling import step_names, timed
from pullback.compiled.python.program import PythonProgram
from pullback.compiled.runtime.pointers import put_pointers
from pullback.operators.dispatch.observers import observers

if TYPE_CHECKING:
    from pullback.compiled.ir.builder import Builder
    from pullback.compiled.ir.values import Val

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
        self._make((builder, outputs), threads, wishes, shared, parts)

    def _make(
        self, values: Any, threads: int, wishes: Any, shared: Any = None, parts: Any = None,
        keep: bool = True,
    ) -> Recipe:  # fmt: skip
        """Plan it, write it and compile it; with `keep` the code is kept for its text."""
        plan, written = _planned(values, parts or threads, wishes, shared)
        self._plan = plan
        recipe = Recipe.of(plan, values[1], written, *self._captured())
        words: list[int] = []
        if shared is None:
            code = Code(written.text, keep=keep)
        else:
            code, words = shared.templates.code(written.text, written.slots)
        kernels = [plan.builder.calls[what.attr] for kind, what in written.parts if kind == "call"]
        self._begin(recipe, code, words, threads, kernels)
        return recipe

    def _captured(self) -> tuple[Any, ...]:
        """Captured calls, and what became of each."""
        return ()

    def _begin(
        self, recipe: Recipe, code: Code, words: list[int], threads: int, kernels: list[Any]
    ) -> None:
        """What a call needs; `kernels` of the eager calls, in their order."""
        self.code = code
        self.words = words  # numbers of this size that shared code reads from the table
        self.strides = list(recipe.strides)
        self.in_place = dict(recipe.in_place)
        self.is_large = recipe.work > LARGE
        self.slots, self.arena, self.fault = recipe.slots, recipe.arena, recipe.fault
        self.offsets = dict(recipe.offsets)
        self._put = put_pointers()
        found = iter(kernels)
        self.parts = [
            self._native(code, name) if between is None else self._eager(between, next(found))
            for name, between in recipe.parts
        ]
        self._apart: Any = None  # the same step by step, for a profiler; made when first needed
        self.addresses = {slot: address_of(name, threads) for name, slot in recipe.addresses}
        self.fresh = [(shape, numpy_dtype(dtype), slot) for shape, dtype, slot in recipe.fresh]
        self.outputs = [
            Result(slot, shown, is_fresh=is_fresh) for slot, shown, is_fresh in recipe.outputs
        ]
        self._spare: list[Memory] = []
        self._lock = threading.Lock()
        self.is_native = len(self.parts) <= 1 and all(p[2] is None for p in self.parts)

    @property
    def plan(self) -> Any:
        """The plan, for whoever wants to look at it."""
        return self._plan

    @property
    def text(self) -> str:
        """The text of its code, for the same."""
        from pullback.compiled.llvm.module import ModuleText

        return ModuleText(self.plan, machine()).text

    def _native(self, code: Code, name: str) -> Any:
        address = code.address(name)
        return FUNCTION(address), address, None

    def _eager(self, recipe: Any, kernel: Any) -> Any:
        _, _, inputs, results = recipe
        operands = [
            Operand(slot, where, numpy_dtype(dtype), shown, is_whole=is_whole)
            for slot, where, dtype, shown, is_whole in inputs
        ]
        given = [
            (number, slot, numpy_dtype(dtype), strides) for number, slot, dtype, strides in results
        ]
        return None, 0, Between(kernel, operands, given, self._put)

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
            self._apart = self._made_apart()
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

    def _made_apart(self) -> Any:
        """Code in which each step is a function, the steps, and their names."""
        from pullback.compiled.llvm.module import ModuleText

        plan = self.plan
        written = ModuleText(plan, machine(), apart=True)
        code = Code(written.text, keep=False)
        parts = [
            self._native(code, what)
            if kind == "native"
            else (None, 0, Between.of(plan, what, self._put))
            for kind, what in written.parts
        ]
        return code, parts, step_names(plan)


def _planned(values: Any, parts: int, wishes: Any, shared: Any) -> tuple[Any, Any]:
    """The plan of a builder's outputs, and the module; what it takes is loaded when needed."""
    from pullback.compiled.llvm.module import ModuleText
    from pullback.compiled.plan.plan import Plan

    moving = frozenset() if shared is None else shared.moving
    builder, outputs = values
    plan = Plan(builder, outputs, parts, wishes, moving)
    return plan, ModuleText(plan, machine())


class LlvmProgram(NativeProgram):
    """Captured calls in machine code, from the disk where they are known."""

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
        self.how: dict[str, str] = {}
        self._ends = list(inputs), list(outputs)
        self._about = threads, wishes
        self._lowering = constants, ahead
        self._plan: Any = None
        kept = None
        if shared is None:
            kept = kept_program(self.calls, inputs, outputs, constants, self._about, ahead)
        if kept is None:
            self._make(self._lowered(), threads, wishes, shared)
        elif not self._is_loaded(kept, threads):
            recipe = self._make(self._lowered(), threads, wishes, keep=False)
            with suppress(TypeError):  # of numbers that are not Python's
                kept.store(packed(recipe, self.code.taken()))

    def _lowered(self) -> Any:
        from pullback.compiled.lower.program import Lowered

        constants, ahead = self._lowering
        lowered = Lowered(self.calls, *self._ends, constants, stores=True, ahead=ahead)
        self.how = lowered.how
        return lowered.b, lowered.outputs

    def _captured(self) -> tuple[Any, ...]:
        return self.calls, self.how

    def _is_loaded(self, kept: Kept, threads: int) -> bool:
        """Whether it is on disk, and was begun."""
        found = kept.load()
        if found is None:
            return False
        try:
            recipe, code = unpacked(found, len(self.calls))
            kinds = {"kernel": Kernel, "check": Check}
            kernels = [
                kinds[between[1]](self.calls[between[0]])
                for _, between in recipe.parts
                if between is not None
            ]
            self._begin(recipe, Code.of_object(code), [], threads, kernels)
        except (ValueError, KeyError, TypeError, RuntimeError):
            return False
        self.how = dict(recipe.how)
        return True

    @property
    def plan(self) -> Any:
        """The plan; made when somebody asks, where the program was on disk."""
        if self._plan is None:
            self._plan, _ = _planned(self._lowered(), *self._about, None)
        return self._plan

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

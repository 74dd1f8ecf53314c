"""A program on a CUDA device: its kernels, its memory, and a call of it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy

from pullback.compiled.capture.steps import Call, Value, live
from pullback.compiled.cuda.launch import Launch
from pullback.compiled.cuda.module import Kernels
from pullback.compiled.cuda.plan import CudaPlan
from pullback.compiled.cuda.products import Product
from pullback.compiled.ir.values import Val, contiguous
from pullback.compiled.lower.kernels import Check
from pullback.compiled.lower.program import Lowered
from pullback.compiled.profiling import step_names, timed
from pullback.compiled.python.program import on_library
from pullback.operators.cuda.launch import Kernel
from pullback.operators.dispatch.observers import observers

__all__ = ["CudaProgram"]

_NUMPY = {"b1": "?"}


class CudaProgram:
    """Arrays of a device in, arrays of the device out."""

    backend = "cuda"
    is_native = False  # the native entry reads NumPy's arrays

    def __init__(
        self,
        calls: list[Call],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        constants: dict[int, Any],
        library: Any,
        wishes: dict[int, int] | None = None,
    ) -> None:
        self.library = library
        self.calls = live(calls, outputs)
        lowered = Lowered(self.calls, inputs, outputs, constants)
        self.how = lowered.how
        self.strides = [one.strides for one in inputs]
        self.builder = lowered.b
        self.plan = CudaPlan(lowered.b, lowered.outputs, 1, wishes)
        self.in_place = self.plan.in_place
        self.kernels = Kernels(self.plan)
        self.text = self.kernels.text
        self.fresh = [(v.shape, _dtype(v.dtype), self.plan.slot[v.id]) for v in self.plan.fresh]
        self.outputs = lowered.outputs
        module = library.cupy.RawModule(code=self.text) if self.text else None
        self.steps = [self._prepared(kind, one, module) for kind, one in self.kernels.steps]
        self._bytes = self.plan.arena + self.kernels.scratch_bytes + 512
        self._arenas: dict[Any, Any] = {}  # by device and stream, whose work is done in order
        self._lock = threading.Lock()

    def _prepared(self, kind: str, one: Any, module: Any) -> Any:
        if kind == "launch":
            return _Launched(self.library.cupy, module.get_function(one.kernel), one)
        if kind == "dot":
            return _Multiplied(Product(one, self.library), self)
        return _Between(self, one)

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """Run the program: its work is queued on the current stream."""
        held: dict[int, Any] = dict(enumerate(arrays))
        for slot, array in enumerate(arrays):
            if array.strides != self.strides[slot] and array.size > 1:
                held[slot] = self._laid_out(array, self.strides[slot])
        ndarray = self.library.cupy.ndarray
        for shape, dtype, slot in self.fresh:
            held[slot] = ndarray(shape, dtype)
        with self._lock:
            memory = self._memory(held)
        table = {slot: array.data.ptr for slot, array in held.items()}
        start = memory.data.ptr + -memory.data.ptr % 256
        for slot, offset in self.plan.offsets.items():
            table[slot] = start + offset
        table[self.kernels.scratch] = start + -(-self.plan.arena // 256) * 256
        if observers.active is None:
            for step in self.steps:
                step(table, held, memory)
        else:
            self._run_watched(table, held, memory)
        return [self._result(v, held) for v in self.outputs]

    def _run_watched(self, table: Any, held: Any, memory: Any) -> None:
        names = step_names(self.plan)
        for number, step in zip(self.kernels.step_of, self.steps, strict=True):
            with timed(names[number]):
                step(table, held, memory)

    def _memory(self, held: dict[int, Any]) -> Any:
        """Where temporaries lie; calls on one stream follow one another, so they share it."""
        cupy = self.library.cupy
        stream = getattr(cupy.cuda, "get_current_stream", None)
        key = (cupy.cuda.Device().id, None if stream is None else stream().ptr)
        known = self._arenas.get(key)
        if known is None:
            known = self._arenas[key] = cupy.ndarray((self._bytes,), numpy.uint8)
        return known

    def _laid_out(self, array: Any, strides: tuple[int, ...]) -> Any:
        """An array with the strides that the program reads; of gradients, say, they may differ."""
        pairs = zip(array.shape, strides, strict=True)
        span = 1 + sum((n - 1) * s for n, s in pairs) // array.itemsize
        memory = self.library.cupy.ndarray((span,), array.dtype)
        made = self.library.window(memory, array.shape, strides, 0)
        made[...] = array
        return made

    def window(self, v: Val, shape: Any, strides: Any, table: Any, held: Any, memory: Any) -> Any:
        """A value's memory as an array."""
        size = v.itemsize
        slot = self.plan.slot[v.base.id]
        byte_strides = tuple(s * size for s in strides)
        owner = held.get(slot)
        if owner is not None:
            if v is v.base and shape == owner.shape and byte_strides == owner.strides:
                return owner
            return self.library.window(owner, shape, byte_strides, v.off * size)
        flat = self.library.window(
            memory, (v.base.size * size,), (1,), table[slot] - memory.data.ptr
        ).view(_dtype(v.dtype))
        return self.library.window(flat, shape, byte_strides, v.off * size)

    def _result(self, v: Val, held: dict[int, Any]) -> Any:
        array = held[self.plan.slot[v.base.id]]
        if not v.is_view:
            return array
        strides = tuple(s * v.itemsize for s in v.strides)
        made = self.library.window(array, v.shape, strides, v.off * v.itemsize)
        is_whole = not v.off and v.size == v.base.size and v.strides == contiguous(v.shape)
        return array.reshape(v.shape) if is_whole and v.base.op not in ("input", "result") else made


class _Launched:
    """A kernel with its grid."""

    def __init__(self, cupy: Any, function: Any, launch: Launch) -> None:
        self.slots, self.numbers = launch.slots, launch.numbers
        self.grid, self.block = (*launch.grid, 1, 1)[:3], (launch.block, 1, 1)
        self.kernel = Kernel(cupy, function, "P" * len(self.slots) + "q" * len(self.numbers))

    def __call__(self, table: dict[int, int], held: Any, memory: Any) -> None:
        values = [*[table[slot] for slot in self.slots], *self.numbers]
        self.kernel.start(self.grid, self.block, values)


class _Multiplied:
    """A matrix product."""

    def __init__(self, product: Product, program: CudaProgram) -> None:
        self.product, self.program = product, program

    def __call__(self, table: Any, held: Any, memory: Any) -> None:
        window = self.program.window
        self.product(lambda v, shape, strides: window(v, shape, strides, table, held, memory))


class _Between:
    """An eager kernel between the program's own: its inputs as arrays, its results in the table."""

    def __init__(self, program: CudaProgram, token: Val) -> None:
        self.program, self.token = program, token
        kernel = program.builder.calls[token.attr]
        # Nobody looks at the values of a device's arrays: it would wait for them.
        self.call = None if isinstance(kernel, Check) else on_library(kernel.call, program.library)
        self.numbers = getattr(kernel, "numbers", [])
        self.results = [v for v in program.plan.values if v.op == "result" and v.ins[0] is token]

    def __call__(self, table: Any, held: Any, memory: Any) -> None:
        if self.call is None:
            return
        program = self.program
        arrays = [
            program.window(v, v.shape, v.strides, table, held, memory) for v in self.token.ins
        ]
        # What it gives may be a view of them, and the next step may write where they lie.
        inside = memory.data.ptr, memory.data.ptr + memory.nbytes
        made = self.call.run(dict(zip(self.numbers, arrays, strict=True)))
        for v in self.results:
            array = made[v.attr]
            wanted = tuple(s * array.itemsize for s in v.strides)
            if array.dtype != _dtype(v.dtype):
                array = array.astype(_dtype(v.dtype))
            if (array.strides != wanted and array.size > 1) or (
                inside[0] <= array.data.ptr < inside[1]
            ):
                array = program._laid_out(array, wanted)
            slot = program.plan.slot[v.id]
            held[slot] = array
            table[slot] = array.data.ptr


def _dtype(name: str) -> Any:
    return numpy.dtype(_NUMPY.get(name, name))

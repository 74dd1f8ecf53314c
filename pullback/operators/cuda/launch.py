"""Launches of kernels by the driver's own call, on the current stream.

CuPy looks at every argument of every launch, which takes it 3 us beyond the 4 of the driver. What a
kernel takes does not change, so it is found out at the first launch: later ones write pointers and
numbers into a buffer that the driver reads. The driver has read it when its call returns; since
other threads may run meanwhile, a buffer belongs to one launch at a time.

The driver wants a context on the thread that calls it, which CuPy's own launches see to.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy

__all__ = ["Kernel", "Kernels"]

# How a number lies in the buffer, by its type; CuPy's arrays are pointers.
_LETTERS = {
    bool: "q",
    int: "q",
    float: "d",
    numpy.int32: "i",
    numpy.int64: "q",
    numpy.uint64: "Q",
    numpy.float32: "f",
    numpy.float64: "d",
}


class _Context(threading.local):
    """A thread's context on the device: made when the thread first looks at it."""

    def __init__(self, runtime: Any) -> None:
        runtime.free(0)  # a call that does nothing else
        self.is_there = True


class Kernel:
    """A function of a module, or a `RawKernel`: called as those are, and sooner on its way."""

    __slots__ = (
        "_context",
        "_function",
        "_launch",
        "_layout",
        "_ndarray",
        "_pointer",
        "_rooms",
        "_stream",
    )

    def __init__(self, cupy: Any, function: Any, layout: str | None = None) -> None:
        self._function, self._ndarray = function, cupy.ndarray
        self._launch: Any = None
        self._layout = None if layout is None else struct.Struct(layout)
        self._rooms: list[tuple[Any, int, Any]] = []
        driver = getattr(cupy.cuda, "driver", None)
        # A function has an address on each device: with several, CuPy keeps the account.
        if driver is not None and cupy.cuda.runtime.getDeviceCount() == 1:
            self._launch, self._stream = driver.launchKernel, cupy.cuda.get_current_stream
            self._context = _Context(cupy.cuda.runtime)

    def __call__(
        self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], shared_mem: int = 0
    ) -> None:
        """Queue the kernel with arrays and numbers."""
        ndarray = self._ndarray
        if self._layout is None:
            letters = ["P" if type(one) is ndarray else _LETTERS[type(one)] for one in args]
            self._layout = struct.Struct("".join(letters))
        values = [one.data.ptr if type(one) is ndarray else one for one in args]
        self.start((*grid, 1, 1)[:3], (*block, 1, 1)[:3], values, shared_mem)

    def start(self, grid: Any, block: Any, values: list[Any], shared_mem: int = 0) -> None:
        """Queue it with addresses for arrays, where its layout is known; all three sides given."""
        if self._launch is None:
            self._function(grid, block, values, shared_mem=shared_mem)
            return
        assert self._context.is_there
        stream = self._stream().ptr
        try:
            room = self._rooms.pop()
        except IndexError:
            room = self._room()
        self._layout.pack_into(room[0], 0, *values)  # type: ignore[union-attr]  # known by now
        self._launch(self._pointer, *grid, *block, shared_mem, stream, room[1], 0)
        self._rooms.append(room)

    def over(self, blocks: int, threads: int, values: list[Any]) -> None:
        """As `start`, with a line of blocks: what elementwise work wants, at the least cost."""
        if self._launch is None:
            self._function((blocks,), (threads,), values)
            return
        assert self._context.is_there
        stream = self._stream().ptr
        rooms = self._rooms
        try:
            room = rooms.pop()
        except IndexError:
            room = self._room()
        self._layout.pack_into(room[0], 0, *values)  # type: ignore[union-attr]  # known by now
        self._launch(self._pointer, blocks, 1, 1, threads, 1, 1, 0, stream, room[1], 0)
        rooms.append(room)

    def _room(self) -> tuple[Any, int, Any]:
        """A buffer, and a table of the places in it: its address, and itself to keep it."""
        assert self._layout is not None
        self._pointer = getattr(self._function, "kernel", self._function).ptr
        letters = self._layout.format
        buffer = ctypes.create_string_buffer(self._layout.size)
        start = ctypes.addressof(buffer)
        # A value ends where the layout up to it does.
        places = [
            start + struct.calcsize(letters[: i + 1]) - struct.calcsize(one)
            for i, one in enumerate(letters)
        ]
        table = (ctypes.c_void_p * len(places))(*places)
        return buffer, ctypes.addressof(table), table


class Kernels:
    """Kernels of one text, compiled for each dtype when first needed.

    Args:
        cupy: The library, or what stands for it.
        text: The module's source, by the character of a dtype.
        names: What its kernels are called, behind `pb_`.
    """

    __slots__ = ("_cupy", "_known", "_names", "_text")

    def __init__(self, cupy: Any, text: Callable[[str], str], names: Sequence[str]) -> None:
        self._cupy, self._text, self._names = cupy, text, names
        self._known: dict[tuple[str, str], Kernel] = {}

    def __call__(self, name: str, kind: str) -> Kernel:
        """One of them for a dtype."""
        known = self._known.get((name, kind))
        if known is None:
            module = self._cupy.RawModule(code=self._text(kind))
            for one in self._names:
                made = Kernel(self._cupy, module.get_function(f"pb_{one}"))
                self._known[one, kind] = made
            known = self._known[name, kind]
        return known

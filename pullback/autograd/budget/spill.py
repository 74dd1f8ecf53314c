"""Values put out of memory: host arrays to a file, those of a device to the host."""

from __future__ import annotations

import tempfile
import time
from typing import Any

import numpy

from pullback.core.arrays import LIBRARIES
from pullback.core.device import device
from pullback.core.ports import ports

__all__ = ["Spilled", "can_spill"]


def can_spill(array: Any) -> bool:
    """Whether an array can be put out and come back as it lies in memory."""
    if type(array) in LIBRARIES:
        return bool(array.flags.c_contiguous)
    if type(array) is not numpy.ndarray or array.dtype.hasobject or not array.size:
        return False
    return _reach(array) == array.nbytes


def _reach(array: Any) -> int:
    """Bytes from the first element to the last, if there are no gaps and no steps back."""
    if any(stride < 0 for stride in array.strides):
        return -1
    steps = zip(array.shape, array.strides, strict=True)
    return int(sum((size - 1) * stride for size, stride in steps) + array.itemsize)


class Spilled:
    """An array that was put out; `load` brings it back, and it leaves no file behind."""

    __slots__ = ("_device", "_file", "_geometry", "_host", "seconds")

    def __init__(self, array: Any, folder: str | None) -> None:
        began = time.perf_counter()
        self._host: Any = None
        self._file: Any = None
        self._device: Any = None
        if type(array) in LIBRARIES:
            self._device, self._host = device("cuda", array.device.id), array.get()
        else:
            self._geometry = array.shape, array.dtype, array.strides
            # It has no name on disk, so it is gone when it is closed, whatever happens.
            self._file = tempfile.TemporaryFile(dir=folder, prefix="pullback-budget-")  # noqa: SIM115  it lives as long as this object
            flat = array.ravel("K").view(numpy.uint8)
            self._file.write(memoryview(flat))
            self._file.flush()
        self.seconds = time.perf_counter() - began

    def load(self) -> Any:
        """The array, in memory of its own that lies as the first did."""
        if self._file is None:
            return ports.placed(self._host, self._device)
        shape, dtype, strides = self._geometry
        memory = numpy.empty(int(numpy.prod(shape)) * dtype.itemsize, numpy.uint8)
        self._file.seek(0)
        if self._file.readinto(memory.data) != memory.nbytes:
            raise OSError("A value that memory_budget put out to disk could not be read back.")
        return numpy.ndarray(shape, dtype, memory, strides=strides)

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            self._file.close()

    __del__ = close

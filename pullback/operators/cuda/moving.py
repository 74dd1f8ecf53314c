"""Arrays between the host and devices; every way is counted, so that tests can look."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.arrays import LIBRARIES, Array
from pullback.core.device import CPU, device
from pullback.core.ports import ports
from pullback.operators.cuda import backward_streams
from pullback.operators.cuda.found import found
from pullback.operators.cuda.pinned import is_pinned

__all__ = ["counted", "placed", "to_device", "to_host"]

# How many arrays went which way by these functions.
counted = {"to host": 0, "to device": 0, "between devices": 0}


def to_host(array: Array) -> Array:
    """A device array's values in the host's memory, in the same order of strides."""
    counted["to host"] += 1
    order = sorted(range(array.ndim), key=lambda dim: -array.strides[dim])
    moved = array.transpose(order)
    host = moved.get()
    back = sorted(range(array.ndim), key=order.__getitem__)
    return numpy.asarray(host).transpose(back) if array.ndim else numpy.asarray(host)


def to_device(array: Array, place: device) -> Array:
    """The values of a host array, or of another device's, on a device."""
    cupy = found.cupy
    number = found_number(place)
    if type(array) in LIBRARIES:
        if array.device.id == number:
            return array
        counted["between devices"] += 1
        with cupy.cuda.Device(number):
            return cupy.array(array, copy=True, order="K")
    counted["to device"] += 1
    if is_pinned(array) and array.flags.c_contiguous:
        return _read_by(array, number)
    order = sorted(range(array.ndim), key=lambda dim: -array.strides[dim])
    back = sorted(range(array.ndim), key=order.__getitem__)
    plain = numpy.ascontiguousarray(array.transpose(order))
    with cupy.cuda.Device(number):
        made = cupy.asarray(plain.reshape([array.shape[dim] for dim in order]))
    return made.transpose(back) if array.ndim else made


def _read_by(array: Array, number: int) -> Array:
    """Pinned memory is read by the device itself; it is kept until that is done."""
    cupy = found.cupy
    with cupy.cuda.Device(number):
        stream = cupy.cuda.get_current_stream()
        made = cupy.ndarray(array.shape, array.dtype)
        made.set(array, stream)
        backward_streams.keep(array, stream)
    return made


def found_number(place: device) -> int:
    """The number of a device; the current one where it says none."""
    return ports.current_cuda() if place.index is None else place.index


def placed(array: Array, place: device, dtype: Any = None) -> Array:
    """An array on a device, or on the host, in a dtype; the cast is made where it is cheaper."""
    if dtype is not None and dtype != array.dtype and dtype.itemsize < array.dtype.itemsize:
        array, dtype = array.astype(dtype), None
    moved = to_host(array) if place is CPU else to_device(array, place)
    return moved if dtype is None or dtype == moved.dtype else moved.astype(dtype)


def allocated(op: str, allocate: Any, shape: Any, dtype: Any, place: device, *args: Any) -> Array:
    """Memory from one of NumPy's functions, or the device's function of the same name."""
    cupy = found.cupy
    with cupy.cuda.Device(found_number(place)):
        try:
            return getattr(cupy, allocate.__name__)(shape, *args, dtype=dtype)
        except (MemoryError, OverflowError, ValueError) as error:
            raise RuntimeError(f"{op}(): no memory for a tensor of size {shape}: {error}") from None


class _Capsule:
    """A capsule as the object that CuPy wants to take it from."""

    def __init__(self, capsule: Any, place: tuple[int, int]) -> None:
        self.capsule, self.place = capsule, place

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.place


def taken(capsule: Any, place: tuple[int, int]) -> Array:
    """An array of ours on the device memory of another library."""
    if not found():
        raise RuntimeError(
            f"The memory is on a CUDA device, which holds no tensors here: {found.reason}"
        )
    return found.cupy.from_dlpack(_Capsule(capsule, place))


ports.fill(placed=placed, allocated_there=allocated, taken_there=taken)

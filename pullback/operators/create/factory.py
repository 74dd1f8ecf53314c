"""What all functions that make tensors share: their options, checked once, and their sizes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypedDict, Unpack

import numpy

from pullback.core import errors
from pullback.core.arrays import F32, F64, Array
from pullback.core.captured import stamped
from pullback.core.device import (
    CPU,
    META,
    DeviceLike,
    as_device,
    chosen_devices,
    device,
    get_default_device,
    holder_of,
    require_available,
)
from pullback.core.dtype import NARROW, OF_NUMBERS, NumpyDtype, as_dtype, dtype, from_numpy_dtype
from pullback.core.layout import layout, strided
from pullback.core.memory.narrow import held
from pullback.core.mode import fast, get_mode
from pullback.core.nesting import running
from pullback.core.ports import ports
from pullback.core.size import Size
from pullback.core.tensor import Tensor, blanks, wrap
from pullback.core.version import UNWRITTEN
from pullback.operators.running.inplace import write_out

__all__ = [
    "Options",
    "Unpack",
    "allocated",
    "at_once",
    "checked",
    "made",
    "one_shape",
    "plain_tensor",
    "shape_argument",
    "undisturbed",
]


class Options(TypedDict, total=False):
    """Keyword arguments of the functions that make tensors."""

    dtype: dtype | type | None
    layout: layout | None
    device: DeviceLike | None
    pin_memory: bool
    requires_grad: bool


def undisturbed() -> bool:
    """Whether a new tensor concerns nobody else: no transform, no mode, no other default device."""
    mode = get_mode()
    if mode is not fast.plain and mode is not fast.no_grad:
        return False
    return not running.get() and not chosen_devices()


def plain_tensor(array: Array) -> Tensor:
    """`wrap` of a NumPy array, for who is undisturbed: in inference mode nobody is."""
    tensor = next(blanks)
    tensor._array = array
    tensor._node = None
    tensor._cell = UNWRITTEN
    return tensor


def at_once(
    allocate: Callable[..., Array], sizes: tuple[Any, ...], dtype: NumpyDtype
) -> Tensor | None:
    """The new tensor, where nothing about it is unusual; None: the slow path makes it, or refuses.

    One function, since the call that makes the memory takes no longer than three of ours.
    """
    mode = get_mode()
    if (mode is not fast.plain and mode is not fast.no_grad) or running.get() or chosen_devices():
        return None
    shape = sizes
    # One or two ints, as mostly, are looked at without a loop: 0.03 us of 0.8.
    if not (0 < len(sizes) < 3 and sizes[0].__class__ is int and sizes[-1].__class__ is int):
        if len(sizes) == 1:
            shape = sizes[0]
        if not sizes or shape.__class__ not in _SHAPES:
            return None
        for length in shape:
            if type(length) is not int:  # NumPy refuses negative ones itself
                return None
    if dtype is not F32 and dtype is not F64:
        return None
    try:
        array = allocate(shape, dtype)
    except (MemoryError, OverflowError, ValueError):
        return None
    tensor = next(blanks)
    tensor._array = array
    tensor._node = None
    tensor._cell = UNWRITTEN
    return tensor


_SHAPES = frozenset((tuple, Size))
_LISTS = (tuple, list)  # not `tuple | list`, which would be made anew each time
_NAMES = frozenset(Options.__annotations__)


def checked(op: str, options: Options, fallback: NumpyDtype, out: Any = None) -> NumpyDtype:
    """Check the options; the dtype they ask for, else that of `out`, else `fallback`."""
    if out is None and not options:
        if get_default_device() is CPU:
            return fallback
        # Names of devices that can hold nothing are refused here too, when one is the default.
        place = require_available(as_device(None))
        return fallback if place is CPU else _marked(fallback, place)
    if unknown := options.keys() - _NAMES:
        from difflib import get_close_matches

        wrong, known = sorted(unknown)[0], sorted(_NAMES)
        meant = "".join(f" (did you mean {one}?)" for one in get_close_matches(wrong, known, 1))
        raise TypeError(
            f"{op}() has no argument {wrong!r}{meant}; its options are {', '.join(known)}."
        )
    place = _check_memory(op, options)
    wanted = options.get("dtype")
    result = fallback if wanted is None else as_dtype(wanted).numpy
    if out is not None:
        result = _dtype_of_out(op, out, wanted)
    _check_requires_grad(op, options.get("requires_grad", False), result)
    if result.char == OF_NUMBERS and place is not CPU:
        raise RuntimeError(
            f"{op}(): numbers of type {from_numpy_dtype(result)} are Python objects, which are in "
            f"the memory of the host alone; device '{place}' cannot have them."
        )
    return result if place is CPU or out is not None else _marked(result, place)


def _marked(dtype: NumpyDtype, place: device) -> NumpyDtype:
    """The dtype with a note that asks for an array elsewhere: without data on device "meta"."""
    return numpy.dtype(dtype, metadata={"device": str(place)})


def unmarked(dtype: NumpyDtype) -> tuple[NumpyDtype, device | None]:
    """The dtype itself, and the device of its note."""
    if dtype.metadata is None:
        return dtype, None
    return numpy.dtype(dtype.type), device(dtype.metadata["device"])


def _check_memory(op: str, options: Options) -> device:
    place = require_available(as_device(options.get("device")))
    kind = options.get("layout")
    if kind is not None and kind is not strided:
        if not isinstance(kind, layout):
            raise TypeError(f"{op}(): layout must be a torch.layout, got {type(kind).__name__}.")
        raise NotImplementedError(
            f"{op}(): tensors of layout {kind} cannot be made by it; use torch.strided, and "
            "to_sparse() on the result for a sparse one."
        )
    pin = options.get("pin_memory", False)
    if pin is not None and not isinstance(pin, bool):
        raise TypeError(f"{op}(): pin_memory must be a bool, got {type(pin).__name__}.")
    if pin and holder_of("cuda") is None:
        raise RuntimeError(
            f"{op}(): pin_memory=True needs an accelerator to pin memory for; leave it out."
        )
    if pin and place is not CPU:
        raise RuntimeError(f"{op}(): the host's memory alone can be pinned; leave out device=.")
    return place


def _check_requires_grad(op: str, value: Any, numpy_dtype: NumpyDtype) -> None:
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"{op}(): requires_grad must be a bool, got {type(value).__name__}.")
    if value and numpy_dtype.kind not in "fcVW":
        raise errors.not_differentiable_dtype(from_numpy_dtype(numpy_dtype))


def _dtype_of_out(op: str, out: Any, wanted: Any) -> NumpyDtype:
    if not isinstance(out, Tensor):
        raise errors.not_a_tensor(op, "out", out)
    if wanted is not None and as_dtype(wanted) is not out.dtype:
        raise RuntimeError(
            f"{op}(): dtype={as_dtype(wanted)} does not fit out= of dtype {out.dtype}; give one of "
            "them, or the same for both."
        )
    dtype: NumpyDtype = out._array.dtype
    return dtype


_COUNTED = frozenset(("arange", "range", "linspace", "logspace"))


def made(op: str, array: Array, options: Options, out: Any = None) -> Tensor:
    """The tensor on a new array, or `out` with the array's values."""
    if out is None:
        marked = array.dtype.metadata is not None
        result = stamped(wrap(_elsewhere(array) if marked else array))
    else:
        if out.requires_grad and get_mode().grad:
            raise errors.out_requires_grad(op)
        if op in _COUNTED and isinstance(out, Tensor) and out._array.size == array.size:
            array = array.reshape(out._array.shape)  # as many as there are places: these are filled
        write_out(op, out, array)
        result = out
    if options and options.get("pin_memory"):
        result._array = ports.pinned(result._array)
    # A leaf requires grad as told, whatever the grad mode.
    if options and options.get("requires_grad"):
        result._set_requires_grad(True)
    return result


def _elsewhere(array: Array) -> Array:
    """An array that was made here, on the device that its dtype's note names."""
    dtype, place = unmarked(array.dtype)
    if place is META or place is None:
        from pullback.core.memory import meta

        return meta.like(array)
    return ports.placed(array.view(dtype), place)


def shape_argument(op: str, sizes: tuple[Any, ...], size: Any = None) -> tuple[int, ...]:
    """A shape given as ints, as one sequence, or by the keyword `size`."""
    if len(sizes) == 1 and type(sizes[0]) is int and sizes[0] >= 0 and size is None:
        return sizes
    if size is not None:
        if sizes:
            raise TypeError(f"{op}() got its size twice, by position and by keyword.")
        return one_shape(op, size)
    if len(sizes) == 1 and isinstance(sizes[0], _LISTS):
        sizes = tuple(sizes[0])
    elif not sizes:
        raise TypeError(f"{op}() misses its argument `size`; write {op}(()) for no dimensions.")
    return _checked_shape(op, sizes)


def one_shape(op: str, size: Any) -> tuple[int, ...]:
    """A shape given as one sequence."""
    if not isinstance(size, _LISTS):
        raise TypeError(f"{op}(): size must be a tuple of ints, got {type(size).__name__}.")
    return _checked_shape(op, tuple(size))


def _checked_shape(op: str, shape: tuple[Any, ...]) -> tuple[int, ...]:
    for position, length in enumerate(shape):
        if type(length) is not int:
            # torch looks for bools in the first place only.
            is_bool = isinstance(length, bool) and position == 0
            if is_bool or not hasattr(length, "__index__"):
                raise TypeError(
                    f"{op}(): size must consist of ints, got {type(length).__name__} at position "
                    f"{position}."
                )
            return _checked_shape(op, tuple(operator.index(length) for length in shape))
        if length < 0:
            raise RuntimeError(f"{op}(): size {shape} has a negative length at dim {position}.")
    return shape


def allocated(op: str, allocate: Callable[..., Array], shape: Any, *args: Any) -> Array:
    """Memory from one of the array library's functions; RuntimeError where there is not enough."""
    if args and getattr(args[0], "metadata", None) is not None:
        dtype, place = unmarked(args[0])
        if place is not META:
            return ports.allocated_there(op, allocate, shape, dtype, place, *args[1:])
        from pullback.core.memory import meta

        return meta.of((shape,) if isinstance(shape, int) else shape, dtype)
    try:
        array = allocate(shape, *args)
        return held(array) if NARROW else array
    except (MemoryError, OverflowError, ValueError) as error:
        if errors.is_of_dimensions(error):
            raise errors.too_many_dimensions(op) from None
        raise RuntimeError(f"{op}(): no memory for a tensor of size {shape}.") from None

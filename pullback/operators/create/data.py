"""Tensors from what is already there: Python's numbers and lists, arrays, buffers, tensors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy

from pullback.core import origin
from pullback.core.arrays import Array
from pullback.core.device import DeviceLike
from pullback.core.dtype import (
    OF_NUMBERS,
    NumpyDtype,
    as_dtype,
    bool_,
    default,
    dtype,
    from_numpy_dtype,
    int64,
)
from pullback.core.explain.cause import remember_exit, warn_of_exit
from pullback.core.layout import preserve_format
from pullback.core.mode import settle
from pullback.core.process.warning_once import should_warn
from pullback.core.promotion import promote_dtypes
from pullback.core.tensor import Tensor, wrap
from pullback.core.version import remember_birth
from pullback.operators.arrays.strides import root
from pullback.operators.arrays.values import numbers_as_array
from pullback.operators.create.exchange import (
    check_from_numpy,
    from_dlpack,
    plain,
    warn_if_read_only,
)
from pullback.operators.create.factory import Options, checked, made
from pullback.operators.create.numbers import number_list, numbers_dtype, of_numbers
from pullback.operators.declare import method, quick
from pullback.operators.tensor.convert import cast_array

FOUND_IN = {"torch": "as_tensor asarray frombuffer tensor"}

# Not `str | bytes` where it is asked, which would be made anew for each element.
_TEXT, _LISTS, _OF_NUMPY = (str, bytes), (list, tuple), (numpy.generic, numpy.ndarray)
_NO_SEQUENCE = (Tensor, numpy.generic, str, bytes, dict)


@quick
def tensor(
    data: Any,
    *,
    dtype: dtype | type | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new tensor with a copy of `data`: a number, nested sequences or an array.

    Python floats get the default dtype, ints int64; arrays and NumPy scalars keep their dtype.
    Passing a tensor warns: use `clone().detach()` instead.

    Example:
        >>> import pullback as torch
        >>> torch.tensor([[1, 2], [3, 4]])
        tensor([[1, 2],
                [3, 4]])
        >>> torch.tensor(1.5, requires_grad=True)
        tensor(1.5000, requires_grad=True)
    """
    settle()
    if isinstance(data, Tensor):
        _warn_of_copy("tensor(x)")
        remember_exit(data, "tensor()")
    options = _options("tensor", dtype, device, requires_grad, pin_memory)
    array = copied("tensor", data, None if dtype is None else as_dtype(dtype).numpy)
    wanted = checked("tensor", options, array.dtype)
    result = made("tensor", array if wanted.metadata is None else array.astype(wanted), options)
    remember_birth(
        result, "tensor() of an array" if isinstance(data, numpy.ndarray) else "tensor()"
    )
    return result


def _options(
    op: str, dtype: Any, device: Any, requires_grad: Any, pin_memory: Any = False
) -> Options:
    """The options that are not at their defaults; None, which others take for False, is refused."""
    if requires_grad is None or pin_memory is None:
        name = "requires_grad" if requires_grad is None else "pin_memory"
        raise TypeError(f"{op}(): {name} must be a bool, got NoneType.")
    options: Options = {}
    if requires_grad is not False:
        options["requires_grad"] = requires_grad
    if device is not None:
        options["device"] = device
    if pin_memory is not False:
        options["pin_memory"] = pin_memory
    if dtype is not None and options:
        options["dtype"] = dtype
    return options


def _warn_of_copy(call: str) -> None:
    warnings.warn(
        f"{call} copies a tensor and drops its history. Write `x.clone().detach()` for that, "
        "followed by `.requires_grad_(True)` if the copy is to be a leaf of its own.",
        UserWarning,
        stacklevel=origin.stacklevel(),
    )


@method
def new_tensor(
    self: Tensor,
    data: Any,
    *,
    dtype: dtype | type | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """As `torch.tensor`, in this tensor's dtype unless another is given.

    >>> import pullback as torch
    >>> torch.tensor([1.0]).new_tensor([2, 3])
    tensor([2., 3.])
    """
    settle()
    if isinstance(data, Tensor):
        _warn_of_copy("new_tensor(x)")
    wanted = self._array.dtype if dtype is None else as_dtype(dtype).numpy
    place = self.device if device is None else device
    options = _options("new_tensor", None, place, requires_grad, pin_memory)
    there = checked("new_tensor", options, wanted)
    array = copied("new_tensor", data, wanted)
    return made("new_tensor", array if there.metadata is None else array.astype(there), options)


def copied(op: str, data: Any, wanted: NumpyDtype | None) -> Array:
    """The values of `data` as a new array, in the dtype `wanted` or the one they suggest.

    Of a storage the memory itself: torch gives a tensor on it, and no copy.
    """
    if type(data) is float and wanted is None:
        return numpy.array(data, default.numpy)
    if wanted is not None and wanted.char == OF_NUMBERS:
        return of_numbers(op, data, wanted)
    source = None if type(data) is list else array_of(data)
    if source is not None and (source.dtype.char == OF_NUMBERS or source.dtype.kind == "O"):
        wanted = source.dtype if isinstance(data, Tensor) else wanted or _dtype_of_objects(source)
        return of_numbers(op, source, wanted)
    if source is not None:
        check_from_numpy(op, source)
        return _converted(op, source, source.dtype if wanted is None else wanted)
    if isinstance(data, _TEXT):
        raise TypeError(f"{op}(): text cannot become a tensor, got {type(data).__name__}.")
    if not is_sequence(data):
        return _numbers(op, [data], wanted).reshape(())
    if is_storage(data):
        return memory_of(op, data, wanted)
    flat, shape = _flattened(op, data)
    if isinstance(flat, numpy.ndarray):
        return _converted(op, flat, flat.dtype if wanted is None else wanted)
    return _numbers(op, flat, wanted).reshape(shape)


def _numbers(op: str, flat: list[Any], wanted: NumpyDtype | None) -> Array:
    kinds = set(map(type, flat))
    if wanted is None:
        wanted = _dtype_of(op, flat, kinds)
    if wanted.char == OF_NUMBERS:
        return number_list(flat, wanted)
    if not kinds <= _PYTHON_NUMBERS:
        flat = [_number(op, element) for element in flat]
        kinds = set(map(type, flat))
    return numbers_as_array(op, flat, kinds, wanted)


def _converted(op: str, source: Array, wanted: NumpyDtype) -> Array:
    """A copy in another dtype, in the same order of strides."""
    if source.dtype.kind in "cW" and wanted.kind not in "cbW":
        warnings.warn(
            f"{op}(): converting {source.dtype} to {wanted} drops the imaginary part. Pass "
            "`.real`.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )
    return cast_array(numpy, source, wanted, preserve_format)


def _dtype_of_objects(array: Array) -> NumpyDtype:
    """The dtype of numbers that an array of objects holds."""
    found = numbers_dtype({type(one) for one in array.flat})
    if found is None:
        from_numpy_dtype(array.dtype)  # says what is wrong
    assert found is not None
    return found


def array_of(data: Any) -> Array | None:
    """The array behind a tensor, an array, a NumPy scalar or what can give one; else None."""
    if isinstance(data, Tensor):
        return data._array
    if isinstance(data, numpy.ndarray):
        return plain(data)
    if isinstance(data, numpy.generic):
        return numpy.asarray(data)
    kind = type(data)
    if hasattr(kind, "__array__") or hasattr(kind, "__array_interface__"):
        return numpy.asarray(data)
    if hasattr(kind, "__dlpack__"):
        return from_dlpack(data)._array
    return None


def is_sequence(data: Any) -> bool:
    """Whether `data` counts as a row of elements: lists, ranges, deques, but not sets or dicts."""
    if isinstance(data, _LISTS):
        return True
    if type(data) in _PYTHON_NUMBERS:
        return False
    if isinstance(data, _NO_SEQUENCE):
        return False
    if isinstance(data, numpy.ndarray):
        return data.ndim > 0
    return isinstance(data, Sequence) or (hasattr(data, "__len__") and hasattr(data, "__getitem__"))


def is_storage(data: Any) -> bool:
    """Whether `data` is memory as an object of its own, typed or in bytes."""
    return hasattr(type(data), "untyped")


def memory_of(op: str, storage: Any, wanted: NumpyDtype | None) -> Array:
    """The memory of a storage as an array, in the dtype of its elements or, of bytes, `wanted`."""
    own = getattr(storage, "dtype", None)
    if own is not None and wanted is not None and wanted != own.numpy:
        raise RuntimeError(
            f"{op}(): the storage has elements of {own}, and {from_numpy_dtype(wanted)} was asked "
            "for; use its untyped() form to see the same bytes so, or convert the tensor."
        )
    kind = int64.numpy if wanted is None else wanted
    if own is not None:
        kind = own.numpy
    whole: Array = storage.untyped()._bytes
    return whole[: whole.size - whole.size % kind.itemsize].view(kind)


def _flattened(op: str, data: Any) -> tuple[Any, tuple[int, ...]]:
    """All elements of nested sequences in one list (or one array), and their shape."""
    level = _elements(op, data)
    shape = [len(level)]
    if level and isinstance(level[0], _TEXT):
        raise ValueError(f"{op}(): text cannot become a tensor, got {level[0]!r}.")
    while level and is_sequence(level[0]):
        if all(type(part) is numpy.ndarray for part in level):
            return _stacked(op, level, shape)
        length = len(level[0])
        for part in level:
            if not is_sequence(part):
                raise TypeError(
                    f"{op}(): at dim {len(shape)} there are sequences and {type(part).__name__}; "
                    "all must have the same depth."
                )
            # As torch, which does not look into rows that follow an empty one.
            if len(part) != length and length:
                raise ValueError(
                    f"{op}(): the sequences at dim {len(shape)} have lengths {length} and "
                    f"{len(part)}; all must have the same length."
                )
        shape.append(length)
        if length == 0:
            return [], tuple(shape)
        if not _PLAIN_ROWS.issuperset(map(type, level)):
            level = [_elements(op, part) for part in level]
        level = list(chain.from_iterable(level))
    return level, tuple(shape)


_PLAIN_ROWS = frozenset((list, tuple))


def _elements(op: str, data: Any) -> list[Any]:
    """The elements of a sequence; an object of the user's may have another length than it says."""
    if type(data) in _PLAIN_ROWS:
        return list(data)
    try:
        found = list(data)
    except LookupError as error:
        raise ValueError(
            f"{op}(): an object of type {type(data).__name__} has a length, but not all of its "
            "elements can be had."
        ) from error
    if len(found) != len(data):
        raise ValueError(
            f"{op}(): an object of type {type(data).__name__} says that it has {len(data)} "
            f"elements and gives {len(found)}."
        )
    return found


def _stacked(op: str, arrays: list[Array], shape: list[int]) -> tuple[Array, tuple[int, ...]]:
    lengths = {array.shape for array in arrays}
    if len(lengths) > 1:
        raise ValueError(
            f"{op}(): the arrays at dim {len(shape)} have shapes {sorted(lengths)}; all must have "
            "the same shape."
        )
    for array in arrays:
        check_from_numpy(op, array)
    whole = (*shape, *arrays[0].shape)
    wanted = arrays[0].dtype
    for array in arrays:
        wanted = promote_dtypes(wanted, array.dtype)
    return numpy.stack([array.astype(wanted) for array in arrays]).reshape(whole), whole


_PYTHON_NUMBERS = frozenset((bool, int, float, complex))


def _dtype_of(op: str, flat: list[Any], kinds: set[type]) -> NumpyDtype:
    """The dtype that elements (of these types) suggest, all of the same rank."""
    if not kinds:
        return default.numpy
    if kinds <= _PYTHON_NUMBERS:
        if complex in kinds:
            return default.complex_numpy
        if float in kinds:
            return default.numpy
        return int64.numpy if int in kinds else bool_.numpy
    if wanted := numbers_dtype(kinds):
        return wanted
    found: NumpyDtype | None = None
    for element in flat:
        own = _dtype_of_one(op, element)
        found = own if found is None else promote_dtypes(found, own)
    assert found is not None
    return found


def _dtype_of_one(op: str, element: Any) -> NumpyDtype:
    if isinstance(element, Tensor):
        dtype: NumpyDtype = element._array.dtype
        return dtype
    if isinstance(element, _OF_NUMPY):
        check_from_numpy(op, numpy.asarray(element))
        return element.dtype
    if isinstance(element, _TEXT):
        raise TypeError(f"{op}(): text cannot become a tensor, got {element!r}.")
    if isinstance(element, int):
        return bool_.numpy if isinstance(element, bool) else int64.numpy
    if isinstance(element, float):
        return default.numpy
    if isinstance(element, complex):
        return default.complex_numpy
    if is_sequence(element):
        raise TypeError(f"{op}(): there are numbers and sequences at the same depth, {element!r}.")
    raise RuntimeError(
        f"{op}(): no dtype follows from {type(element).__name__}. Pass numbers, sequences of "
        "numbers or arrays, or give a dtype."
    )


def _number(op: str, element: Any) -> Any:
    if isinstance(element, Tensor) and element._node is not None:
        warn_of_exit(element, f"{op}()")
    element = getattr(element, "_array", element)
    if isinstance(element, _OF_NUMPY):
        if element.size != 1:
            raise ValueError(
                f"{op}(): a tensor among the elements must have one element, this one has shape "
                f"{element.shape}. Use torch.stack for larger ones."
            )
        return element.item()
    return element


def as_tensor(
    data: Any, *, dtype: dtype | type | None = None, device: DeviceLike | None = None
) -> Tensor:
    """Convert `data` to a tensor, without a copy if possible: arrays share their memory.

    Example:
        >>> import pullback as torch
        >>> x = torch.ones(2)
        >>> torch.as_tensor(x) is x
        True
    """
    if isinstance(data, Tensor):
        if dtype is None and device is None:
            return data
        return data.to(device=device, dtype=dtype)
    settle()
    marked = checked("as_tensor", {"dtype": dtype, "device": device}, default.numpy).metadata
    wanted = None if dtype is None else as_dtype(dtype).numpy
    if marked is not None:
        return tensor(data, dtype=dtype, device=device)
    if isinstance(data, numpy.ndarray) and data.dtype.kind != "O":
        check_from_numpy("as_tensor", data)
        if wanted is None or wanted == data.dtype:
            warn_if_read_only("as_tensor", data)
            shared = wrap(plain(data))
            remember_birth(shared, "as_tensor() of an array", root(shared._array))
            return shared
    result = wrap(copied("as_tensor", data, wanted))
    remember_birth(
        result, "tensor() of an array" if isinstance(data, numpy.ndarray) else "as_tensor()"
    )
    return result


_UNSPECIFIED: Any = object()


def asarray(
    obj: Any,
    *,
    dtype: dtype | type | None = None,
    device: DeviceLike | None = None,
    copy: bool | None = None,
    requires_grad: bool = _UNSPECIFIED,
) -> Tensor:
    """`obj` as a tensor: arrays, buffers and DLPack share their memory unless `copy` is True.

    `copy=False` refuses with ValueError what cannot be shared. Without `requires_grad`, a tensor
    that comes back uncopied keeps its own.

    Example:
        >>> import pullback as torch
        >>> torch.asarray([1.0, 2.0], requires_grad=True)
        tensor([1., 2.], requires_grad=True)
    """
    settle()
    wanted = None if dtype is None else as_dtype(dtype).numpy
    told = False if requires_grad is _UNSPECIFIED or requires_grad is None else requires_grad
    checked("asarray", _options("asarray", None, device, told), wanted or default.numpy)
    if isinstance(obj, Tensor):
        return _tensor_as_array(obj, wanted, copy, requires_grad)
    shared = _shared(obj, wanted, copy)
    if shared is None:
        if copy is False:
            raise ValueError(
                f"asarray(): {type(obj).__name__} has no memory to share; leave out copy=False."
            )
        array = copied("asarray", obj, wanted)
    elif wanted is not None and wanted != shared.dtype:
        _check_may_copy(copy, shared.dtype, wanted)
        array = _converted("asarray", shared, wanted)
    else:
        array = shared.copy() if copy else shared
    if array is shared:
        warn_if_read_only("asarray", array)
    result = made("asarray", array, {"requires_grad": told})
    if array is shared and not is_storage(obj):
        remember_birth(result, "asarray()", root(result._array))
    return result


def _shared(obj: Any, wanted: NumpyDtype | None, copy: bool | None) -> Array | None:
    """The memory of an array or buffer; None for what has none."""
    if isinstance(obj, numpy.generic):
        if copy is False:
            raise RuntimeError(
                "asarray(): a NumPy scalar has no memory to share; leave out copy=False."
            )
        return numpy.array(obj)
    if is_storage(obj):
        return memory_of("asarray", obj, wanted)
    if type(obj).__name__ == "PyCapsule":
        return from_dlpack(obj)._array
    array = array_of(obj)
    if array is not None:
        check_from_numpy("asarray", array)
        return array
    try:
        memoryview(obj)
    except TypeError:
        return None
    return numpy.frombuffer(obj, default.numpy if wanted is None else wanted)


def _check_may_copy(copy: bool | None, have: NumpyDtype, wanted: NumpyDtype) -> None:
    if copy is False:
        raise ValueError(
            f"asarray(): {have} cannot become {wanted} without a copy; leave out copy=False."
        )


def _tensor_as_array(
    obj: Tensor, wanted: NumpyDtype | None, copy: bool | None, requires_grad: Any
) -> Tensor:
    have = obj._array.dtype
    if requires_grad is _UNSPECIFIED and obj.requires_grad and should_warn("asarray"):
        warnings.warn(
            "asarray(): the tensor requires grad, and so does what comes back, as "
            "requires_grad is not given. Pass requires_grad=False to leave its history out.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )
    if copy or (wanted is not None and wanted != have):
        _check_may_copy(copy, have, have if wanted is None else wanted)
        history: Any = obj.detach() if requires_grad is False else obj
        result: Tensor = history.to(dtype=_ours(wanted), copy=True)
        return result.requires_grad_() if requires_grad is True else result
    if requires_grad is _UNSPECIFIED or requires_grad is None:
        return obj
    if requires_grad:
        return obj.requires_grad_()
    return obj.detach() if obj.requires_grad else obj


def _ours(wanted: NumpyDtype | None) -> Any:
    return None if wanted is None else from_numpy_dtype(wanted)


def frombuffer(
    buffer: Any,
    *,
    dtype: dtype | type,
    count: int = -1,
    offset: int = 0,
    requires_grad: bool = False,
) -> Tensor:
    """A 1-d tensor on the memory of an object with the buffer protocol, from byte `offset` on.

    Example:
        >>> import pullback as torch
        >>> torch.frombuffer(bytearray(b"abc"), dtype=torch.uint8)
        tensor([97, 98, 99], dtype=torch.uint8)
    """
    wanted = as_dtype(dtype).numpy
    checked("frombuffer", _options("frombuffer", None, None, requires_grad), wanted)
    try:
        length = memoryview(buffer).nbytes
    except TypeError:
        raise ValueError(
            f"frombuffer(): {type(buffer).__name__} does not have the buffer protocol."
        ) from None
    _check_buffer(length, wanted.itemsize, count, offset)
    array = numpy.frombuffer(buffer, wanted, -1 if count < 0 else count, offset)
    warn_if_read_only("frombuffer", array)
    result = made("frombuffer", array, {"requires_grad": requires_grad})
    remember_birth(result, "frombuffer()", root(result._array))
    return result


def _check_buffer(length: int, itemsize: int, count: int, offset: int) -> None:
    if length == 0 or count == 0:
        raise ValueError(
            f"frombuffer(): a buffer of {length} bytes and count={count} give no elements; neither "
            "may be 0."
        )
    if not 0 <= offset < length:
        raise ValueError(f"frombuffer(): offset={offset} is outside a buffer of {length} bytes.")
    if count < 0 and (length - offset) % itemsize:
        raise ValueError(
            f"frombuffer(): the {length - offset} bytes after the offset are no multiple of the "
            f"element size {itemsize}; give a count, or another offset."
        )
    if count > 0 and offset + count * itemsize > length:
        raise ValueError(
            f"frombuffer(): {count} elements of {itemsize} bytes after offset {offset} do not fit "
            f"a buffer of {length} bytes."
        )

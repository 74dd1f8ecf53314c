"""Tensors to and from other array libraries: NumPy's protocols, and DLPack."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any
from weakref import ref

import numpy

from pullback.core import errors, origin
from pullback.core.arrays import F32, F64, LIBRARIES, Array, as_array
from pullback.core.device import CPU, META, as_device, require_available
from pullback.core.dtype import NARROW, from_numpy_dtype
from pullback.core.explain.birth import Lent, make_birth
from pullback.core.memory.borrowed import lend
from pullback.core.memory.hollow import Hollow
from pullback.core.mode import fast, get_mode, settle
from pullback.core.origin import getframe, internal, last_user, user_frame
from pullback.core.overriding import answers
from pullback.core.ports import ports
from pullback.core.tensor import Tensor, blanks, wrap
from pullback.core.version import remember_birth
from pullback.operators.arrays.strides import root
from pullback.operators.create.narrow_dlpack import exported, imported
from pullback.operators.declare import METHODS, method, quick
from pullback.operators.running.inplace import write_out

FOUND_IN = {"torch": "from_dlpack from_numpy"}


# NumPy ------------------------------------------------------------------------------------------


def _numpy(self: Tensor, *, force: bool = False) -> Array:
    """The values as a NumPy array that shares memory: a write to one shows in the other.

    RuntimeError for a tensor that requires grad, since the array would lose its history;
    `force=True` detaches it. For bfloat16, which torch rejects, the array has ml_dtypes' bfloat16,
    and likewise for other dtypes that NumPy lacks.

    Example:
        >>> import pullback as torch
        >>> torch.ones(2).numpy()
        array([1., 1.], dtype=float32)
    """
    if answers(self):
        raise errors.no_array("numpy()", type(self))
    if not force:
        _check_leaves_no_history(self, "numpy()")
    if self.device is META:
        raise errors.no_data("numpy()", TypeError)
    if type(self._array) in LIBRARIES:
        if force:
            return ports.placed(self._array, CPU)
        raise errors.not_on_host("numpy()", self.device)
    lend(root(self._array))
    if type(self._array) is not numpy.ndarray and self._array.dtype in NARROW:
        return self._array.view(numpy.ndarray)
    return self._array


def _check_leaves_no_history(tensor: Tensor, how: str) -> None:
    # What detach_() leaves inside a transform has a history for outer derivatives alone.
    detached = getattr(tensor._node, "_detaches", False)
    if tensor.requires_grad and get_mode().grad and not detached:
        raise RuntimeError(
            f"{how}: this tensor requires grad, and an array would not carry its history. Use "
            "`tensor.detach().numpy()`, or torch.no_grad() around it."
        )


def _array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Array:
    if isinstance(self._array, Hollow):
        raise errors.no_array("conversion to a NumPy array", type(self))
    _check_leaves_no_history(self, "conversion to a NumPy array")
    if self.device is META:
        raise errors.no_data("conversion to a NumPy array", TypeError)
    if type(self._array) in LIBRARIES:
        raise errors.not_on_host("conversion to a NumPy array", self.device)
    array = numpy.array(self._array, dtype, copy=copy)
    if array is self._array:
        lend(root(array))
    return array


def check_from_numpy(op: str, array: Array) -> None:
    """Refuse arrays that torch's tensors cannot be: odd dtypes, byte orders and strides."""
    from_numpy_dtype(array.dtype)
    if array.size > 1 and min(array.strides, default=0) < 0:
        raise ValueError(
            f"{op}: the array has negative strides {array.strides}, which tensors cannot have. "
            "Pass `array.copy()`."
        )
    if any(stride % array.itemsize for stride in array.strides):
        raise ValueError(
            f"{op}: the strides {array.strides} of the array are not multiples of its element size "
            f"{array.itemsize}. Pass `array.copy()`."
        )


_USUAL = "?Bbhilqdf"  # dtypes that need no look, where the bytes are in the machine's order


@quick
def from_numpy(ndarray: Array, /) -> Tensor:
    """A tensor that shares the memory of a NumPy array: a write to one shows in the other.

    A read-only array gives a tensor that refuses writes too, and a warning.

    Example:
        >>> import numpy as np
        >>> import pullback as torch
        >>> array = np.zeros(2)
        >>> x = torch.from_numpy(array)
        >>> array[0] = 7
        >>> x
        tensor([7., 0.], dtype=torch.float64)
    """
    # Kernels written in NumPy end here, so what they mostly give takes a fast path.
    if (
        ndarray.__class__ is numpy.ndarray
        and (
            (dtype := ndarray.dtype) is F32
            or dtype is F64
            or (dtype.char in _USUAL and dtype.isnative)
        )
        and ndarray.flags.carray  # row-major, aligned, writeable
    ):
        array = ndarray.view()
        owner: Any = array.base
        frame: Any = getframe(1)
        code = frame.f_code
        if code is not last_user.code and internal[code.co_filename]:
            frame = user_frame(frame)
        if get_mode() is fast.plain and owner.base is None and frame is not None:
            result = next(blanks)
            result._array = array
            result._node = None
            note = ("from_numpy()", frame.f_code, frame.f_lasti, ref(owner))
            result._cell = (0, make_birth(Lent, note))
            return result
    elif not isinstance(ndarray, numpy.ndarray):
        raise TypeError(f"from_numpy(): expected a numpy.ndarray, got {type(ndarray).__name__}.")
    else:
        check_from_numpy("from_numpy", ndarray)
        warn_if_read_only("from_numpy", ndarray)
    result = wrap(plain(ndarray))
    remember_birth(result, "from_numpy()", root(result._array))
    return result


def plain(array: Array) -> Array:
    """An ndarray of our own on the same memory: theirs may be a subclass, or change its shape.

    Those that stand for values which are elsewhere, or not there yet, stay what they are.
    """
    return array if hasattr(array, "_device") else array.view(numpy.ndarray)


def warn_if_read_only(op: str, array: Array) -> None:
    """Tell the user now that in-place operators will fail."""
    if not getattr(array.flags, "writeable", True):
        warnings.warn(
            f"{op}: the memory is read-only, so in-place operators on the tensor will fail. Copy "
            "the array first if you want to write.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )


# NumPy's ufuncs whose operator has another name here.
_OTHER_NAMES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "conjugate": "conj_physical",
    "divide": "div",
    "equal": "eq",
    "greater": "gt",
    "greater_equal": "ge",
    "invert": "bitwise_not",
    "left_shift": "bitwise_left_shift",
    "less": "lt",
    "less_equal": "le",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "power": "pow",
    "right_shift": "bitwise_right_shift",
    "rint": "round",
    "subtract": "sub",
}
# Same name, other meaning or result.
_NOT_THE_SAME = {"modf", "frexp", "divmod", "spacing", "cbrt", "fabs", "isnat"}


def _array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """What NumPy calls for `ndarray * tensor` and `numpy.sin(tensor)`.

    An operator of ours, with gradients, if there is one and no NumPy option is given; else NumPy's
    function on the arrays.
    """
    operator = getattr(Tensor, _OTHER_NAMES.get(ufunc.__name__, ufunc.__name__), None)
    if method == "__call__" and not options and operator and ufunc.__name__ not in _NOT_THE_SAME:
        return operator(*(operand(value) for value in inputs))
    return _on_arrays(ufunc, method, inputs, options)


def operand(value: Any) -> Any:
    """What a sign, or a function of NumPy's, is given: arrays count as tensors there."""
    if isinstance(value, numpy.generic):
        return value.item()
    if isinstance(value, list | tuple):
        value = numpy.asarray(value)
    if isinstance(value, numpy.ndarray):
        from_numpy_dtype(value.dtype)
        return wrap(plain(value))
    return value


def _on_arrays(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    settle()
    name = f"numpy.{ufunc.__name__}"
    targets = options.pop("out", ())
    for value in (*inputs, *targets, *options.values()):
        if isinstance(value, Tensor):
            _check_leaves_no_history(value, name)
    arrays = [getattr(value, "_array", value) for value in inputs]
    options = {key: getattr(value, "_array", value) for key, value in options.items()}
    if any(isinstance(target, Tensor) for target in targets):
        results = getattr(ufunc, method)(*arrays, **options)
        for target, result in zip(targets, _as_tuple(results), strict=True):
            write_out(name, target, as_array(result))
        return targets[0] if len(targets) == 1 else targets
    if targets:
        return getattr(ufunc, method)(*arrays, out=targets, **options)
    results = getattr(ufunc, method)(*arrays, **options)
    if isinstance(results, tuple):
        return tuple(wrap(as_array(result)) for result in results)
    return None if results is None else wrap(as_array(results))


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _array_function(
    self: Tensor, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What NumPy calls for `numpy.concatenate([tensor, tensor])`; loads what answers it."""
    answered = import_module("pullback._array_function").answered
    return answered(function, types, args, kwargs)


# Array API --------------------------------------------------------------------------------------


def _array_namespace(self: Tensor, /, *, api_version: str | None = None) -> Any:
    """The functions of the array API standard for tensors: `pullback.array_api`.

    ValueError for a version of the standard that it does not follow.

    Example:
        >>> import pullback as torch
        >>> xp = torch.ones(2).__array_namespace__()
        >>> xp.concat([torch.ones(2), torch.zeros(1)])
        tensor([1., 1., 0.])
    """
    namespace = import_module("pullback.array_api")
    if api_version not in (None, *namespace._VERSIONS):
        raise ValueError(
            f"__array_namespace__: no version {api_version!r} of the array API standard is "
            f"followed here; there are {', '.join(namespace._VERSIONS)}."
        )
    return namespace


@method
def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The tensor on another device, or itself where it is there: the array API's `to(device)`.

    Example:
        >>> import pullback as torch
        >>> torch.ones(2).to_device("cpu").device
        device(type='cpu')
    """
    if stream is not None:
        raise ValueError(
            "to_device: streams are chosen by torch.cuda.stream() around the call, not by "
            f"`stream`; got {stream!r}."
        )
    return self.to(device)


# DLPack -----------------------------------------------------------------------------------------


def _dlpack(
    self: Tensor,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """The tensor's memory as a DLPack capsule, for another library's `from_dlpack`."""
    _check_strided(self)
    if isinstance(self._array, Hollow):
        raise errors.no_array("__dlpack__", type(self))
    if self.requires_grad:
        raise BufferError(
            "__dlpack__: this tensor requires grad, and a capsule does not carry its history. Use "
            "`tensor.detach()`."
        )
    if stream is not None and not isinstance(stream, int):
        raise TypeError(f"__dlpack__: stream must be an int or None, got {type(stream).__name__}.")
    on_host = self.device.type == "cpu"
    if stream == -1 and on_host:  # "no synchronisation", which the host needs none of
        stream = None
    if stream is not None and on_host:
        raise AssertionError(f"__dlpack__: the host has no streams, got stream={stream}.")
    options = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
    capsule = exported(self._array, self.dtype._name, options) if on_host else None
    return self._array.__dlpack__(stream=stream, **options) if capsule is None else capsule


def _check_strided(self: Tensor) -> None:
    if self._layout is not None:
        raise BufferError(
            f"__dlpack__: a tensor of layout {self.layout} is not one block of memory; exchange "
            "its parts, or what to_dense() gives."
        )


def _dlpack_device(self: Tensor) -> tuple[int, int]:
    """Device type and number as DLPack counts them."""
    _check_strided(self)
    place: tuple[int, int] = self._array.__dlpack_device__()
    return place


class _Capsule:
    """A capsule as the object that NumPy wants to take it from."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self.capsule = capsule
        self.device = device

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class _Writable:
    """The memory of an array, to be made into an array that may write."""

    def __init__(self, array: Array) -> None:
        self.array = array
        address, _read_only = array.__array_interface__["data"]
        self.__array_interface__ = array.__array_interface__ | {"data": (address, False)}


_CPU_DEVICE = (1, 0)
_CUDA_DEVICES = (2, 13)  # its own memory, and memory that it shares with the host


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of another library's array: anything with `__dlpack__`, or a capsule.

    Example:
        >>> import numpy as np
        >>> import pullback as torch
        >>> torch.from_dlpack(np.arange(3))
        tensor([0, 1, 2])
    """
    if device is not None:
        require_available(as_device(device))
    if isinstance(ext_tensor, Tensor) and ext_tensor.requires_grad:
        _dlpack(ext_tensor)  # refuses
    capsule, place = _capsule_of(ext_tensor)
    if place[0] in _CUDA_DEVICES:
        array = ports.taken_there(capsule, place)
        return wrap(array.copy() if copy else array)
    # The first version of the protocol cannot say "read-only", so NumPy assumes it.
    unversioned = "versioned" not in repr(capsule)
    restored = imported(capsule)
    array = numpy.from_dlpack(_Capsule(capsule, place))
    if not array.flags.writeable and unversioned:
        array = numpy.asarray(_Writable(array))
    array = array if restored is None else restored(array)
    check_from_numpy("from_dlpack", array)
    if copy:
        return wrap(array.copy())
    warn_if_read_only("from_dlpack", array)
    result = wrap(array)
    remember_birth(result, "from_dlpack()", root(array))
    return result


def _capsule_of(source: Any) -> tuple[Any, tuple[int, int]]:
    if not hasattr(source, "__dlpack__"):
        if type(source).__name__ != "PyCapsule":
            raise RuntimeError(
                "from_dlpack(): expected a DLPack capsule or an object with __dlpack__, got "
                f"{type(source).__name__}."
            )
        return source, _CPU_DEVICE
    place = tuple(source.__dlpack_device__())
    try:
        return source.__dlpack__(max_version=(1, 0)), place
    except TypeError:  # a library from before the argument
        return source.__dlpack__(), place


# By hand, since in this module the name `numpy` is taken.
_numpy.__name__ = _numpy.__qualname__ = "numpy"
METHODS["numpy"] = _numpy


def _cuda_array_interface(self: Tensor) -> dict[str, Any]:
    """The memory of a tensor on a CUDA device, as other libraries take it."""
    if self.device.type != "cuda":
        raise AttributeError(
            f"__cuda_array_interface__: this tensor is on {self.device}, not on a CUDA device."
        )
    if self.requires_grad:
        raise RuntimeError(
            "__cuda_array_interface__: this tensor requires grad, and its memory would be used "
            "without history. Use `tensor.detach()`."
        )
    found: dict[str, Any] = self._array.__cuda_array_interface__
    return found


PROPERTIES = {"__cuda_array_interface__": property(_cuda_array_interface)}

# Special methods, attached by methods.py.
DUNDERS: dict[str, Callable[..., Any]] = {
    "__array__": _array,
    "__array_function__": _array_function,
    "__array_namespace__": _array_namespace,
    "__array_ufunc__": _array_ufunc,
    "__dlpack__": _dlpack,
    "__dlpack_device__": _dlpack_device,
}

"""`save` and `load`: tensors and containers of them in files, in torch's own format.

A file is a ZIP archive: `data.pkl` holds the structure, `data/0`, `data/1` ... the memory of the
tensors, each once however many views share it. The pickle names torch's functions, not ours, so
torch reads our files and we read torch's, without either importing the other.
"""

from __future__ import annotations

import codecs
import importlib
import io
import os
import pickle
import sys
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy

from pullback.core.device import as_device, device, require_available
from pullback.core.dtype import DTYPES, NumpyDtype, dtype, named_dtype
from pullback.core.layout import layout, memory_format, named_layout
from pullback.core.size import Size
from pullback.core.tensor import Tensor
from pullback.operators.arrays.strides import address, root
from pullback.operators.tensor.convert import TYPE_NAMES
from pullback.operators.tensor.pickling import (
    attributes_of,
    flat_memory,
    in_memory_order,
    rebuilt,
    warn_of_hooks,
)

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "load",
    "safe_globals",
    "save",
]

_STORAGE_DTYPES = {f"{name}Storage": of for of, name in TYPE_NAMES.items()}
# Torch has no typed storage for these; it writes bytes, and the dtype beside them.
_UNTYPED = ("uint16", "uint32", "uint64")
_FOLDER = "archive"

Location = str | os.PathLike[str] | IO[bytes]


# Saving -----------------------------------------------------------------------------------------


class _Global:
    """A function or class of torch, by name; what a pickle says without importing it."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self, *args: Any) -> Any:
        raise TypeError(f"{self.module}.{self.name} is only a name here.")


_REBUILD_TENSOR = _Global("torch._utils", "_rebuild_tensor_v2")
_REBUILD_UNTYPED = _Global("torch._utils", "_rebuild_tensor_v3")
_REBUILD_PARAMETER = _Global("torch._utils", "_rebuild_parameter")
_REBUILD_WITH_STATE = _Global("torch._tensor", "_rebuild_from_type_v2")
_TENSOR = _Global("torch", "Tensor")
_NAMES: dict[tuple[str, str], _Global] = {}


def _named(module: str, name: str) -> _Global:
    return _NAMES.setdefault((module, name), _Global(module, name))


class _Storage:
    """The memory of one or more tensors, as the pickle refers to it."""

    def __init__(self, key: str, flat: Any, dtype: str) -> None:
        self.key = key
        self.flat = flat
        self.dtype = dtype


# The one in Python, since the one in C writes only names that it could import.
_PythonPickler: Any = pickle._Pickler


class _Pickler(_PythonPickler):  # type: ignore[misc]  # a class that typeshed knows half of
    """Writes tensors as torch does; collects their memory."""

    dispatch = _PythonPickler.dispatch.copy()

    def __init__(self, file: IO[bytes], protocol: int) -> None:
        super().__init__(file, protocol)
        self.storages: dict[tuple[int, NumpyDtype], _Storage] = {}
        self._owners: list[Any] = []  # alive while their ids are keys

    def _save_name(self, obj: _Global | dtype) -> None:
        name = f"torch\n{obj._name}" if isinstance(obj, dtype) else f"{obj.module}\n{obj.name}"
        self.write(pickle.GLOBAL + f"{name}\n".encode())
        self.memoize(obj)

    dispatch[_Global] = dispatch[dtype] = _save_name

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) is not _Storage:
            return None
        untyped = obj.dtype in _UNTYPED
        kind = (
            _named("torch.storage", "UntypedStorage")
            if untyped
            else _named("torch", f"{TYPE_NAMES[obj.dtype]}Storage")
        )
        count = obj.flat.nbytes if untyped else obj.flat.size
        return ("storage", kind, obj.key, "cpu", count)

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind is Tensor:
            return self._reduced(obj)
        if isinstance(obj, Tensor) and kind.__name__ == "Parameter":
            inner: Any = obj.detach()
            return _REBUILD_PARAMETER, (inner, obj.requires_grad, OrderedDict())
        if kind is Size:
            return _named("torch", "Size"), (tuple(obj),)
        if kind is device:
            place = (obj.type,) if obj.index is None else (obj.type, obj.index)
            return _named("torch", "device"), place
        if kind is layout or kind is memory_format:
            return _named("torch.serialization", "_get_layout"), (repr(obj),)
        return NotImplemented

    def _reduced(self, tensor: Tensor) -> Any:
        warn_of_hooks(tensor)
        array = tensor._array
        storage, offset, strides = self._stored(array)
        rest: tuple[Any, ...] = (
            offset,
            tuple(array.shape),
            strides,
            tensor.requires_grad,
            OrderedDict(),
        )
        build = _REBUILD_TENSOR
        if storage.dtype in _UNTYPED:
            build, rest = _REBUILD_UNTYPED, (*rest, tensor.dtype)
        args = (storage, *rest)
        attributes = attributes_of(tensor)
        if not attributes:
            return build, args
        return _REBUILD_WITH_STATE, (build, _TENSOR, args, attributes)

    def _stored(self, array: Any) -> tuple[_Storage, int, tuple[int, ...]]:
        """The storage behind an array, and where in it the array is, in elements."""
        owner = root(array)
        whole = in_memory_order(owner)
        if whole is None or owner.nbytes % array.itemsize:
            flat, strides = flat_memory(array)
            return self._storage(array, flat), 0, strides
        flat = whole.reshape(-1).view(array.dtype)
        offset = (address(array) - address(owner)) // array.itemsize if array.size else 0
        strides = tuple(stride // array.itemsize for stride in array.strides)
        return self._storage(owner, flat), offset, strides

    def _storage(self, owner: Any, flat: Any) -> _Storage:
        place = id(owner), flat.dtype
        if place not in self.storages:
            self._owners.append(owner)
            name = next(name for name, known in DTYPES.items() if known.numpy == flat.dtype)
            self.storages[place] = _Storage(str(len(self.storages)), flat, name)
        return self.storages[place]


def save(
    obj: Any,
    f: Location,
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object to a file (a path, or an open file for bytes) that `load` and torch can read.

    Tensors that share memory still do so when loaded. Hooks, history and `.grad` are not saved.

    Example:
        >>> import io
        >>> import pullback as torch
        >>> file = io.BytesIO()
        >>> torch.save({"weight": torch.ones(2)}, file)
        >>> _ = file.seek(0)
        >>> torch.load(file)
        {'weight': tensor([1., 1.])}
    """
    if pickle_module is not pickle:
        raise ValueError("save(): only Python's own pickle module can be used.")
    if not _use_new_zipfile_serialization:
        raise ValueError("save(): the format from before torch 1.6 cannot be written.")
    structure = io.BytesIO()
    pickler = _Pickler(structure, pickle_protocol)
    pickler.dump(obj)
    with _opened(f, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{_FOLDER}/data.pkl", structure.getvalue())
        archive.writestr(f"{_FOLDER}/byteorder", sys.byteorder)
        for storage in pickler.storages.values():
            flat = numpy.ascontiguousarray(storage.flat)
            archive.writestr(f"{_FOLDER}/data/{storage.key}", flat.view(numpy.uint8).data)
        archive.writestr(f"{_FOLDER}/version", "3\n")


@contextmanager
def _opened(f: Any, mode: str) -> Iterator[IO[bytes]]:
    if isinstance(f, str | os.PathLike):
        with open(f, mode) as file:
            yield file
        return
    needed = "write" if mode == "wb" else "read"
    if not hasattr(f, needed):
        raise AttributeError(f"expected a path or a file with `{needed}`, got {type(f).__name__}.")
    yield f


# Loading ----------------------------------------------------------------------------------------


class _StorageType:
    """Stands for `torch.FloatStorage` and its like."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def numpy_dtype(self) -> NumpyDtype:
        """How its bytes are read; those of an untyped one as they are."""
        known = _STORAGE_DTYPES.get(self.name)
        return numpy.dtype(numpy.uint8) if known is None else named_dtype(known).numpy


def _rebuild_tensor(
    storage: Any, offset: int, size: Any, stride: Any, requires_grad: bool, hooks: Any, *rest: Any
) -> Tensor:
    if rest and isinstance(rest[0], dtype):
        storage = storage.view(rest[0].numpy)
    return rebuilt(Tensor, storage[offset:], tuple(size), tuple(stride), requires_grad, {})


def _rebuild_parameter(data: Tensor, requires_grad: bool, hooks: Any, *state: Any) -> Any:
    parameter: Any = importlib.import_module("pullback.nn").Parameter
    return parameter(data, requires_grad)


def _rebuild_with_state(build: Any, kind: Any, args: Any, state: Any) -> Any:
    result = build(*args)
    attributes = state[0] if isinstance(state, tuple) else state
    vars(result).update(attributes or {})
    return result


def _get_layout(name: str) -> Any:
    return named_layout(name.removeprefix("torch."))


_TORCH_GLOBALS: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v3"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _rebuild_parameter,
    ("torch._tensor", "_rebuild_from_type_v2"): _rebuild_with_state,
    ("torch", "Tensor"): Tensor,
    ("torch", "Size"): Size,
    ("torch", "device"): device,
    ("torch.serialization", "_get_layout"): _get_layout,
    ("torch.storage", "UntypedStorage"): _StorageType("UntypedStorage"),
}
# What may be called from a file that nobody vouches for: containers, numbers, and the above.
_SAFE: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): Counter,
    ("builtins", "set"): set,
    ("__builtin__", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "complex"): complex,
    ("__builtin__", "complex"): complex,
    ("builtins", "bytearray"): bytearray,
    ("__builtin__", "bytearray"): bytearray,
    ("builtins", "slice"): slice,
    ("builtins", "range"): range,
    ("_codecs", "encode"): codecs.encode,
}
_added: dict[tuple[str, str], Any] = {}


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Allow classes and functions in files that are loaded with `weights_only=True`."""
    for one in safe_globals:
        target, name = one if isinstance(one, tuple) else (one, None)
        module, _, qualified = (name or "").rpartition(".")
        place = (module, qualified) if name else (target.__module__, target.__qualname__)
        _added[place] = target


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` has added."""
    return list(_added.values())


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` has added."""
    _added.clear()


@contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """Allow classes and functions within a block only."""
    before = dict(_added)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _added.clear()
        _added.update(before)


class _Unpickler(pickle.Unpickler):
    """Reads torch's names as ours; refuses others unless told to trust the file."""

    def __init__(
        self, file: IO[bytes], storage: Callable[[Any], Any], *, weights_only: bool, **options: Any
    ) -> None:
        super().__init__(file, **options)
        self.storage = storage
        self.weights_only = weights_only

    def persistent_load(self, pid: Any) -> Any:
        return self.storage(pid)

    def find_class(self, module: str, name: str) -> Any:
        for table in (_TORCH_GLOBALS, _SAFE, _added):
            if (module, name) in table:
                return table[module, name]
        if module == "torch" and name in _STORAGE_DTYPES:
            return _StorageType(name)
        if module == "torch" and (name in DTYPES or name == "bfloat16"):
            return named_dtype(name)
        if self.weights_only:
            raise pickle.UnpicklingError(
                f"The file wants to use {module}.{name}, which weights_only=True does not allow. "
                "If you trust its source, pass weights_only=False, or allow it with "
                "torch.serialization.add_safe_globals."
            )
        if module == "torch" or module.startswith("torch."):
            module = "pullback" + module.removeprefix("torch")
        return super().find_class(module, name)


def load(
    f: Location,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read an object that `save`, here or in torch, wrote to a file.

    A pickle can run any code. Therefore, unless `weights_only=False`, only tensors, numbers, text
    and containers of them are accepted; UnpicklingError names what else the file wants.

    Example:
        >>> import io
        >>> import pullback as torch
        >>> file = io.BytesIO()
        >>> torch.save([torch.arange(3)], file)
        >>> _ = file.seek(0)
        >>> torch.load(file, weights_only=True)
        [tensor([0, 1, 2])]
    """
    if pickle_module is not None and pickle_module is not pickle:
        raise ValueError("load(): only Python's own pickle module can be used.")
    if mmap:
        raise NotImplementedError("load(): mmap=True is not possible; leave it out.")
    if isinstance(map_location, str | device | int):
        require_available(as_device(map_location))
    with _opened(f, "rb") as file:
        archive = _archive(file)
        folder = _folder(archive)
        reader = _StorageReader(archive, folder, map_location)
        unpickler = _Unpickler(
            io.BytesIO(archive.read(f"{folder}/data.pkl")),
            reader.read,
            weights_only=weights_only is not False,
            **pickle_load_args,
        )
        return unpickler.load()


def _archive(file: IO[bytes]) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except zipfile.BadZipFile:
        raise pickle.UnpicklingError(
            "load(): this is no file that torch.save wrote since torch 1.6 (no ZIP archive)."
        ) from None


def _folder(archive: zipfile.ZipFile) -> str:
    for name in archive.namelist():
        folder, _, rest = name.partition("/")
        if rest == "data.pkl":
            return folder
    raise pickle.UnpicklingError(
        "load(): the archive has no data.pkl, so torch.save did not write it."
    )


class _StorageReader:
    """Reads each storage of an archive once."""

    def __init__(self, archive: zipfile.ZipFile, folder: str, map_location: Any) -> None:
        self.archive = archive
        self.folder = folder
        self.map_location = map_location
        self.known: dict[str, Any] = {}
        order = f"{folder}/byteorder"
        written = archive.read(order).decode() if order in archive.namelist() else sys.byteorder
        self.swapped = written != sys.byteorder

    def read(self, reference: Any) -> Any:
        """The memory that a pickle's reference names, as a flat array."""
        _, kind, key, place, _count = reference
        if key not in self.known:
            if self.map_location is None:
                require_available(as_device(place))
            memory = bytearray(self.archive.read(f"{self.folder}/data/{key}"))
            flat = numpy.frombuffer(memory, kind.numpy_dtype)
            self.known[key] = flat.byteswap() if self.swapped else flat
        return self.known[key]

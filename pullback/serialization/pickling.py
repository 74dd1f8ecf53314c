"""Pickles that name torch's functions where ours would be: torch reads them, without ours.

Tensors become calls of torch's functions on storages, which are collected here and written apart.
"""

from __future__ import annotations

import pickle
import sys
from collections import OrderedDict
from types import FunctionType
from typing import IO, Any

import numpy

from pullback.core.arrays import LIBRARIES
from pullback.core.device import CPU, META, device
from pullback.core.dtype import DTYPES, LATE, OF_NUMBERS, dtype
from pullback.core.layout import layout, memory_format
from pullback.core.ports import ports
from pullback.core.size import Size
from pullback.core.tensor import CONJUGATED, NEGATED, Tensor, device_of
from pullback.operators.arrays.strides import address, element_strides, root
from pullback.operators.tensor.convert import TYPE_NAMES
from pullback.operators.tensor.pickling import (
    flat_memory,
    in_memory_order,
    is_hollow,
    state_of,
    warn_of_hooks,
)
from pullback.serialization.options import is_materializing
from pullback.serialization.written import torch_name
from pullback.storage import TypedStorage, UntypedStorage

__all__ = ["Pickler", "Storage"]

# Torch has no typed storage for these; it writes bytes, and the dtype beside them.
_UNTYPED = frozenset(("uint16", "uint32", "uint64", *LATE)) - {"bfloat16"}


class _Global:
    """A function or class of torch, by name; what a pickle says without importing it."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self, *args: Any) -> Any:
        raise TypeError(f"{self.module}.{self.name} is only a name here.")


_REBUILD_TENSOR = _Global("torch._utils", "_rebuild_tensor_v2")
_REBUILD_UNTYPED = _Global("torch._utils", "_rebuild_tensor_v3")
_REBUILD_META = _Global("torch._utils", "_rebuild_meta_tensor_no_storage")
_REBUILD_SPARSE = _Global("torch._utils", "_rebuild_sparse_tensor")
_REBUILD_NESTED = _Global("torch._utils", "_rebuild_nested_tensor")
_REBUILD_JAGGED = _Global("torch.nested._internal.nested_tensor", "_rebuild_njt")
_REBUILD_PARAMETER = _Global("torch._utils", "_rebuild_parameter")
_REBUILD_PARAMETER_WITH_STATE = _Global("torch._utils", "_rebuild_parameter_with_state")
_REBUILD_WITH_STATE = _Global("torch._tensor", "_rebuild_from_type_v2")
# How files call what is put off, see operators/deferred.
_BITS = (("conj", CONJUGATED), ("neg", NEGATED))
_NAMES: dict[tuple[str, str], _Global] = {}


def _late_class(module: str, name: str) -> Any:
    """A class of the package, if its module was loaded: else nothing is of it."""
    return getattr(sys.modules.get(f"pullback.{module}"), name, None)


def _named(module: str, name: str) -> _Global:
    return _NAMES.setdefault((module, name), _Global(module, name))


class Storage:
    """The memory of one or more tensors, as the pickle refers to it."""

    def __init__(
        self, key: str, flat: Any, dtype: str, *, is_untyped: bool, place: str = "cpu"
    ) -> None:
        self.key = key
        self.place = place
        self.flat = flat
        self.dtype = dtype
        self.is_untyped = is_untyped  # its elements are counted in bytes


# The one in Python, since the one in C writes only names that it could import.
_PythonPickler: Any = pickle._Pickler


class Pickler(_PythonPickler):  # type: ignore[misc]  # a class that typeshed knows half of
    """Writes tensors as torch does; collects their memory."""

    dispatch = _PythonPickler.dispatch.copy()

    def __init__(
        self, file: IO[bytes], protocol: int, *, legacy: bool = False, other: Any = None
    ) -> None:
        """Write to `file`; `other` is a pickler of the user's, asked about all but tensors."""
        super().__init__(file, protocol)
        self._other = other
        if hasattr(other, "dispatch_table"):
            self.dispatch_table = other.dispatch_table
        self.storages: dict[int, Storage] = {}  # by the id of who owns the memory
        self._owners: list[Any] = []  # alive while their ids are keys
        self._legacy = legacy

    def _save_name(self, obj: _Global | dtype) -> None:
        name = f"torch\n{obj._name}" if isinstance(obj, dtype) else f"{obj.module}\n{obj.name}"
        self.write(pickle.GLOBAL + f"{name}\n".encode())
        self.memoize(obj)

    dispatch[_Global] = dispatch[dtype] = _save_name

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Write a class or function by its name; ours by torch's."""
        found = torch_name(obj)
        if found is None:
            super().save_global(obj, name)
            return
        module, name = found
        self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)

    dispatch[FunctionType] = save_global

    def persistent_id(self, obj: Any) -> Any:
        """How the pickle refers to a storage."""
        if isinstance(obj, UntypedStorage):
            flat = obj._owner.reshape(-1).view("uint8")
            obj = self._storage(obj._owner, flat, is_untyped=True)
        elif isinstance(obj, TypedStorage):
            owner = obj._untyped_storage._owner
            flat = owner.reshape(-1).view("uint8").view(obj.dtype.numpy)
            obj = self._storage(owner, flat, is_untyped=obj.dtype._name in _UNTYPED)
        if type(obj) is not Storage:
            return None
        kind = (
            _named("torch.storage", "UntypedStorage")
            if obj.is_untyped
            else _named("torch", f"{TYPE_NAMES[obj.dtype]}Storage")
        )
        count = obj.flat.nbytes if obj.is_untyped else obj.flat.size
        reference = "storage", kind, obj.key, obj.place, count
        return (*reference, None) if self._legacy else reference

    def reducer_override(self, obj: Any) -> Any:
        """The call that makes an object again."""
        kind = type(obj)
        if isinstance(obj, Tensor) and is_hollow(obj):
            return NotImplemented  # its class says how, as for any pickle
        if isinstance(obj, Tensor):
            return self._tensor(obj, kind)
        if kind is Size:
            return _named("torch", "Size"), (tuple(obj),)
        if kind is device:
            place = (obj.type,) if obj.index is None else (obj.type, obj.index)
            return _named("torch", "device"), place
        if kind is layout or kind is memory_format:
            return _named("torch.serialization", "_get_layout"), (repr(obj),)
        ask = getattr(self._other, "reducer_override", None)
        return NotImplemented if ask is None else ask(obj)

    def _tensor(self, tensor: Tensor, kind: type[Tensor]) -> Any:
        warn_of_hooks(tensor)
        if is_materializing() and kind is _late_class("_subclasses.fake_tensor", "FakeTensor"):
            return self._fake(tensor)
        attributes = state_of(tensor)
        if kind is _late_class("nn.parameter", "Parameter"):
            inner: Any = tensor.detach()
            args: tuple[Any, ...] = (inner, tensor.requires_grad, OrderedDict())
            if attributes:
                return _REBUILD_PARAMETER_WITH_STATE, (*args, attributes)
            return _REBUILD_PARAMETER, args
        build, parts = self._parts(tensor)
        if tensor._layout is not None or tensor._bits:
            kind = Tensor  # a class of ours, which files do not name
        if kind is Tensor and not attributes:
            return build, parts
        return _REBUILD_WITH_STATE, (build, kind, parts, attributes)

    def _fake(self, tensor: Any) -> Any:
        """A tensor without data, as if it had some: what is made of it when loaded has room."""
        if tensor._is_param:
            return _REBUILD_PARAMETER, (tensor.detach(), tensor.requires_grad, OrderedDict())
        array = tensor._raw
        owner = root(array)
        flat = numpy.zeros(owner.nbytes // array.itemsize, array.dtype)
        offset = (address(array) - address(owner)) // array.itemsize if array.size else 0
        place = str(tensor.fake_device)
        storage = self._storage(owner, flat, place=place)
        shape, strides = tuple(array.shape), element_strides(array)
        parts: tuple[Any, ...] = storage, offset, shape, strides, tensor.requires_grad
        parts = (*parts, OrderedDict())
        if storage.is_untyped:
            return _REBUILD_UNTYPED, (*parts, tensor.dtype)
        return _REBUILD_TENSOR, parts

    def _parts(self, tensor: Tensor) -> tuple[_Global, tuple[Any, ...]]:
        """The function that makes a plain tensor again, and its arguments."""
        if tensor._layout is not None:
            if getattr(tensor, "is_nested", False):
                from pullback.serialization import nested

                jagged = nested.is_jagged(tensor)
                return _REBUILD_JAGGED if jagged else _REBUILD_NESTED, nested.parts_of(tensor)
            from pullback.serialization.sparse import parts_of  # which loads the family

            return _REBUILD_SPARSE, parts_of(tensor)
        array = tensor._raw
        shape, requires_grad = tuple(array.shape), tensor.requires_grad
        if tensor.device is META:
            return _REBUILD_META, (tensor.dtype, shape, element_strides(array), requires_grad)
        storage, offset, strides = self._stored(array)
        args: tuple[Any, ...] = (storage, offset, shape, strides, requires_grad, OrderedDict())
        bits = {name: True for name, bit in _BITS if tensor._bits & bit}
        if storage.is_untyped:
            return _REBUILD_UNTYPED, (*args, tensor.dtype, *([bits] if bits else ()))
        return _REBUILD_TENSOR, (*args, *([bits] if bits else ()))

    def _stored(self, array: Any) -> tuple[Storage, int, tuple[int, ...]]:
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

    def _storage(
        self, owner: Any, flat: Any, *, is_untyped: bool = False, place: str = "cpu"
    ) -> Storage:
        if flat.dtype.char == OF_NUMBERS:
            raise NotImplementedError(
                f"save(): the format has no place for numbers of type {flat.dtype.written}. Use "
                "pickle.dump(), or save .to(torch.float64)."
            )
        name = next(name for name, known in DTYPES.items() if known.numpy == flat.dtype)
        is_untyped = is_untyped or name in _UNTYPED
        name = "uint8" if is_untyped else name
        known = self.storages.get(id(owner))
        if known is not None and known.dtype != name:
            raise RuntimeError(
                f"save(): the same memory is to be saved as {known.dtype} and as {name}. A file "
                "has one dtype for each storage, so the two would not share memory when loaded; "
                "clone() one of them."
            )
        if known is None:
            self._owners.append(owner)
            if type(flat) in LIBRARIES:
                place, flat = str(device_of(flat)), ports.placed(flat, CPU)
            key = str(len(self.storages))
            known = Storage(key, flat, name, is_untyped=is_untyped, place=place)
            self.storages[id(owner)] = known
        if known.is_untyped == is_untyped:
            return known
        return Storage(known.key, known.flat, name, is_untyped=is_untyped, place=known.place)

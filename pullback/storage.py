"""Memory as an object of its own: `UntypedStorage` in bytes, `TypedStorage` in elements.

A tensor's storage is the NumPy array that owns its memory: what is written through one is seen by
the tensor and all its views. Making a storage larger or smaller moves it, and the tensor that it
was asked from with it; other views keep the old memory, since NumPy's arrays cannot be moved.
`resize_(0)` moves nothing: it gives the memory back until it is asked for again
(`core/memory/freed.py`).
"""

from __future__ import annotations

import copy
import os
import sys
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import numpy

from pullback.core import errors, origin
from pullback.core.arrays import Array
from pullback.core.device import CPU, META, device
from pullback.core.dtype import DTYPES, dtype, from_numpy_dtype, get_default_dtype
from pullback.core.listing import only_public as _only_public
from pullback.core.memory import freed, shared
from pullback.core.memory.borrowed import lender_of, refuse_borrowed
from pullback.core.memory.hollow import Hollow
from pullback.core.process.warning_once import should_warn
from pullback.core.tensor import Tensor, wrap
from pullback.operators.arrays.strides import address, in_order, root
from pullback.operators.tensor.pickling import copied_memory

__all__ = ["TypedStorage", "UntypedStorage"]

_BYTE = numpy.dtype(numpy.uint8)
# How the classes of storages are called, by dtype.
_NAMES = {
    "float64": "Double", "float32": "Float", "float16": "Half", "bfloat16": "BFloat16",
    "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte",
    "bool": "Bool", "complex128": "ComplexDouble", "complex64": "ComplexFloat",
}  # fmt: skip


def _size_of(index: Any, length: int, kind: str) -> int:
    """An index that may be negative, as one that is not."""
    if isinstance(index, bool) or not isinstance(index, int):
        raise TypeError(f"A {kind} is indexed by an int or a slice, got {type(index).__name__}.")
    if not -length <= index < length:
        raise IndexError(f"Index {index} is out of range for a storage of size {length}.")
    return index % length


class UntypedStorage:
    """The memory behind a tensor and all its views, in bytes; compare `data_ptr()` for aliasing.

    Example:
        >>> import pullback as torch
        >>> x = torch.zeros(4)
        >>> x[1:].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        True
        >>> x[1:].untyped_storage().nbytes()
        16
        >>> x.untyped_storage()[0] = 1
        >>> torch.UntypedStorage([1, 2]).tolist()
        [1, 2]
    """

    __slots__ = ("__weakref__", "_lender", "_owner", "_tensor", "device")

    _lender: str | None  # the call that took the memory from another library
    _owner: Array
    _tensor: weakref.ref[Tensor] | None

    def __init__(self, size: Any = 0, *, device: Any = None) -> None:
        self.device = CPU if device is None else _device(device)
        self._tensor = self._lender = None
        if isinstance(size, int):
            self._owner = numpy.zeros(size, _BYTE)
        else:
            self._owner = numpy.array(list(size), _BYTE)

    @classmethod
    def _of(cls, tensor: Tensor) -> UntypedStorage:
        """The memory of a tensor."""
        made = cls.__new__(cls)
        made._owner, made.device = root(tensor._array), tensor.device
        made._tensor, made._lender = weakref.ref(tensor), lender_of(tensor, made._owner)
        return made

    @property
    def _bytes(self) -> Array:
        """The memory as bytes in a row; what is written there is written to it."""
        if self.device is META:
            raise NotImplementedError("A storage on device 'meta' has no bytes to look at.")
        return in_order(self._owner).reshape(-1).view(_BYTE)[: self.nbytes()]

    def data_ptr(self) -> int:
        """The address of the first byte; 0 where there is none."""
        if isinstance(self._owner, Hollow):
            raise RuntimeError(
                "data_ptr(): this is the storage of a tensor without data of its own. Ask the "
                "tensors that it wraps."
            )
        return self._address

    @property
    def _address(self) -> int:
        return address(self._owner) if self.nbytes() and self.device is not META else 0

    def nbytes(self) -> int:
        """How many bytes there are."""
        return freed.size_of(self._owner)

    def __sizeof__(self) -> int:
        return super().__sizeof__() + self.nbytes()

    @property
    def _cdata(self) -> int:
        """A number that storages on the same memory share."""
        return id(self._owner)

    size = nbytes
    __len__ = nbytes

    def element_size(self) -> int:
        """Bytes have one byte."""
        return 1

    def tolist(self) -> list[int]:
        """The bytes."""
        found: list[int] = self._bytes.tolist()
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        """One byte, or a storage on a range of the same bytes."""
        if isinstance(index, slice):
            if index.step not in (None, 1):
                raise RuntimeError(f"A storage is sliced with step 1, got {index.step}.")
            made = UntypedStorage(0)
            # Not a view in NumPy's eyes: a tensor that is set on it has this part as its storage.
            part = self._bytes[index]
            made._owner = numpy.frombuffer(memoryview(part), _BYTE) if part.size else part
            return made
        return int(self._bytes[_size_of(index, self.nbytes(), "storage")])

    def __setitem__(self, index: Any, value: int) -> None:
        where = index if isinstance(index, slice) else _size_of(index, self.nbytes(), "storage")
        self._bytes[where] = value

    def fill_(self, value: int) -> UntypedStorage:
        """Set every byte."""
        self._bytes[...] = value
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> UntypedStorage:
        """Take over the bytes of another storage of the same size."""
        other = source.untyped()._bytes
        if other.size != self.nbytes():
            raise RuntimeError(
                f"copy_: the storages have different sizes, {self.nbytes()} and {other.size} bytes."
            )
        self._bytes[...] = other
        return self

    def clone(self) -> UntypedStorage:
        """A storage with the same bytes in memory of its own."""
        made = UntypedStorage(self.nbytes(), device=self.device)
        return made if self.device is META else made.copy_(self)

    def resize_(self, size: int) -> UntypedStorage:
        """Give it so many bytes; it keeps those that fit. See the module for who moves along.

        >>> import pullback as torch
        >>> x = torch.ones(1000)
        >>> _ = x.untyped_storage().resize_(0)  # its memory is free for others
        >>> _ = x.untyped_storage().resize_(4000)
        >>> x.fill_(2.0).sum()
        tensor(2000.)
        """
        if size == self.nbytes():
            return self
        tensor = None if self._tensor is None else self._tensor()
        refuse_borrowed("resize_", self._lender)
        if not self.nbytes() and size == self._owner.nbytes:
            freed.restore(self._owner)
            return self
        if size == 0 and tensor is not None and self.device is CPU:
            freed.free(self._owner, address(self._owner))
            return self
        try:
            grown = numpy.zeros(size, _BYTE)
        except (MemoryError, OverflowError) as error:
            raise errors.too_large("resize_", error) from None
        kept = min(size, self.nbytes())
        grown[:kept] = self._bytes[:kept]
        if tensor is not None and root(tensor._array) is self._owner:
            tensor._array = _moved(tensor._array, self._owner, grown)
        self._owner = grown
        return self

    def resizable(self) -> bool:
        """Whether `resize_` can be called: not for the memory of an array of the user's."""
        return self._lender is None

    def byteswap(self, dtype: dtype) -> None:
        """Turn the bytes of each element around."""
        self._bytes.view(dtype.numpy).byteswap(inplace=True)

    def untyped(self) -> UntypedStorage:
        """Itself."""
        return self

    def cpu(self) -> UntypedStorage:
        """Itself: the memory is the CPU's."""
        return self.to(device=CPU)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        """Refused: there is no such device."""
        raise RuntimeError("cuda(): no CUDA device is here; the memory stays on the CPU.")

    def to(self, *, device: Any, non_blocking: bool = False) -> UntypedStorage:
        """Itself on the CPU, or a storage without bytes on device 'meta'."""
        target = _device(device)
        if target == self.device:
            return self
        if self.device is META:
            raise NotImplementedError(
                f"A storage on device 'meta' has no bytes that could go to {target}. Make a new "
                "one there."
            )
        return UntypedStorage(self.nbytes(), device=target)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the class; a storage has no other type to be."""
        if dtype is not None:
            raise RuntimeError("type(): an UntypedStorage cannot become another; use TypedStorage.")
        return "torch.storage.UntypedStorage"

    def is_shared(self) -> bool:
        """Whether other processes can see it."""
        return shared.block_of(self._owner) is not None

    def share_memory_(self) -> UntypedStorage:
        """Move it to memory that other processes can see, with the tensor it was asked from."""
        if self.is_shared():
            return self
        tensor = None if self._tensor is None else self._tensor()
        if tensor is not None:
            self._owner = numpy.zeros(0, _BYTE)  # so that the tensor alone sees its memory
            tensor.share_memory_()
            self._owner = root(tensor._array)
        else:
            self._owner = shared.shared_copy(self._owner)
        return self

    def is_pinned(self, device: Any = "cuda") -> bool:
        """No memory is pinned."""
        return False

    def get_device(self) -> int:
        """The number of a device that has one; -1 for the CPU."""
        return -1

    is_cuda = is_hpu = is_sparse = is_sparse_csr = False

    @property
    def filename(self) -> str | None:
        """The file that is written through this memory, as `from_file(shared=True)` maps it."""
        mapped: Any = root(self._owner)
        if not isinstance(mapped, numpy.memmap) or mapped.mode != "r+" or mapped.filename is None:
            return None
        return os.fspath(mapped.filename)

    @classmethod
    def from_buffer(
        cls,
        buffer: Any,
        byte_order: str = "native",
        count: int = -1,
        offset: int = 0,
        dtype: dtype | None = None,
    ) -> UntypedStorage:
        """A copy of the bytes of a buffer, elements of other byte orders turned around."""
        if byte_order not in ("native", "big", "little"):
            raise ValueError(f"byte_order must be 'native', 'big' or 'little', got {byte_order!r}.")
        kind = _BYTE if dtype is None else dtype.numpy
        array = numpy.frombuffer(buffer, kind, count, offset).copy()
        if byte_order not in ("native", sys.byteorder):
            array.byteswap(inplace=True)
        made = cls(0)
        made._owner = array.view(_BYTE)
        return made

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The bytes of a file; if shared, what is written goes to the file, made if not there."""
        made = cls(0)
        if shared:
            with open(filename, "ab") as file:
                file.truncate(max(file.tell(), nbytes))
        mode: Any = "r+" if shared else "c"
        mapped = numpy.memmap(filename, _BYTE, mode, shape=(nbytes,) if nbytes else None)
        made._owner = numpy.asarray(mapped)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and (
            self is other or (self._address == other._address and self._address != 0)
        )

    def __hash__(self) -> int:
        return hash(self._address)

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> UntypedStorage:
        """New memory, which tensors and storages on it share in the copy as they did before."""
        known: UntypedStorage | None = memo.get(id(self))
        if known is not None:
            return known
        if self.device is META or self.nbytes() != self._owner.nbytes:  # no memory, or given back
            made = self.clone()
        else:
            made = UntypedStorage(0, device=self.device)
            made._owner = copied_memory(self._owner, memo)
        memo[id(self)] = made
        return made

    def __reduce__(self) -> Any:
        return UntypedStorage, (self.tolist(),)

    def __repr__(self) -> str:
        shown = "..." if self.device is META else "\n".join(f" {one}" for one in self.tolist())
        return (
            f"{shown}\n[torch.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"
        )


def _device(given: Any) -> device:
    return given if isinstance(given, device) else device(given)


def _moved(array: Array, before: Array, memory: Array) -> Array:
    """The same view of other memory, which must reach as far."""
    offset = address(array) - address(before) if array.size else 0
    last = sum((n - 1) * step for n, step in zip(array.shape, array.strides, strict=True))
    if array.size and offset + last + array.itemsize > memory.nbytes:
        raise RuntimeError(
            f"resize_: a tensor of shape {array.shape} looks at {offset + last + array.itemsize} "
            f"bytes of this memory, and {memory.nbytes} are asked for. Take the tensor away first "
            "(set_()), as memory under it cannot go."
        )
    return numpy.ndarray(array.shape, array.dtype, memory, offset, array.strides)


def _told() -> None:
    if should_warn("TypedStorage"):
        warnings.warn(
            "TypedStorage is the older form of a storage; use UntypedStorage, as in "
            "tensor.untyped_storage(), and tensors for elements.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )


class TypedStorage:
    """Memory as elements of one dtype; the older form.

    >>> import warnings
    >>> import pullback as torch
    >>> with warnings.catch_warnings(action="ignore"):
    ...     torch.TypedStorage([1, 2], dtype=torch.float64).tolist()
    [1.0, 2.0]
    """

    def __init__(
        self,
        *args: Any,
        wrap_storage: UntypedStorage | None = None,
        dtype: dtype | None = None,
        device: Any = None,
        _internal: bool = False,
    ) -> None:
        if not _internal:
            _told()
        self.dtype = get_default_dtype() if dtype is None else dtype
        if len(args) > 1 or (args and wrap_storage is not None):
            raise RuntimeError(
                "TypedStorage takes a size, a sequence or wrap_storage, one of them."
            )
        if wrap_storage is not None:
            if dtype is None:
                raise RuntimeError("TypedStorage(wrap_storage=...) needs a dtype.")
            self._untyped_storage = wrap_storage
            return
        given = args[0] if args else 0
        if isinstance(given, int):
            size = given * self.dtype.itemsize
            self._untyped_storage = UntypedStorage(size, device=device)
        elif hasattr(given, "__iter__"):
            array = numpy.array(list(given)).astype(self.dtype.numpy)
            self._untyped_storage = UntypedStorage(0)
            self._untyped_storage._owner = array.view(_BYTE)
        else:
            raise TypeError(
                f"A storage is made of a size or a sequence, got {type(given).__name__}."
            )

    @property
    def _elements(self) -> Array:
        return self._untyped_storage._bytes.view(self.dtype.numpy)

    def untyped(self) -> UntypedStorage:
        """The same memory in bytes."""
        return self._untyped_storage

    @property
    def device(self) -> device:
        """Where the memory is."""
        return self._untyped_storage.device

    is_cuda = is_hpu = is_sparse = False

    @property
    def filename(self) -> str | None:
        """The file that is written through this memory, if there is one."""
        return self._untyped_storage.filename

    def size(self) -> int:
        """How many elements there are."""
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    __len__ = size

    def nbytes(self) -> int:
        """How many bytes there are."""
        return self._untyped_storage.nbytes()

    def __sizeof__(self) -> int:
        return super().__sizeof__() + self.nbytes()

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._untyped_storage.data_ptr()

    def tolist(self) -> list[Any]:
        """The elements."""
        return [self[number] for number in range(len(self))]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        """One element."""
        if isinstance(index, slice):
            raise RuntimeError("A TypedStorage is not sliced; use UntypedStorage or a tensor.")
        if not isinstance(index, int):
            raise RuntimeError(f"A TypedStorage is indexed by an int, got {type(index).__name__}.")
        return wrap(self._elements[_size_of(index, len(self), "TypedStorage")].reshape(())).item()

    def __setitem__(self, index: Any, value: Any) -> None:
        where = index if isinstance(index, slice) else _size_of(index, len(self), "TypedStorage")
        self._elements[where] = value._elements if isinstance(value, TypedStorage) else value

    def fill_(self, value: Any) -> TypedStorage:
        """Set every element."""
        self._elements[...] = value
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> TypedStorage:
        """Take over the elements of another storage, converted."""
        if isinstance(source, TypedStorage):
            if len(source) != len(self):
                raise RuntimeError(
                    f"copy_: the storages have {len(self)} and {len(source)} elements."
                )
            self._elements[...] = source._elements
        else:
            self._untyped_storage.copy_(source)
        return self

    def clone(self) -> TypedStorage:
        """A storage with the same elements in memory of its own."""
        return self._like(self._untyped_storage.clone())

    def _like(self, storage: UntypedStorage) -> TypedStorage:
        return TypedStorage(wrap_storage=storage, dtype=self.dtype, _internal=True)

    def resize_(self, size: int) -> None:
        """Give it so many elements."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)

    def resizable(self) -> bool:
        """Whether `resize_` can be called."""
        return self._untyped_storage.resizable()

    def cpu(self) -> TypedStorage:
        """The same memory."""
        return self._like(self._untyped_storage.cpu())

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """Refused: there is no such device."""
        return self._like(self._untyped_storage.cuda(device))

    def to(self, *, device: Any, non_blocking: bool = False) -> TypedStorage:
        """On another device."""
        return self._like(self._untyped_storage.to(device=device))

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of its class, or the elements as another one's."""
        if dtype is None:
            return f"torch.{self.pickle_storage_type()}"
        wanted = str(dtype).rpartition(".")[2]
        for name, kind in _NAMES.items():
            if wanted in (f"{kind}Storage", name):
                return self._converted(_dtype_named(name))
        raise RuntimeError(f"type(): {dtype!r} is no type of storage.")

    def pickle_storage_type(self) -> str:
        """The name of the class that stands for its dtype."""
        return f"{_NAMES[str(self.dtype).rpartition('.')[2]]}Storage"

    def _converted(self, kind: dtype) -> TypedStorage:
        if kind is self.dtype:
            return self
        made = UntypedStorage(0)
        made._owner = self._elements.astype(kind.numpy).view(_BYTE)
        return TypedStorage(wrap_storage=made, dtype=kind, _internal=True)

    def is_shared(self) -> bool:
        """Whether other processes can see it."""
        return self._untyped_storage.is_shared()

    def share_memory_(self) -> TypedStorage:
        """Move it to memory that other processes can see."""
        self._untyped_storage.share_memory_()
        return self

    def is_pinned(self, device: Any = None) -> bool:
        """No memory is pinned."""
        return False

    def get_device(self) -> int:
        """The number of a device that has one; -1 for the CPU."""
        return -1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and self.untyped() == other.untyped()

    def __hash__(self) -> int:
        return hash(self._untyped_storage)

    def __copy__(self) -> TypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedStorage:
        copied = copy.deepcopy(self._untyped_storage, memo)
        made = TypedStorage(wrap_storage=copied, dtype=self.dtype, _internal=True)
        memo[id(self)] = made
        return made

    def __reduce__(self) -> Any:
        return _rebuilt, (self._untyped_storage.tolist(), self.dtype)

    def __repr__(self) -> str:
        about = f"dtype={self.dtype}, device={self.device}"
        shown = "..." if self.device is META else "\n".join(f" {one}" for one in self.tolist())
        return f"{shown}\n[torch.storage.TypedStorage({about}) of size {len(self)}]"


def _rebuilt(data: list[int], kind: dtype) -> TypedStorage:
    return TypedStorage(wrap_storage=UntypedStorage(data), dtype=kind, _internal=True)


def _dtype_named(name: str) -> dtype:
    found = DTYPES.get(name)
    if found is None:
        import pullback

        found = getattr(pullback, name)
    return found


def _conversion(name: str) -> Any:
    """`storage.float()` and its like: the elements as those of another dtype."""

    def convert(self: UntypedStorage | TypedStorage) -> TypedStorage:
        if isinstance(self, UntypedStorage):
            kind = from_numpy_dtype(_BYTE)
            self = TypedStorage(wrap_storage=self, dtype=kind, _internal=True)
        return self._converted(_dtype_named(name))

    convert.__doc__ = f"The elements as {name}."
    return convert


class _LegacyMeta(type):
    """`FloatStorage` and its like: called they give a TypedStorage, whose class they seem to be."""

    dtype: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> TypedStorage:
        """A TypedStorage of this dtype."""
        return TypedStorage(*args, dtype=cls.dtype, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype

    def from_buffer(
        cls, buffer: Any, byte_order: str = "native", count: int = -1, offset: int = 0
    ) -> TypedStorage:
        """A copy of the elements of a buffer."""
        made = UntypedStorage.from_buffer(buffer, byte_order, count, offset, cls.dtype)
        return TypedStorage(wrap_storage=made, dtype=cls.dtype)

    def from_file(cls, filename: str, shared: bool = False, size: int = 0) -> TypedStorage:
        """The elements of a file."""
        made = UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize)
        return TypedStorage(wrap_storage=made, dtype=cls.dtype)


def legacy_class(name: str) -> type | None:
    """The class of this name (`FloatStorage`), or None."""
    for known, kind in _NAMES.items():
        if name == f"{kind}Storage":
            return _LegacyMeta(name, (), {"dtype": _dtype_named(known), "__module__": "torch"})
    return None


for _name, _kind in _NAMES.items():
    _method = {"ComplexDouble": "complex_double", "ComplexFloat": "complex_float"}.get(
        _kind, _kind.lower()
    )
    _convert = _conversion(_name)
    _convert.__name__ = _convert.__qualname__ = _method
    setattr(TypedStorage, _method, _convert)
    setattr(UntypedStorage, _method, _convert)


def _dtype_to_storage_type_map() -> dict[Any, str]:
    """The name of the old class of storages of each dtype."""
    return {_dtype_named(name): f"{kind}Storage" for name, kind in _NAMES.items()}


def _storage_type_to_dtype_map() -> dict[str, Any]:
    """The same the other way round."""
    return {kind: dtype for dtype, kind in _dtype_to_storage_type_map().items()}


_always_warned = False


def _get_always_warn_typed_storage_removal() -> bool:
    """Whether torch would warn of a TypedStorage each time; nothing warns of it here."""
    return _always_warned


def _set_always_warn_typed_storage_removal(always_warn: bool) -> None:
    global _always_warned
    _always_warned = bool(always_warn)


__dir__ = _only_public(globals())

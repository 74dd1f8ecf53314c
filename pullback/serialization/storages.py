"""The memory of tensors as files hold it: typed by name, in either byte order."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.device import META, device
from pullback.core.dtype import NumpyDtype, dtype, from_numpy_dtype, named_dtype
from pullback.core.memory.narrow import held
from pullback.core.ports import ports
from pullback.operators.tensor.convert import TYPE_NAMES
from pullback.serialization.budget import Budget, refuse
from pullback.storage import TypedStorage, UntypedStorage

__all__ = [
    "LoadedStorage",
    "StorageType",
    "as_loaded",
    "as_users_see_it",
    "storage_reference",
    "storage_type",
]

_STORAGE_DTYPES = {f"{name}Storage": of for of, name in TYPE_NAMES.items()}


class StorageType:
    """Stands for `torch.FloatStorage` and its like; `UntypedStorage` has bytes."""

    __slots__ = ("name", "numpy_dtype")

    def __init__(self, name: str) -> None:
        known = _STORAGE_DTYPES.get(name)
        self.name = name
        self.numpy_dtype: NumpyDtype = (
            numpy.dtype(numpy.uint8) if known is None else named_dtype(known).numpy
        )

    @property
    def is_untyped(self) -> bool:
        """Whether the dtype of the elements is written beside each tensor."""
        return self.name == "UntypedStorage"


_UNTYPED = StorageType("UntypedStorage")


def storage_type(module: str, name: str) -> StorageType | None:
    """The type of storage that a pickle names, if it names one."""
    if module == "torch" and name in _STORAGE_DTYPES:
        return StorageType(name)
    if module in ("torch.storage", "torch") and name == "UntypedStorage":
        return _UNTYPED
    return None


class LoadedStorage(UntypedStorage):
    """A storage that a load has made. Its bytes may come later, as the format before 1.6 has it."""

    __slots__ = ("_others", "_there", "flat", "kind", "swapped", "typed")

    def __init__(self, flat: Array, kind: StorageType, place: device) -> None:
        """Stand on `flat`, an array of the type's dtype, in this machine's byte order."""
        super().__init__(0, device=place)
        self._owner = self.flat = flat
        self.kind = kind
        self.swapped = False
        self.typed: TypedStorage | None = None
        self._others: dict[Any, Array] = {}
        self._there: dict[Any, Array] = {}  # the same on the device that this one goes to

    def fill(self, flat: Array) -> None:
        """Put the bytes in, here and in what was made of them."""
        self.flat[...] = flat
        for key, other in self._others.items():
            other[...] = self._derived(*key)
        for key, there in self._there.items():
            there[...] = ports.placed(self._others.get(key, self._viewed(key[0])), self.device)

    def memory(self, kind: dtype | None, bits: dict[str, bool], budget: Budget | None) -> Array:
        """The elements as a tensor sees them: in a dtype, conjugated or negated."""
        wanted = self.flat.dtype if kind is None else kind.numpy
        key = wanted, bool(bits.get("conj")), bool(bits.get("neg"))
        if self.device.type == "cuda":
            if key not in self._there:
                self._there[key] = ports.placed(self._here(key, budget), self.device)
            return self._there[key]
        return self._here(key, budget)

    def _here(self, key: Any, budget: Budget | None) -> Array:
        wanted = key[0]
        if not (key[1] or key[2] or self._is_swapped(wanted)):
            return self._viewed(wanted)
        if key not in self._others:
            if budget is not None:
                budget.spend_data(self.flat.nbytes)
            self._others[key] = self._derived(*key)
        return self._others[key]

    def _is_swapped(self, wanted: NumpyDtype) -> bool:
        """Whether bytes that no dtype was known for are in the other order."""
        return self.swapped and self.kind.is_untyped and wanted.itemsize > 1

    def _derived(self, wanted: NumpyDtype, conj: bool, neg: bool) -> Array:
        made = self._viewed(wanted)
        made = made.byteswap() if self._is_swapped(wanted) else made
        made = numpy.conjugate(made) if conj else made
        return numpy.negative(made) if neg else made

    def _viewed(self, wanted: NumpyDtype) -> Array:
        if self.flat.nbytes % wanted.itemsize:
            raise refuse("a tensor's dtype does not divide its storage")
        return held(self.flat.view(wanted))

    @property
    def is_meta(self) -> bool:
        """Whether it was sent to the device without data."""
        return self.device is META


def as_users_see_it(storage: LoadedStorage) -> TypedStorage:
    """What a pickle gets for a storage; bytes that no dtype is known for are of uint8, as torch's.

    The same one each time, so that what was one storage is one.
    """
    if storage.typed is None:
        kind = from_numpy_dtype(storage.kind.numpy_dtype)
        storage.typed = TypedStorage(wrap_storage=storage, dtype=kind, _internal=True)
    return storage.typed


def storage_reference(reference: Any) -> tuple[StorageType, str, str, int, Any]:
    """Type, key, place, count of elements and, in old files, the part of another storage."""
    if not isinstance(reference, tuple) or not 5 <= len(reference) <= 6:
        raise refuse("a reference to a storage is none")
    word, kind, key, place, count, *view = reference
    if word != "storage" or not isinstance(kind, StorageType):
        raise refuse("a reference to a storage has no type")
    if type(key) is not str or type(place) is not str or type(count) is not int or count < 0:
        raise refuse("a reference to a storage is none")
    return kind, key, place, count, view[0] if view else None


def as_loaded(storage: Any, kind: StorageType) -> LoadedStorage:
    """What a `map_location` function returned, as something that tensors can be made on."""
    if isinstance(storage, LoadedStorage):
        return storage
    if not isinstance(storage, UntypedStorage):
        raise TypeError(
            "load(): the map_location function must return a storage or None, got "
            f"{type(storage).__name__}."
        )
    flat = storage._owner.reshape(-1).view(numpy.uint8).view(kind.numpy_dtype)
    return LoadedStorage(flat, kind, storage.device)

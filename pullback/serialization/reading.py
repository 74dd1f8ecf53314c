"""`load`: what a file holds, as `save` wrote it here or in torch."""

from __future__ import annotations

import io
import os
import pickle
import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import IO, Any, TypeAlias

import numpy

from pullback.core.arrays import Array
from pullback.core.device import CPU
from pullback.core.origin import stacklevel
from pullback.serialization import legacy
from pullback.serialization.allowed import allowed_by_user
from pullback.serialization.archive import Archive, is_archive, mapped_file
from pullback.serialization.budget import refuse
from pullback.serialization.machine import Machine
from pullback.serialization.names import torch_unpickler
from pullback.serialization.options import assumed_byteorder, get_default_mmap_options, is_skipping
from pullback.serialization.places import MAP_LOCATION, Restorer, restorer_of
from pullback.serialization.storages import (
    LoadedStorage,
    StorageType,
    as_loaded,
    as_users_see_it,
    storage_reference,
)

__all__ = ["load"]

Location: TypeAlias = str | os.PathLike[str] | IO[bytes]


def load(
    f: Location,
    map_location: MAP_LOCATION = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read an object that `save`, here or in torch, wrote to a file.

    A pickle can run any code. Therefore, unless `weights_only=False`, only tensors, numbers, text
    and containers of them are accepted; UnpicklingError names what else the file wants. Such a
    file cannot change anything in the program, nor take much more memory than it has bytes.

    Args:
        f: A path, or an open file for bytes that can seek.
        map_location: Where tensors go: a device, a dict from the places that the file names to
            others, or a function of a storage and its place.
        pickle_module: Has an `Unpickler`, as pickle does; who names one trusts the file.
        weights_only: Whether to refuse whatever is not data; False trusts the file.
        mmap: Whether to map the file, which must be given by its path, and read when first used.
        **pickle_load_args: For pickle: `encoding` and `errors`, for files of Python 2.

    Example:
        >>> import io
        >>> import pullback as torch
        >>> file = io.BytesIO()
        >>> torch.save([torch.arange(3)], file)
        >>> _ = file.seek(0)
        >>> torch.load(file, weights_only=True)
        [tensor([0, 1, 2])]
    """
    pickle_load_args.setdefault("encoding", "utf-8")
    unknown = pickle_load_args.keys() - {"encoding", "errors", "fix_imports"}
    if unknown:
        raise TypeError(f"load(): there is no argument {min(unknown)!r}.")
    is_path = isinstance(f, str | os.PathLike)
    if mmap and not is_path:
        raise ValueError("load(): mmap=True needs the path of a file, not an open one.")
    trusted = _is_trusted(weights_only, pickle_module)
    restorer = restorer_of(map_location)
    with opened_for_reading(f) as file:
        read = unpickler(trusted=trusted, options=pickle_load_args, by=pickle_module or pickle)
        if is_archive(file):
            path = f if mmap else None
            return _Storages(file, restorer, path, trusted=trusted).load(read)
        if mmap:
            raise RuntimeError(
                "load(): only files since torch 1.6 can be mapped; leave mmap=True out."
            )
        return legacy.load(file, bytes_left(file), restorer, read, trusted=trusted)


def _is_trusted(weights_only: bool | None, pickle_module: Any) -> bool:
    """Whether the file may run code: as the call says, or else the environment, as in torch."""
    never, by_default = _is_set(_NEVER), _is_set(_BY_DEFAULT)
    if never and by_default:
        raise RuntimeError(f"load(): only one of {_NEVER} and {_BY_DEFAULT} can be set.")
    if never:
        weights_only = True
    elif weights_only is None and pickle_module is not None:
        weights_only = False
    elif weights_only is None and by_default:
        warnings.warn(
            f"{_BY_DEFAULT} is set, so this file may run any code (weights_only=False).",
            UserWarning,
            stacklevel=stacklevel(),
        )
        weights_only = False
    if weights_only and pickle_module is not None:
        raise RuntimeError(
            "load(): a pickle_module reads whatever a file asks for, which weights_only=True is "
            "there to refuse; leave one of the two out."
        )
    return weights_only is False


_NEVER = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
_BY_DEFAULT = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").lower() in ("1", "y", "yes", "true")


def opened_for_reading(f: Any) -> AbstractContextManager[IO[bytes]]:
    """A file by its path, or the file itself."""
    if isinstance(f, str | os.PathLike):
        return open(f, "rb")
    for needed in ("read", "seek", "tell"):
        if not hasattr(f, needed):
            raise AttributeError(
                f"load(): expected a path or a file with `{needed}`, got {type(f).__name__}. "
                "What cannot seek can be read into io.BytesIO first."
            )
    return nullcontext(f)


def bytes_left(file: IO[bytes]) -> int:
    """How much of a file is after its position."""
    start = file.tell()
    end = file.seek(0, io.SEEK_END)
    end = file.tell() if end is None else end
    file.seek(start)
    return end - start


def unpickler(*, trusted: bool, options: dict[str, Any], by: Any = pickle) -> Callable[..., Any]:
    """A function that reads one pickle: `(file, size, storage, budget)`."""
    if trusted:
        kind = torch_unpickler(by.Unpickler)
        return lambda file, size, storage, budget: kind(file, storage, **options).load()
    allowed = allowed_by_user()
    options = {name: value for name, value in options.items() if name != "fix_imports"}
    return lambda file, size, storage, budget: Machine(
        file, size, storage, budget, allowed, **options
    ).load()


class _Storages:
    """The storages of an archive, each read once."""

    def __init__(
        self, file: IO[bytes], restorer: Restorer, mapped_path: Any, *, trusted: bool
    ) -> None:
        # Offsets in the archive count from where it starts in the file.
        inner = file if file.tell() == 0 else io.BytesIO(file.read())
        self._archive = Archive(inner, bytes_left(inner), trusted=trusted)
        self._restorer = restorer
        self._known: dict[str, Any] = {}
        self._map = (
            None if mapped_path is None else mapped_file(mapped_path, get_default_mmap_options())
        )
        order = assumed_byteorder()
        if "byteorder" in self._archive:
            order = self._archive.read("byteorder").decode("latin1")
            if order not in ("little", "big"):
                raise refuse("its byte order is none")
        self._swapped = order != sys.byteorder

    def load(self, read: Callable[..., Any]) -> Any:
        """The object that the archive's pickle describes."""
        structure = self._archive.read("data.pkl")
        return read(io.BytesIO(structure), len(structure), self._storage, self._archive.budget)

    def _storage(self, reference: Any) -> Any:
        kind, key, place, count, _ = storage_reference(reference)
        if key not in self._known:
            name = f"data/{key}"
            if self._archive.length(name) != count * kind.numpy_dtype.itemsize:
                raise refuse(f"the record {name!r:.80} is not as long as its tensors want")
            self._known[key] = self._restored(name, kind, place)
        return as_users_see_it(self._known[key])

    def _restored(self, name: str, kind: StorageType, place: str) -> LoadedStorage:
        storage = LoadedStorage(self._flat(name, kind), kind, CPU)
        storage.swapped = self._swapped
        restored = self._restorer(storage, place)
        return as_loaded(restored, kind)

    def _flat(self, name: str, kind: StorageType) -> Array:
        if is_skipping():
            budget, size = self._archive.budget, self._archive.length(name)
            if budget is not None:
                budget.spend_data(size)
            return numpy.zeros(size // kind.numpy_dtype.itemsize, kind.numpy_dtype)
        if self._map is not None:
            memory = self._archive.mapped(name, self._map)
        else:
            memory = self._archive.elements(name)
        flat = memory.view(kind.numpy_dtype)
        return flat.byteswap() if self._swapped else flat

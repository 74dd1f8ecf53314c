"""Where the memory of a loaded tensor goes: `map_location`, and devices that others register."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pullback.core.device import CPU, META, as_device, device, require_available
from pullback.storage import UntypedStorage

__all__ = ["MAP_LOCATION", "default_restore_location", "location_tag", "register_package"]

Tagger: TypeAlias = Callable[[Any], str | None]
Restorer: TypeAlias = Callable[[Any, str], Any]
MAP_LOCATION: TypeAlias = (
    Callable[[UntypedStorage, str], UntypedStorage | None] | device | str | dict[str, str] | None
)

# In order of priority; each is asked until one answers. Appended to by `register_package` alone.
_packages: list[tuple[int, int, Tagger, Restorer]] = []


def register_package(priority: int, tagger: Tagger, deserializer: Restorer) -> None:
    """Teach `save` and `load` a device: how a storage's place is called, and how it gets there.

    The lower the priority, the earlier it is asked; a None leaves the matter to the next.
    """
    bisect.insort(_packages, (priority, len(_packages), tagger, deserializer))


def location_tag(storage: UntypedStorage) -> str:
    """The name that a file has for the place of a storage.

    Example:
        >>> import pullback as torch
        >>> torch.serialization.location_tag(torch.ones(2).untyped_storage())
        'cpu'
    """
    for _, _, tagger, _ in _packages:
        tag = tagger(storage)
        if tag:
            return tag
    raise RuntimeError(f"No name is known for the place of a {type(storage).__name__}.")


def default_restore_location(storage: UntypedStorage, location: str) -> UntypedStorage:
    """A storage at the place that a file names; RuntimeError where there is no such device.

    >>> import pullback as torch
    >>> from pullback.serialization import default_restore_location
    >>> storage = torch.ones(2).untyped_storage()
    >>> default_restore_location(storage, "cpu") is storage
    True
    """
    for _, _, _, restorer in _packages:
        restored: UntypedStorage | None = restorer(storage, location)
        if restored is not None:
            return restored
    raise RuntimeError(
        f"The file has tensors on {location!r}, which holds none here; give map_location='cpu' to "
        "load them into memory."
    )


def _cpu_or_meta(place: device) -> tuple[Tagger, Restorer]:
    def tagger(storage: UntypedStorage) -> str | None:
        return place.type if getattr(storage, "device", CPU) is place else None

    def restorer(storage: UntypedStorage, location: str) -> UntypedStorage | None:
        if location.partition(":")[0] != place.type:
            return None
        storage.device = place
        return storage

    return tagger, restorer


register_package(10, *_cpu_or_meta(CPU))
register_package(22, *_cpu_or_meta(META))


def _cuda_tag(storage: UntypedStorage) -> str | None:
    place = getattr(storage, "device", CPU)
    return str(place) if place.type == "cuda" else None


def _to_cuda(storage: UntypedStorage, location: str) -> UntypedStorage | None:
    if location.partition(":")[0] != "cuda":
        return None
    try:
        storage.device = require_available(device(location))
    except AssertionError as error:
        raise RuntimeError(
            f"The file has tensors on {location!r}; give map_location='cpu' to load them into "
            f"memory. {error}"
        ) from None
    return storage


register_package(20, _cuda_tag, _to_cuda)


def restorer_of(map_location: Any) -> Restorer:
    """What `load` does with each storage and the place it was saved at."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, Mapping):
        return lambda storage, place: default_restore_location(
            storage, map_location.get(place, place)
        )
    if isinstance(map_location, str | device | int):
        try:
            wanted = str(require_available(as_device(map_location)))
        except AssertionError as error:  # what asking for a device raises; of a file it is this
            raise RuntimeError(f"load(map_location={str(map_location)!r}): {error}") from None
        return lambda storage, place: default_restore_location(storage, wanted)
    if not callable(map_location):
        raise TypeError(
            "load(): map_location must be a device, its name, a dict or a function, got "
            f"{type(map_location).__name__}."
        )

    def asked(storage: Any, place: str) -> Any:
        answer = map_location(storage, place)
        return default_restore_location(storage, place) if answer is None else answer

    return asked

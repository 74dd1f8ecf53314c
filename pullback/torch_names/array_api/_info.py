"""What a program may ask the namespace about itself: devices, dtypes, abilities."""

from __future__ import annotations

from typing import Any

import pullback as torch
from pullback import device, dtype

from ._dtypes import KINDS, NAMED


class Info:
    """What `__array_namespace_info__()` gives.

    >>> import pullback.array_api as xp
    >>> info = xp.__array_namespace_info__()
    >>> info.default_device(), info.default_dtypes()["integral"]
    (device(type='cpu'), torch.int64)
    """

    __slots__ = ()

    def capabilities(self) -> dict[str, Any]:
        """What the namespace can do, by the standard's words."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> device:
        """Where arrays are made unless told otherwise."""
        return torch.get_default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, dtype]:
        """What Python's numbers become; `torch.set_default_dtype` says what a float is."""
        real = torch.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": real.to_complex(),
            "integral": torch.int64,
            "indexing": torch.int64,
        }

    def dtypes(
        self, *, device: Any = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, dtype]:
        """The dtypes of a kind, or of several; by their names."""
        if kind is None:
            return dict(NAMED)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        for one in kinds:
            if one not in KINDS:
                raise ValueError(
                    f"dtypes: no kind is called {one!r}; there are {', '.join(KINDS)}."
                )
        wanted = {one for name in kinds for one in KINDS[name]}
        return {name: one for name, one in NAMED.items() if one in wanted}

    def devices(self) -> list[device]:
        """The devices that can hold arrays here."""
        there = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
        return [torch.device("cpu"), *(torch.device("cuda", index) for index in there)]


def __array_namespace_info__() -> Info:  # noqa: N807 (the standard's name)
    """What there is to be asked about this namespace."""
    return Info()

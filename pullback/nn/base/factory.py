"""Where and of what dtype a module's tensors are made."""

from __future__ import annotations

from typing import Any

_NAMES = {"device", "dtype", "memory_format"}


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """The device, dtype and memory format among a module's arguments, given flat or nested.

    >>> from pullback.nn import factory_kwargs
    >>> factory_kwargs({"device": "cpu"})
    {'device': 'cpu'}
    """
    if kwargs is None:
        return {}
    if not kwargs.keys() <= _NAMES | {"factory_kwargs"}:
        raise TypeError(f"factory_kwargs: only {sorted(_NAMES)} are known, got {sorted(kwargs)}.")
    nested = dict(kwargs.get("factory_kwargs", {}))
    for name in _NAMES:
        if name in kwargs:
            if name in nested:
                raise TypeError(f"factory_kwargs: {name} was given twice.")
            nested[name] = kwargs[name]
    return nested

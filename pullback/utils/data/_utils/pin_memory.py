"""Batches in pinned memory, which an accelerator reads while the host goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pullback.core.device import holder_of
from pullback.core.tensor import Tensor


def pin_memory(data: Any, device: Any = None) -> Any:
    """The batch with its tensors in pinned memory; itself where there is no accelerator."""
    if holder_of("cuda") is None:
        return data
    if isinstance(data, Tensor):
        pinned: Tensor = data.pin_memory()
        return pinned
    if isinstance(data, Mapping):
        made = {key: pin_memory(one) for key, one in data.items()}
        return made if type(data) is dict else type(data)(made)  # type: ignore[call-arg]  # as most mappings take
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(pin_memory, data))
    if isinstance(data, tuple | list):
        return type(data)(map(pin_memory, data))
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    return data

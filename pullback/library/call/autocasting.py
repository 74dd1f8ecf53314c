"""Autocast regions, as far as users' operators go: `register_autocast` says what is cast to what.

The regions are those of `pullback.amp`, which casts for the built-in operators.
"""

from __future__ import annotations

from typing import Any

from pullback.core import autocast as settings
from pullback.core.process.whole import Whole
from pullback.core.tensor import Tensor
from pullback.library.call.keys import DEVICE_KEYS
from pullback.library.registry import Operator


class without(Whole):  # noqa: N801 (a context, named as a word of the line it opens)
    """Inside, nothing is cast for a type of device."""

    def __init__(self, device_type: str) -> None:
        self.on = settings.now().enabled
        self.device_type = device_type

    def _enter(self) -> None:
        settings.change(enabled=self.on - {self.device_type})

    def _leave(self) -> None:
        settings.change(enabled=self.on)


def enabled() -> frozenset[str]:
    """The types of device whose autocast is on."""
    return settings.now().enabled


def region(operator: Operator, tensors: list[Tensor]) -> str | None:
    """The type of device for which the operator has something to do here."""
    for device_type in settings.now().enabled:
        key = f"Autocast{DEVICE_KEYS.get(device_type, device_type.upper())}"
        concerned = device_type in operator.autocast or key in operator.kernels
        if concerned and any(tensor.device.type == device_type for tensor in tensors):
            return device_type
    return None


def cast(operator: Operator, values: list[Any], device_type: str) -> list[Any]:
    """The arguments in the dtype that is registered for a type of device."""
    target = operator.autocast[device_type]
    return [_cast(value, device_type, target) for value in values]


def _cast(value: Any, device_type: str, target: Any) -> Any:
    if isinstance(value, list):
        return [_cast(one, device_type, target) for one in value]
    if not isinstance(value, Tensor) or value.device.type != device_type:
        return value
    is_wide = value._array.dtype.itemsize == 8
    if not value.dtype.is_floating_point or is_wide or value.dtype is target:
        return value
    return value.to(target)

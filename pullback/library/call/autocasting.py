"""Autocast regions, as far as users' operators go: `register_autocast` says what is cast to what.

Built-in operators have no autocast rules here; a region changes only operators that registered one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any

from pullback.core.device import KINDS
from pullback.core.dtype import dtype as Dtype  # noqa: N812 (`dtype` is torch's argument name)
from pullback.core.tensor import Tensor
from pullback.library.call.keys import DEVICE_KEYS
from pullback.library.registry import Operator

# Types of device whose autocast is on.
_enabled: ContextVar[frozenset[str]] = ContextVar("pullback_autocast", default=frozenset())


class autocast:  # noqa: N801 (torch's name)
    """Inside, operators with `register_autocast` for this type of device cast their inputs.

    Which dtype is theirs to say; `dtype` is accepted as in torch and changes nothing for them.

    >>> import pullback as torch
    >>> with torch.library.autocast("cpu"):
    ...     torch.library.is_autocast_enabled("cpu")
    True
    """

    def __init__(
        self,
        device_type: str,
        dtype: Dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if device_type not in KINDS:
            raise RuntimeError(
                f"autocast: {device_type!r} is no type of device; use 'cpu' or 'cuda'."
            )
        self.device_type = device_type
        self.enabled = enabled

    def __enter__(self) -> autocast:
        now = _enabled.get()
        change = now | {self.device_type} if self.enabled else now - {self.device_type}
        self._token = _enabled.set(change)
        return self

    def __exit__(self, *_: object) -> None:
        _enabled.reset(self._token)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Run a function inside such a region."""

        @wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with autocast(self.device_type, enabled=self.enabled):
                return function(*args, **kwargs)

        return inside


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether this thread is in an autocast region for a type of device."""
    return device_type in _enabled.get()


def enabled() -> frozenset[str]:
    """The types of device whose autocast is on."""
    return _enabled.get()


def region(operator: Operator, tensors: list[Tensor]) -> str | None:
    """The type of device for which the operator has something to do here."""
    for device_type in _enabled.get():
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

"""`with torch.device(...)` as a mode, under the names that libraries import."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from pullback.autograd.grad_mode import decorated
from pullback.core.device import as_device
from pullback.overrides import TorchFunctionMode

__all__ = ["DeviceContext", "device_decorator", "set_device"]

CURRENT_DEVICE = None
_NAMES = """
    arange as_tensor asarray bartlett_window blackman_window empty empty_permuted empty_strided eye
    full hamming_window hann_window kaiser_window linspace logspace ones rand randint randn randperm
    range scalar_tensor tensor tril_indices triu_indices zeros
"""


@cache
def _device_constructors() -> frozenset[Any]:
    """The functions that make tensors and take `device=`."""
    torch: Any = import_module("pullback")
    return frozenset(getattr(torch, name) for name in _NAMES.split())


class DeviceContext(TorchFunctionMode):
    """A mode that gives functions that make tensors a device, unless the call names one.

    Example:
        >>> import pullback as torch
        >>> from pullback.utils._device import DeviceContext
        >>> with DeviceContext("meta"):
        ...     torch.ones(2).device
        device(type='meta')
    """

    def __init__(self, device: Any) -> None:
        self.device = as_device(device)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        named = dict(kwargs or {})
        if func in _device_constructors() and named.get("device") is None:
            named["device"] = self.device
        return func(*args, **named)


def device_decorator(device: Any, func: Any) -> Any:
    """`func`, with tensors made on a device unless its calls name another."""
    place = as_device(device)
    return decorated(lambda: place, func)


def set_device(device: Any) -> Any:
    """A decorator: tensors are made on this device inside the function.

    Example:
        >>> import pullback as torch
        >>> from pullback.utils._device import set_device
        >>> set_device("meta")(torch.ones)(2).device
        device(type='meta')
    """
    return lambda func: device_decorator(as_device(device), func)

"""Making modules whose parameters are not drawn."""

from __future__ import annotations

import inspect
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.nn.modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Make a module without giving values to its parameters; its class must take `device`.

    >>> import pullback as torch
    >>> torch.nn.utils.skip_init(torch.nn.Linear, 2, 3).weight.shape
    torch.Size([3, 2])
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"skip_init: a Module class is needed, got {module_cls}.")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError(f"skip_init: {module_cls.__name__} has no `device` argument.")
    place = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=place)


__dir__ = _only_public(globals())

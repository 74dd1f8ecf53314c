"""The memory format of convolutions' weights."""

from __future__ import annotations

from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _converted(module: Any, memory_format: Any, kinds: tuple[type, ...]) -> Any:
    if isinstance(module, kinds):
        weight: Any = getattr(module, "weight")  # noqa: B009 (mypy knows no common base)
        weight.data = weight.detach().clone(memory_format=memory_format)
    for child in module.children():
        _converted(child, memory_format, kinds)
    return module


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Lay the weights of all 2-d convolutions below a module out anew.

    >>> import pullback as torch
    >>> layer = torch.nn.Conv2d(2, 3, 2)
    >>> convert = torch.nn.utils.convert_conv2d_weight_memory_format
    >>> convert(layer, torch.channels_last).weight.stride()
    (8, 1, 4, 2)
    """
    return _converted(module, memory_format, (Conv2d, ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Lay the weights of all 3-d convolutions below a module out anew.

    >>> import pullback as torch
    >>> layer = torch.nn.Conv3d(2, 3, 2)
    >>> convert = torch.nn.utils.convert_conv3d_weight_memory_format
    >>> convert(layer, torch.channels_last_3d).weight.stride()
    (16, 1, 8, 4, 2)
    """
    return _converted(module, memory_format, (Conv3d, ConvTranspose3d))


__dir__ = _only_public(globals())

"""`torch.utils.dlpack`: tensors to and from other libraries, without a copy."""

from __future__ import annotations

import enum
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.operators.create.exchange import from_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


# The numbers that the protocol gives kinds of devices.
DLDeviceType = enum.IntEnum(
    "DLDeviceType",
    {
        "kDLCPU": 1,
        "kDLCUDA": 2,
        "kDLCUDAHost": 3,
        "kDLOpenCL": 4,
        "kDLVulkan": 7,
        "kDLMetal": 8,
        "kDLVPI": 9,
        "kDLROCM": 10,
        "kDLROCMHost": 11,
        "kDLExtDev": 12,
        "kDLCUDAManaged": 13,
        "kDLOneAPI": 14,
        "kDLWebGPU": 15,
        "kDLHexagon": 16,
        "kDLMAIA": 17,
    },
)


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule with the tensor's memory, for a library that takes one.

    Example:
        >>> import pullback as torch
        >>> type(torch.utils.dlpack.to_dlpack(torch.ones(2))).__name__
        'PyCapsule'
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"to_dlpack: expected a Tensor, got {type(tensor).__name__}.")
    source: Any = tensor
    return source.__dlpack__()


__dir__ = _only_public(globals())

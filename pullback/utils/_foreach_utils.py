"""What optimizers of libraries ask before they handle many tensors at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from pullback.core.device import device
from pullback.core.tensor import Tensor

__all__ = [
    "_device_has_foreach_support",
    "_get_foreach_kernels_supported_devices",
    "_get_fused_kernels_supported_devices",
    "_group_tensors_by_device_and_dtype",
    "_has_foreach_support",
]

TensorListList: TypeAlias = Sequence[Sequence[Tensor | None]]
Indices: TypeAlias = list[int]
_foreach_supported_types: list[type] = [Tensor]


def _get_foreach_kernels_supported_devices() -> list[str]:
    return ["cpu"]


def _get_fused_kernels_supported_devices() -> list[str]:
    return ["cpu"]


def _device_has_foreach_support(device: device) -> bool:
    return device.type == "cpu"


def _has_foreach_support(tensors: Sequence[Tensor | None], device: device) -> bool:
    return _device_has_foreach_support(device) and all(
        tensor is None or type(tensor) in _foreach_supported_types for tensor in tensors
    )


def _group_tensors_by_device_and_dtype(
    tensorlistlist: TensorListList, with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Tensor | None]], Indices]]:
    """Several lists of equal length, split by the device and dtype of the first one's tensors."""
    groups: dict[tuple[Any, Any], tuple[list[list[Tensor | None]], Indices]] = {}
    for place, row in enumerate(zip(*tensorlistlist, strict=True)):
        first = row[0]
        if first is None:
            raise RuntimeError("The first list tells device and dtype; it must have no None in it.")
        lists, places = groups.setdefault(
            (first.device, first.dtype), ([[] for _ in tensorlistlist], [])
        )
        for column, tensor in zip(lists, row, strict=True):
            column.append(tensor)
        if with_indices:
            places.append(place)
    return groups

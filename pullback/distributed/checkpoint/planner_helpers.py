"""Items of plans: which boxes a tensor is written as, and which boxes are read for it."""

from __future__ import annotations

from math import prod
from typing import Any

from pullback.core.size import Size
from pullback.core.tensor import Tensor
from pullback.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from pullback.distributed.checkpoint.planner import (
    LoadItemType,
    ReadItem,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from pullback.distributed.tensor.dtensor import DTensor
from pullback.distributed.tensor.layouts import local_shape

__all__ = ["create_read_items_for_chunk_list", "local_tensor", "read_items", "write_items"]


def local_tensor(tensor: Tensor) -> Tensor:
    """The memory that this rank has of a tensor."""
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


def _chunk(name: str, tensor: Tensor) -> ChunkStorageMetadata | None:
    """The box that this rank has of a tensor; None where it has nothing of it."""
    if not isinstance(tensor, DTensor):
        return ChunkStorageMetadata(Size([0] * tensor.ndim), Size(tensor.shape))
    if any(one.is_partial() for one in tensor.placements):
        raise ValueError(
            f"{name}: what each rank has is a summand, which means nothing in a checkpoint; "
            "redistribute() to Shard or Replicate first."
        )
    if tensor.device_mesh.get_coordinate() is None:
        return None
    sizes, starts = local_shape(tensor.shape, tensor.device_mesh, tensor.placements)
    if not prod(sizes) and tensor.numel():
        return None
    return ChunkStorageMetadata(Size(starts), Size(sizes))


def write_items(name: str, value: Any) -> list[WriteItem]:
    """What this rank could write of a value.

    Args:
        name: Name of the value in the flat state dict.
        value: The value.
    """
    if not isinstance(value, Tensor):
        return [WriteItem(MetadataIndex(name), WriteItemType.BYTE_IO)]
    chunk = _chunk(name, value)
    if chunk is None:
        return []
    kind = WriteItemType.SHARD if isinstance(value, DTensor) else WriteItemType.TENSOR
    about = TensorWriteData(chunk, TensorProperties.create_from_tensor(value), Size(value.shape))
    return [WriteItem(MetadataIndex(name, chunk.offsets), kind, tensor_data=about)]


def read_items(name: str, stored: Any, value: Any) -> list[ReadItem]:
    """What this rank reads for a value.

    Args:
        name: Name of the value in the flat state dict.
        stored: What the checkpoint says of it.
        value: Value to read into.
    """
    if isinstance(stored, BytesStorageMetadata):
        index, start = MetadataIndex(name), Size([0])
        return [ReadItem(LoadItemType.BYTE_IO, index, start, index, start, start)]
    if not isinstance(value, Tensor):
        raise ValueError(
            f"{name} is a tensor of shape {tuple(stored.size)} in the checkpoint, and a "
            f"{type(value).__name__} in the state dict; give it a tensor to fill."
        )
    if tuple(stored.size) != tuple(value.shape):
        raise ValueError(
            f"{name} has shape {tuple(value.shape)}, in the checkpoint {tuple(stored.size)}."
        )
    chunk = _chunk(name, value)
    return [] if chunk is None else create_read_items_for_chunk_list(name, stored, [chunk])


def create_read_items_for_chunk_list(
    fqn: str, checkpoint_md: TensorStorageMetadata, local_chunks: list[ChunkStorageMetadata]
) -> list[ReadItem]:
    """The boxes of the checkpoint's tensor that fill these, cut to what is needed.

    Args:
        fqn: Name of the tensor in the flat state dict.
        checkpoint_md: What the checkpoint says of the tensor.
        local_chunks: Chunks to fill.

    >>> import pullback as torch
    >>> from pullback.distributed.checkpoint.metadata import *
    >>> halves = [ChunkStorageMetadata(torch.Size([n]), torch.Size([2])) for n in (0, 2)]
    >>> stored = TensorStorageMetadata(TensorProperties(), torch.Size([4]), halves)
    >>> wanted = ChunkStorageMetadata(torch.Size([1]), torch.Size([2]))
    >>> [r.lengths for r in create_read_items_for_chunk_list("x", stored, [wanted])]
    [torch.Size([1]), torch.Size([1])]
    """
    items = []
    for number, wanted in enumerate(local_chunks):
        found = 0
        for place, there in enumerate(checkpoint_md.chunks):
            begins = [max(pair) for pair in zip(wanted.offsets, there.offsets, strict=True)]
            ends = [
                min(a + m, b + n)
                for a, m, b, n in zip(
                    wanted.offsets, wanted.sizes, there.offsets, there.sizes, strict=True
                )
            ]
            lengths = Size([max(e - b, 0) for b, e in zip(begins, ends, strict=True)])
            if not prod(lengths):
                continue
            found += prod(lengths)
            items.append(
                ReadItem(
                    LoadItemType.TENSOR,
                    MetadataIndex(fqn, wanted.offsets, number),
                    _less(begins, wanted.offsets),
                    MetadataIndex(fqn, there.offsets, place),
                    _less(begins, there.offsets),
                    lengths,
                )
            )
        if found != prod(wanted.sizes):
            raise ValueError(
                f"{fqn}: the checkpoint has {found} of the {prod(wanted.sizes)} elements from "
                f"{tuple(wanted.offsets)} on; files of it are missing."
            )
    return items


def _less(places: list[int], starts: Size) -> Size:
    return Size([place - start for place, start in zip(places, starts, strict=True)])


def cut(tensor: Tensor, offsets: Size, lengths: Size) -> Tensor:
    """A box of a tensor, as a view."""
    for dim, (start, length) in enumerate(zip(offsets, lengths, strict=True)):
        if length != tensor.shape[dim]:
            tensor = tensor.narrow(dim, start, length)
    return tensor

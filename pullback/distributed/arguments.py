"""Arguments of collectives and messages: arrays behind tensors, ranks in groups, sizes of parts."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy

from pullback.core.arrays import LIBRARIES, namespace
from pullback.core.tensor import Tensor
from pullback.core.version import bump
from pullback.distributed.call import describe
from pullback.distributed.group import ProcessGroup
from pullback.distributed.world import group_of, takes_devices

__all__ = [
    *("array_of", "check_list", "member", "own_group", "packed", "split_sizes", "unstack"),
    "written",
]


def array_of(tensor: Any, what: str) -> Any:
    """The array behind a tensor: in main memory, or on a device if the engine can do with that."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{what} takes tensors, got {type(tensor).__name__}.")
    array = tensor._array
    if type(array) in LIBRARIES:
        if takes_devices():
            return array
        raise RuntimeError(
            f"{what} needs a tensor on the cpu, got one on {tensor.device}; "
            'init_process_group("nccl") takes those.'
        )
    if not isinstance(array, numpy.ndarray):
        raise RuntimeError(f"{what} needs a dense tensor; this one's layout is {tensor.layout}.")
    if type(array) is not numpy.ndarray and tensor.device.type != "cpu":
        raise RuntimeError(f"{what} needs a tensor on the cpu, got one on {tensor.device}.")
    return array


def packed(array: Any) -> Any:
    """The array itself if an engine can take it, or a contiguous copy."""
    return array if array.flags.c_contiguous else namespace(array).ascontiguousarray(array)


def own_group(group: Any, what: str) -> ProcessGroup | None:
    """The group, or None with a warning where this rank has no part in it."""
    known = group_of(group)
    if known is None:
        warnings.warn(
            f"{what} was called on a rank that is not in the group; it does nothing there.",
            UserWarning,
            stacklevel=3,
        )
    return known


def member(known: ProcessGroup, rank: int | None, in_group: int | None, what: str) -> int:
    """A root or peer, given by its global rank or by its rank in the group."""
    if (rank is None) == (in_group is None):
        raise ValueError(f"{what}: give the rank, or the one in the group, and not both.")
    if in_group is not None:
        if not 0 <= in_group < known.size():
            raise ValueError(f"{what}: {known} has no rank {in_group}.")
        return in_group
    if rank not in known.ranks:
        raise ValueError(f"{what}: rank {rank} is not in the group of ranks {known.ranks}.")
    return known.ranks.index(rank)


def written(tensor: Tensor, array: Any, what: str) -> None:
    """Put a packed array back where it came from, and count the write."""
    if array is not tensor._array:
        tensor._array[...] = array.reshape(tensor._array.shape)
    bump(tensor, what)


def check_list(tensors: Any, size: int, like: Any, what: str) -> list[Any]:
    """Arrays of as many tensors as there are ranks, all as large as `like`."""
    arrays = [array_of(tensor, what) for tensor in tensors]
    if len(arrays) != size:
        raise RuntimeError(f"{what}: a list of {len(arrays)} tensors for {size} ranks.")
    for number, array in enumerate(arrays):
        if array.size != like.size or array.dtype != like.dtype:
            raise RuntimeError(
                f"{what}: the tensor for rank {number} is {describe(array)}, not {describe(like)}."
            )
    return arrays


def unstack(tensors: Sequence[Any], rows: Any, what: str) -> None:
    """Put a row into each tensor, and count the writes."""
    for tensor, row in zip(tensors, rows, strict=True):
        tensor._array[...] = row.reshape(tensor._array.shape)
        bump(tensor, what)


def split_sizes(sizes: Sequence[int] | None, array: Any, ranks: int, what: str) -> list[int]:
    """How many rows go to, or come from, each rank; equal parts where nothing is said."""
    length = array.shape[0] if array.ndim else 1
    if not sizes:
        if length % ranks:
            raise RuntimeError(
                f"all_to_all_single: {length} rows of {what} do not part evenly among {ranks} "
                f"ranks; give {what}_split_sizes."
            )
        return [length // ranks] * ranks
    if len(sizes) != ranks or sum(sizes) != length:
        raise RuntimeError(
            f"all_to_all_single: {what}_split_sizes {list(sizes)} is for {ranks} ranks and "
            f"{length} rows."
        )
    return [int(size) for size in sizes]

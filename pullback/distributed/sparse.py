"""Sparse COO tensors between ranks: they exchange the entries they have, and each sums them up."""

from __future__ import annotations

import pickle
from typing import Any

import numpy

from pullback.core.tensor import wrap
from pullback.distributed.call import Call
from pullback.distributed.group import ProcessGroup

__all__ = ["entries", "summed"]


def entries(tensor: Any) -> tuple[Any, Any]:
    """Places and values of a COO tensor."""
    return tensor._indices()._array, tensor._values()._array


def summed(mine: Any, shape: Any, divisor: int, group: ProcessGroup, call: Call) -> Any:
    """The sum over the group of all entries, divided; None where nobody has any.

    Entries are put together in the order of the ranks, so that all have the same bits.
    """
    parts = [
        part
        for part in map(pickle.loads, group.communicator.exchange(call, pickle.dumps(mine)))
        if part is not None
    ]
    if not parts:
        return None
    from pullback.operators.sparse.create import sparse_coo_tensor

    indices = numpy.concatenate([places for places, _ in parts], axis=1)
    values = numpy.concatenate([rows for _, rows in parts])
    if divisor != 1:
        values = (values / divisor).astype(values.dtype, copy=False)
    return sparse_coo_tensor(wrap(indices), wrap(values), tuple(shape)).coalesce()

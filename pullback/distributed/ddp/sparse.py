"""Sparse gradients: ranks exchange the rows that they have, and each puts them together."""

from __future__ import annotations

import pickle
from typing import Any

import numpy

from pullback.core.tensor import Tensor, wrap
from pullback.distributed.call import Call
from pullback.distributed.group import ProcessGroup

__all__ = ["average_sparse"]


def average_sparse(
    parameter: Tensor, group: ProcessGroup, divisor: int, *, give: bool = True
) -> None:
    """Replace a parameter's sparse gradient by the mean over the group; equal bits on all ranks."""
    stored: Any = parameter._stored_grad
    mine = None
    if give and stored is not None:
        if not stored.is_sparse:
            raise RuntimeError(
                f"rank {group.rank()}: DistributedDataParallel: the gradient of a layer with "
                "sparse=True is dense; make the layer with sparse=False."
            )
        mine = (stored._indices()._array, stored._values()._array)
    call = Call("DistributedDataParallel", f"sparse {list(parameter.shape)}", group.timeout)
    data = pickle.dumps(mine)
    given = group.do(call, lambda: group.communicator.exchange(call, data), later=False)
    parts = [part for part in map(pickle.loads, given) if part is not None]
    if not parts or not give:
        return
    from pullback.operators.sparse.create import sparse_coo_tensor

    indices = numpy.concatenate([places for places, _ in parts], axis=1)
    values = numpy.concatenate([rows for _, rows in parts]) / divisor
    values = values.astype(parameter._array.dtype, copy=False)
    total = sparse_coo_tensor(wrap(indices), wrap(values), tuple(parameter.shape))
    parameter._stored_grad = total.coalesce()

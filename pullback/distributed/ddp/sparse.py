"""Sparse gradients: averaged one by one, when all others have travelled."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.distributed.call import Call
from pullback.distributed.group import ProcessGroup
from pullback.distributed.sparse import entries, summed

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
        mine = entries(stored)
    call = Call("DistributedDataParallel", f"sparse {list(parameter.shape)}", group.timeout)
    shape = parameter.shape
    total = group.do(call, lambda: summed(mine, shape, divisor, group, call), later=False)
    if total is not None and give:
        parameter._stored_grad = total

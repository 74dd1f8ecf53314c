"""`torch.distributed._functional_collectives`: out of place, recorded, waited for by `wait_tensor`.

Results are there when a function returns, so that there is nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.core.tensor import Tensor
from pullback.distributed.device_mesh import DeviceMesh
from pullback.distributed.nn import functional
from pullback.distributed.world import current_world, get_rank, group_of
from pullback.operators.create.sizes import empty
from pullback.operators.shape.joining import cat

__all__ = [
    "all_gather_inplace",
    "all_gather_into_tensor_coalesced",
    "all_gather_single",
    "all_gather_single_autograd",
    "all_gather_single_coalesced",
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_gather_tensor_inplace",
    "all_reduce",
    "all_reduce_coalesced",
    "all_reduce_inplace",
    "all_to_all_inplace",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "permute_tensor",
    "reduce_scatter_single",
    "reduce_scatter_single_autograd",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced",
    "reduce_scatter_tensor_inplace",
    "wait_tensor",
]


def _group(group: Any) -> Any:
    """A group: as such, by name, as a mesh (and a dimension of it), by its ranks.

    Of a mesh of several dimensions without one of them all ranks are meant.
    """
    if isinstance(group, DeviceMesh):
        return group.get_group() if group.ndim == 1 else _group_of_ranks(group._ranks.reshape(-1))
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1])
    if isinstance(group, (list, tuple)) and group and isinstance(group[0], (list, tuple)):
        rank = get_rank()  # parts of all ranks, of which one is ours
        return _group_of_ranks(next(part for part in group if rank in part))
    if isinstance(group, (list, tuple)):
        return _group_of_ranks(group)
    return group_of(group)


def _group_of_ranks(ranks: Any) -> Any:
    wanted = [int(rank) for rank in ranks]
    world = current_world()
    for known in world.groups if world is not None else ():
        if known.ranks == wanted:
            return known
    raise ValueError(f"There is no group of ranks {wanted}: make it with new_group().")


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor: it is there."""
    return tensor


def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:  # noqa: N803 (torch's name)
    """The reduction over all ranks.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed import _functional_collectives as funcol
    >>> dist.threads.run(lambda: funcol.all_reduce(torch.ones(2), "sum", None).tolist(), 2)
    [[2.0, 2.0], [2.0, 2.0]]
    """
    return functional.all_reduce(self, reduceOp, group=_group(group))


def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    """Rank `src`'s tensor."""
    return functional.broadcast(self, src, group=_group(group))


def all_gather_tensor(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """All ranks' tensors, one after the other along a dimension."""
    joined: Tensor = cat(functional.all_gather(self, group=_group(group)), gather_dim)
    return joined


def reduce_scatter_tensor(
    self: Tensor,
    reduceOp: str,  # noqa: N803 (torch's name)
    scatter_dim: int,
    group: Any,
    tag: str = "",
) -> Tensor:
    """This rank's part, along a dimension, of the reduction over all ranks."""
    known = _group(group)
    if self.shape[scatter_dim] % known.size():
        raise RuntimeError(
            f"reduce_scatter_tensor: {self.shape[scatter_dim]} do not part among {known.size()}."
        )
    parts = self.chunk(known.size(), scatter_dim)
    return functional.reduce_scatter(None, parts, reduceOp, group=known)


def all_to_all_single(
    self: Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: Any,
    tag: str = "",
) -> Tensor:
    """Each rank's part for this one."""
    rows = self.shape[0] if output_split_sizes is None else sum(output_split_sizes)
    out = empty((rows, *self.shape[1:]), dtype=self.dtype)
    return functional.all_to_all_single(
        out, self, output_split_sizes, input_split_sizes, group=_group(group)
    )


def permute_tensor(self: Tensor, src_dst: Sequence[int], group: Any, tag: str = "") -> Tensor:
    """The tensor of the rank `i` for which `src_dst[i]` is this one."""
    known = _group(group)
    size = known.size()
    if sorted(src_dst) != list(range(size)):
        raise ValueError(f"permute_tensor: {list(src_dst)} names not each of {size} ranks once.")
    rows = self.shape[0]
    sizes, out_sizes = [0] * size, [0] * size
    sizes[src_dst[known.rank()]] = rows
    out_sizes[list(src_dst).index(known.rank())] = rows
    return all_to_all_single(self, out_sizes, sizes, known)


def all_reduce_coalesced(
    self: Sequence[Tensor],
    reduceOp: str,  # noqa: N803 (torch's name)
    group: Any,
    tag: str = "",
) -> list[Tensor]:
    """`all_reduce` of each."""
    return [all_reduce(one, reduceOp, group) for one in self]


def all_gather_into_tensor_coalesced(
    self: Sequence[Tensor], group: Any, tag: str = ""
) -> list[Tensor]:
    """`all_gather_tensor` of each, along the first dimension."""
    return [all_gather_tensor(one, 0, group) for one in self]


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Tensor],
    reduceOp: str,  # noqa: N803 (torch's name)
    scatter_dim: Sequence[int],
    group: Any,
    tag: str = "",
) -> list[Tensor]:
    """`reduce_scatter_tensor` of each."""
    pairs = zip(inputs, scatter_dim, strict=True)
    return [reduce_scatter_tensor(one, reduceOp, dim, group) for one, dim in pairs]


def all_reduce_inplace(
    tensor: Tensor, op: str = "sum", group: Any = None, async_op: bool = False, tag: str = ""
) -> Tensor:
    """Replace a tensor by the reduction."""
    return tensor.copy_(all_reduce(tensor, op, group))


def all_gather_tensor_inplace(
    output_tensor: Tensor,
    input_tensor: Tensor,
    group: Any = None,
    async_op: bool = False,
    tag: str = "",
    gather_dim: int = 0,
) -> Tensor:
    """Fill a tensor with all ranks' tensors."""
    return output_tensor.copy_(all_gather_tensor(input_tensor, gather_dim, group))


def all_gather_inplace(
    tensor_list: Sequence[Tensor],
    tensor: Tensor,
    group: Any = None,
    async_op: bool = False,
    tag: str = "",
) -> Sequence[Tensor]:
    """Fill a list with all ranks' tensors."""
    for out, given in zip(tensor_list, functional.all_gather(tensor, group=group), strict=True):
        out.copy_(given)
    return tensor_list


def reduce_scatter_tensor_inplace(
    output: Tensor,
    input: Tensor,
    op: str = "sum",
    group: Any = None,
    async_op: bool = False,
    scatter_dim: int = 0,
    tag: str = "",
) -> Tensor:
    """Fill a tensor with this rank's part of the reduction."""
    return output.copy_(reduce_scatter_tensor(input, op, scatter_dim, group))


def all_to_all_inplace(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
    tag: str = "",
) -> Tensor:
    """Fill a tensor with each rank's part for this one."""
    return output.copy_(all_to_all_single(input, output_split_sizes, input_split_sizes, group))


all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single
all_gather_single = all_gather_single_autograd = all_gather_tensor
all_gather_single_coalesced = all_gather_into_tensor_coalesced
reduce_scatter_single = reduce_scatter_single_autograd = reduce_scatter_tensor
reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

"""Local parts of tensors that lie over a mesh: what each rank has, and how it gets the whole.

Everything here is on plain tensors, without autograd; `dtensor.py` puts a class around it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pullback.autograd.grad_mode import no_grad
from pullback.core.tensor import Tensor
from pullback.distributed.collectives import (
    all_gather_into_tensor,
    all_reduce,
    broadcast,
    reduce_scatter_tensor,
)
from pullback.distributed.device_mesh import DeviceMesh
from pullback.distributed.reduction import ReduceOp
from pullback.distributed.tensor.placement_types import (
    Partial,
    Placement,
    Replicate,
    Shard,
    cutting_order,
)
from pullback.operators.create.sizes import empty, zeros_like

__all__ = [
    "everywhere",
    "gathered",
    "lengths",
    "local_shape",
    "moved",
    "part_of",
    "same_everywhere",
    "scattered",
]


def local_shape(
    shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of this rank's part of a tensor, and where it begins."""
    if mesh.get_coordinate() is None:
        return (0,), (0,)
    return _cut(shape, mesh, placements, cutting_order(placements))


def _cut(
    shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement], numbers: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The same, once these dimensions of the mesh have cut it."""
    sizes, starts = list(shape), [0] * len(shape)
    for number in numbers:
        placement = placements[number]
        if isinstance(placement, Shard):
            dim = placement.dim
            ranks, rank = mesh.size(number), mesh.get_local_rank(number)
            begin, end = Shard.part(sizes[dim], ranks, rank)
            starts[dim] += begin
            sizes[dim] = end - begin
    return tuple(sizes), tuple(starts)


def part_of(whole: Tensor, mesh: DeviceMesh, placements: Sequence[Placement]) -> Tensor:
    """This rank's part of a tensor that it has whole; memory of its own."""
    shape, starts = local_shape(whole.shape, mesh, placements)
    cut = whole
    for dim, (start, length) in enumerate(zip(starts, shape, strict=True)):
        if length != whole.shape[dim]:
            cut = cut.narrow(dim, start, length)
    return cut.detach().clone().contiguous()


def _padded(part: Tensor, dim: int, length: int) -> Tensor:
    """The part with its dimension first, and rows after its end."""
    first = part.movedim(dim, 0)
    if first.shape[0] == length:
        return first.contiguous()
    made = empty(length, *first.shape[1:], dtype=part.dtype, device=part.device)
    made[: first.shape[0]] = first
    made[first.shape[0] :] = 0
    return made


def gathered(part: Tensor, mesh: DeviceMesh, number: int, dim: int, length: int) -> Tensor:
    """A tensor's dimension whole, from the parts along one dimension of the mesh."""
    ranks = mesh.size(number)
    if ranks == 1:
        return part
    step = -(-length // ranks)
    sent = _padded(part, dim, step)
    rows = empty(ranks * step, *sent.shape[1:], dtype=part.dtype, device=part.device)
    all_gather_into_tensor(rows, sent, group=mesh.get_group(number))
    return rows[:length].movedim(0, dim)


def scattered(whole: Tensor, mesh: DeviceMesh, number: int, dim: int, op: ReduceOp) -> Tensor:
    """This rank's part of the reduction, along one dimension of the mesh, of what ranks have."""
    ranks, length = mesh.size(number), whole.shape[dim]
    begin, end = Shard.part(length, ranks, mesh.get_local_rank(number))
    step = -(-length // ranks)
    sent = _padded(whole, dim, ranks * step)
    part = empty(step, *sent.shape[1:], dtype=whole.dtype, device=whole.device)
    reduce_scatter_tensor(part, sent, op=op, group=mesh.get_group(number))
    return part[: end - begin].movedim(0, dim)


def lengths(
    shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement], number: int
) -> int:
    """On how many ranks along a dimension of the mesh there is anything, of what it cuts."""
    placement = placements[number]
    assert isinstance(placement, Shard)
    order = cutting_order(placements)
    length = _cut(shape, mesh, placements, order[: order.index(number)])[0][placement.dim]
    step = -(-length // mesh.size(number))
    return -(-length // step) if step else 0


def moved(
    part: Tensor,
    shape: Sequence[int],
    mesh: DeviceMesh,
    placements: Sequence[Placement],
    wanted: Sequence[Placement],
) -> Tensor:
    """This rank's part where a tensor lies otherwise.

    Parts of parts (two mesh dimensions that cut one dimension) are put together from the innermost
    on, and cut again from the outermost on.
    """
    count = len(wanted)
    order, wanted_order = cutting_order(placements), cutting_order(wanted)
    with no_grad():
        kept = 0  # mesh dimensions, from the first that cuts on, along which nothing changes
        while kept < count and order[kept] == wanted_order[kept]:
            if placements[order[kept]] != wanted[order[kept]]:
                break
            kept += 1
        now = part.detach()
        for place in reversed(range(kept, count)):
            number = order[place]
            before, after = placements[number], wanted[number]
            if isinstance(before, Shard):
                length = _cut(shape, mesh, placements, order[:place])[0][before.dim]
                now = gathered(now, mesh, number, before.dim, length)
            elif isinstance(before, Partial):
                # Nothing else changes: the reduction leaves each rank its part at once.
                if place == kept == count - 1 and isinstance(after, Shard):
                    op = ReduceOp.of(before.reduce_op)
                    return scattered(now, mesh, number, after.dim, op).contiguous()
                now = _reduced(now, mesh, number, before, after)
        return _cut_again(now, mesh, placements, wanted, wanted_order[kept:])


def _reduced(
    now: Tensor, mesh: DeviceMesh, number: int, before: Partial, after: Placement
) -> Tensor:
    if isinstance(after, Partial):
        if after != before:
            raise NotImplementedError(f"{before} does not become {after}.")
        return now
    total = now.clone().contiguous()
    all_reduce(total, op=ReduceOp.of(before.reduce_op), group=mesh.get_group(number))
    return total


def _cut_again(
    now: Tensor,
    mesh: DeviceMesh,
    placements: Sequence[Placement],
    wanted: Sequence[Placement],
    numbers: Sequence[int],
) -> Tensor:
    for number in numbers:
        after, rank = wanted[number], mesh.get_local_rank(number)
        if isinstance(after, Shard):
            begin, end = Shard.part(now.shape[after.dim], mesh.size(number), rank)
            now = now.narrow(after.dim, begin, end - begin)
        elif isinstance(after, Partial) and not isinstance(placements[number], Partial):
            if after.reduce_op != "sum":
                raise NotImplementedError(f"Nothing becomes {after}; a sum does.")
            # Not a product with 0: there may be infinities.
            now = now if rank == 0 else zeros_like(now)
    return now.contiguous()


def same_everywhere(tensor: Tensor, mesh: DeviceMesh) -> Tensor:
    """What the first rank of each line has, on all of the mesh."""
    made = tensor.detach().clone().contiguous()
    for number in range(mesh.ndim):
        if mesh.size(number) > 1:
            broadcast(made, group=mesh.get_group(number), group_src=0)
    return made


def everywhere(mesh: DeviceMesh) -> tuple[Placement, ...]:
    """Whole on each rank of the mesh."""
    return (Replicate(),) * mesh.ndim

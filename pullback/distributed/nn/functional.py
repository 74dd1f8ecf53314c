"""Collectives that autograd records: out of place, and the backward of each is a collective too.

The loss is the sum of all ranks' losses. So what one rank's cotangent says of a number that came
from another goes back to that one, and every rank has to run backward through a collective, as
often and in the same order as the others; where a rank does not use its result, `join_unused` lets
it take part.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pullback.autograd.function import Function
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.distributed import collectives
from pullback.distributed.arguments import member, split_sizes
from pullback.distributed.group import ProcessGroup
from pullback.distributed.reduction import ReduceOp
from pullback.distributed.world import group_of
from pullback.operators.create.sizes import empty, empty_like, zeros_like
from pullback.operators.shape.joining import cat, stack

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "join_unused",
    "reduce",
    "reduce_scatter",
    "scatter",
]

T = TypeVar("T")


def _in_group(function: Callable[..., T]) -> Callable[..., T]:
    """Let `group=` be what the other collectives take; the function gets a ProcessGroup."""

    @functools.wraps(function)
    def wrapped(*args: Any, group: Any = None, **kwargs: Any) -> T:
        known = group_of(group)
        if known is None:
            raise ValueError(f"{function.__name__}: this rank is not in the group.")
        return function(*args, group=known, **kwargs)

    return wrapped


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().clone()


class _SumEverywhere(Function):
    """Every rank gets the sum; and every rank's number is in every sum."""

    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, tensor: Tensor) -> Tensor:
        ctx.group = group
        out = _copy(tensor)
        collectives.all_reduce(out, group=group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, _SumEverywhere.apply(ctx.group, grad)


class _ExtremeEverywhere(Function):
    """The largest or smallest; the sum of its cotangents goes to who has it, in equal parts."""

    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, op: ReduceOp, tensor: Tensor) -> Tensor:
        out = _copy(tensor)
        collectives.all_reduce(out, op, group)
        has_it = tensor.detach().eq(out).to(out.dtype)
        holders = has_it.clone()
        collectives.all_reduce(holders, group=group)
        ctx.group = group
        ctx.save_for_backward(has_it / holders)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (share,) = ctx.saved_tensors
        return None, None, _SumEverywhere.apply(ctx.group, grad) * share


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, root: int, tensor: Tensor) -> Tensor:
        ctx.group, ctx.root = group, root
        out = _copy(tensor)
        collectives.broadcast(out, group=group, group_src=root)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, _SumAtRoot.apply(ctx.group, ctx.root, grad)


class _SumAtRoot(Function):
    """The sum on one rank, zeros on the others."""

    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, root: int, tensor: Tensor) -> Tensor:
        ctx.group, ctx.root = group, root
        out = _copy(tensor)
        collectives.reduce(out, group=group, group_dst=root)
        return out if group.rank() == root else out.zero_()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, _Broadcast.apply(ctx.group, ctx.root, grad)


class _Gather(Function):
    """All ranks' tensors on one rank, zeros on the others."""

    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, root: int, tensor: Tensor) -> tuple[Tensor, ...]:
        ctx.group, ctx.root = group, root
        outs = [zeros_like(tensor) for _ in range(group.size())]
        given = outs if group.rank() == root else None
        collectives.gather(_copy(tensor), given, group=group, group_dst=root)
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, _Scatter.apply(ctx.group, ctx.root, *grads)


class _Scatter(Function):
    """Each rank gets its tensor of one rank's list."""

    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, root: int, *tensors: Tensor) -> Tensor:
        ctx.group, ctx.root = group, root
        out = _copy(tensors[0])
        given = [_copy(one) for one in tensors] if group.rank() == root else None
        collectives.scatter(out, given, group=group, group_src=root)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, *_Gather.apply(ctx.group, ctx.root, grad)


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, tensor: Tensor) -> tuple[Tensor, ...]:
        ctx.group = group
        outs = [empty_like(tensor) for _ in range(group.size())]
        collectives.all_gather(outs, _copy(tensor), group)
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, _ReduceScatter.apply(ctx.group, *grads)


class _ReduceScatter(Function):
    """Each rank gets the sum of all ranks' tensors for it."""

    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, *tensors: Tensor) -> Tensor:
        ctx.group = group
        out = _copy(tensors[group.rank()])
        collectives.reduce_scatter(out, [_copy(one) for one in tensors], group=group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, *_AllGather.apply(ctx.group, grad)


class _AllToAll(Function):
    @staticmethod
    def forward(
        ctx: Any, group: ProcessGroup, shapes: Sequence[Any], *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.group, ctx.shapes = group, [tuple(one.shape) for one in tensors]
        outs = [empty(shape, dtype=tensors[0].dtype) for shape in shapes]
        collectives.all_to_all(outs, [_copy(one) for one in tensors], group)
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, *_AllToAll.apply(ctx.group, ctx.shapes, *grads)


@_in_group
def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The reduction over all ranks, on all of them.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> def gradient():
    ...     x = torch.tensor(float(dist.get_rank()), requires_grad=True)
    ...     dist.nn.functional.all_reduce(x).square().backward()  # of the sum, 0 + 1
    ...     return x.grad.item()
    >>> dist.threads.run(gradient, 2)
    [4.0, 4.0]
    """
    op = ReduceOp.of(op)
    made: Tensor
    if op in (ReduceOp.SUM, ReduceOp.AVG):
        made = _SumEverywhere.apply(group, tensor)
    elif op in (ReduceOp.MAX, ReduceOp.MIN):
        made = _ExtremeEverywhere.apply(group, op, tensor)
    elif op is ReduceOp.PRODUCT:
        made = stack(_AllGather.apply(group, tensor)).prod(0)
    else:
        raise NotImplementedError(f"all_reduce: ReduceOp.{op.name} has no derivative.")
    return made / group.size() if op is ReduceOp.AVG else made


@_in_group
def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The reduction over all ranks, on rank `dst`; zeros on the others."""
    op = ReduceOp.of(op)
    root = member(group, dst, None, "reduce")
    if op in (ReduceOp.SUM, ReduceOp.AVG):
        total: Tensor = _SumAtRoot.apply(group, root, tensor)
        return total / group.size() if op is ReduceOp.AVG else total
    everywhere = all_reduce(tensor, op, group=group)
    return everywhere if group.rank() == root else everywhere * 0


@_in_group
def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """Rank `src`'s tensor, on every rank."""
    made: Tensor = _Broadcast.apply(group, member(group, src, None, "broadcast"), tensor)
    return made


@_in_group
def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """Every rank's tensor, on rank `dst`; zeros on the others."""
    made: tuple[Tensor, ...] = _Gather.apply(group, member(group, dst, None, "gather"), tensor)
    return made


@_in_group
def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """This rank's tensor of rank `src`'s list. The others' lists give only shape and dtype."""
    _one_for_each(tensors, group, "scatter")
    made: Tensor = _Scatter.apply(group, member(group, src, None, "scatter"), *tensors)
    return made


@_in_group
def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """Every rank's tensor, on every rank."""
    made: tuple[Tensor, ...] = _AllGather.apply(group, tensor)
    return made


@_in_group
def reduce_scatter(
    output: Tensor | None, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """The reduction over all ranks of their lists' tensor for this one; `output` is not used."""
    op = ReduceOp.of(op)
    _one_for_each(input_list, group, "reduce_scatter")
    if op in (ReduceOp.SUM, ReduceOp.AVG):
        made: Tensor = _ReduceScatter.apply(group, *input_list)
        return made / group.size() if op is ReduceOp.AVG else made
    return all_reduce(stack(tuple(input_list)), op, group=group)[group.rank()]


@_in_group
def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """Each rank's tensor for this one; the output list gives their shapes."""
    _one_for_each(input_tensor_list, group, "all_to_all")
    _one_for_each(output_tensor_list, group, "all_to_all")
    shapes = [tuple(one.shape) for one in output_tensor_list]
    made: tuple[Tensor, ...] = _AllToAll.apply(group, shapes, *input_tensor_list)
    return made


@_in_group
def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Tensor:
    """Each rank's part for this one, one after the other; `output` gives the shape."""
    size = group.size()
    sizes = split_sizes(input_split_sizes, input._array, size, "input")
    out_sizes = split_sizes(output_split_sizes, output._array, size, "output")
    shapes = [(rows, *output.shape[1:]) for rows in out_sizes]
    joined: Tensor = cat(_AllToAll.apply(group, shapes, *input.split(sizes)))
    return joined


def _one_for_each(tensors: Sequence[Tensor], group: ProcessGroup, what: str) -> None:
    if len(tensors) != group.size():
        raise RuntimeError(f"{what}: {len(tensors)} tensors for {group.size()} ranks.")


def join_unused(loss: Tensor, *results: Tensor) -> Tensor:
    """The loss, with results of collectives that it does not depend on taking part with zeros."""
    for one in results:
        loss = loss + (one * 0).sum()
    return loss


__dir__ = _only_public(globals())

"""Collectives on tensors: torch's names and argument order, in place, on data alone.

Nothing here is recorded by autograd; `distributed.nn.functional` has what is. What is not
contiguous is packed before and unpacked after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from pullback.core.arrays import namespace
from pullback.core.tensor import Tensor
from pullback.core.version import bump
from pullback.distributed.arguments import (
    array_of,
    check_list,
    member,
    own_group,
    packed,
    split_sizes,
    unstack,
    written,
)
from pullback.distributed.call import Call, describe
from pullback.distributed.coalescing import together
from pullback.distributed.group import ProcessGroup, in_seconds
from pullback.distributed.reduction import ReduceOp, check_op, premultiplied
from pullback.distributed.sparse import entries, summed

__all__ = [
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "gather",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
]


def all_reduce(
    tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Replace `tensor` on every rank by the reduction over all of them.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> def largest():
    ...     x = torch.tensor(float(dist.get_rank()))
    ...     dist.all_reduce(x, op=dist.ReduceOp.MAX)
    ...     return x.item()
    >>> dist.threads.run(largest, 4)
    [3.0, 3.0, 3.0, 3.0]
    """
    known = own_group(group, "all_reduce")
    if known is None:
        return None
    if isinstance(tensor, Tensor) and tensor.is_sparse:
        return _all_reduce_sparse(tensor, ReduceOp.of(op), known, async_op)
    array, op = array_of(tensor, "all_reduce"), ReduceOp.of(op)
    check_op(op, array.dtype, known.backend)
    call = Call("all_reduce", f"{describe(array)} {op.name}", known.timeout)

    def act() -> None:
        data, how = premultiplied(packed(array), op)
        known.communicator.all_reduce(call, data, how)
        written(tensor, data, "all_reduce")

    return known.do(call, act, later=async_op, result=[tensor])


def _all_reduce_sparse(tensor: Any, op: ReduceOp, known: ProcessGroup, async_op: bool) -> Any:
    """The sum of COO tensors has the entries of all."""
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ValueError(f"all_reduce of sparse tensors is SUM or AVG, not {op.name}.")
    shape = list(tensor.shape)
    text = f"sparse {tensor._values()._array.dtype.name}{shape} {op.name}"
    call = Call("all_reduce", text, known.timeout)
    divisor = known.size() if op is ReduceOp.AVG else 1

    def act() -> None:
        total = summed(entries(tensor), shape, divisor, known, call)
        tensor._array = total._array
        bump(tensor, "all_reduce")

    return known.do(call, act, later=async_op, result=[tensor])


def reduce(
    tensor: Any,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """As `all_reduce`, with the result on rank `dst` alone.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def total():
    ...     x = torch.ones(1)
    ...     dist.reduce(x, dst=0)
    ...     return x.item() if dist.get_rank() == 0 else None
    >>> dist.threads.run(total, 3)
    [3.0, None, None]
    """
    known = own_group(group, "reduce")
    if known is None:
        return None
    array, op = array_of(tensor, "reduce"), ReduceOp.of(op)
    check_op(op, array.dtype, known.backend)
    root = member(known, dst, group_dst, "reduce")
    call = Call("reduce", f"{describe(array)} {op.name} to {root}", known.timeout)

    def act() -> None:
        data, how = premultiplied(packed(array), op)
        known.communicator.reduce(call, data, how, root)
        if known.rank() == root:
            written(tensor, data, "reduce")

    return known.do(call, act, later=async_op, result=[tensor])


def broadcast(
    tensor: Any,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """Replace `tensor` on every rank by that of rank `src`.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def told():
    ...     x = torch.tensor([float(dist.get_rank())])
    ...     dist.broadcast(x, src=1)
    ...     return x.item()
    >>> dist.threads.run(told, 2)
    [1.0, 1.0]
    """
    known = own_group(group, "broadcast")
    if known is None:
        return None
    array = array_of(tensor, "broadcast")
    root = member(known, src, group_src, "broadcast")
    call = Call("broadcast", f"{describe(array)} from {root}", known.timeout)

    def act() -> None:
        data = packed(array)
        known.communicator.broadcast(call, data, root)
        if known.rank() != root:
            written(tensor, data, "broadcast")

    return known.do(call, act, later=async_op, result=[tensor])


def all_gather(tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Any:
    """Fill `tensor_list` with what every rank gives.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def gathered():
    ...     found = [torch.zeros(1) for _ in range(2)]
    ...     dist.all_gather(found, torch.tensor([float(dist.get_rank())]))
    ...     return [x.item() for x in found]
    >>> dist.threads.run(gathered, 2)
    [[0.0, 1.0], [0.0, 1.0]]
    """
    known = own_group(group, "all_gather")
    if known is None:
        return None
    array = array_of(tensor, "all_gather")
    check_list(tensor_list, known.size(), array, "all_gather")
    call = Call("all_gather", describe(array), known.timeout)

    def act() -> None:
        rows = namespace(array).empty((known.size(), *array.shape), array.dtype)
        known.communicator.all_gather(call, rows, packed(array))
        unstack(tensor_list, rows, "all_gather")

    return known.do(call, act, later=async_op, result=tensor_list)


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Any:
    """Fill one tensor with what every rank gives, one after the other or stacked.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def gathered():
    ...     found = torch.zeros(2)
    ...     dist.all_gather_into_tensor(found, torch.tensor([float(dist.get_rank())]))
    ...     return found.tolist()
    >>> dist.threads.run(gathered, 2)
    [[0.0, 1.0], [0.0, 1.0]]
    """
    known = own_group(group, "all_gather_into_tensor")
    if known is None:
        return None
    what = "all_gather_into_tensor"
    out, array = array_of(output_tensor, what), array_of(input_tensor, what)
    if out.size != array.size * known.size() or out.dtype != array.dtype:
        raise RuntimeError(
            f"{what}: {known.size()} ranks give {describe(array)} each; the output is "
            f"{describe(out)}."
        )
    call = Call(what, describe(array), known.timeout)

    def act() -> None:
        data = packed(out)
        known.communicator.all_gather(call, data, packed(array))
        written(output_tensor, data, what)

    return known.do(call, act, later=async_op, result=[output_tensor])


def gather(
    tensor: Any,
    gather_list: Any = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Fill `gather_list`, on rank `dst` alone, with what every rank gives.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def gathered():
    ...     found = [torch.zeros(1) for _ in range(2)] if dist.get_rank() == 0 else None
    ...     dist.gather(torch.tensor([float(dist.get_rank())]), found, dst=0)
    ...     return found and [x.item() for x in found]
    >>> dist.threads.run(gathered, 2)
    [[0.0, 1.0], None]
    """
    known = own_group(group, "gather")
    if known is None:
        return None
    if dst is None and group_dst is None:
        group_dst = 0
    root, array = member(known, dst, group_dst, "gather"), array_of(tensor, "gather")
    at_root = known.rank() == root
    if at_root:
        check_list(gather_list or (), known.size(), array, "gather")
    elif gather_list:
        raise ValueError(f"gather: gather_list is for rank {root} alone.")
    call = Call("gather", f"{describe(array)} to {root}", known.timeout)

    def act() -> None:
        shape = (known.size(), *array.shape)
        rows = namespace(array).empty(shape, array.dtype) if at_root else None
        known.communicator.gather(call, rows, packed(array), root)
        if at_root:
            unstack(gather_list, rows, "gather")

    return known.do(call, act, later=async_op, result=gather_list)


def scatter(
    tensor: Any,
    scatter_list: Any = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """Fill `tensor` with this rank's item of the list that rank `src` gives.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def given():
    ...     x = torch.zeros(1)
    ...     parts = [torch.tensor([5.0]), torch.tensor([6.0])] if dist.get_rank() == 0 else None
    ...     dist.scatter(x, parts, src=0)
    ...     return x.item()
    >>> dist.threads.run(given, 2)
    [5.0, 6.0]
    """
    known = own_group(group, "scatter")
    if known is None:
        return None
    if src is None and group_src is None:
        group_src = 0
    root, array = member(known, src, group_src, "scatter"), array_of(tensor, "scatter")
    at_root = known.rank() == root
    if bool(scatter_list) != at_root:
        raise ValueError(f"scatter: scatter_list is for rank {root}, and for it alone.")
    given = check_list(scatter_list, known.size(), array, "scatter") if at_root else []
    call = Call("scatter", f"{describe(array)} from {root}", known.timeout)

    def act() -> None:
        stack = namespace(array).stack
        rows = stack([one.reshape(array.shape) for one in given]) if at_root else None
        data = packed(array)
        known.communicator.scatter(call, data, rows, root)
        written(tensor, data, "scatter")

    return known.do(call, act, later=async_op, result=[tensor])


def reduce_scatter(
    output: Any, input_list: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Fill `output` with the reduction, over all ranks, of their lists' item for this one.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def mine():
    ...     x = torch.zeros(1)
    ...     dist.reduce_scatter(x, [torch.ones(1), 2 * torch.ones(1)])
    ...     return x.item()
    >>> dist.threads.run(mine, 2)
    [2.0, 4.0]
    """
    known = own_group(group, "reduce_scatter")
    if known is None:
        return None
    out, op = array_of(output, "reduce_scatter"), ReduceOp.of(op)
    check_op(op, out.dtype, known.backend)
    given = check_list(input_list, known.size(), out, "reduce_scatter")
    call = Call("reduce_scatter", f"{describe(out)} {op.name}", known.timeout)

    def act() -> None:
        stacked = namespace(out).stack([one.reshape(out.shape) for one in given])
        data, (rows, how) = packed(out), premultiplied(stacked, op)
        known.communicator.reduce_scatter(call, data, rows, how)
        written(output, data, "reduce_scatter")

    return known.do(call, act, later=async_op, result=[output])


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """As `reduce_scatter`, from one tensor whose parts are the ranks'.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def mine():
    ...     x = torch.zeros(1)
    ...     dist.reduce_scatter_tensor(x, torch.tensor([1.0, 2.0]))
    ...     return x.item()
    >>> dist.threads.run(mine, 2)
    [2.0, 4.0]
    """
    known = own_group(group, "reduce_scatter_tensor")
    if known is None:
        return None
    what = "reduce_scatter_tensor"
    out, array, op = array_of(output, what), array_of(input, what), ReduceOp.of(op)
    check_op(op, out.dtype, known.backend)
    if array.size != out.size * known.size() or out.dtype != array.dtype:
        raise RuntimeError(
            f"{what}: an output of {describe(out)} for each of {known.size()} ranks; the input is "
            f"{describe(array)}."
        )
    call = Call(what, f"{describe(out)} {op.name}", known.timeout)

    def act() -> None:
        given = packed(array).reshape(known.size(), *out.shape)
        data, (rows, how) = packed(out), premultiplied(given, op)
        known.communicator.reduce_scatter(call, data, rows, how)
        written(output, data, what)

    return known.do(call, act, later=async_op, result=[output])


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Send each rank its part of `input`; `output` gets theirs, in rank order.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def exchanged():
    ...     x = torch.zeros(2)
    ...     dist.all_to_all_single(x, 10.0 * dist.get_rank() + torch.arange(2.0))
    ...     return x.tolist()
    >>> dist.threads.run(exchanged, 2)
    [[0.0, 10.0], [1.0, 11.0]]
    """
    known = own_group(group, "all_to_all_single")
    if known is None:
        return None
    what = "all_to_all_single"
    out, array = array_of(output, what), array_of(input, what)
    size = known.size()
    out_sizes = split_sizes(output_split_sizes, out, size, "output")
    sizes = split_sizes(input_split_sizes, array, size, "input")
    call = Call(what, f"{array.dtype.name} rows {list(array.shape[1:])}", known.timeout)

    def act() -> None:
        data = packed(out)
        known.communicator.all_to_all(call, data, out_sizes, packed(array), sizes)
        written(output, data, what)

    return known.do(call, act, later=async_op, result=[output])


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Any:
    """Send each rank its tensor of one list; the other is filled with theirs.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def exchanged():
    ...     rank = dist.get_rank()
    ...     found = [torch.zeros(1), torch.zeros(1)]
    ...     dist.all_to_all(found, [torch.tensor([10.0 * rank]), torch.tensor([10.0 * rank + 1])])
    ...     return [x.item() for x in found]
    >>> dist.threads.run(exchanged, 2)
    [[0.0, 10.0], [1.0, 11.0]]
    """
    known = own_group(group, "all_to_all")
    if known is None:
        return None
    size = known.size()
    outs = [array_of(tensor, "all_to_all") for tensor in output_tensor_list]
    given = [array_of(tensor, "all_to_all") for tensor in input_tensor_list]
    if len(outs) != size or len(given) != size:
        raise RuntimeError(
            f"all_to_all: lists of {len(outs)} outputs and {len(given)} inputs for {size} ranks."
        )
    call = Call("all_to_all", given[0].dtype.name, known.timeout)

    def act() -> None:
        xp = namespace(outs[0])
        flat = xp.concatenate([one.reshape(-1) for one in given])
        out_sizes, sizes = [one.size for one in outs], [one.size for one in given]
        filled = xp.empty(sum(out_sizes), outs[0].dtype)
        known.communicator.all_to_all(call, filled, out_sizes, flat, sizes)
        rows = xp.split(filled, numpy.cumsum(out_sizes)[:-1].tolist())
        unstack(output_tensor_list, rows, "all_to_all")

    return known.do(call, act, later=async_op, result=output_tensor_list)


def all_reduce_coalesced(
    tensors: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """`all_reduce` of several tensors of one dtype in one message.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def summed():
    ...     parts = [torch.ones(1), 2 * torch.ones(1)]
    ...     dist.all_reduce_coalesced(parts)
    ...     return [x.item() for x in parts]
    >>> dist.threads.run(summed, 3)
    [[3.0, 6.0], [3.0, 6.0], [3.0, 6.0]]
    """
    known = own_group(group, "all_reduce_coalesced")
    if known is None:
        return None
    op = ReduceOp.of(op)
    arrays = [array_of(tensor, "all_reduce_coalesced") for tensor in tensors]
    if len({array.dtype for array in arrays}) > 1:
        raise ValueError("all_reduce_coalesced: all tensors have the same dtype.")
    check_op(op, arrays[0].dtype, known.backend)
    shapes = ", ".join(map(describe, arrays))
    call = Call("all_reduce_coalesced", f"{shapes} {op.name}", known.timeout)

    def act() -> None:
        xp = namespace(arrays[0])
        joined = xp.concatenate([array.reshape(-1) for array in arrays])
        flat, how = premultiplied(joined, op)
        known.communicator.all_reduce(call, flat, how)
        ends = numpy.cumsum([array.size for array in arrays])[:-1].tolist()
        unstack(tensors, xp.split(flat, ends), "all_reduce_coalesced")

    return known.do(call, act, later=async_op, result=tensors)


def all_gather_coalesced(
    output_tensor_lists: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Any:
    """`all_gather` of several tensors: a list for each rank, with a place for each tensor.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def gathered():
    ...     found = [[torch.zeros(1), torch.zeros(2)] for _ in range(2)]
    ...     rank = float(dist.get_rank())
    ...     dist.all_gather_coalesced(found, [torch.full((1,), rank), torch.full((2,), -rank)])
    ...     return [[x.tolist() for x in one] for one in found]
    >>> dist.threads.run(gathered, 2)[0]
    [[[0.0], [-0.0, -0.0]], [[1.0], [-1.0, -1.0]]]
    """
    known = own_group(group, "all_gather_coalesced")
    if known is None:
        return None
    given = list(input_tensor_list)
    if len(output_tensor_lists) != known.size() or any(
        len(one) != len(given) for one in output_tensor_lists
    ):
        raise RuntimeError(
            f"all_gather_coalesced: a list for each of {known.size()} ranks, with {len(given)} "
            "tensors in each."
        )
    columns = zip(*output_tensor_lists, strict=True)
    works = [
        all_gather(list(outs), one, known, async_op)
        for outs, one in zip(columns, given, strict=True)
    ]
    return together(known, "all_gather_coalesced", works) if async_op else None


def barrier(
    group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: Any = None
) -> Any:
    """Wait until every rank has called this.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> dist.threads.run(dist.barrier, 2)
    [None, None]
    """
    known = own_group(group, "barrier")
    if known is None:
        return None
    call = Call("barrier", "", in_seconds(timeout, known.timeout))
    return known.do(call, lambda: known.communicator.barrier(call), later=async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """As `barrier`; the error names the ranks that did not come.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> dist.threads.run(dist.monitored_barrier, 2)
    [None, None]
    """
    known = own_group(group, "monitored_barrier")
    if known is not None:
        call = Call("monitored_barrier", "", in_seconds(timeout, known.timeout))
        known.do(call, lambda: known.communicator.monitored_barrier(call), later=False)


# Torch's newer names.
all_gather_single = all_gather_into_tensor
reduce_scatter_single = reduce_scatter_tensor

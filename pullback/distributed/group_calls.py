"""Collectives as methods of a process group: torch's inner calls, which return their work.

Tensors stand in lists, and roots are numbers in the group.
"""

from __future__ import annotations

from typing import Any

from pullback.distributed.reduction import ReduceOp

__all__ = ["GroupCalls"]


def _op(given: Any) -> Any:
    """An operation, given as such or in options."""
    return getattr(given, "reduceOp", given) if given is not None else ReduceOp.SUM


def _root(given: Any) -> int:
    return int(getattr(given, "rootRank", given) if given is not None else 0)


def _one(tensors: Any) -> Any:
    """The tensor of a list of one, or the tensor itself."""
    return tensors[0] if isinstance(tensors, (list, tuple)) else tensors


class GroupCalls:
    """What can be called on a group itself."""

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        """Replace a tensor by the reduction over all ranks."""
        from pullback.distributed import collectives

        return collectives.all_reduce(_one(tensors), _op(opts), self, async_op=True)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Any:
        """The same for several tensors, in one message."""
        from pullback.distributed import collectives

        return collectives.all_reduce_coalesced(tensors, _op(opts), self, async_op=True)

    def reduce(self, tensors: Any, root: Any = None, op: Any = None) -> Any:
        """Replace a tensor, on one rank, by the reduction over all."""
        from pullback.distributed import collectives

        op = _op(root if op is None and hasattr(root, "reduceOp") else op)
        return collectives.reduce(
            _one(tensors), op=op, group=self, async_op=True, group_dst=_root(root)
        )

    def broadcast(self, tensors: Any, root: Any = None) -> Any:
        """Replace a tensor by that of one rank."""
        from pullback.distributed import collectives

        return collectives.broadcast(
            _one(tensors), group=self, async_op=True, group_src=_root(root)
        )

    def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Any:
        """Fill a list with what every rank gives."""
        from pullback.distributed import collectives

        outs = output_tensors[0] if isinstance(output_tensors[0], list) else output_tensors
        return collectives.all_gather(outs, _one(input_tensors), self, async_op=True)

    def allgather_coalesced(self, output_lists: Any, input_list: Any, opts: Any = None) -> Any:
        """The same for several tensors, with a list for each rank."""
        from pullback.distributed import collectives

        return collectives.all_gather_coalesced(output_lists, input_list, self, async_op=True)

    def _allgather_base(self, output: Any, input: Any, opts: Any = None) -> Any:
        """Fill one tensor with what every rank gives."""
        from pullback.distributed import collectives

        return collectives.all_gather_into_tensor(output, input, self, async_op=True)

    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """The same for several tensors."""
        from pullback.distributed import coalescing

        works = [self._allgather_base(*each) for each in zip(outputs, inputs, strict=True)]
        group: Any = self
        return coalescing.together(group, "allgather_into_tensor_coalesced", works)

    def gather(self, output_tensors: Any, input_tensors: Any, root: Any = None) -> Any:
        """Fill a list, on one rank, with what every rank gives."""
        from pullback.distributed import collectives

        outs = output_tensors[0] if output_tensors else None
        return collectives.gather(
            _one(input_tensors), outs, group=self, async_op=True, group_dst=_root(root)
        )

    def scatter(self, output_tensors: Any, input_tensors: Any, root: Any = None) -> Any:
        """Fill a tensor with this rank's item of one rank's list."""
        from pullback.distributed import collectives

        given = input_tensors[0] if input_tensors else None
        return collectives.scatter(
            _one(output_tensors), given, group=self, async_op=True, group_src=_root(root)
        )

    def reduce_scatter(self, output_tensors: Any, input_tensors: Any, op: Any = None) -> Any:
        """Fill a tensor with the reduction of the ranks' items for this one."""
        from pullback.distributed import collectives

        given = input_tensors[0] if isinstance(input_tensors[0], list) else input_tensors
        return collectives.reduce_scatter(_one(output_tensors), given, _op(op), self, async_op=True)

    def _reduce_scatter_base(self, output: Any, input: Any, opts: Any = None) -> Any:
        """The same, from one tensor."""
        from pullback.distributed import collectives

        return collectives.reduce_scatter_tensor(output, input, _op(opts), self, async_op=True)

    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """The same for several tensors."""
        from pullback.distributed import coalescing

        given = zip(outputs, inputs, strict=True)
        works = [self._reduce_scatter_base(*each, opts) for each in given]
        group: Any = self
        return coalescing.together(group, "reduce_scatter_tensor_coalesced", works)

    def alltoall(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Any:
        """Send each rank its tensor of one list; the other is filled with theirs."""
        from pullback.distributed import collectives

        return collectives.all_to_all(output_tensors, input_tensors, self, async_op=True)

    def alltoall_base(
        self,
        output: Any,
        input: Any,
        output_split_sizes: Any = None,
        input_split_sizes: Any = None,
        opts: Any = None,
    ) -> Any:
        """The same, of one tensor's parts."""
        from pullback.distributed import collectives

        return collectives.all_to_all_single(
            output, input, output_split_sizes, input_split_sizes, self, async_op=True
        )

    def barrier(self, opts: Any = None) -> Any:
        """Wait until every rank has called this."""
        from pullback.distributed import collectives

        return collectives.barrier(self, async_op=True)

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """The same; the error names who did not come."""
        from pullback.distributed import collectives

        collectives.monitored_barrier(self, timeout, wait_all_ranks)

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Any:
        """Give a tensor to a rank of the group."""
        from pullback.distributed import messages

        return messages.isend(_one(tensors), group=self, tag=tag, group_dst=dst)

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Any:
        """Fill a tensor with what a rank of the group sends."""
        from pullback.distributed import messages

        return messages.irecv(_one(tensors), group=self, tag=tag, group_src=src)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        """Fill a tensor with what anybody sends."""
        from pullback.distributed import messages

        return messages.irecv(_one(tensors), group=self, tag=tag)

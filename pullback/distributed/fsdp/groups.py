"""Parameters that are gathered, and whose gradients are reduced, together: those of one module.

Large ones travel in their own memory, without copies; the small ones of a group share a message.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.tensor import Tensor, wrap
from pullback.distributed.collectives import (
    all_gather_into_tensor,
    all_reduce,
    reduce_scatter_tensor,
)
from pullback.distributed.device_mesh import DeviceMesh
from pullback.distributed.fsdp.parameters import ShardedParameter
from pullback.distributed.group import ProcessGroup
from pullback.distributed.reduction import ReduceOp

__all__ = ["ParameterGroup"]

_ALONE = 1 << 16  # bytes of a part from which on it travels by itself


def _gathered(out: Any, part: Any, group: Any, *, later: bool) -> Any:
    return all_gather_into_tensor(wrap(out), wrap(part), group=group, async_op=later)


class ParameterGroup:
    """The parameters of one call of `fully_shard`.

    `near` are the ranks, some of all, over which wholes stay shared out between forward and
    backward, so that they are gathered again among these alone.
    """

    def __init__(
        self,
        parameters: list[ShardedParameter],
        mesh: DeviceMesh,
        policy: Any,
        near: ProcessGroup | None = None,
    ) -> None:
        self.parameters, self.mesh, self.policy = parameters, mesh, policy
        self.shards = mesh.get_group(mesh.ndim - 1)
        self.replicas = mesh.get_group(0) if mesh.ndim == 2 else None
        self.near = near
        self.overlaps = self.shards.communicator.is_far
        self.syncs = self.reduces_replicas = True
        self.divisor: float | None = None
        self._gathering: tuple[list[Any], list[tuple[Any, Any, bool]]] | None = None
        self._kept: dict[int, Any] | None = None  # pieces of wholes, for the ranks that are near
        self._got: dict[int, Any] = {}  # whole gradients that are not reduced yet, by number
        self._arrived: set[int] = set()  # of this pass
        self._of_replicas: dict[int, Any] = {}  # parts that were not reduced over replicas

    @property
    def is_whole(self) -> bool:
        """Whether the parameters are gathered."""
        return all(one.is_whole for one in self.parameters)

    # ------------------------------------------------------------------ parameters

    def begin_gathering(self, *, later: bool) -> None:
        """Start to gather, or do it, where it is not done or under way."""
        if self._gathering is not None or self.is_whole or not self.parameters:
            return
        kept, self._kept = self._kept, None
        group: Any
        if kept is not None and all(one.is_as_gathered() for one in self.parameters):
            group = self.near
            sent = [kept[n] for n in range(len(self.parameters))]
        else:
            group, kept = self.shards, None
            sent = [one.part().reshape(-1) for one in self.parameters]
        works, fused = [], []
        by_dtype: dict[Any, list[tuple[ShardedParameter, Any]]] = {}
        for one, part in zip(self.parameters, sent, strict=True):
            # Parts that are no rows lie elsewhere in the whole than they arrive.
            if one.nbytes >= _ALONE and (kept is not None or not one.dim):
                one.restore()
                works.append(_gathered(one.array.reshape(-1), part, group, later=later))
            else:
                by_dtype.setdefault(one.dtype, []).append((one, part))
        for members in by_dtype.values():
            together = numpy.concatenate([part for _, part in members])
            rows = numpy.empty((group.size(), together.size), together.dtype)
            works.append(_gathered(rows.reshape(-1), together, group, later=later))
            fused.append(([(one, part.size) for one, part in members], rows, kept is None))
        self._gathering = works, fused

    def gather(self) -> None:
        """Have the parameters whole."""
        self.begin_gathering(later=False)
        if self._gathering is None:
            return
        works, fused = self._gathering
        self._gathering = None
        for work in works:
            if work is not None:
                work.wait()
        for members, rows, are_parts in fused:
            start = 0
            for one, size in members:
                one.restore()
                pieces = rows[:, start : start + size]
                if are_parts:
                    one.take(pieces)
                else:
                    one.array[...] = pieces.reshape(one.array.shape)
                start += size
        for one in self.parameters:
            one.filled()

    def give_back(self, *, for_backward: bool = False) -> None:
        """Have parts alone, and pieces of the wholes if a backward pass will gather them."""
        if self._gathering is not None:
            self.gather()  # it is under way on all ranks
        if not for_backward:
            self._kept = None
        elif self.near is not None and self.is_whole:
            ranks, rank = self.near.size(), self.near.rank()
            self._kept = {n: one.piece(ranks, rank) for n, one in enumerate(self.parameters)}
        for one in self.parameters:
            one.give_back()

    # ------------------------------------------------------------------ gradients

    def arrived(self, number: int, gradient: Tensor) -> bool:
        """Take a whole gradient; whether it was the last of this pass."""
        before = self._got.get(number)
        self._got[number] = gradient if before is None else before + gradient
        self._arrived.add(number)
        return len(self._arrived) == sum(one.requires_grad for one in self.parameters)

    def end_pass(self) -> None:
        """Reduce what has arrived; without synchronization it waits for a later pass."""
        self._arrived.clear()
        if self.syncs and self._got:
            got, self._got = self._got, {}
            self._reduce(got)

    def _reduce(self, got: dict[int, Any]) -> None:
        small: dict[Any, list[int]] = {}
        for number in sorted(got):
            one = self.parameters[number]
            if one.nbytes >= _ALONE:
                rows = self._padded(one, got.pop(number))
                self._keep(number, self._scattered(rows).reshape(one.part_shape))
                del rows
            else:
                small.setdefault(self._reduce_dtype(got[number]), []).append(number)
        for numbers in small.values():
            ranks = self.shards.size()
            pieces = [self._padded(self.parameters[n], got.pop(n)) for n in numbers]
            rows = numpy.concatenate([piece.reshape(ranks, -1) for piece in pieces], axis=1)
            part, start = self._scattered(rows).reshape(-1), 0
            for number in numbers:
                shape, size = self.parameters[number].part_shape, self.parameters[number].size
                self._keep(number, part[start : start + size].reshape(shape))
                start += size

    def _reduce_dtype(self, gradient: Tensor) -> Any:
        wanted = self.policy.reduce_dtype
        return gradient._array.dtype if wanted is None else wanted.numpy

    def _padded(self, one: ShardedParameter, gradient: Tensor) -> Any:
        return one.cut(gradient._array.astype(self._reduce_dtype(gradient), copy=False))

    def _scattered(self, rows: Any) -> Any:
        """This rank's part of the mean over those who share the parameters out."""
        ranks = self.shards.size()
        part = numpy.empty((len(rows) // ranks, *rows.shape[1:]), rows.dtype)
        op = ReduceOp.AVG if self.divisor is None else ReduceOp.SUM
        reduce_scatter_tensor(wrap(part), wrap(rows), op=op, group=self.shards)
        return part

    def _keep(self, number: int, part: Any) -> None:
        """Reduce over replicas, if this pass is to, and put it where optimizers look."""
        before = self._of_replicas.pop(number, None)
        if before is not None:
            part = before + part
        if self.replicas is not None and self.replicas.size() > 1:
            if not self.reduces_replicas:
                self._of_replicas[number] = part
                return
            total = wrap(numpy.ascontiguousarray(part))
            op = ReduceOp.AVG if self.divisor is None else ReduceOp.SUM
            all_reduce(total, op=op, group=self.replicas)
            part = total._array
        if self.divisor is not None:
            part = part / self.divisor
        self.parameters[number].add_gradient(part)

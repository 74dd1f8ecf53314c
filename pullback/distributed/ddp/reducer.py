"""The reducer: when a backward pass has served the parameters, their gradients are averaged.

Near ranks reduce when the pass has ended, which was never slower there, and needs no hook on any
parameter: which of them got a gradient is seen from `.grad`, its identity and its version. Far
ranks, to whom messages take long, send a bucket as soon as its last gradient is there; then hooks
tell. Buckets go in the order of their numbers on every rank.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy

from pullback.core import passes
from pullback.core.node import AccumulateGrad, walk
from pullback.core.tensor import Tensor
from pullback.distributed.call import Call
from pullback.distributed.ddp.buckets import ALONE_BYTES, FIRST_BYTES, Bucket, GradBucket, assign
from pullback.distributed.ddp.sparse import average_sparse
from pullback.distributed.group import ProcessGroup, Work
from pullback.distributed.reduction import ReduceOp

__all__ = ["Reducer", "average_in_context"]

_numbers = itertools.count()
_alive: weakref.WeakSet[Reducer] = weakref.WeakSet()

Hook = Callable[[Any, GradBucket], Any]


class Reducer:
    """Averages the gradients of some parameters over a group, pass by pass."""

    def __init__(
        self,
        named: Sequence[tuple[str, Tensor]],
        group: ProcessGroup,
        *,
        cap: int,
        as_views: bool = False,
        find_unused: bool = False,
        static: bool = False,
        early: bool | None = None,
        sparse: Iterable[Tensor] = (),
    ) -> None:
        self.number = next(_numbers)
        self.names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.group = group
        self.early = group.communicator.is_far if early is None else early
        self.divisor = group.size()
        self.hook: tuple[Any, Hook] | None = None
        self._cap, self._as_views = cap, as_views
        self._find_unused, self._static = find_unused, static
        self._static_unused: set[int] | None = None
        self._everything = set(range(len(self.parameters)))
        self._index = {id(parameter): n for n, parameter in enumerate(self.parameters)}
        # Those whose gradients are sparse travel by themselves, when all others have.
        self._sparse = sorted(self._index[id(one)] for one in sparse if id(one) in self._index)
        self._make_buckets(list(reversed(range(len(self.parameters)))))
        self._before: list[tuple[Any, int]] = []
        self._syncs = False
        self._got: set[int] = set()  # parameters that got a gradient since the last forward
        self._used: set[int] = set()  # and since gradients were last averaged
        self._unused: set[int] = set()  # and those that, by the graph, will get none
        self._thread = 0
        self._works: list[tuple[Bucket, Any, Any]] = []
        self._ready_order: list[int] | None = [] if self.early and not find_unused else None
        self._watch()
        _alive.add(self)

    def _make_buckets(self, order: Sequence[int]) -> None:
        alone = max(ALONE_BYTES, 1) if not self._as_views else 1 << 62
        first = min(FIRST_BYTES, self._cap)
        dense = [number for number in order if number not in self._sparse]
        parts = assign(self.parameters, dense, self._cap, first, min(alone, self._cap))
        self.buckets = [
            Bucket([self.parameters[n] for n in part], part, keeps=self._as_views) for part in parts
        ]

    def _watch(self) -> None:
        """Be told of the ends of passes, and where messages leave early of gradients too."""
        me = weakref.ref(self)

        def at_end() -> None:
            reducer = me()
            if reducer is not None:
                reducer.pass_ended()

        passes.at_end.append(at_end)
        weakref.finalize(self, _forget, at_end)
        if not self.early:
            return
        for number, parameter in enumerate(self.parameters):

            def arrived(_: Tensor, number: int = number) -> None:
                reducer = me()
                if reducer is not None:
                    reducer.gradient_arrived(number)

            parameter.register_post_accumulate_grad_hook(arrived)

    # ------------------------------------------------------------------ forward

    def begin(self, *, syncs: bool, outputs: Iterable[Tensor] = ()) -> None:
        """A forward has run: note how gradients are now, and which parameters it did not use."""
        self._check_finished()
        self._syncs = syncs
        self._thread = threading.get_ident()
        self._got = set()
        self._works = []
        self._before = [_state(parameter) for parameter in self.parameters]
        self._unused = set()
        if syncs and self._find_unused and not self._static:
            self._unused = self._everything - self._reached(outputs)
        elif self._static_unused is not None:
            self._unused = self._static_unused

    def _reached(self, outputs: Iterable[Tensor]) -> set[int]:
        """Parameters that the graph behind the outputs leads to."""
        reached: set[int] = set()
        roots: list[Any] = []
        for tensor in outputs:
            if tensor.grad_fn is not None:
                roots.append(tensor.grad_fn)
            elif id(tensor) in self._index:
                reached.add(self._index[id(tensor)])
        for node in walk(iter(roots)):
            if isinstance(node, AccumulateGrad) and id(node.variable) in self._index:
                reached.add(self._index[id(node.variable)])
        return reached

    def _check_finished(self) -> None:
        missing = self._everything - self._unused - self._got
        if not (self._syncs and self._got and missing):
            return
        self._syncs = False
        named = [f"{number} ({self.names[number]})" for number in sorted(missing)[:10]]
        more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
        raise RuntimeError(
            f"rank {self.group.rank()}: in the last backward these parameters got no gradient, so "
            f"that gradients were not averaged: {', '.join(named)}{more}. Let the loss depend on "
            "all outputs of the forward, or pass find_unused_parameters=True to "
            "DistributedDataParallel."
        )

    # ------------------------------------------------------------------ backward

    def gradient_arrived(self, number: int) -> None:
        """A parameter has its gradient: whatever bucket is full now may leave."""
        if not self._before:
            return
        self._got.add(number)
        if self._ready_order is not None and number not in self._ready_order:
            self._ready_order.append(number)
        # What a static graph leaves out is known only after its first pass.
        if self._syncs and not (self._static and self._static_unused is None):
            self._launch_full()

    def _launch_full(self) -> None:
        ready = self._got | self._unused
        while len(self._works) < len(self.buckets):
            bucket = self.buckets[len(self._works)]
            if not ready.issuperset(bucket.indices):
                return
            self._works.append(self._send(len(self._works), later=True))

    def pass_ended(self) -> None:
        """A backward pass has written its gradients; average them if they are complete."""
        if not self._before:
            return
        if self.group.communicator.ranks_are_threads and threading.get_ident() != self._thread:
            return
        if not self.early:
            for number, parameter in enumerate(self.parameters):
                if number not in self._got and _changed(self._before[number], parameter):
                    self._got.add(number)
        self._take_stock()

    def _take_stock(self) -> None:
        """Average, if all that is awaited has come."""
        if not self._got:
            return
        self._used |= self._got
        if not self._syncs:
            return
        if self._static:
            self._settle_static()
        if self._everything <= self._got | self._unused:
            self._average()

    def average_in(self, gradients: dict[Any, Any], fresh: set[Any]) -> None:
        """The same for a distributed pass, whose gradients are in a map and not in `.grad`.

        Buckets read and write `.grad`, so the map's gradients are there for as long as it takes.
        """
        if not self._before:
            return
        kept = [parameter._stored_grad for parameter in self.parameters]
        try:
            for number, parameter in enumerate(self.parameters):
                found = gradients.get(parameter)
                parameter._stored_grad = None if found is None else found.clone()
                if parameter in fresh:
                    self._got.add(number)
            self._take_stock()
            for parameter in self.parameters:
                if parameter._stored_grad is not None:
                    gradients[parameter] = parameter._stored_grad
        finally:
            for parameter, stored in zip(self.parameters, kept, strict=True):
                parameter._stored_grad = stored

    def _settle_static(self) -> None:
        if self._static_unused is None:
            self._static_unused = self._unused = self._everything - self._got
            return
        other = (self._everything - self._got) ^ self._static_unused
        if other:
            names = ", ".join(self.names[number] for number in sorted(other)[:10])
            self._before = []
            raise RuntimeError(
                f"rank {self.group.rank()}: static_graph=True, but the set of parameters that got "
                f"a gradient has changed since the first backward: {names}."
            )

    def _average(self) -> None:
        """Send what has not left yet, and give every parameter the mean."""
        self._before = []  # until the next forward, passes are none of our business
        everywhere = self._used_anywhere(self._used)
        for number in range(len(self.buckets)):
            if number < len(self._works):
                bucket, flat, work = self._works[number]
            else:
                bucket, flat, work = self._send(number, later=False)
            bucket.write(_arrived(flat, work), everywhere)
        for number in self._sparse:
            if number in everywhere:
                average_sparse(self.parameters[number], self.group, self.divisor)
        self._works = []
        self._got, self._used = set(), set()
        self._rebuild()

    def _send(self, number: int, *, later: bool) -> tuple[Bucket, Any, Any]:
        """Fill a bucket and reduce it; the work is None when that is done."""
        bucket = self.buckets[number]
        used = self._used | self._got
        if self.hook is not None:
            state, hook = self.hook
            flat = bucket.fill(used, 1.0)
            last = number == len(self.buckets) - 1
            return bucket, flat, hook(state, GradBucket(number, last, bucket, flat))
        flat = bucket.fill(used, 1.0 / self.divisor)
        return bucket, flat, self._reduce(number, flat, later=later)

    def _reduce(self, number: int, flat: Any, *, later: bool) -> Any:
        text = f"bucket {number}, {flat.dtype.name}[{flat.size}]"
        call = Call("DistributedDataParallel", text, self.group.timeout)
        communicator = self.group.communicator
        act = partial(communicator.all_reduce, call, flat, ReduceOp.SUM)
        return self.group.do(call, act, later=later)

    def _used_anywhere(self, used: set[int]) -> set[int]:
        """Which parameters some rank has used: the others keep the `.grad` they have."""
        if not (self._find_unused or self._static):
            return self._everything
        flags = numpy.zeros(len(self.parameters), numpy.int32)
        flags[list(used)] = 1
        self._exchange_flags(flags)
        return set(numpy.flatnonzero(flags).tolist())

    def _exchange_flags(self, flags: Any) -> None:
        call = Call(
            "DistributedDataParallel", f"used parameters [{flags.size}]", self.group.timeout
        )
        communicator = self.group.communicator
        self.group.do(call, lambda: communicator.all_reduce(call, flags, ReduceOp.MAX), later=False)

    def _rebuild(self) -> None:
        """After the first pass: buckets in the order in which rank 0's gradients came."""
        order = self._ready_order
        if order is None or self._static:
            return
        self._ready_order = None
        agreed = numpy.array([*order, *sorted(self._everything - set(order))], numpy.int64)
        call = Call("DistributedDataParallel", f"order [{agreed.size}]", self.group.timeout)
        communicator = self.group.communicator
        self.group.do(call, lambda: communicator.broadcast(call, agreed, 0), later=False)
        self._make_buckets(agreed.tolist())

    # ------------------------------------------------------------------ for ranks that have ended

    def shadow(self) -> None:
        """Take part in an average with nothing: for a rank that has no more batches.

        It gets the average too, for an optimizer that steps on its share of the parameters.
        """
        everywhere = self._used_anywhere(set())
        for number, bucket in enumerate(self.buckets):
            flat = bucket.zeros()
            if self.hook is None:
                self._reduce(number, flat, later=False)
            else:
                state, hook = self.hook
                last = number == len(self.buckets) - 1
                flat = _arrived(flat, hook(state, GradBucket(number, last, bucket, flat)))
            bucket.write(flat, everywhere)
        for number in self._sparse:
            if number in everywhere:
                average_sparse(self.parameters[number], self.group, self.divisor, give=False)


def average_in_context(gradients: dict[Any, Any], fresh: set[Any]) -> None:
    """Average what a distributed pass has found for parameters of data parallel modules."""
    for reducer in sorted(_alive, key=lambda one: one.number):
        if not fresh.isdisjoint(reducer.parameters):
            reducer.average_in(gradients, fresh)


def _forget(at_end: Callable[[], None]) -> None:
    passes.at_end.remove(at_end)


def _state(parameter: Tensor) -> tuple[Any, int]:
    stored = parameter._stored_grad
    return stored, (0 if stored is None else stored._cell[0])


def _changed(before: tuple[Any, int], parameter: Tensor) -> bool:
    stored = parameter._stored_grad
    return stored is not None and (stored is not before[0] or stored._cell[0] != before[1])


def _arrived(flat: Any, work: Any) -> Any:
    """The reduced bucket, when it is there."""
    if work is None:
        return flat
    if isinstance(work, Work):
        work.wait()
        return flat
    result = work.wait()
    if isinstance(result, (list, tuple)):
        result = result[0]
    return result._array.reshape(-1)

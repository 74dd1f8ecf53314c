"""Ranks that are threads of one process: for tests, for trying things, and for simulations.

Contributions are reduced in rank order by whoever comes last, so that every run gives the same
bits. Delays and faults can be put into any call of any rank.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy

from pullback.distributed.call import SPEAK_AFTER, Call, late_text, mismatch_text
from pullback.distributed.engines.communicator import Communicator
from pullback.distributed.engines.waiting import speak
from pullback.distributed.errors import DistBackendError
from pullback.distributed.reduction import ReduceOp, reduce_in_order

__all__ = ["Fault", "ThreadCommunicator", "ThreadWorld"]

Combine = Callable[[list[Any]], list[Any]]
Failure = Callable[[int], str]  # what to tell a rank


@dataclass(frozen=True)
class Fault:
    """What befalls a rank at its `at_call`-th call: it raises, or stays away for `seconds`."""

    at_call: int
    error: Exception | None = None
    seconds: float = 0.0


@dataclass
class ThreadWorld:
    """What the threads of one job share."""

    size: int
    # Seconds that a rank's call is held up: delay(rank, call's name, bytes).
    delay: Callable[[int, str, int], float] | None = None
    faults: dict[int, Fault] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.changed = threading.Condition()
        self.gone: dict[int, str] = {}  # rank -> what it died of
        self.rooms: dict[Any, Room] = {}
        self.calls = [0] * self.size

    def room(self, key: Any, ranks: tuple[int, ...]) -> Room:
        """Where the ranks of one group meet; made by whoever comes first."""
        with self.changed:
            if key not in self.rooms:
                self.rooms[key] = Room(self, ranks)
            return self.rooms[key]

    def leave(self, rank: int, reason: str) -> None:
        """A rank is gone: who waits for it is told."""
        with self.changed:
            self.gone.setdefault(rank, reason)
            self.changed.notify_all()

    def before_call(self, rank: int, name: str, size: int) -> None:
        """Injected delays and faults."""
        number = self.calls[rank]
        self.calls[rank] += 1
        fault = self.faults.get(rank)
        if fault is not None and fault.at_call == number:
            if fault.seconds:
                time.sleep(fault.seconds)
            if fault.error is not None:
                raise fault.error
        if self.delay is not None:
            seconds = self.delay(rank, name, size)
            if seconds > 0:
                time.sleep(seconds)


class _Slot:
    """One collective call of a group, while its ranks come."""

    __slots__ = ("failure", "given", "left", "results", "texts")

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        self.given: dict[int, Any] = {}
        self.results: list[Any] | None = None
        self.failure: Failure | None = None
        self.left = 0


class Room:
    """Where the ranks of one group meet: call by call, and by messages."""

    def __init__(self, world: ThreadWorld, ranks: tuple[int, ...]) -> None:
        self.world = world
        self.ranks = ranks
        self.slots: dict[int, _Slot] = {}
        self.mail: dict[tuple[int, int], deque[tuple[int, Any]]] = {}  # (to, tag) -> from, array
        self.store: Any = None  # that of the group, once somebody has asked for it


class ThreadCommunicator(Communicator):
    """The ranks of one group, seen from one thread."""

    engine = "threads"
    ranks_are_threads = True

    def __init__(self, room: Room, rank: int, name: str = "the default group") -> None:
        self.room = room
        self.rank = rank
        self.size = len(room.ranks)
        self.name = name
        self._calls = 0

    def _meet(self, call: Call, payload: Any, combine: Combine) -> Any:
        """Come to a call with a payload; what `combine` makes of all of them for this rank."""
        room, world = self.room, self.room.world
        world.before_call(room.ranks[self.rank], call.name, getattr(payload, "nbytes", 0))
        call.number = number = self._calls
        self._calls += 1
        with world.changed:
            slot = room.slots.setdefault(number, _Slot())
            slot.texts[self.rank] = str(call)
            slot.given[self.rank] = payload
            if len(slot.given) == self.size and slot.failure is None:
                self._finish(slot, combine)
                world.changed.notify_all()
            else:
                self._wait(slot, call)
            failure, results = slot.failure, slot.results
            slot.left += 1
            if slot.left == self.size:
                del room.slots[number]
        if failure is not None:
            raise DistBackendError(failure(self.rank))
        assert results is not None
        return results[self.rank]

    def _finish(self, slot: _Slot, combine: Combine) -> None:
        texts = [slot.texts[rank] for rank in range(self.size)]
        if len(set(texts)) > 1:
            slot.failure = lambda rank: mismatch_text(rank, self.name, texts)
            return
        try:
            slot.results = combine([slot.given[rank] for rank in range(self.size)])
        except Exception as error:
            text = f"{texts[0]} of {self.name} failed: {error}"
            slot.failure = lambda rank: f"rank {rank}: {text}"

    def _wait(self, slot: _Slot, call: Call) -> None:
        """Until the slot is finished, time is up, or a rank it needs is gone."""
        world = self.room.world
        started = time.monotonic()
        spoken = False
        while slot.results is None and slot.failure is None:
            missing = [rank for rank in range(self.size) if rank not in slot.given]
            waited = time.monotonic() - started
            slot.failure = self._failure(call, missing, waited)
            if slot.failure is not None:
                world.changed.notify_all()
                return
            if waited > SPEAK_AFTER and not spoken:
                spoken = True
                speak(f"rank {self.rank}: {call} waits for rank {missing}")
            world.changed.wait(min(call.timeout - waited, 1.0))

    def _failure(self, call: Call, missing: list[int], waited: float) -> Failure | None:
        for absent in missing:
            reason = self.room.world.gone.get(self.room.ranks[absent])
            if reason is not None:
                text = f"{call} of {self.name} cannot finish: rank {absent} is gone ({reason})."
                return lambda rank: f"rank {rank}: {text}"
        if waited >= call.timeout:
            return lambda rank: late_text(rank, self.name, call, missing, waited)
        return None

    def all_reduce(self, call: Call, array: Any, op: ReduceOp) -> None:
        def combine(given: list[Any]) -> list[Any]:
            return [reduce_in_order(given, op)] * len(given)

        numpy.copyto(array, self._meet(call, array, combine))

    def reduce(self, call: Call, array: Any, op: ReduceOp, root: int) -> None:
        def combine(given: list[Any]) -> list[Any]:
            results: list[Any] = [None] * len(given)
            results[root] = reduce_in_order(given, op)
            return results

        result = self._meet(call, array, combine)
        if result is not None:
            numpy.copyto(array, result)

    def broadcast(self, call: Call, array: Any, root: int) -> None:
        numpy.copyto(array, self._meet(call, array, lambda g: [g[root].copy()] * len(g)))

    def all_gather(self, call: Call, out: Any, array: Any) -> None:
        rows = self._meet(call, array, lambda g: [numpy.stack(g)] * len(g))
        numpy.copyto(out, rows.reshape(out.shape))

    def gather(self, call: Call, out: Any, array: Any, root: int) -> None:
        rows = self._meet(call, array, lambda g: [numpy.stack(g)] * len(g))
        if out is not None:
            numpy.copyto(out, rows.reshape(out.shape))

    def scatter(self, call: Call, out: Any, rows: Any, root: int) -> None:
        numpy.copyto(out, self._meet(call, rows, lambda g: list(g[root].copy())))

    def reduce_scatter(self, call: Call, out: Any, rows: Any, op: ReduceOp) -> None:
        numpy.copyto(out, self._meet(call, rows, lambda g: list(reduce_in_order(g, op))))

    def all_to_all(
        self, call: Call, out: Any, out_sizes: list[int], array: Any, sizes: list[int]
    ) -> None:
        def combine(given: list[Any]) -> list[Any]:
            pieces = [numpy.split(a, numpy.cumsum(s)[:-1]) for a, s, _ in given]
            for to in range(len(given)):
                wanted = given[to][2]
                came = [len(pieces[giver][to]) for giver in range(len(given))]
                if came != wanted:
                    raise ValueError(
                        f"rank {to} expects pieces of {wanted} elements from the ranks, they "
                        f"send {came}"
                    )
            return [numpy.concatenate([p[to] for p in pieces]) for to in range(len(given))]

        numpy.copyto(out, self._meet(call, (array, sizes, out_sizes), combine))

    def exchange(self, call: Call, data: bytes) -> list[bytes]:
        all_of_them: list[bytes] = self._meet(call, data, lambda g: [list(g) for _ in g])
        return all_of_them

    def barrier(self, call: Call) -> None:
        self._meet(call, None, lambda g: list(g))

    def send(self, call: Call, array: Any, peer: int, tag: int) -> None:
        room, world = self.room, self.room.world
        world.before_call(room.ranks[self.rank], call.name, array.nbytes)
        with world.changed:
            room.mail.setdefault((peer, tag), deque()).append((self.rank, array.copy()))
            world.changed.notify_all()

    def receive(self, call: Call, array: Any, peer: int | None, tag: int) -> int:
        room, world = self.room, self.room.world
        world.before_call(room.ranks[self.rank], call.name, array.nbytes)
        started = time.monotonic()
        with world.changed:
            while True:
                box = room.mail.setdefault((self.rank, tag), deque())
                for place, (giver, given) in enumerate(box):
                    if peer is None or giver == peer:
                        del box[place]
                        self._take(call, array, given, giver)
                        return giver
                self._check_sender(call, peer, time.monotonic() - started)
                world.changed.wait(min(call.timeout, 1.0))

    def _take(self, call: Call, array: Any, given: Any, giver: int) -> None:
        if given.shape != array.shape or given.dtype != array.dtype:
            raise DistBackendError(
                f"rank {self.rank}: recv expects {array.dtype.name}{list(array.shape)}, rank "
                f"{giver} sent {given.dtype.name}{list(given.shape)}."
            )
        numpy.copyto(array, given)

    def _check_sender(self, call: Call, peer: int | None, waited: float) -> None:
        gone = self.room.world.gone
        if peer is not None and self.room.ranks[peer] in gone:
            raise DistBackendError(
                f"rank {self.rank}: {call} cannot finish: rank {peer} is gone "
                f"({gone[self.room.ranks[peer]]})."
            )
        if waited >= call.timeout:
            missing = [] if peer is None else [peer]
            raise DistBackendError(late_text(self.rank, self.name, call, missing, waited))

    def split(self, call: Call, ranks: list[int], name: str) -> Communicator | None:
        self.barrier(call)
        if self.rank not in ranks:
            return None
        key = (id(self.room), call.number, tuple(ranks))
        room = self.room.world.room(key, tuple(self.room.ranks[rank] for rank in ranks))
        return ThreadCommunicator(room, ranks.index(self.rank), name)

    def among(self, call: Call, ranks: list[int], name: str) -> Communicator:
        room = self.room.world.room(name, tuple(self.room.ranks[rank] for rank in ranks))
        made = ThreadCommunicator(room, ranks.index(self.rank), name)
        made.barrier(call)
        return made

    def abort(self, reason: str) -> None:
        self.room.world.leave(self.room.ranks[self.rank], reason)

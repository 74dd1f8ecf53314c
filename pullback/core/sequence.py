"""The numbers of nodes: one order for the whole process, shown to users as a count per thread.

A node's `_seq` counts down over all threads, so that edges always lead to larger numbers and
`heapq` pops the newest node first. torch shows another number: how many nodes the same thread made
before. While one thread makes nodes the two are the same count. When a second thread arrives,
`numbering.next` becomes a function whose numbers also carry the thread and its own count, in low
digits that never decide the order. So programs of one thread pay nothing.

A thread arrives with its first operator call in a context of its own. One that was started with a
copy of another thread's context (asyncio.to_thread) counts on with that thread until then.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

_COUNT = 48  # bits of a thread's own count
_THREAD = 24  # bits of a thread's place in `_idents`
_OWN = _COUNT + _THREAD

_first = itertools.count(-1, -1)  # while there is one thread
_later = _first.__next__  # from the second thread on, starting where the first counter ended


class _Numbering:
    """How nodes get their numbers."""

    __slots__ = ("changed", "next", "numbers")

    def __init__(self) -> None:
        self.next: Callable[[], int] = _first.__next__
        # The same numbers as an iterator: of a counter, `next` takes half as long as that call.
        self.numbers: Iterator[int] = _first
        # Whether a user ever renumbered a node: then numbers no longer give a topological order.
        self.changed = False


numbering = _Numbering()

_idents: list[int] = []  # threads, in the order of their arrival
_arriving = threading.RLock()


class _Thread(threading.local):
    """This thread's place among those that make nodes, and its own count in low digits."""

    place: int | None = None
    # An itertools.count: taking a number is one step, in which no interrupt comes between.
    counter: Any = None
    own: Any = None  # takes the next number of that


_here = _Thread()


def arrive() -> None:
    """This thread is about to make its first node."""
    if _here.place is not None:
        return
    with _arriving:
        place = len(_idents)
        _idents.append(threading.get_ident())
        if place == 1:
            _tell_threads_apart()
        _here.place = place
    if place > 0:
        _count_from(place << _COUNT)


def _count_from(start: int) -> None:
    _here.counter = itertools.count(start)
    _here.own = _here.counter.__next__


def _tell_threads_apart() -> None:
    global _later
    _later = itertools.count(-1 - _taken(_first), -1).__next__
    numbering.next, numbering.numbers = among_threads, iter(among_threads, None)


def among_threads() -> int:
    """The number of a new node, once several threads make nodes."""
    own = _here.own
    if own is None:
        arrive()
        if _here.own is None:  # the thread that was alone before
            _count_from(_taken(_first))
        own = _here.own
    number: int = (_later() << _OWN) - own()
    return number


def shown(seq: int) -> int:
    """The count within its thread of the node whose `_seq` this is."""
    return -seq - 1 if -seq < 1 << _OWN else -seq & ((1 << _COUNT) - 1)


def numbered(number: int) -> int:
    """A `_seq` that is shown as `number`, for nodes that users renumber."""
    if len(_idents) < 2:
        return -number - 1
    return ((-number - 1) << _OWN) - ((_here.place or 0) << _COUNT) - number


def thread_of(seq: int) -> int | None:
    """The ident of the thread that made the node whose `_seq` this is."""
    place = 0 if -seq < 1 << _OWN else (-seq >> _COUNT) & ((1 << _THREAD) - 1)
    return _idents[place] if place < len(_idents) else None


def next_sequence_number() -> int:
    """The `_sequence_nr()` that this thread's next node will have."""
    if _here.counter is not None:
        return _number_in(repr(_here.counter)) & ((1 << _COUNT) - 1)
    return _taken(_first) if _here.place == 0 else 0


def _taken(numbers: Any) -> int:
    """How many numbers were taken from a counter that counts down from -1."""
    return -_number_in(repr(numbers)) - 1


def _number_in(text: str) -> int:
    return int(text.removeprefix("count(").rstrip(")").partition(",")[0])

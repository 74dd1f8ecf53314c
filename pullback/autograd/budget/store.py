"""Which values stay in memory: counts them, lets the cheapest go, and makes them anew.

What goes is chosen by seconds per byte: the time to compute a value again from what is still
there, or to put it out and read it back. The plan of a step is tried out on the same code
(`plan.py`), with numbers in the place of arrays.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from pullback.autograd.budget.values import Call, Value

__all__ = ["Counts", "Impossible", "Lost", "Store"]

_FIRST_SPEED = 10e-9  # seconds to put a byte out and read it back, until one was


class Impossible(Exception):  # noqa: N818  it becomes the user's error where the line is known
    """What must be in memory at once is more than the bound; `needed` bytes."""

    def __init__(self, needed: int) -> None:
        super().__init__(needed)
        self.needed = needed


class Lost(Exception):  # noqa: N818  as above
    """A value cannot be computed again: what it came from was written to, or is gone."""


class Counts:
    """What a store did in a step."""

    def __init__(self) -> None:
        self.peak = self.saved = 0  # bytes
        self.recomputed = self.spilled = 0  # bytes that were made anew, and put out
        self.calls = 0  # operators that ran again
        self.seconds = 0.0  # that both took


class Store:
    """Values with their arrays, at most `bound` bytes of them."""

    def __init__(self, bound: int, *, spills: bool) -> None:
        self.bound, self.spills = bound, spills
        self.kept: dict[Value, None] = {}
        self.bytes = 0  # of these
        self.temporary = 0  # of values on the way to another
        self.widest = 0  # of the values that one node saved
        self.per_byte = _FIRST_SPEED
        self.counts = Counts()
        self.on_way: Callable[[list[Value], int], set[Value] | None] = lambda _path, _room: None
        self._heap: list[tuple[float, int, Value]] = []
        self._unrated: list[Value] = []
        self._scores: dict[Value, float] = {}
        self._resting: dict[Value, set[Value]] = {}  # who is computed from a value
        self._ticket = count()
        self._sure: set[Value] = set()  # found to be computable, from what has been held since

    # What differs between arrays and a trial -----------------------------------------------------

    def run(self, call: Call, have: dict[Value, Any], *, may_write: bool) -> list[Any]:
        """The arrays that a call makes; whether it `may_write` to its first argument's."""
        raise NotImplementedError

    def put_out(self, value: Value) -> None:
        """Put a value's array out of memory, to `value.file`."""
        raise NotImplementedError

    def read_back(self, value: Value) -> Any:
        """The array that was put out."""
        raise NotImplementedError

    def hold(self, value: Value) -> None:
        """Keep a tensor of the program's own, since another value rests on it."""
        raise NotImplementedError

    # What is there --------------------------------------------------------------------------------

    def add(self, value: Value, array: Any) -> None:
        """Keep a value's array; `settle` sees to the bound."""
        if value in self.kept:
            return
        value.array = array
        self.kept[value] = None
        self.bytes += value.nbytes
        self._unrated.append(value)  # until somebody has to go

    def drop(self, value: Value) -> None:
        """Let a value's array go, without a thought of how to get it back."""
        if value in self.kept:
            del self.kept[value]
            self.bytes -= value.nbytes
            self._scores.pop(value, None)
        value.array = None

    def overwritten(self, value: Value) -> None:
        """The memory of a value holds other numbers now; what rests on it needs its origins."""
        self._sure.clear()
        self._pin(value)
        self.drop(value)
        self._rate_again(value)

    def forget(self, value: Value) -> None:
        """Nobody asks for a value any more."""
        if self._sure:
            self._sure.clear()
        if value in self.kept:
            self.drop(value)
        value.array = None
        if value.file is not None:
            value.file.close()
            value.file = None

    def clear(self) -> None:
        """A step is over: nobody asks for anything that is still here."""
        for value in list(self.kept):
            self.forget(value)
        self._heap.clear()
        self._unrated.clear()
        self._scores.clear()
        self._resting.clear()
        self._sure.clear()

    def settle(self, busy: Iterable[Value] = ()) -> None:
        """Let go until the bound is kept."""
        self._make_room(0, set(busy), set())
        if self._is_short(0):
            raise Impossible(self.bytes + self.temporary)
        self.counts.peak = max(self.counts.peak, self.bytes + self.temporary)

    # What goes ------------------------------------------------------------------------------------

    def rate(self, value: Value) -> None:
        """Say how dear it is to let a kept value go."""
        seconds, frontier = self.price(value)
        if self.spills:
            seconds = min(seconds, value.nbytes * self.per_byte)
        score = seconds / max(value.nbytes, 1)
        self._scores[value] = score
        for one in frontier:
            self._resting.setdefault(one, set()).add(value)
        heapq.heappush(self._heap, (score, next(self._ticket), value))

    def price(self, value: Value) -> tuple[float, list[Value]]:
        """Seconds to compute a value from what is there (inf: it cannot be), and from what."""
        path = self.path(value)
        if path is None:
            return math.inf, []
        calls, frontier = path
        if any(call.room + self.widest > self.bound for call in calls):
            return math.inf, []
        return sum(call.seconds for call in calls), frontier

    def path(self, value: Value) -> tuple[list[Call], list[Value]] | None:
        """The calls that make a value, in order, and the values they begin with."""
        calls: dict[Call, None] = {}
        frontier: list[Value] = []
        seen: set[Value] = set()
        stack: list[Any] = [value]
        while stack:
            one = stack.pop()
            if one.__class__ is Call:  # all that it reads was seen
                calls.setdefault(one)
                continue
            if one in seen:
                continue
            seen.add(one)
            if one is not value and self._is_there(one):
                frontier.append(one)
                continue
            if one.call is None:
                return None
            stack.append(one.call)
            stack += one.call.inputs
        return list(calls), frontier

    def _is_there(self, value: Value) -> bool:
        if value.file is not None:
            return True
        if value.array is not None:
            if value.cell is None or value.cell[0] == value.version:
                return True
            self.drop(value)  # written to since, unseen
        return value.outside is not None and value.tensor() is not None

    def let_go(self, value: Value) -> bool:
        """Let a kept value go the cheaper way; False if there is none."""
        seconds, _ = self.price(value)
        if seconds == math.inf and not self.spills:
            return False
        if self.spills and value.file is None and value.nbytes * self.per_byte < seconds:
            if not self._spilled(value):
                if seconds == math.inf:
                    return False
                self._pin(value)
        elif value.file is None:
            self._pin(value)
        self.drop(value)
        self._rate_again(value)
        return True

    def let_go_as_planned(self, value: Value, *, is_put_out: bool) -> bool:
        """As `let_go` in a step that was planned: how is known, and that it can be done is asked.

        What was found before to be computable is not looked at again.
        """
        if is_put_out:
            if not self._spilled(value):
                return self.let_go(value)
        elif not self._is_computable(value):
            return self.spills and self.let_go(value)
        self.drop(value)
        self._rate_again(value)
        return True

    def _rate_again(self, gone: Value) -> None:
        for one in self._resting.pop(gone, ()):
            if one in self.kept:
                self.rate(one)

    def _is_computable(self, value: Value) -> bool:
        """Whether calls lead to a value from what is held; what is the program's is held then."""
        sure, found, ends, stack = self._sure, {value}, [], [value]
        most = self.bound - self.widest
        while stack:
            call = stack.pop().call
            if call is None or call.room > most:
                return False
            for one in call.inputs:
                if one in sure or one in found:
                    continue
                if self._is_there(one):
                    ends.append(one)
                else:
                    found.add(one)
                    stack.append(one)
        for one in ends:
            if one.outside is not None and one.array is None and one.file is None:
                self.hold(one)
        sure |= found
        return True

    def _spilled(self, value: Value) -> bool:
        self.put_out(value)
        if value.file is None:
            return False
        self.counts.spilled += value.nbytes
        return True

    def _pin(self, value: Value) -> None:
        """What a value is computed from must stay, where it is the program's."""
        path = self.path(value)
        for one in path[1] if path is not None else ():
            if one.outside is not None and one.array is None and one.file is None:
                self.hold(one)

    def _make_room(self, wanted: int, busy: set[Value], later: set[Value]) -> None:
        """Let go until `wanted` bytes more fit; values of `later` may be put out alone."""
        if not self._is_short(wanted):
            return
        for value in self._unrated:
            if value in self.kept:
                self.rate(value)
        self._unrated.clear()
        passed: list[tuple[float, int, Value]] = []
        while self._is_short(wanted) and self._heap:
            entry = heapq.heappop(self._heap)
            score, _, value = entry
            if self._scores.get(value) != score or value not in self.kept:
                continue
            if value in busy or value in later or value.in_use() or not self.let_go(value):
                passed.append(entry)
        for entry in passed:
            heapq.heappush(self._heap, entry)
        if not self.spills:
            return
        for value in [one for one in self.kept if one in later and one not in busy]:
            if not self._is_short(wanted):
                return
            if not value.in_use() and (value.file is not None or self._spilled(value)):
                self.drop(value)

    def _is_short(self, wanted: int) -> bool:
        return self.bytes + self.temporary + wanted > self.bound

    def _room_for(self, wanted: int, way: Way | None, busy: set[Value]) -> None:
        """Make room for an array that is about to be made, or say that there is none."""
        total = self.bytes + self.temporary + wanted
        if total <= self.bound:
            if total > self.counts.peak:
                self.counts.peak = total
            return
        self._make_room(wanted, busy, set() if way is None else way.later())
        if way is not None and self.spills:
            for value in [one for one in way.temporary if one not in busy]:
                if not self._is_short(wanted):
                    break
                if not way.is_viewed(value):
                    self._put_temporary_out(value, way)
        total = self.bytes + self.temporary + wanted
        if total > self.bound:
            raise Impossible(total)
        self.counts.peak = max(self.counts.peak, total)

    def _put_temporary_out(self, value: Value, way: Way) -> None:
        """A value on the way that is needed later, for which there is no room now."""
        value.array = way.temporary[value]
        if value.file is None and self._spilled(value):
            way.spilled.append(value)
        if value.file is not None:
            del way.temporary[value]
            self.temporary -= value.nbytes
        value.array = None

    # What comes back ------------------------------------------------------------------------------

    def fetch(self, value: Value) -> Any:
        """The array of a value: as it is there, read back, or computed again."""
        array = value.held()
        if array is None:
            array = value.still()
        if array is not None:
            return array
        if value.file is not None:
            return self._read(value, None, {value})
        path = self.path(value)
        if path is None:
            raise Lost
        calls, frontier = path
        way = Way(calls, frontier, value, self._wanted(calls))
        try:
            for call in calls:
                self._step(call, way)
            return way.views.get(value, way.result)
        finally:
            for one in way.temporary:
                self.temporary -= one.nbytes
            for one in way.spilled:
                if not one.handles:
                    self.forget(one)

    def _read(self, value: Value, way: Way | None, busy: set[Value]) -> Any:
        """A value that was put out; kept if it will be asked for again."""
        self._room_for(value.nbytes, way, busy)
        array = self.read_back(value)
        if value.handles:
            self.add(value, array)  # its file stays: it can go again for nothing
        elif way is not None:
            way.temporary[value] = array  # its file stays: others may be computed from it
            self.temporary += value.nbytes
        return array

    def _wanted(self, calls: list[Call]) -> set[Value] | None:
        """Of the saved values on the way, those to keep; None: all that fit."""
        made = [one for call in calls for weak in call.outputs if (one := weak()) is not None]
        waiting = [one for one in made if one.handles and one.base is None]
        return self.on_way(waiting, self.bound - self.bytes - self.temporary)

    def _step(self, call: Call, way: Way) -> None:
        """One call on the way to a value."""
        inputs = call.inputs
        busy = {used for one in inputs for used in (one, one.root)}
        have: dict[Value, Any] = {}
        for one in inputs:
            array = way.array(one)
            if array is None and one.file is not None:
                array = self._read(one, way, busy)
            if array is not None:
                have[one] = array
        outputs = [weak() for weak in call.outputs]
        made = 0
        for result in outputs:
            if result is not None and result.base is None:
                made += result.nbytes
        self._room_for(made, way, busy)
        arrays = self.run(call, have, may_write=call.writes and way.is_last_use(inputs[0]))
        self.counts.calls += 1
        self.counts.recomputed += made
        self.counts.seconds += call.seconds
        for result, array in zip(outputs, arrays, strict=True):
            if result is not None:
                self._arrived(result, array, way)
        for gone in way.used(inputs):
            self.temporary -= gone.nbytes
        if self.bytes + self.temporary > self.bound:
            self._make_room(0, {way.target}, way.later())

    def _arrived(self, value: Value, array: Any, way: Way) -> None:
        if value is way.target:
            way.result = array
        if value.base is not None:
            way.views[value] = array
        elif value in self.kept or value in way.temporary:
            return
        elif value.handles and way.keeps(value) and not value.is_stale():
            self.add(value, array)
        elif value is way.target or way.uses.get(value):
            way.temporary[value] = array
            self.temporary += value.nbytes


class Way:
    """The calls that lead to a value, and what they have made so far."""

    def __init__(
        self, calls: list[Call], frontier: list[Value], target: Value, wanted: set[Value] | None
    ) -> None:
        self.target, self.wanted = target, wanted
        self.uses: dict[Value, int] = {}  # by calls that have not run yet
        for call in calls:
            for one in call.inputs:
                for used in (one, one.root) if one.base is not None else (one,):
                    self.uses[used] = self.uses.get(used, 0) + 1
        self.temporary: dict[Value, Any] = {}
        self.views: dict[Value, Any] = {}
        self.spilled: list[Value] = []  # put out on the way, for this alone
        self.result: Any = None

    def keeps(self, value: Value) -> bool:
        """Whether a value that will be asked for later is kept now."""
        return self.wanted is None or value in self.wanted or value is self.target

    def array(self, value: Value) -> Any:
        """What there is of a value."""
        if value in self.views:
            return self.views[value]
        if value in self.temporary:
            return self.temporary[value]
        return value.held()

    def later(self) -> set[Value]:
        """What calls will still read."""
        return set(self.uses)

    def is_last_use(self, value: Value) -> bool:
        """Whether nobody reads a temporary value after the call that is about to run."""
        return value in self.temporary and self.uses[value] == 1 and not self.is_viewed(value)

    def is_viewed(self, value: Value) -> bool:
        """Whether a view holds its memory."""
        return any(one.root is value for one in self.views)

    def used(self, inputs: list[Value]) -> list[Value]:
        """Let go of what was read for the last time; the temporary values among these."""
        gone = []
        for one in inputs:
            for used in (one, one.root) if one.base is not None else (one,):
                self.uses[used] -= 1
                if self.uses[used]:
                    continue
                del self.uses[used]
                if used is self.target:
                    continue
                self.views.pop(used, None)
                if self.temporary.pop(used, None) is not None:
                    gone.append(used)
        return gone

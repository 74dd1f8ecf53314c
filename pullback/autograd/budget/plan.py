"""What the next step will keep: chosen from the trace of the last, by trying plans out.

A plan is tried on the store's own code, with sizes and times in the place of arrays. Candidates are
what the store would do by itself, what it would do if it had seen the whole step (for several
amounts of room left to computing again), and for chains the best schedule there is.
"""

from __future__ import annotations

import math
from typing import Any
from weakref import ref

from pullback.autograd.budget.chain import LONGEST, Chain
from pullback.autograd.budget.store import Impossible, Store
from pullback.autograd.budget.trace import Trace
from pullback.autograd.budget.values import Call, Value

__all__ = ["Plan", "planned"]

_SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.35)
_MOST_CALLS = 20_000  # of steps that plans are made for


class Plan:
    """What to keep, by position; and on the way back, for a chain."""

    def __init__(self, name: str, keeps: frozenset[int] | None, chain: Chain | None = None) -> None:
        self.name, self.keeps, self.chain = name, keeps, chain
        self.put_out: set[int] = set()  # of what is let go, this is not computed again
        self.places: dict[int, int] = {}  # of a chain's values
        self.seconds = math.inf  # that computing again was found to take

    def decide(self, value: Value) -> str:
        """Whether to keep a value that was just saved."""
        if self.keeps is None or value.position in self.keeps:
            return "keep"
        return "put out" if value.position in self.put_out else "drop"

    def on_way(self, waiting: list[Value], room: int) -> set[Value] | None:
        """Of saved values that are computed on the way to the last of them, those to keep."""
        if self.chain is None or not waiting:
            return None
        places = [self.places.get(one.position, 0) for one in waiting]
        first, last = places[0], places[-1]
        if not first or places != list(range(first, last + 1)):
            return None
        kept = set(self.chain.kept_on_way(first, last, room))
        return {one for one, place in zip(waiting, places, strict=True) if place in kept}


class _Trial(Store):
    """A store without arrays."""

    def run(self, call: Call, have: dict[Value, Any], *, may_write: bool) -> list[Any]:
        """Nothing but the time, which is counted."""
        return [True] * len(call.outputs)

    def hold(self, value: Value) -> None:
        """There is nothing to hold."""

    def put_out(self, value: Value) -> None:
        """As a file that holds nothing."""
        value.file = _NoFile
        self.counts.seconds += value.nbytes * self.per_byte / 2

    def read_back(self, value: Value) -> Any:
        """The other half of the time."""
        self.counts.seconds += value.nbytes * self.per_byte / 2
        return True


class _NoFile:
    @staticmethod
    def close() -> None:
        """There is none."""


class _Program:
    """The calls and values of a trace, to be tried."""

    def __init__(self, trace: Trace) -> None:
        self.values: list[Value] = []
        for number, record in enumerate(trace.values):
            value = Value(0, record.nbytes, ())
            value.position = number
            self.values.append(value)
        self.calls: list[Call] = []
        for made in trace.calls:
            inputs = [self.values[at] for at in made.inputs]
            call = Call("", _NoFile.close, (), {}, inputs, None)
            call.room, call.seconds = made.room, trace.seconds[made.key]
            self.calls.append(call)
        for value, record in zip(self.values, trace.values, strict=True):
            value.call = self.calls[record.call] if record.call >= 0 else None
            value.base = self.values[record.base] if record.base >= 0 else None
        for call, made in zip(self.calls, trace.calls, strict=True):
            call.outputs = [ref(self.values[at]) for at in made.outputs]


def planned(trace: Trace, store: Store) -> Plan | None:
    """The best plan that was found for a step like this one; None where it would take too long."""
    if not trace.calls or len(trace.calls) > _MOST_CALLS:
        return None
    saved = list(dict.fromkeys(at for kind, at in trace.events if kind == "save"))
    if sum(trace.values[at].nbytes for at in saved) <= store.bound:
        return Plan("all is kept", None)
    plans = [Plan("as it runs", None), *_with_hindsight(trace, store, saved)]
    chain = _chain(trace, store, saved)
    if chain is not None:
        plans.append(chain)
    for plan in plans:
        plan.seconds = _tried(trace, store, plan)
    return min(plans, key=lambda plan: plan.seconds)


def _like(store: Store) -> _Trial:
    trial = _Trial(store.bound, spills=store.spills)
    trial.per_byte, trial.widest = store.per_byte, store.widest
    return trial


def _with_hindsight(trace: Trace, store: Store, saved: list[int]) -> list[Plan]:
    """What is left if all that was saved had to fit a share of the bound at once."""
    trial, program = _like(store), _Program(trace)
    for at in saved:
        program.values[at].handles = 1
        trial.add(program.values[at], True)
    plans = []
    for share in _SHARES:
        trial._make_room(int(store.bound * (1 - share)), set(), set())
        kept = frozenset(one.position for one in trial.kept)
        plans.append(Plan(f"{share:.0%} kept", kept))
    return plans


def _chain(trace: Trace, store: Store, saved: list[int]) -> Plan | None:
    """The best schedule, where each saved value is computed from the one before alone."""
    if len(saved) > LONGEST:
        return None
    trial, program = _like(store), _Program(trace)
    values = [program.values[at] for at in saved]
    seconds: list[float] = []
    rooms: list[int] = []
    for value in values:
        trial.add(value, True)
    for number, value in enumerate(values):
        path = trial.path(value)
        if path is None or any(one.root not in values[number - 1 : number] for one in path[1]):
            return None
        seconds.append(sum(call.seconds for call in path[0]))
        rooms.append(max(call.room for call in path[0]))
    chain = Chain([one.nbytes for one in values], seconds, rooms, store.bound)
    kept = frozenset(saved[k - 1] for k in chain.forward)
    plan = Plan("best for a chain", kept, chain)
    plan.places = {at: number for number, at in enumerate(saved, 1)}
    return plan


def _tried(trace: Trace, store: Store, plan: Plan) -> float:
    """Seconds that a step spends on values that were not kept; inf if it cannot be done."""
    trial, program = _like(store), _Program(trace)
    trial.on_way = plan.on_way
    fresh: list[Value] = []
    asked: dict[Value, None] = {}
    try:
        for kind, at in trace.events:
            if kind != "save" and fresh:
                _taken_in(trial, plan, fresh)
            if kind == "save":
                value = program.values[at]
                value.handles += 1
                fresh.append(value)
            elif kind == "ask":
                value = program.values[at]
                trial.fetch(value)
                asked[value] = None
                value.lent = _lent
            elif kind == "release":
                value = program.values[at]
                value.handles, value.lent = 0, None
                trial.forget(value)
    except Impossible:
        return math.inf
    return trial.counts.seconds


def _lent() -> bool:
    return True


def _taken_in(trial: _Trial, plan: Plan, fresh: list[Value]) -> None:
    for value in fresh:
        if value not in trial.kept and value.file is None and value.handles == 1:
            trial.add(value, True)
            if plan.decide(value) != "keep":
                trial.let_go(value)
                if value.file is not None:
                    plan.put_out.add(value.position)
    fresh.clear()
    trial.settle()

"""`memory_budget`: an eager program whose saved values stay below a bound.

Inside, saved tensors are values with a lineage (`values.py`, written down by `recorder.py`): the
operator calls that made them. `store.py` counts their bytes and lets the cheapest go, to be
computed again or read back (`spill.py`) when backward asks. After the first step `plan.py` knows
what will come, and decides beforehand; for chains `chain.py` has the best schedule.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from pullback.autograd.budget.array_store import ArrayStore
from pullback.autograd.budget.plan import Plan, planned
from pullback.autograd.budget.recorder import Recorder, active
from pullback.autograd.budget.report import Step
from pullback.autograd.budget.store import Counts
from pullback.autograd.budget.trace import Trace
from pullback.autograd.budget.values import Value
from pullback.autograd.graph.saved_hooks import packing
from pullback.core.faults import OutOfMemoryError
from pullback.core.process.whole import Reentrant, Whole
from pullback.operators.dispatch.observers import observe, stop

__all__ = ["Step", "memory_budget"]

_UNITS = {"": 1, "b": 1}
for _at, _letter in enumerate("kmgt", 1):
    _UNITS |= {f"{_letter}b": 1000**_at, f"{_letter}ib": 1024**_at}


def bytes_of(size: int | str) -> int:
    """The bytes of `2_000_000`, `"512 MiB"` or `"1.5 GB"`."""
    if isinstance(size, int) and not isinstance(size, bool):
        made = size
    else:
        found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([a-zA-Z]*)\s*", str(size))
        if not isinstance(size, str) or found is None or found[2].lower() not in _UNITS:
            raise ValueError(
                f"memory_budget: a size is a number of bytes or text such as '512 MiB' or "
                f"'1.5 GB', got {size!r}."
            )
        made = int(float(found[1]) * _UNITS[found[2].lower()])
    if made <= 0:
        raise ValueError(f"memory_budget: the budget must be positive, got {size!r}.")
    return made


class memory_budget(Reentrant):
    """Inside, values saved for backward take at most `size` bytes; the gradients are the same bits.

    Values that do not fit are computed again when backward asks, from what is still there, or put
    out to disk (of a device: to the host), whichever is cheaper for its bytes. Use one object for
    all steps of a loop: the first measures, the others plan. Random numbers are drawn again from
    the same state; values that cannot be computed again safely are kept or put out. `backward()`
    may be called inside or after the block.

    `size` is a number of bytes or text, `"2 GiB"`. `spill` is the folder to put values out to,
    True for the usual one, False to compute again only. Parameters and tensors that the program
    holds itself are not counted. Where the values of one operator alone need more than the budget,
    `OutOfMemoryError` says which.

    `last` is what the last whole step did, `steps` all of them.

    >>> import pullback as torch
    >>> x = torch.ones(1000, requires_grad=True)
    >>> budget = torch.autograd.graph.memory_budget(12_000)
    >>> for step in range(2):
    ...     with budget:
    ...         y = x
    ...         for _ in range(8):
    ...             y = y.sin()
    ...     y.sum().backward()
    >>> budget.last.saved, budget.last.peak <= 12_000, budget.last.calls > 0
    (28000, True, True)
    """

    def __init__(self, size: int | str, *, spill: bool | str | os.PathLike[str] = True) -> None:
        self.bound = bytes_of(size)
        folder = None if isinstance(spill, bool) else os.fspath(spill)
        if folder is not None and not os.path.isdir(folder):
            raise FileNotFoundError(f"memory_budget: there is no folder {folder!r} to spill to.")
        self.steps: list[Step] = []
        self._store = ArrayStore(self.bound, spills=spill is not False, folder=folder)
        self._recorder = Recorder(self._store)
        self._recorder.started, self._recorder.finished = self._started, self._finished
        self._measured: Trace | None = None  # a step that there is no plan for yet
        self._plan: Plan | None = None
        self._is_tried = False  # whether a step has followed the plan
        self._recorder.decide = self._decide
        self._recorder.strayed = self._strayed

    @property
    def last(self) -> Step:
        """What the last step did."""
        if not self.steps:
            raise RuntimeError(
                "memory_budget: no step is over; one ends when backward has used all that it saved."
            )
        return self.steps[-1]

    def __repr__(self) -> str:
        shown = "\n".join(map(str, self.steps[-10:]))
        return f"<memory_budget of {self.bound} bytes, {len(self.steps)} steps>\n{shown}".rstrip()

    def _entry(self) -> Whole:
        return _Inside(self)

    def _decide(self, value: Value) -> str:
        """As the plan says, while the step is like the one it was made from."""
        return "keep" if self._plan is None else self._plan.decide(value)

    def _strayed(self) -> None:
        """The step is not like that any more."""
        self._plan = None
        self._store.on_way = lambda _waiting, _room: None

    def _finished(self) -> None:
        """All that a step saved was given back."""
        recorder, store = self._recorder, self._store
        counts = store.counts
        if counts.saved:
            how = "measured" if self._plan is None else f"planned: {self._plan.name}"
            self.steps.append(
                Step(self.bound, counts.saved, counts.peak, counts.recomputed, counts.spilled,
                     counts.calls, counts.seconds, how)
            )  # fmt: skip
            if isinstance(recorder.trace, Trace):
                self._measured, self._is_tried = recorder.trace, False
            elif not self._is_tried:  # planned once more, with times that are not of a first call
                self._measured, self._is_tried = recorder.trace.trace, True
        store.counts = Counts()
        recorder.trace = recorder.trace.next()

    def _started(self) -> None:
        """A step saves its first value: by now there is a plan for it."""
        if self._measured is not None:
            trace, self._measured = self._measured, None
            self._plan = planned(trace, self._store)
            if self._plan is not None:
                self._store.on_way = self._plan.on_way
                self._recorder.follow(trace)


class _Inside(Whole):
    """The time inside a budget."""

    def __init__(self, budget: memory_budget) -> None:
        self.budget, self.recorder = budget, budget._recorder
        self.hooks = packing(self.recorder.pack, self.recorder.unpack)
        self.before: Any = active.get()
        self.is_watching = False

    def _enter(self) -> memory_budget:
        self.hooks.__enter__()
        self.is_watching = True
        observe(self.recorder)
        active.set(self.recorder)
        return self.budget

    def _leave(self) -> None:
        active.set(self.before)
        if self.is_watching:
            stop(self.recorder)
            self.is_watching = False
        self.hooks._leave()
        is_failing = sys.exc_info()[0] is not None
        try:
            self.recorder.catch_up()
        except OutOfMemoryError:
            if not is_failing:  # else the user's own error is on its way
                raise

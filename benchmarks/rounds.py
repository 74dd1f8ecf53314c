"""The method: two processes, one library each, asked in turn; a ratio for every round."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

from benchmarks.process import MissingError, Process, WorkError
from benchmarks.program import Work
from benchmarks.result import Comparison, Result

Show = Callable[[str], None]

LEAST = 0.1  # of the seconds of a round, that the faster library is measured for
TOLERANCE = 1e-3  # float32 sums in another order differ by less; a wrong rule by more


@dataclass(frozen=True)
class Settings:
    """How long and how often to measure."""

    rounds: int = 21
    seconds: float = 0.1  # of the slower library, in each round
    quick: bool = False  # too short to judge by


class Pair:
    """The two processes of a run; one that died is started anew when next asked for."""

    def __init__(self, theirs: str | None, ours: str, *, all_cores: bool = False) -> None:
        self.clock = "wall" if all_cores else "processor"
        self._names = [ours] if theirs is None else [theirs, ours]
        self._all_cores = all_cores
        self._processes: list[Process] = []

    def processes(self) -> list[Process]:
        """Theirs, if there is such a library, then ours."""
        for place, name in enumerate(self._names):
            if place < len(self._processes):
                if self._processes[place].is_alive:
                    continue
                self._processes.pop(place).close()
            started = Process(name, all_cores=self._all_cores)
            if not self._all_cores:  # they work in turn
                started.hold_to_one_processor()
            self._processes.insert(place, started)
        return self._processes

    def __enter__(self) -> Pair:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes:
            process.__exit__(kind, error, trace)


def measure(work: Work, pairs: list[Pair], settings: Settings, show: Show) -> Result:
    """Compare the libraries on one work, by each pair's clock; `show` hears of every round."""
    row = partial(Result, work.name, work.title, "s")
    try:
        comparisons = [compare(work, pair, settings, show) for pair in pairs]
    except MissingError as missing:
        return row(note=str(missing))
    except WorkError as failure:
        return row(note=str(failure), failed=True)
    return row(comparisons[0], wall=comparisons[1] if len(comparisons) > 1 else None)


def compare(work: Work, pair: Pair, settings: Settings, show: Show) -> Comparison:
    """The times of both libraries, by the pair's clock."""
    *theirs, ours = take_rounds(work, pair, settings, show)
    return Comparison(theirs[0] if theirs else [], ours)


def take_rounds(work: Work, pair: Pair, settings: Settings, show: Show) -> list[list[float]]:
    """Load the work in each process, then ask for rounds in turn: seconds of a call in each."""
    processes = pair.processes()
    loaded = [
        process.ask("load", work=work.name, clock=pair.clock, warm=settings.seconds)
        for process in processes
    ]
    check_answers(loaded)
    spent = [reply["seconds"] for reply in loaded]
    calls = max(1, math.ceil(settings.seconds / max(spent)))
    # The much faster one is called more often: what it does first, after the other had the
    # processor and the collector ran, is to fetch its memory again.
    least = settings.seconds * LEAST
    counts = [max(calls, math.ceil(least / max(one, 1e-7))) for one in spent]
    times: list[list[float]] = [[] for _ in processes]
    rounds = min(settings.rounds, work.rounds or settings.rounds)
    for number in range(rounds):
        show(f"{pair.clock} time, round {number + 1} of {rounds}")
        turns = list(zip(times, processes, counts, strict=True))
        # Who goes first alternates, so that a machine that slows down favours neither.
        for seconds, process, count in turns if number % 2 == 0 else reversed(turns):
            seconds.append(process.ask("round", calls=count)["seconds"])
    return times


def check_answers(loaded: list[dict[str, Any]]) -> None:
    """A wrong result is worth no time: refuse to compare libraries that disagree."""
    theirs, ours = loaded[0]["answer"], loaded[-1]["answer"]
    if len(theirs) != len(ours):
        raise WorkError(f"the answers differ: {len(theirs)} tensors and {len(ours)}")
    for place, (expected, found) in enumerate(zip(theirs, ours, strict=True)):
        allowed = TOLERANCE * expected[1] + 1e-9
        # Not `>`, which is false of NaN.
        if not all(abs(a - b) <= allowed for a, b in zip(expected, found, strict=True)):
            raise WorkError(
                f"the answers differ: tensor {place} sums to {expected[0]:g}, ours to {found[0]:g}"
            )

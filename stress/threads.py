"""Eight threads that change places every 10 us: each gets the numbers that one alone gets."""

from __future__ import annotations

import itertools
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from stress.growth import TRANSFORMS, nested
from stress.report import Report
from stress.works import WORKS

THREADS = 8
SWITCH = 1e-5  # seconds
# There is one profiler for the process, and it says so to the others.
ALONE = frozenset({"profiled"})


def subjects() -> dict[str, Callable[[], Any]]:
    """Whole programs, and pairs of transforms."""
    found: dict[str, Callable[[], Any]] = {n: w for n, w in WORKS.items() if n not in ALONE}
    for names in itertools.chain(
        itertools.product(TRANSFORMS), itertools.product(TRANSFORMS, repeat=2)
    ):
        found[" of ".join(names)] = partial(_numbers, nested(names))
    return found


def _numbers(call: Callable[[], Any]) -> Any:
    return call().tolist()


def together(tasks: list[Callable[[], Any]]) -> list[Any]:
    """What each task gives, or its error, while all run at once."""
    outcomes: list[Any] = [None] * len(tasks)
    start = threading.Barrier(len(tasks))

    def work(place: int) -> None:
        start.wait()
        try:
            outcomes[place] = tasks[place]()
        except Exception as error:
            outcomes[place] = error

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(tasks))]
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    finally:
        sys.setswitchinterval(before)
    return outcomes


def run(seconds: float, seed: int, calls: int | None = None) -> Report:
    """Mixtures of programs, drawn by the seed, until the time or their number is over."""
    report = Report("threads", seed)
    end = time.monotonic() + seconds
    draw = random.Random(seed)
    works = subjects()
    names = list(works)
    expected: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        number = 0
        while time.monotonic() < end and (calls is None or number < calls):
            number += 1
            # All of one kind, or a mixture.
            chosen = (
                [draw.choice(names)] * THREADS if number % 2 else draw.choices(names, k=THREADS)
            )
            outcomes = together([works[name] for name in chosen])
            for name, outcome in zip(chosen, outcomes, strict=True):
                if name not in expected:
                    expected[name] = works[name]()
                report.counts["runs"] += 1
                if isinstance(outcome, Exception):
                    report.found(f"{name}: {type(outcome).__name__}: {outcome}", str(chosen))
                elif outcome != expected[name]:
                    report.found(f"{name}: other numbers", str(chosen))
    return report

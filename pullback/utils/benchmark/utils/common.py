"""What was measured, and what of: times of runs of one task."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from pullback.core.listing import only_public as _only_public

__all__ = [
    *("Measurement", "TaskSpec", "ordered_unique", "select_unit", "trim_sigfig"),
    "unit_to_english",
]

_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_ENGLISH = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}
_FEW = 4  # measurements from which quartiles begin to mean something
_SPREAD = 0.1  # of the median, from which on times are said to vary much


@dataclasses.dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """What is measured, apart from how long it takes."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """Its label and sub-label, or the statement."""
        if self.label is None:
            return self.stmt.replace("\n", "; ")
        return self.label + (f": {self.sub_label}" if self.sub_label else "")

    def setup_str(self) -> str:
        """The setup, if it does anything."""
        return "" if self.setup in ("pass", "") else f"setup: {self.setup.strip()}"

    def summarize(self) -> str:
        """Title, description and setup, a line each."""
        lines = [self.title, self.description or "", self.setup_str()]
        return "\n".join(line for line in lines if line)


@dataclasses.dataclass(init=True, repr=False)
class Measurement:
    """Times of a task: `raw_times` of blocks of `number_per_run` runs each, in seconds."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.task_spec, name)  # a measurement answers for its task

    @cached_property
    def times(self) -> list[float]:
        """Seconds per run."""
        return [time / self.number_per_run for time in self.raw_times]

    @property
    def median(self) -> float:
        """The middle of the times."""
        self._check()
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """The mean of the times."""
        self._check()
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """From the first quartile of the times to the third."""
        self._check()
        if len(self.times) < 2:
            return 0.0
        first, _, third = statistics.quantiles(self.times, n=4, method="inclusive")
        return third - first

    @property
    def significant_figures(self) -> int:
        """How many digits of the median mean something: two to five, from the spread of times."""
        count = len(self.times)
        if count < _FEW or self.median == 0:
            return 2
        # Of normal times the quartiles are 1.35 deviations apart; a median is less sure than a
        # mean, by 1.25. Two deviations of it are the doubt.
        doubt = 2 * 1.25 * self.iqr / 1.35 / math.sqrt(count) / self.median
        return max(2, min(5, -math.floor(math.log10(max(doubt, 1e-9)))))

    @property
    def has_warnings(self) -> bool:
        """Whether the times vary much."""
        return bool(self._warnings())

    def meets_confidence(self, threshold: float = _SPREAD) -> bool:
        """Whether the middle half of the times lies within this fraction of the median."""
        return self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        """The title of its task."""
        return self.task_spec.title

    @property
    def env(self) -> str:
        """Where it was measured, or "Unspecified env"."""
        return self.task_spec.env or "Unspecified env"

    @property
    def as_row_name(self) -> str:
        """The name of its row in a table."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def _check(self) -> None:
        if not self.raw_times:
            raise ValueError("Measurement: there are no times.")

    def _warnings(self) -> str:
        if len(self.times) < _FEW or self.meets_confidence():
            return ""
        share = self.iqr / self.median
        return f"the middle half of the times is {share:.0%} of the median wide"

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        digits = self.significant_figures
        lines = [object.__repr__(self), self.task_spec.summarize()]
        if len(self.times) > 1:
            lines.append(f"  median {trim_sigfig(self.median / scale, digits):g} {unit}")
            lines.append(f"  mean {trim_sigfig(self.mean / scale, digits):g} {unit}")
            lines.append(f"  IQR {trim_sigfig(self.iqr / scale, 2):g} {unit}")
        else:
            lines.append(f"  {self.median / scale:.2f} {unit}")
        lines.append(f"  {_counted(len(self.times), 'measurement')}, {self._runs()}")
        if warning := self._warnings():
            lines.append(f"  warning: {warning}")
        return "\n".join(lines)

    def _runs(self) -> str:
        threads = _counted(self.task_spec.num_threads, "thread")
        return f"{_counted(self.number_per_run, 'run')} each, {threads}"

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Measurements of the same task, and the same number of runs, as one each."""
        groups: dict[tuple[TaskSpec, int], list[Measurement]] = {}
        for one in measurements:
            groups.setdefault((one.task_spec, one.number_per_run), []).append(one)
        return [
            Measurement(runs, [time for one in group for time in one.raw_times], task, None)
            for (task, runs), group in groups.items()
        ]


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def select_unit(t: float) -> tuple[str, float]:
    """The unit to write a time in, and its length in seconds.

    >>> select_unit(2e-6)
    ('us', 1e-06)
    """
    fitting = [item for item in _UNITS.items() if t >= item[1]]
    return fitting[-1] if fitting else ("ns", 1e-9)


def unit_to_english(u: str) -> str:
    """The name of a unit.

    >>> unit_to_english("us")
    'microsecond'
    """
    return _ENGLISH[u]


def trim_sigfig(x: float, n: int) -> float:
    """A number with `n` significant digits.

    >>> trim_sigfig(1234.5, 2)
    1200.0
    """
    if x == 0 or not math.isfinite(x):
        return x
    return float(f"{x:.{n - 1}e}")


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """Each element once, in the order of their first appearance.

    >>> from pullback.utils.benchmark import ordered_unique
    >>> ordered_unique([2, 1, 2])
    [2, 1]
    """
    return list(dict.fromkeys(elements))


__dir__ = _only_public(globals())

"""What was measured for one row of the table, and how ratios are summed up."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Comparison:
    """Both libraries' numbers for one work: a value for each round, in seconds, bytes or parts."""

    theirs: list[float]
    ours: list[float]

    @property
    def ratios(self) -> list[float]:
        """Theirs over ours, round by round: above 1 we are the faster, or the smaller."""
        if not self.theirs or not all(self.ours):
            return []
        return [theirs / ours for theirs, ours in zip(self.theirs, self.ours, strict=True)]

    @property
    def median_theirs(self) -> float | None:
        """The middle of their rounds."""
        return statistics.median(self.theirs) if self.theirs else None

    @property
    def median_ours(self) -> float | None:
        """The middle of our rounds."""
        return statistics.median(self.ours) if self.ours else None

    @property
    def ratio(self) -> float | None:
        """The middle of the rounds' ratios."""
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def quartiles(self) -> tuple[float, float] | None:
        """What the middle half of the rounds lies between."""
        if len(self.ratios) < 2:
            return None
        low, _, high = statistics.quantiles(self.ratios, n=4, method="inclusive")
        return low, high

    def as_json(self) -> dict[str, Any]:
        """The numbers and their summary."""
        return {
            "theirs": self.median_theirs,
            "ours": self.median_ours,
            "ratio": self.ratio,
            "quartiles": self.quartiles,
            "rounds": asdict(self),
        }


@dataclass(frozen=True)
class Result:
    """One row; without a comparison it was not done, and `note` says why."""

    name: str
    title: str
    unit: str  # "s", "B" or "x"
    comparison: Comparison | None = None
    wall: Comparison | None = None  # the same on all cores, by the clock on the wall
    failed: bool = False
    note: str = ""

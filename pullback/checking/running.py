"""`pullback check --run`: the script on pullback and, where it is installed, on torch, compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

__all__ = ["Comparison", "compare", "losses", "run_both"]

_NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?|\bnan\b|\binf\b")
_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Comparison:
    """How the numbers that two runs print agree."""

    count: int
    worst: float  # the largest relative difference
    line: str = ""  # where it is, as pullback prints it

    @property
    def agrees(self) -> bool:
        """Whether each number is within a thousandth."""
        return self.worst <= _TOLERANCE

    def __str__(self) -> str:
        numbers = "number" if self.count == 1 else "numbers"
        if not self.count and self.agrees:
            return "neither prints a number"
        if self.agrees:
            return f"{self.count} printed {numbers} agree within {self.worst:.1g}"
        return f"printed numbers differ by up to {self.worst:.1g}: {self.line.strip()!r}"


def losses(output: str) -> list[tuple[str, list[float]]]:
    r"""Lines with their numbers: those that speak of a loss, or all where none does.

    >>> losses("step 1 loss 0.25\ntook 3.1 s")
    [('step 1 loss 0.25', [1.0, 0.25])]
    """
    lines = [line for line in output.splitlines() if _NUMBER.search(line)]
    chosen = [line for line in lines if "loss" in line.lower()] or lines
    return [(line, [float(number) for number in _NUMBER.findall(line)]) for line in chosen]


def compare(ours: str, theirs: str) -> Comparison:
    """Compare what two runs print, number by number."""
    left, right = losses(ours), losses(theirs)
    if [len(numbers) for _, numbers in left] != [len(numbers) for _, numbers in right]:
        return Comparison(0, float("inf"), left[-1][0] if left else "nothing is printed")
    worst, where, count = 0.0, "", 0
    for (line, mine), (_, other) in zip(left, right, strict=True):
        for a, b in zip(mine, other, strict=True):
            count += 1
            both_nan = a != a and b != b
            gap = 0.0 if a == b or both_nan else abs(a - b) / max(abs(a), abs(b), 1e-12)
            if not gap <= worst:
                worst, where = gap if gap == gap else float("inf"), line
    return Comparison(count, worst, where)


def _ran(command: list[str]) -> subprocess.CompletedProcess[str]:
    # Folders of this process's path, so that the same packages are found.
    path = os.pathsep.join(entry for entry in sys.path if entry)
    given = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, capture_output=True, text=True, env=given, check=False)


def run_both(script: str, arguments: Sequence[str]) -> int:
    """Run a script on both and print how they compare; the exit status."""
    ours = _ran([sys.executable, "-m", "pullback", "run", script, *arguments])
    if ours.returncode:
        last = ours.stderr.strip().splitlines()[-1:] or [f"exit status {ours.returncode}"]
        print(f"run: fails on pullback: {last[0]}")
        return 1
    print("run: ends well on pullback")
    if find_spec("torch") is None:
        for line, _ in losses(ours.stdout)[-3:]:
            print(f"  {line}")
        print("run: torch is not installed, so there is nothing to compare with")
        return 0
    theirs = _ran([sys.executable, script, *arguments])
    if theirs.returncode:
        last = theirs.stderr.strip().splitlines()[-1:] or [f"exit status {theirs.returncode}"]
        print(f"run: fails on torch itself: {last[0]}")
        return 1
    found = compare(ours.stdout, theirs.stdout)
    print(f"run: {found}")
    return 0 if found.agrees else 1

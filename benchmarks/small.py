"""The command `python -m benchmarks.small`: small calls one by one, at about ten elements.

Each number is torch's processor time over ours, one thread each, the libraries asked in turn:
forward alone, on tensors that need no gradient, and with backward, from the call to the gradients
of all leaves. The status is 1 where a median is below its bar, or a call below the floor without
a reason in `REASONS`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

from benchmarks import report
from benchmarks.process import is_installed
from benchmarks.result import Result
from benchmarks.rounds import Pair, Settings, measure
from benchmarks.small_bare import MEASURED, MEASURED_BACKWARD
from benchmarks.small_calls import DIRECTIONS, FAMILIES, TIMES, small_works

MEDIANS = {"forward": 1.2, "backward": 1.8}
FLOOR = 0.8

# Call and direction -> why it may stay below the floor, measured.
REASONS: dict[tuple[str, str], str] = {
    (call, "forward"): f"NumPy's calls alone take {bare} us, with {functions} functions of Python "
    f"around them; torch's whole call takes {theirs}"
    for call, (bare, theirs, functions) in MEASURED.items()
}
REASONS |= {
    (call, "backward"): f"its array calls alone take {bare} us, with {functions} functions of "
    f"Python around them; torch's whole call takes {theirs}"
    for call, (bare, theirs, functions) in MEASURED_BACKWARD.items()
}

Ratios = dict[tuple[str, str], float | None]


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.small", description=__doc__)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES)
    parser.add_argument("--matching", nargs="+", metavar="TEXT", help="calls that contain it")
    parser.add_argument("--directions", nargs="+", choices=DIRECTIONS, default=DIRECTIONS)
    parser.add_argument("--rounds", type=int, default=45)
    parser.add_argument("--seconds", type=float, default=0.0008, help="of each round")
    parser.add_argument("--json", type=Path, default=Path("build/bench_small.json"))
    parser.add_argument("--theirs", default="torch", metavar="MODULE")
    parser.add_argument("--ours", default="pullback", metavar="MODULE")
    return parser.parse_args(argv)


def run(options: argparse.Namespace, settings: Settings) -> list[Result]:
    """Measure what was asked for."""
    works = small_works(options.families, options.directions)
    if options.matching:
        works = [work for work in works if any(text in work.title for text in options.matching)]
    theirs = options.theirs if is_installed(options.theirs) else None
    results = []
    with Pair(theirs, options.ours) as pair:
        for work in works:
            results.append(measure(work, [pair], settings, lambda _: None))
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return results


def ratios_of(results: list[Result]) -> Ratios:
    """Call and direction -> torch's time over ours."""
    return {
        (result.title, result.name.split("/")[1]): result.comparison and result.comparison.ratio
        for result in results
    }


def table(results: list[Result]) -> list[list[str]]:
    """A row for each call: torch's microseconds, ours, and the ratio, for each direction."""
    rows = [["call", *(f"{way} {what}" for way in DIRECTIONS for what in ("torch", "ours", "x"))]]
    by_call: dict[str, dict[str, list[str]]] = {}
    for result in results:
        compared = result.comparison
        cells = ["-"] * 3
        if compared is not None and compared.theirs:
            times = [statistics.median(compared.theirs), statistics.median(compared.ours)]
            each = [seconds / TIMES * 1e6 for seconds in times]
            cells = [*(f"{one:.2f}" for one in each), f"{compared.ratio:.2f}"]
        by_call.setdefault(result.title, {})[result.name.split("/")[1]] = cells
    for call, ways in by_call.items():
        rows.append([call, *(cell for way in DIRECTIONS for cell in ways.get(way, [""] * 3))])
    return rows


def medians(ratios: Ratios) -> dict[str, float]:
    """The middle of all calls' ratios, for each direction."""
    found = {}
    for way in DIRECTIONS:
        known = [ratio for (_, of), ratio in ratios.items() if of == way and ratio is not None]
        if known:
            found[way] = statistics.median(known)
    return found


def breaches(ratios: Ratios) -> list[str]:
    """What misses its bar, in words."""
    found = [
        f"{call}, {way}: {ratio:.2f}, no reason given"
        for (call, way), ratio in sorted(ratios.items(), key=lambda item: item[1] or 0)
        if ratio is not None and ratio < FLOOR and (call, way) not in REASONS
    ]
    return found + [
        f"median, {way}: {median:.2f}, bar {MEDIANS[way]}"
        for way, median in medians(ratios).items()
        if median < MEDIANS[way]
    ]


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    options = arguments(argv)
    settings = Settings(rounds=options.rounds, seconds=options.seconds)
    results = run(options, settings)
    ratios = ratios_of(results)
    print(report.plain_table(table(results)))
    for way, median in medians(ratios).items():
        print(f"median, {way}: {median:.2f}, bar {MEDIANS[way]}")
    for (call, way), reason in REASONS.items():
        if ((ratio := ratios.get((call, way))) or FLOOR) < FLOOR:
            print(f"{call}, {way}: {ratio:.2f}, because {reason}")
    failed = [f"{result.title}: {result.note}" for result in results if result.failed]
    missed = failed + breaches(ratios)
    print("\n".join(missed))
    report.keep(options.json, results, options.theirs, options.ours, settings)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())

"""The command `python -m benchmarks.sizes`: operators one by one, at three sizes, by family.

Each number is torch's processor time over ours, one thread each, as in `python -m benchmarks`:
forward, backward, and both together, which is what a program pays. Medians are over operators, a
number each. The status is 1 where an operator without a reason in `REASONS` is slower than a third
of torch at the largest size, forward or backward, or where the median of both is below its bar.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

from benchmarks import family_table, report
from benchmarks.families import DIRECTIONS, OPERATORS, SIZES, family_works
from benchmarks.process import is_installed
from benchmarks.result import Result
from benchmarks.rounds import Pair, Settings, measure

assert family_table  # imported for the lines that it enters

BOTH = "both"  # directions together
FLOOR = 1 / 3  # of torch, at the largest size
MEDIANS = {SIZES[0]: 1.2, SIZES[-1]: 0.8}

# Operator and direction -> why it may stay below the floor.
_STEPS = "each step that broadcasts is a pass over memory in NumPy; torch makes all of them in one"
_ONE_BY_ONE = "NumPy multiplies along a row one by one"
_BROADCASTS = "where it broadcasts, NumPy reaches half of its speed"
REASONS: dict[tuple[str, str], str] = {
    ("gelu", "forward"): "NumPy has no erf: a quotient of polynomials takes 27 passes, in 3 ms",
    ("gelu", "backward"): "its slope is such a quotient, too, of 32 passes",
    ("prod(1)", "forward"): _ONE_BY_ONE,
    ("cumprod(1)", "forward"): _ONE_BY_ONE,
    ("layer_norm", "forward"): _STEPS,
    ("conv2d depthwise", "forward"): "all windows are copied, nine times the input",
    ("grid_sample", "forward"): "places and weights of all neighbours come first",
    ("i,j->ij", "forward"): _BROADCASTS,
    ("outer", "forward"): _BROADCASTS,
    ("smooth_l1_loss", "forward"): "difference, loss and mean each write a result: 2 ms for 0.5",
    ("nll_loss", "forward"): "a thousand elements are read: 30 us of calls, 8 in torch",
}

Ratios = dict[tuple[str, int, str], float | None]


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    families = list(dict.fromkeys(line.family for line in OPERATORS.values()))
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizes", description=__doc__)
    parser.add_argument("--families", nargs="+", choices=families, default=families)
    parser.add_argument("--operators", nargs="+", choices=list(OPERATORS), help="just these")
    parser.add_argument("--sizes", nargs="+", type=int, choices=SIZES, default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.02, help="of each round")
    parser.add_argument("--json", type=Path, default=Path("build/bench_sizes.json"))
    parser.add_argument("--theirs", default="torch", metavar="MODULE")
    parser.add_argument("--ours", default="pullback", metavar="MODULE")
    return parser.parse_args(argv)


def run(options: argparse.Namespace, settings: Settings) -> list[Result]:
    """Measure what was asked for."""
    works = family_works(options.families, tuple(options.sizes))
    if options.operators:
        works = [work for work in works if work.name.split("/")[1] in options.operators]
    theirs = options.theirs if is_installed(options.theirs) else None
    results = []
    with Pair(theirs, options.ours) as pair:
        for number, work in enumerate(works, start=1):
            result = measure(work, [pair], settings, lambda _: None)
            ratio = result.comparison and result.comparison.ratio
            shown = f"{ratio:.2f}" if ratio else result.note
            print(f"[{number}/{len(works)}] {work.title}: {shown}", file=sys.stderr, flush=True)
            results.append(result)
    return results


def ratios_of(results: list[Result]) -> Ratios:
    """Operator, size and direction -> torch's time over ours."""
    found: Ratios = {}
    sums: dict[tuple[str, int], list[float]] = {}
    for result in results:
        _, name, elements, direction = result.name.split("/")
        size = int(elements)
        compared = result.comparison
        ratio = found[name, size, direction] = None if compared is None else compared.ratio
        if compared is None or ratio is None:
            continue
        times = [statistics.median(compared.theirs), statistics.median(compared.ours)]
        so_far = sums.get((name, size), [0.0, 0.0])
        sums[name, size] = [a + b for a, b in zip(so_far, times, strict=True)]
    for (name, size), (theirs, ours) in sums.items():
        found[name, size, BOTH] = theirs / ours
    return found


def table(ratios: Ratios) -> list[list[str]]:
    """A row for each operator, a column for each size and direction."""
    sizes = sorted({size for _, size, _ in ratios})
    columns = [(size, direction) for size in sizes for direction in (*DIRECTIONS, BOTH)]
    rows = [["operator", *(f"{size:.0e} {direction}" for size, direction in columns)]]
    for name in dict.fromkeys(name for name, _, _ in ratios):
        cells = [ratios.get((name, *column)) for column in columns]
        rows.append([name, *("-" if cell is None else f"{cell:.2f}" for cell in cells)])
    return rows


def median_at(ratios: Ratios, size: int, direction: str = BOTH) -> float | None:
    """The middle of all operators' ratios at one size."""
    known = [
        ratio
        for (_, at, way), ratio in ratios.items()
        if at == size and way == direction and ratio is not None
    ]
    return statistics.median(known) if known else None


def breaches(ratios: Ratios) -> list[str]:
    """What misses its bar, in words."""
    found = []
    for (name, size, direction), ratio in ratios.items():
        slow = size == SIZES[-1] and ratio is not None and ratio < FLOOR
        if slow and direction != BOTH and (name, direction) not in REASONS:
            found.append(f"{name}, {direction}: {ratio:.2f} at {size} elements, no reason given")
    for size, bar in MEDIANS.items():
        median = median_at(ratios, size)
        if median is not None and median < bar:
            found.append(f"median at {size} elements: {median:.2f}, bar {bar}")
    return found


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    options = arguments(argv)
    settings = Settings(rounds=options.rounds, seconds=options.seconds)
    results = run(options, settings)
    ratios = ratios_of(results)
    print(report.plain_table(table(ratios)))
    for size in options.sizes:
        medians = [(way, median_at(ratios, size, way)) for way in (*DIRECTIONS, BOTH)]
        shown = ", ".join(f"{way} {median:.2f}" for way, median in medians if median is not None)
        print(f"median at {size} elements: {shown}")
    for (name, direction), reason in REASONS.items():
        if ((ratio := ratios.get((name, SIZES[-1], direction))) or FLOOR) < FLOOR:
            print(f"{name}, {direction}: {ratio:.2f}, because {reason}")
    failed = [f"{result.name}: {result.note}" for result in results if result.failed]
    missed = failed + breaches(ratios)
    print("\n".join(missed))
    report.keep(options.json, results, options.theirs, options.ours, settings)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())

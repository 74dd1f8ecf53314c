"""The command `python -m benchmarks`: choose works, measure them, report; 1 if a bar is missed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from benchmarks import report, works
from benchmarks.bars import BARS, is_breach, verdict
from benchmarks.process import is_installed
from benchmarks.program import WORKS
from benchmarks.resources import RESOURCES, measure_resource
from benchmarks.result import Result
from benchmarks.rounds import Pair, Settings, measure

assert works  # imported for what its modules register


def names() -> list[str]:
    """Everything that can be measured, works in the order of the bars."""
    order = list(BARS)
    return [
        *sorted(WORKS, key=lambda name: order.index(name) if name in BARS else len(order)),
        *RESOURCES,
    ]


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the works and stop")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names(), help="just these")
    parser.add_argument("--rounds", type=int, help="rounds of each work (default 21)")
    parser.add_argument("--quick", action="store_true", help="see that all runs; judge nothing")
    parser.add_argument("--all-cores", action="store_true", help="wall time on all cores as well")
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"), metavar="PATH")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--theirs", default="torch", metavar="MODULE", help="whom to compare with")
    parser.add_argument("--ours", default="pullback", metavar="MODULE", help="what to measure")
    return parser.parse_args(argv)


class Progress:
    """One line for each work on standard error; on a terminal it is rewritten as rounds pass."""

    def __init__(self, heading: str) -> None:
        self._heading = heading
        self("")

    def __call__(self, text: str) -> None:
        """Show where the work is."""
        if sys.stderr.isatty():
            print(f"\r\033[K{self._heading} {text}", end="", file=sys.stderr, flush=True)

    def done(self, results: list[Result]) -> None:
        """Leave a line that says how it went."""
        outcomes = "; ".join(filter(None, map(outcome, results)))
        start = "\r\033[K" if sys.stderr.isatty() else ""
        print(f"{start}{self._heading} {outcomes}", file=sys.stderr, flush=True)


def outcome(result: Result) -> str:
    """A row in a few words."""
    if result.comparison is None:
        return f"{verdict(result)} ({result.note})"
    own = report.quantity(result.comparison.median_ours, result.unit)
    ratio = report.spread(result.comparison)
    parts = [own, "" if ratio == "n/a" else f"ratio {ratio}", verdict(result)]
    return " ".join(filter(None, parts))


def run(options: argparse.Namespace, settings: Settings) -> Iterator[Result]:
    """Measure what was asked for, row by row."""
    theirs = options.theirs if is_installed(options.theirs) else None
    chosen = options.only or names()
    with ExitStack() as stack:
        pairs = [stack.enter_context(Pair(theirs, options.ours))]
        if options.all_cores:
            pairs.append(stack.enter_context(Pair(theirs, options.ours, all_cores=True)))
        for number, name in enumerate(chosen, start=1):
            progress = Progress(f"[{number}/{len(chosen)}] {name}")
            if name in WORKS:
                results = [measure(WORKS[name], pairs, settings, progress)]
            else:
                results = measure_resource(RESOURCES[name], theirs, options.ours, settings)
            progress.done(results)
            yield from results


def settings_of(options: argparse.Namespace) -> Settings:
    """How long to measure, from the command line."""
    chosen = Settings(rounds=2, seconds=0.002, quick=True) if options.quick else Settings()
    return replace(chosen, rounds=options.rounds) if options.rounds else chosen


def main(argv: list[str] | None = None) -> int:
    """Run the command; the status is 1 where an enforced bar is missed or a work failed."""
    options = arguments(argv)
    if options.list:
        print("\n".join(names()))
        return 0
    if not is_installed(options.ours):
        print(f"{options.ours} cannot be imported: run this from its checkout", file=sys.stderr)
        return 2
    settings = settings_of(options)
    try:
        results = list(run(options, settings))
    except KeyboardInterrupt:
        print("\ninterrupted: nothing is reported", file=sys.stderr)
        return 130
    rows = report.cells(results, options.theirs, options.ours, with_wall=options.all_cores)
    print(report.markdown_table(rows) if options.markdown else report.plain_table(rows))
    if text := report.notes(results, settings):
        print(f"\n{text}")
    report.keep(options.json, results, options.theirs, options.ours, settings)
    if settings.quick:
        return int(any(result.failed for result in results))
    return int(any(map(is_breach, results)))


if __name__ == "__main__":
    sys.exit(main())

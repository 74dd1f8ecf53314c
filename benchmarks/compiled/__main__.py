"""The command `python -m benchmarks.compiled`: compiled functions against torch as it runs."""

from __future__ import annotations

import argparse
import sys

from benchmarks import report
from benchmarks.compiled import works
from benchmarks.compiled.bars import BARS
from benchmarks.compiled.program import COMPILED
from benchmarks.process import is_installed
from benchmarks.rounds import Pair, Settings, measure

assert works  # imported for what it registers


def main(argv: list[str] | None = None) -> int:
    """Run the command; the status is 1 where a work failed or a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compiled", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=sorted(COMPILED))
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--quick", action="store_true", help="see that all runs; judge nothing")
    options = parser.parse_args(argv)
    settings = Settings(options.rounds)
    if options.quick:
        settings = Settings(rounds=2, seconds=0.002, quick=True)
    theirs = "torch" if is_installed("torch") else None
    missed = 0
    print(f"{'work':34s} {'torch':>10s} {'ours':>10s} {'torch / ours':>24s} {'bar':>8s}")
    with Pair(theirs, "pullback") as pair:
        for name in options.only or COMPILED:
            result = measure(COMPILED[name], [pair], settings, lambda text: None)
            if result.comparison is None:
                print(f"{name:34s} {result.note}")
                missed += result.failed
                continue
            one = result.comparison
            bar = BARS.get(name)
            short = bar is not None and one.ratio is not None and one.ratio < bar
            missed += short and not settings.quick
            print(
                f"{name:34s} {report.quantity(one.median_theirs, 's'):>10s} "
                f"{report.quantity(one.median_ours, 's'):>10s} {report.spread(one):>24s} "
                f"{bar or '':>8} {'short' if short else ''}",
                flush=True,
            )
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())

"""The command `python -m benchmarks.compiled`: compiled functions against torch as it runs."""

from __future__ import annotations

import argparse
import shutil
import sys

from benchmarks import report
from benchmarks.compiled import varied, works
from benchmarks.compiled.alone import table
from benchmarks.compiled.bars import BARS
from benchmarks.compiled.program import COMPILED
from benchmarks.process import is_installed
from benchmarks.rounds import Pair, Settings, measure

assert works  # imported for what they register
assert varied


PEERS = ("torch.compile", "jax")


def present(peer: str) -> bool:
    """Whether a peer can run here: torch.compile wants a C++ compiler."""
    if peer == "jax":
        return is_installed("jax")
    return is_installed("torch") and any(map(shutil.which, ("c++", "g++", "clang++")))


def compare_peers(names: list[str], peers: list[str], rounds: int) -> int:
    """A table of each peer's time over ours; the status is 1 where one is ahead of us."""
    behind = 0
    settings = Settings(rounds)
    for peer in peers:
        if not present(peer):
            print(f"{peer}: not installed, or without a C++ compiler")
            continue
        print(f"{'work':34s} {peer:>13s} {'ours':>10s} {peer + ' / ours':>30s}")
        with Pair(peer, "pullback") as pair:
            for name in names:
                result = measure(COMPILED[name], [pair], settings, lambda text: None)
                if result.comparison is None:
                    print(f"{name:34s} {result.note}", flush=True)
                    continue
                one = result.comparison
                behind += one.ratio is not None and one.ratio < 1
                print(
                    f"{name:34s} {report.quantity(one.median_theirs, 's'):>13s} "
                    f"{report.quantity(one.median_ours, 's'):>10s} {report.spread(one):>30s}",
                    flush=True,
                )
    return int(bool(behind))


def main(argv: list[str] | None = None) -> int:
    """Run the command; the status is 1 where a work failed or a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compiled", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=sorted(COMPILED))
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument(
        "--peers", nargs="*", metavar="NAME", choices=PEERS,
        help="compare with other compilers instead: those that are installed, or these",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="see that all runs; judge nothing")
    parser.add_argument("--alone", action="store_true", help="first results, threads and the like")
    options = parser.parse_args(argv)
    if options.alone:
        return int(bool(table(lambda text: print(text, flush=True))))
    if options.peers:
        return compare_peers(options.only or list(COMPILED), options.peers, options.rounds)
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

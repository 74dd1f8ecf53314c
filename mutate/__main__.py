"""`python -m mutate --seconds N --seed N [path ...]`: try changes, print what survives."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from mutate import SCOPE, TESTS, forking
from mutate.changes import Change, changes_of
from mutate.covering import Map, record
from mutate.keeping import as_row, kept, stale
from mutate.trying import Copy, Outcome, outcome_of

ROOT = Path(__file__).parents[1]


def all_changes(root: Path, paths: Iterable[str]) -> list[Change]:
    """Every change of the files, or of those in the folders, that are named."""
    found: list[Change] = []
    for path in paths:
        files = sorted((root / path).rglob("*.py")) if (root / path).is_dir() else [root / path]
        for file in files:
            found += changes_of(file, root)
    return found


def outcomes(order: list[Change], copy: Copy, known: Map, seconds: float) -> Iterator[Outcome]:
    """Try changes in this order, until the time is over."""
    until = time.monotonic() + seconds
    try:
        for change in order:
            if time.monotonic() > until:
                return
            yield outcome_of(change, copy, known)
    except KeyboardInterrupt:  # what was found until then is told
        return


def in_forks(
    order: list[Change], copy: Copy, known: Map, seconds: float, tests: list[str]
) -> Iterator[Outcome]:
    """The same, ten times as quick; what no fork notices is tried once more as it would be."""
    for one in forking.tried(order, copy.root, known, seconds, tests):
        sure = one.what in ("killed", "equivalent")
        yield one if sure else outcome_of(one.change, copy, known)


def report(found: Iterable[Outcome], reasons: dict[tuple[str, str, str, str], str]) -> int:
    """Print each survivor when it is found, then the counts; how many have no reason."""
    counts: Counter[str] = Counter()
    left = 0
    for one in found:
        what = one.what
        if what in ("survived", "nobody comes by"):
            if one.change.key in reasons:
                what = "kept"
            else:
                left += 1
                print(f"{what}: {one.change}  ({one.tests} tests, {one.seconds:.0f} s)")
                print("    " + one.change.source, flush=True)
                print("\n".join("    # " + line for line in as_row(one.change).splitlines()))
        counts[what] += 1
    total = sum(counts.values())
    print(f"{total} changes: " + ", ".join(f"{n} {what}" for what, n in counts.most_common()))
    if total:
        print(f"{100 * left / total:.1f} % survive without a reason", flush=True)
    return left


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Record the map if there is none, try changes, tell."""
    parser = argparse.ArgumentParser(prog="mutate", description=__doc__)
    parser.add_argument("paths", nargs="*", default=list(SCOPE), help="files or folders")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", nargs="*", default=list(TESTS), help="recorded in the map")
    parser.add_argument("--forked", action="store_true", help="in forks of one process: quick")
    parser.add_argument("--again", action="store_true", help="record the map anew")
    given = parser.parse_args(arguments)
    folder = root / "build" / "mutate"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "map.json"
    if given.again or not file.exists():
        sources = [path for path in SCOPE if (root / path).exists()] or given.paths
        record(root, sources, given.tests, folder / "coverage").write(file)
    copy = Copy(root, folder / "tree")
    changes = all_changes(root, given.paths)
    print(f"{len(changes)} changes can be made; seed {given.seed}", flush=True)
    for path, source, *_ in stale(kept(), changes):
        print(f"kept.toml has a line that is gone: {path}: {source}")
    random.Random(given.seed).shuffle(changes)
    if given.forked:
        found = in_forks(changes, copy, Map.read(file), given.seconds, given.tests)
    else:
        found = outcomes(changes, copy, Map.read(file), given.seconds)
    return int(report(found, kept()) > 0)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m stress [part ...] --seconds N --seed N --calls N`: run parts, print their tables."""

from __future__ import annotations

import argparse
import importlib
import sys

from stress import PARTS


def main(arguments: list[str] | None = None) -> int:
    """Run the parts that are named, or all; 1 if any of them found something."""
    parser = argparse.ArgumentParser(prog="stress", description=__doc__)
    listed = "; ".join(f"{name}: {what}" for name, what in PARTS.items())
    parser.add_argument("parts", nargs="*", metavar="part", help=listed)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each part")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calls", type=int, default=None, help="stop after so many, if sooner")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.parts if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}, only {', '.join(PARTS)}.")
    found = False
    for name in given.parts or PARTS:
        part = importlib.import_module(f"stress.{name}")
        report = part.run(given.seconds, given.seed, given.calls)
        print(report, flush=True)
        found = found or bool(report.findings)
    return int(found)


if __name__ == "__main__":
    sys.exit(main())

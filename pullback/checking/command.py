"""The command `pullback check`."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pullback.checking.report import judge
from pullback.checking.running import run_both
from pullback.checking.source import read

__all__ = ["add_command", "main"]


def add_command(commands: Any) -> None:
    """Tell the command line of `check`."""
    check = commands.add_parser(
        "check",
        help="list the torch names a program uses, and which of them pullback has",
        description="Read a program without running it, and say of every name of torch that it "
        "uses whether pullback has it. Exit status: 0 it should run, 1 something is missing, "
        "2 a file cannot be read.",
    )
    check.add_argument("--all", action="store_true", help="list the names that are here too")
    check.add_argument(
        "--run",
        action="store_true",
        help="then run the script on pullback and, where installed, on torch, and compare the "
        "losses that they print",
    )
    check.add_argument("program", help="a script, a notebook, a folder or an installed package")
    check.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="further programs; with --run, its arguments"
    )


def main(parsed: argparse.Namespace) -> int:
    """Check what the command line names; the exit status."""
    programs = [parsed.program] if parsed.run else [parsed.program, *parsed.arguments]
    paths = []
    for program in programs:
        path = _path(program)
        if path is None:
            print(f"pullback check: no file, folder or package {program!r}", file=sys.stderr)
            return 2
        paths.append(path)
    report = judge(read(paths))
    for line in report.lines(everything=parsed.all):
        print(line)
    verdict = report.verdict()[0]
    if not parsed.run:
        return verdict
    return run_both(parsed.program, parsed.arguments)


def _path(program: str) -> Path | None:
    path = Path(program)
    if path.exists():
        return path
    if not all(part.isidentifier() for part in program.split(".")) or "." in program:
        return None
    spec = find_spec(program)  # of a package at the top: finding it does not import it
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)

"""`python -m tools.lineage COMMIT`: how large the part of the package is that existed at a commit.

Files are followed through renames. A definition counts as of then if its name stood in the package
then, whatever has been added to it since; imports, blank lines and comments are shared out as
definitions are.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main(commit: str) -> None:
    """Print what there was then, and what of it there is now."""
    then = {path: _git("show", f"{commit}:{path}") for path in _files("ls-tree", commit)}
    names = {name for text in then.values() for name in _definitions(text)}
    files = [path for path in _files("ls-files") if path in _followed(set(then), commit)]
    kept = added = rest = 0
    for path in files:
        text = (ROOT / path).read_text("utf-8")
        sizes = _definitions(text)
        old = sum(size for name, size in sizes.items() if name in names)
        kept, added = kept + old, added + sizes.total() - old
        rest += len(text.splitlines()) - sizes.total()
    then_lines = sum(len(text.splitlines()) for text in then.values())
    then_defined = sum(_definitions(text).total() for text in then.values())
    share = kept / (kept + added)
    print(f"then: {len(then)} files, {then_lines:,} lines, {then_defined:,} of them definitions")
    print(f"now:  {len(files)} of these files, {kept + added + rest:,} lines")
    print(f"      definitions of then {kept:,}, of later {added:,}")
    print(f"      so the part that existed has about {kept + rest * share:,.0f} lines")


def _git(*args: str) -> str:
    return subprocess.run(
        ["git", *args], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


def _files(command: str, *commit: str) -> list[str]:
    recursive = ["-r", "--name-only"] if commit else []
    listed = _git(command, *recursive, *commit, "pullback").split()
    return [path for path in listed if path.endswith(".py")]


def _followed(paths: set[str], commit: str) -> set[str]:
    options = ("--reverse", "--topo-order", "--name-status", "-M40%", "--format=")
    for line in _git("log", *options, f"{commit}..HEAD", "--", "pullback").splitlines():
        change, *names = line.split("\t")
        if change.startswith("R") and names[0] in paths:
            paths = paths - {names[0]} | {names[1]}
    return paths


def _definitions(text: str) -> Counter[str]:
    """Functions, methods, classes without their methods, and assigned names: lines of each."""
    sizes: Counter[str] = Counter()

    def walk(body: list[ast.stmt], inside: str) -> int:
        found = 0
        for one in body:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                start = min([one.lineno, *(each.lineno for each in one.decorator_list)])
                size = (one.end_lineno or start) - start + 1
                of_parts = (
                    walk(one.body, f"{inside}{one.name}.") if type(one) is ast.ClassDef else 0
                )
                sizes[f"{inside}{one.name}"] += size - of_parts
                found += size
            elif isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name):
                size = (one.end_lineno or one.lineno) - one.lineno + 1
                sizes[f"{inside}{one.targets[0].id}"] += size
                found += size
            elif isinstance(one, ast.If | ast.Try):
                found += walk(one.body, inside)
        return found

    walk(ast.parse(text).body, "")
    return sizes


if __name__ == "__main__":
    main(*sys.argv[1:])

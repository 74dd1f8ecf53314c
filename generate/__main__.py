"""`python -m generate` writes the generated files; with `--check` it says which are behind.

The table of operators by mode, docs/coverage.md, is made from what was written, so in a process of
its own; a test of compiled/ holds it current.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from generate import (
    badges,
    declared,
    stubs,
    tables,
    tree,
)  # declared before the others that import pullback: it notes what that loads

_PACKAGE = Path(declared.operators.__path__[0]).parent


def files() -> dict[Path, str]:
    """Generated file -> its text."""
    made = {"operators/attach/names.py": tables.text(), **stubs.files()}
    return {
        **{_PACKAGE / path: text for path, text in made.items()},
        tree.PAGE: tree.page(),
        **badges.files(),
    }


def main(arguments: list[str]) -> int:
    """Write what differs, or name it."""
    behind = [
        (path, text)
        for path, text in files().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path, text in behind:
        name = path.relative_to(_PACKAGE.parent)
        if "--check" in arguments:
            print(f"{name} is behind the declarations; run: make generate")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    if "--check" in arguments:
        return 1 if behind else 0
    return subprocess.run(
        [sys.executable, "-m", "pullback.compiled.coverage"], check=False
    ).returncode


sys.exit(main(sys.argv[1:]))

"""Files that comments, docstrings and pages name are there, and what moves takes its name along."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Programs of users, which examples name.
THEIRS = {"train.py", "script.py", "hubconf.py", "setup.py"}
NAMED = re.compile(r"(?<![\w./\"'-])([a-z_][a-z_/0-9]*\.py)\b")
OURS = [
    f"/{path.relative_to(ROOT).as_posix()}"
    for folder in ("pullback", "tests", "generate", "tools", "stress", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
] + [f"/{path.name}" for path in ROOT.glob("*.py")]


def unknown(text: str) -> list[str]:
    """Names of files in prose that no file ends in."""
    prose = [line for line in text.splitlines() if ">>>" not in line and "..." not in line]
    found = set(NAMED.findall("\n".join(prose))) - THEIRS
    return sorted(name for name in found if not any(path.endswith(f"/{name}") for path in OURS))


def test_a_name_without_a_file_is_found():
    assert unknown("See operators/declare.py and nowhere_at_all.py.") == ["nowhere_at_all.py"]


@pytest.mark.parametrize("folder", sorted(p.name for p in (ROOT / "pullback").iterdir()))
def test_files_that_the_package_names_are_there(folder):
    place = ROOT / "pullback" / folder
    files = [place] if place.suffix == ".py" else list(place.rglob("*.py"))
    wrong = {str(file): names for file in files if (names := unknown(file.read_text("utf-8")))}
    assert not wrong


PAGES = ["README.md", "CONTRIBUTING.md", "docs/architecture.md"]
PAGES += sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("docs/architecture/*.md"))


@pytest.mark.parametrize("page", PAGES)
def test_files_that_pages_name_are_there(page):
    ticked = " ".join(re.findall(r"`[^`\n]*`", (ROOT / page).read_text("utf-8")))
    assert unknown(ticked.replace("`", " ")) == []

"""Line counts in docs/architecture.md: of each tier, and of the core to study.

A count is written anew where it is more than a twentieth off, so that not every commit changes it.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
_OFF = 0.05
_TIER = re.compile(r"^(\| \[[^|]*\) \| )([^|]*)( \| )([\d,]+)( \|)$", re.MULTILINE)
_CORE = re.compile(r"(about )([\d,]+)( lines in all)")
_ROW = re.compile(r"^\| (`[a-z_/]+\.py`.*?) \|", re.MULTILINE)


def core_files(text: str) -> list[Path]:
    """The files that the page names as the core to study."""
    section = text.partition("\n## The core to study\n")[2].partition("\n## ")[0]
    named = re.findall(r"`([a-z_/0-9]+\.py)`", " ".join(_ROW.findall(section)))
    files = [ROOT / "pullback" / name for name in named]
    missing = [str(file.relative_to(ROOT)) for file in files if not file.exists()]
    if missing:
        raise FileNotFoundError(f"{PAGE.name} names as core to study: {', '.join(missing)}")
    return files


def page() -> str:
    """The page, with counts that are true."""
    text = PAGE.read_text(encoding="utf-8")

    def tier(match: re.Match[str]) -> str:
        before, folders, bar, said, after = match.groups()
        names = re.findall(r"`([a-z_]+)/`", folders)
        files = [file for name in names for file in (ROOT / "pullback" / name).rglob("*.py")]
        return f"{before}{folders}{bar}{_true(said, files)}{after}"

    text = _TIER.sub(tier, text)
    files = core_files(text)
    return _CORE.sub(lambda match: match[1] + _true(match[2], files) + match[3], text)


def _true(said: str, files: list[Path]) -> str:
    """A count as the page says it, or the true one, rounded."""
    lines = sum(len(file.read_bytes().splitlines()) for file in files)
    if abs(int(said.replace(",", "")) - lines) <= _OFF * lines:
        return said
    return f"{round(lines, -2):,}"

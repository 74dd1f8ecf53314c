"""Badges of README: small pictures in the checkout, of what pyproject.toml says.

Drawn here, not by a service: they are true without a network, and a test says when they are behind.
"""

from __future__ import annotations

import re
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "images" / "badges"
_LETTER = 6.4  # width of one at 11 pixels, on average


def said() -> dict[str, tuple[str, str]]:
    """Name of each badge -> what it is about, and what is so."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    place = project["tool"]["hatch"]["version"]
    source = (ROOT / place["path"]).read_text(encoding="utf-8")
    version = re.search(place["pattern"], source)
    assert version is not None
    oldest = project["project"]["requires-python"].removeprefix(">=")
    needed = (re.split("[<>=~]", one)[0] for one in project["project"]["dependencies"])
    strict = "mypy, strict" if project["tool"]["mypy"]["strict"] else "mypy"
    return {
        "version": ("version", version["version"]),
        "python": ("Python", f"{oldest} or newer"),
        "needs": ("needs", ", ".join(needed)),
        "types": ("types", strict),
        "license": ("license", project["project"]["license"]),
    }


def picture(about: str, so: str) -> str:
    """One badge as SVG."""
    left, right = (round(_LETTER * len(text)) + 14 for text in (about, so))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="{escape(about)}: {escape(so)}">'
        f'<clipPath id="r"><rect width="{left + right}" height="20" rx="3"/></clipPath>'
        f'<g clip-path="url(#r)"><rect width="{left}" height="20" fill="#4a5360"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="#1f4e5f"/></g>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" '
        f'font-size="11"><text x="{left / 2:g}" y="14">{escape(about)}</text>'
        f'<text x="{left + right / 2:g}" y="14">{escape(so)}</text></g></svg>\n'
    )


def files() -> dict[Path, str]:
    """File of each badge -> its text."""
    return {FOLDER / f"{name}.svg": picture(*texts) for name, texts in said().items()}

"""Several versions of the site beside one another: `make docs VERSIONS=FOLDER`.

Each release has a folder, such as `0.2`, and is not touched by later ones; building the same
version again replaces it. The list at the top of every page is Material's own, which reads
`versions.json` there; the folder's start page leads to the newest release.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

__all__ = ["add", "short"]

_START = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>pullback</title>
<meta http-equiv="refresh" content="0; url={newest}/index.html"></head>
<body><a href="{newest}/index.html">pullback {newest}</a></body></html>
"""


def short(version: str) -> str:
    """What a release's folder is called: patches of a minor version share one.

    >>> short("0.2.1")
    '0.2'
    """
    return ".".join(version.split(".")[:2])


def add(site: Path, version: str, folder: Path) -> Path:
    """Put a built site into the folder as this version; where it lies now."""
    place = folder / short(version)
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(site, place)
    listed = folder / "versions.json"
    known = json.loads(listed.read_text(encoding="utf-8")) if listed.exists() else []
    titles = {entry["version"]: entry["title"] for entry in known} | {short(version): version}
    present = [name for name in titles if (folder / name).is_dir()]
    order = sorted(present, key=_numbers, reverse=True)
    entries = [
        {"version": name, "title": titles[name], "aliases": ["latest"] if name == order[0] else []}
        for name in order
    ]
    listed.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    (folder / "index.html").write_text(_START.format(newest=order[0]), encoding="utf-8")
    return place


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]

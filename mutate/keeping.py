"""The list of changes that may survive, each with its reason."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from mutate.changes import Change

FILE = Path(__file__).with_name("kept.toml")


Key: TypeAlias = tuple[str, str, str, str]


def kept(file: Path = FILE) -> dict[Key, str]:
    """Reasons by change; one without a reason is an error."""
    found = {}
    for row in tomllib.loads(file.read_text(encoding="utf-8")).get("kept", []):
        key = row["path"], row["source"], row["old"], row["new"]
        if not row.get("reason", "").strip():
            raise ValueError(f"{file.name}: no reason for {key}.")
        found[key] = row["reason"]
    return found


def stale(keys: Iterable[Key], changes: Iterable[Change]) -> list[Key]:
    """Those of files that were looked at whose line is not there any more."""
    known = {change.key for change in changes}
    files = {path for path, *_ in known}
    return [key for key in keys if key[0] in files and key not in known]


def as_row(change: Change) -> str:
    """A survivor as it would stand in the list, for whoever finds its reason."""
    path, source, old, new = change.key
    fields = {"path": path, "source": source, "old": old, "new": new, "reason": ""}
    lines = [f"{name} = {_quoted(value)}" for name, value in fields.items()]
    return "\n".join(["[[kept]]", *lines])


def _quoted(value: str) -> str:
    if "'" not in value:
        return f"'{value}'"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

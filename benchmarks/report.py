"""The results for people (a plain or a Markdown table) and for programs (JSON)."""

from __future__ import annotations

import importlib.metadata as metadata
import json
import os
import platform
from pathlib import Path
from typing import Any

from benchmarks.bars import BARS, verdict
from benchmarks.result import Comparison, Result
from benchmarks.rounds import Settings

SCALES = {
    "s": [("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)],
    "B": [("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)],
    "x": [("", 1.0)],
}


def quantity(value: float | None, unit: str) -> str:
    """Three digits and a fitting unit: 0.0021 s is `2.1 ms`."""
    if value is None:
        return "n/a"
    scales = SCALES[unit]
    name, scale = next((pair for pair in scales if abs(value) >= pair[1]), scales[-1])
    return f"{value / scale:.3g} {name}".rstrip()


def spread(comparison: Comparison) -> str:
    """The ratio, with the quartiles of its rounds."""
    if comparison.ratio is None:
        return "n/a"
    if comparison.quartiles is None:
        return f"{comparison.ratio:.2f}"
    low, high = comparison.quartiles
    return f"{comparison.ratio:.2f} ({low:.2f} to {high:.2f})"


def bar_text(result: Result) -> str:
    """What the row must show."""
    bar = BARS.get(result.name)
    if bar is None:
        return ""
    if bar.at_most is not None:
        return f"<= {quantity(bar.at_most, result.unit)}"
    return f">= {bar.at_least:g}"


def goal_text(result: Result) -> str:
    """Where the row is going."""
    bar = BARS.get(result.name)
    return f"{bar.goal:g}" if bar and bar.goal else ""


def cells(
    results: list[Result], theirs: str, ours: str, *, with_wall: bool = False
) -> list[list[str]]:
    """The table as text, header first, with columns for wall time where asked for."""
    header = ["work", theirs, ours, "ratio (quartiles)"]
    header += ["all cores: " + theirs, ours, "ratio (quartiles)"] if with_wall else []
    header += ["bar", "goal", "verdict"]
    rows = [header]
    for result in results:
        row = [result.title, *comparison_cells(result.comparison, result.unit)]
        row += comparison_cells(result.wall, result.unit) if with_wall else []
        rows.append([*row, bar_text(result), goal_text(result), verdict(result)])
    return rows


def comparison_cells(comparison: Comparison | None, unit: str) -> list[str]:
    """Theirs, ours and their ratio."""
    if comparison is None:
        return ["n/a"] * 3
    return [
        quantity(comparison.median_theirs, unit),
        quantity(comparison.median_ours, unit),
        spread(comparison),
    ]


def plain_table(rows: list[list[str]]) -> str:
    """Columns lined up with spaces."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def markdown_table(rows: list[list[str]]) -> str:
    """The same for a README."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def notes(results: list[Result], settings: Settings) -> str:
    """Why rows are missing, a line each, and what the verdicts are worth."""
    lines = [f"{result.name}: {result.note}" for result in results if result.note]
    if settings.quick:
        lines.append("Measured in haste, to see that all works run: the verdicts mean nothing.")
    return "\n".join(lines)


def keep(path: Path, results: list[Result], theirs: str, ours: str, settings: Settings) -> None:
    """Write everything measured into a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = document(results, theirs, ours, settings)
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def document(results: list[Result], theirs: str, ours: str, settings: Settings) -> dict[str, Any]:
    """Everything measured, as JSON can hold it."""
    return {
        "machine": machine(),
        "versions": {name: version(name) for name in dict.fromkeys([theirs, ours, "numpy"])},
        "theirs": theirs,
        "ours": ours,
        "method": {
            "rounds": settings.rounds,
            "seconds_per_round": settings.seconds,
            "quick": settings.quick,
        },
        "results": [result_json(result) for result in results],
    }


def result_json(result: Result) -> dict[str, Any]:
    """One row."""
    bar = BARS.get(result.name)
    return {
        "name": result.name,
        "title": result.title,
        "unit": result.unit,
        "comparison": result.comparison and result.comparison.as_json(),
        "wall": result.wall and result.wall.as_json(),
        "bar": bar and vars(bar),
        "verdict": verdict(result),
        "note": result.note,
    }


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def processor() -> str:
    """The processor's name; Linux tells it only in a file."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def version(library: str) -> str | None:
    """The installed version, if it is installed."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None

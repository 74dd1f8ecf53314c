"""Compare: measurements side by side in a table, one table for each label."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.utils.benchmark.utils.common import (
    Measurement,
    ordered_unique,
    select_unit,
    trim_sigfig,
    unit_to_english,
)

__all__ = ["Colorize", "Compare"]

_BEST, _GOOD, _BAD, _WORST, _OFF = (
    "\033[92m\033[1m",
    "\033[34m",
    "\033[2m\033[91m",
    "\033[31m",
    "\033[0m",
)


class Colorize(enum.Enum):
    """What times are compared with when they are coloured."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """A table of measurements: a row for each sub-label, a column for each description.

    Example:
        >>> from pullback.utils.benchmark import Compare, Measurement, TaskSpec
        >>> def took(seconds, size, way):
        ...     return Measurement(1, [seconds], TaskSpec("", "", "", "sum", size, way))
        >>> Compare([took(2e-6, "small", "loop"), took(1e-6, "small", "numpy")]).print()
        [----------- sum ------------]
                     |  loop  |  numpy
        1 threads: -------------------
              small  |  2.0   |  1.0
        <BLANKLINE>
        Times are in microseconds (us).
        <BLANKLINE>
    """

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trim = False
        self._colorize = Colorize.NONE
        self._highlight_warnings = False

    def extend_results(self, results: Iterable[Any]) -> None:
        """Add measurements."""
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(f"Compare: expected a Measurement, got {type(result).__name__}.")
            self._results.append(result)

    def trim_significant_figures(self) -> None:
        """Show only digits that mean something."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour times by how they compare with others of their column, or row."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Mark times that vary much."""
        self._highlight_warnings = True

    def print(self) -> None:
        """Print the tables."""
        print(str(self))

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        titles = ordered_unique(one.task_spec.label or one.task_spec.stmt for one in merged)
        tables = [
            self._table(
                title, [m for m in merged if title == (m.task_spec.label or m.task_spec.stmt)]
            )
            for title in titles
        ]
        return "\n".join(tables)

    def _table(self, title: str, results: list[Measurement]) -> str:
        unit, scale = select_unit(min(one.median for one in results))
        columns = ordered_unique(one.task_spec.description or "" for one in results)
        rows = ordered_unique((one.task_spec.num_threads, _row_name(one)) for one in results)
        found = {_place(one): one for one in results}
        cells = {place: self._cell(found, place, scale) for place in found}
        widths = [
            max(
                [
                    len(name),
                    *[len(text) for (*_, column), (text, _) in cells.items() if column == name],
                ]
            )
            for name in columns
        ]
        return _drawn(title, rows, columns, widths, cells, unit)

    def _cell(self, found: dict[Any, Measurement], place: Any, scale: float) -> tuple[str, str]:
        """The text of a time, and its colour."""
        one = found[place]
        value = one.median / scale
        if self._trim:
            value = trim_sigfig(value, one.significant_figures)
        text = f"{value:.1f}" + ("!" if self._highlight_warnings and one.has_warnings else "")
        if self._colorize is Colorize.NONE:
            return text, ""
        row = self._colorize is Colorize.ROWWISE
        rivals = [
            other.median
            for key, other in found.items()
            if (key[:2] == place[:2] if row else key[2] == place[2])
        ]
        return text, _colour(one.median, rivals)


def _place(one: Measurement) -> tuple[int, str, str]:
    return one.task_spec.num_threads, _row_name(one), one.task_spec.description or ""


def _row_name(one: Measurement) -> str:
    return (f"({one.task_spec.env}) " if one.task_spec.env else "") + one.as_row_name


def _colour(median: float, rivals: list[float]) -> str:
    best = min(rivals)
    if len(rivals) < 2:
        return ""
    if median <= best * 1.05:
        return _BEST
    if median <= best * 1.25:
        return _GOOD
    return _WORST if median >= best * 5 else _BAD if median >= best * 2 else ""


def _drawn(
    title: str,
    rows: list[tuple[int, str]],
    columns: list[str],
    widths: list[int],
    cells: dict[tuple[int, str, str], tuple[str, str]],
    unit: str,
) -> str:
    indent = 6
    margin = indent + max(len(name) for _, name in rows) + 2

    def line(name: str, texts: list[str]) -> str:
        return (" " * indent + name).ljust(margin) + "".join(f"|  {text}  " for text in texts)

    heads = line("", [c.ljust(w) for c, w in zip(columns, widths, strict=True)]).rstrip()
    width = max(len(heads), margin + sum(w + 5 for w in widths) - 2)
    lines = [f"[{f' {title} '.center(width - 2, '-')}]", heads]
    threads = None
    for number, name in rows:
        if number != threads:
            threads = number
            lines.append(f"{number} threads: ".ljust(width, "-"))
        texts = []
        for column, size in zip(columns, widths, strict=True):
            text, colour = cells.get((number, name, column), ("", ""))
            padded = text.ljust(size)
            texts.append(f"{colour}{padded}{_OFF}" if colour else padded)
        lines.append(line(name, texts).rstrip())
    return "\n".join([*lines, "", f"Times are in {unit_to_english(unit)}s ({unit}).", ""])


__dir__ = _only_public(globals())

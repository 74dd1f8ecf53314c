"""Pages that stand alone: a title, tables and drawings in one HTML file that needs no network.

The graph's own page is in `show/`, with a script that lays it out; these are still pictures, drawn
here as SVG, but for what a page brings itself.
"""

from __future__ import annotations

import bisect
import itertools
import math
import os
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from pullback.autograd.show.framed import Framed, in_script

__all__ = ["Report", "in_script", "lines", "table", "treemap"]

_COLOURS = ("#1d62d1", "#c2410c", "#15803d", "#7c3aed", "#0e8f8f", "#b45309", "#be185d", "#475569")
# The same on dark paper, for thin lines: a tile has white letters on it, so it stays as it is.
_BRIGHT = ("#6ea8fe", "#ff9a62", "#4fce7d", "#b79bff", "#3fd0cf", "#f0b34a", "#ff7eb6", "#a9b7c9")


def _curves(colours: Sequence[str]) -> str:
    return " ".join(f"--curve{at}: {colour};" for at, colour in enumerate(colours))


_STYLE = (
    f"""
:root {{ color-scheme: light dark; --paper: #fbfbfd; --ink: #1c2430; --faint: #5c6675;
  --line: #d5dae2; --panel: #fff; --mark: #d9480f; --link: #1d62d1;
  --shade: #1c243038; {_curves(_COLOURS)} }}
@media (prefers-color-scheme: dark) {{ :root {{ --paper: #12161d; --ink: #e6eaf0; --faint: #9aa6b6;
  --line: #2e3744; --panel: #1a2029; --mark: #ff922b; --link: #6ea8fe;
  --shade: #00000099; {_curves(_BRIGHT)} }} }}
"""
    """
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1180px; padding: 18px;
  background: var(--paper); color: var(--ink);
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
h1 { font-size: 20px; margin: 0 0 6px; } h2 { font-size: 15px; margin: 22px 0 6px; }
p { margin: 4px 0; color: var(--faint); }
table { border-collapse: collapse; width: 100%; font-size: 13px;
  font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--faint); font-weight: 600;
  border-bottom: 1px solid var(--line); }
th, td { padding: 3px 12px 3px 0; vertical-align: top; overflow-wrap: break-word; }
tr:hover td { background: color-mix(in srgb, var(--link) 8%, transparent); }
td.mark { color: var(--mark); font-weight: 600; }
svg { display: block; max-width: 100%; height: auto; }
svg text { font: 11px system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif;
  fill: var(--ink); }
svg .axis { stroke: var(--line); } svg .faint { fill: var(--faint); }
.scroll { overflow-x: auto; background: /* a shade at the side where more is to be seen */
  linear-gradient(to right, var(--paper) 30%, transparent) left / 36px 100% no-repeat local,
  linear-gradient(to left, var(--paper) 30%, transparent) right / 36px 100% no-repeat local,
  linear-gradient(to right, var(--shade), transparent) left / 14px 100% no-repeat scroll,
  linear-gradient(to left, var(--shade), transparent) right / 14px 100% no-repeat scroll; }
.scroll > svg { min-width: 860px; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 1px; }
button, select, input { font: inherit; color: inherit; background: var(--panel);
  border: 1px solid var(--line); border-radius: 6px; padding: 3px 9px; }
"""
)


class Report(Framed):
    """A page: Jupyter shows it, `save` writes it, `open` opens the browser."""

    def __init__(
        self, title: str, body: str, *, script: str = "", data: Any = None, style: str = ""
    ) -> None:
        self.title = title
        self.body = body
        self._script = script
        self._data = data
        self._style = style

    def html(self) -> str:
        """The whole page."""
        data = ""
        if self._data is not None:
            data = f'<script type="application/json" id="data">{in_script(self._data)}</script>'
        script = f"<script>{self._script}</script>" if self._script else ""
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self.title)}</title>"
            f'<link rel="icon" href="data:,"><style>{_STYLE}{self._style}</style></head>\n<body>'
            f"<h1>{escape(self.title)}</h1>\n{self.body}\n{data}{script}</body></html>\n"
        )

    def save(self, path: str | os.PathLike[str]) -> str:
        """Write the page as an .html file."""
        name = os.fspath(path)
        if not name.lower().endswith((".html", ".htm")):
            raise ValueError(f"a page is written as HTML; call the file .html, not {name!r}.")
        with open(name, "w", encoding="utf-8") as file:
            file.write(self.html())
        return name


def table(header: Sequence[str], rows: Sequence[Sequence[str]], marked: Sequence[int] = ()) -> str:
    """Rows under a header; in those whose numbers are `marked` the first cell stands out."""
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in header)
    body = []
    for number, row in enumerate(rows):
        first = ' class="mark"' if number in marked else ""
        cells = "".join(
            f"<td{first if at == 0 else ''}>{escape(one)}</td>" for at, one in enumerate(row)
        )
        body.append(f"<tr>{cells}</tr>")
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


_DOTS = 80  # points of a curve that are marked one by one
_DRAWN = 1e300  # what is larger, infinite or NaN has no place


def lines(
    title: str,
    series: Mapping[str, Sequence[float]],
    *,
    unit: Any = None,
    width: int = 1100,
    height: int = 260,
    marks: Mapping[int, str] | None = None,
    places: Sequence[int] | None = None,
    end: int | None = None,
    ticks: Sequence[float] | None = None,
) -> str:
    """Curves over their places; `unit` writes a number of the axis, `marks` names places.

    `places` are the steps that the values belong to, from 1 to `end`; the axis then names some.
    `ticks` are the numbers that the axis shows, the largest at its top; else they are round.
    """
    shown = unit or (lambda value: f"{value:.3g}")
    finite = [v for one in series.values() for v in one if abs(v) < _DRAWN]
    if not finite:
        return f"<p>{escape(title)}: nothing was recorded.</p>"
    ticks = ticks or round_ticks(min(0.0, *finite), max(finite))
    low, high = min(0.0, *finite, ticks[0]), max(*finite, ticks[-1])
    high = high if high > low else low + 1.0
    count = max(len(one) for one in series.values())
    first, last = (0, count - 1) if places is None else (1, end or places[-1])
    left, bottom, top = 78, height - (24 if places is None else 38), 12

    def place(at: float, value: float) -> tuple[float, float]:
        x = left + (width - left - 10) * (at - first) / max(1, last - first)
        return x, bottom - (bottom - top) * (value - low) / (high - low)

    parts = [_drawing(width, height, title)]
    for value in ticks:
        y = place(0, value)[1]
        parts.append(
            f'<line class="axis" x1="{left}" x2="{width - 10}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(
            f'<text class="faint" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{escape(shown(value))}</text>"
        )
    for number, (name, values) in enumerate(series.items()):
        colour = f"var(--curve{number % len(_COLOURS)})"
        points = [
            place(at, v)
            for at, v in zip(places or range(count), values, strict=False)
            if abs(v) < _DRAWN
        ]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(
            f'<polyline points="{drawn}" fill="none" stroke-width="1.6" '
            f'style="stroke: {colour}">'
            f"<title>{escape(name)}</title></polyline>"
        )
        if places is not None and len(points) <= _DOTS:  # a line between two says nothing of one
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" style="fill: {colour}"/>'
                      for x, y in points]  # fmt: skip
        if len(series) > 1 and number < 8:
            x = left + 130 * number
            parts.append(
                f'<rect x="{x}" y="{height - 12}" width="10" height="10" style="fill: {colour}"/>'
            )
            parts.append(f'<text x="{x + 14}" y="{height - 3}">{escape(name[:18])}</text>')
    if places is not None:
        parts += _step_axis(first, last, lambda at: place(at, low)[0], bottom)
    for at, name in (marks or {}).items():
        at_x = place(at, low)[0]
        parts.append(_rule(at_x, at_x, top, bottom))
        parts.append(f'<text class="faint" x="{at_x + 4:.1f}" y="{top + 10}">{escape(name)}</text>')
    return "".join([*parts, "</svg></div>"])


def _drawing(width: int, height: int, about: str) -> str:
    """The start of a drawing, which a narrow window scrolls: its letters would be too small."""
    return (
        f'<div class="scroll"><svg viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(about)}">'
    )


def round_ticks(low: float, high: float) -> list[float]:
    """Up to six multiples of 1, 2, 2.5 or 5 times a power of ten, around both numbers.

    >>> from pullback.autograd.answers.report import round_ticks
    >>> round_ticks(0.0, 1.91)
    [0.0, 0.5, 1.0, 1.5, 2.0]
    """
    least = max((high - low) / 4, 1e-9 * abs(low), 1e-9 * abs(high))
    least = least if least > 1e-300 else 0.25
    power = 10.0 ** math.floor(math.log10(least))
    step = next(one * power for one in (1, 2, 2.5, 5, 10) if one * power >= least * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def _step_axis(first: int, last: int, at_x: Any, bottom: float) -> list[str]:
    """Ticks at the first step, the last one, and round ones where there is room between."""
    room = (last - first) / 8
    between = [round(one) for one in round_ticks(first, last)]
    ticks = sorted({first, last, *(one for one in between if first + room < one < last - room)})
    parts = []
    for tick in ticks:
        x = at_x(tick)
        parts.append(_rule(x, x, bottom, bottom + 4))
        side = "start" if tick == first else "end" if tick == last else "middle"
        text = f"step {tick:,}" if tick == first else f"{tick:,}"
        parts.append(
            f'<text class="faint" x="{x:.1f}" y="{bottom + 15:.1f}" text-anchor="{side}">'
            f"{text}</text>"
        )
    return parts


def _rule(x: float, x2: float, y: float, y2: float) -> str:
    return f'<line class="axis" x1="{x:.1f}" x2="{x2:.1f}" y1="{y:.1f}" y2="{y2:.1f}"/>'


class Tile:
    """A part of a treemap: its weight, and what to write on it."""

    __slots__ = ("detail", "group", "label", "weight")

    def __init__(self, weight: float, label: str, detail: str, group: str) -> None:
        self.weight, self.label, self.detail, self.group = weight, label, detail, group


def treemap(tiles: Sequence[Tile], *, width: int = 1100, height: int = 420) -> str:
    """Areas in proportion to weights, tiles of one group in one colour, the largest first."""
    wanted = sorted((one for one in tiles if one.weight > 0), key=lambda one: -one.weight)
    if not wanted:
        return "<p>Nothing to show.</p>"
    groups = list(dict.fromkeys(one.group for one in wanted))
    parts = [_drawing(width, height, "treemap")]
    for tile, (x, y, w, h) in zip(wanted, _squarified(wanted, width, height), strict=True):
        colour = _COLOURS[groups.index(tile.group) % len(_COLOURS)]
        parts.append(
            f'<g><rect x="{x:.1f}" y="{y:.1f}" width="{max(0, w - 1.5):.1f}" '
            f'height="{max(0, h - 1.5):.1f}" fill="{colour}" fill-opacity=".82" rx="2"/>'
            f"<title>{escape(tile.label)}\n{escape(tile.detail)}</title>"
        )
        room = w - 8
        if h > 16 and room > 20:
            for at, text in enumerate([tile.label, *tile.detail.split("\n")][: int(h // 14)]):
                parts.append(
                    f'<text x="{x + 5:.1f}" y="{y + 13 + 13 * at:.1f}" style="fill: #fff">'
                    f"{escape(_cut(text, room))}</text>"
                )
        parts.append("</g>")
    return "".join([*parts, "</svg></div>"])


# Widths of letters of 11 pixels, in the widest of the fonts that pages ask for.
_WIDTHS = {**dict.fromkeys("mwMW@%", 11.0), **dict.fromkeys("iljtf.,:;'|[]() ", 4.5)}


def _cut(text: str, room: float) -> str:
    """As much of a text as there is room for, in pixels."""
    taken = list(itertools.accumulate(_WIDTHS.get(one, 8 if one.isupper() else 7) for one in text))
    if not taken or taken[-1] <= room:
        return text
    return text[: bisect.bisect(taken, room - 11)] + "…"


def _squarified(tiles: Sequence[Tile], width: float, height: float) -> list[tuple[float, ...]]:
    """Rectangles as near to squares as rows of them allow."""
    scale = width * height / sum(one.weight for one in tiles)
    areas = [one.weight * scale for one in tiles]
    x = y = 0.0
    placed: list[tuple[float, ...]] = []
    while len(placed) < len(areas):
        side = min(width, height)
        rest = areas[len(placed) :]
        count = 1
        while count < len(rest) and _worst(rest[: count + 1], side) <= _worst(rest[:count], side):
            count += 1
        row = rest[:count]
        thick = sum(row) / side if side else 0.0
        along = 0.0
        for area in row:
            length = area / thick if thick else 0.0
            upright = width >= height
            placed.append(
                (x, y + along, thick, length) if upright else (x + along, y, length, thick)
            )
            along += length
        if width >= height:
            x, width = x + thick, width - thick
        else:
            y, height = y + thick, height - thick
    return placed


def _worst(row: Sequence[float], side: float) -> float:
    """The largest ratio of sides in a row along `side`."""
    total = sum(row)
    if not total or not side:
        return float("inf")
    return max(max(side * side * a / total**2, total**2 / (side * side * a)) for a in row if a)

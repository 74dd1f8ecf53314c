"""A pass written down stop by stop, and the page to walk through it in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy

from pullback.autograd.answers.modules import ModuleNames
from pullback.autograd.answers.report import Report
from pullback.autograd.debug.stops import Breakpoint, Stop, described, statistics
from pullback.core.tensor import Tensor

__all__ = ["Recording"]

_BINS = 24
_MOST_VALUES = 64

_BODY = """
<p id="about"></p>
<div id="bar" role="toolbar" aria-label="Steps">
  <button id="first" title="First (Home)">|&lt;</button>
  <button id="back" title="Back (left)">&lt;</button>
  <input id="at" type="range" min="0" value="0" aria-label="Step">
  <button id="on" title="On (right)">&gt;</button>
  <button id="last" title="Last (End)">&gt;|</button>
  <button id="break" title="To the next break (b)">next break</button>
  <label title="Instead of the breaks that debug() was given">
    break where the gradient's norm exceeds
    <input id="limit" size="7" value="" placeholder="1e3">
  </label>
</div>
<div id="split">
  <ol id="steps" aria-label="Steps of the pass" tabindex="0"></ol>
  <section id="stop" aria-live="polite"></section>
</div>
"""
_STYLE = """
#bar { display: flex; gap: 8px; align-items: center; margin: 8px 0; flex-wrap: wrap; }
#at { flex: 1; min-width: 160px; }
#split { display: grid; grid-template-columns: minmax(0, 2fr) minmax(0, 3fr); gap: 18px; }
#steps { margin: 0; padding: 0; list-style: none; max-height: 70vh; overflow: auto;
  border: 1px solid var(--line); border-radius: 8px; }
#steps li { display: flex; gap: 10px; padding: 2px 10px; cursor: pointer; white-space: nowrap; }
#steps span { flex: 1; overflow: hidden; text-overflow: ellipsis; }
#steps small { color: var(--faint); }
#steps li.now { background: color-mix(in srgb, var(--link) 22%, transparent); }
#steps li.broken { color: var(--mark); }
#stop pre { padding: 8px; background: var(--panel); border: 1px solid var(--line);
  border-radius: 6px; white-space: pre-wrap; overflow-wrap: anywhere; }
@media (max-width: 800px) { #split { grid-template-columns: minmax(0, 1fr); }
  #steps { max-height: 30vh; } }
"""


class Recording:
    """The stops of a pass, in order; `save` writes the page, `stops` has the numbers."""

    def __init__(self, breaks: Sequence[Any], names: ModuleNames) -> None:
        self.stops: list[dict[str, Any]] = []
        self._breaks = [Breakpoint(spec, names) for spec in breaks]

    def __len__(self) -> int:
        return len(self.stops)

    def __repr__(self) -> str:
        return (
            f"<{len(self)} stops of a backward pass; .open() shows them, .save(path) writes them>"
        )

    def at(self, stop: Stop) -> None:
        """Write a stop down: numbers, nothing that keeps the graph alive."""
        place = stop.origin
        self.stops.append(
            {
                "number": stop.number,
                "when": stop.when,
                "name": stop.name,
                "operator": stop.operator,
                "label": stop.label,
                "module": stop.module,
                "place": "" if place is None else str(place),
                "source": "" if place is None else place.source,
                "arrived": [_summary(one) for one in stop.arrived],
                "given": [_summary(one) for one in stop.results or ()],
                "saved": {name: _summary(one) for name, one in stop.saved.items()},
                "broken": any(one.matches(stop) for one in self._breaks),
            }
        )

    def page(self, title: str = "a backward pass, step by step") -> Report:
        """The page."""
        script = (resources.files("pullback.autograd.debug") / "steps.js").read_text("utf-8")
        return Report(title, _BODY, script=script, data=self.stops, style=_STYLE)

    def save(self, path: Any) -> str:
        """Write the page as an .html file."""
        return self.page().save(path)

    def open(self) -> str:
        """Show the page in the browser."""
        return self.page().open()

    def _repr_html_(self) -> str:
        return self.page()._repr_html_()


def _summary(tensor: Any) -> dict[str, Any]:
    if not isinstance(tensor, Tensor):
        return {"text": "none", "norm": 0.0, "bins": [], "values": []}
    array = tensor._array
    values = numpy.abs(array) if array.dtype.kind == "c" else array
    flat = values.astype(float).ravel()
    finite = flat[numpy.isfinite(flat)]
    bins = numpy.histogram(finite, _BINS)[0].tolist() if finite.size else []
    found = statistics(tensor)
    norm = found["norm"]
    return {
        "text": described(tensor),
        "norm": norm if numpy.isfinite(norm) else str(norm),
        "low": found["min"] if numpy.isfinite(found["min"]) else str(found["min"]),
        "high": found["max"] if numpy.isfinite(found["max"]) else str(found["max"]),
        "bins": bins,
        "values": [f"{value:.4g}" for value in flat[:_MOST_VALUES]],
    }

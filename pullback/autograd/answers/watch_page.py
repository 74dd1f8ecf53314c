"""The page of a training run: curves, histograms over time, a row per parameter."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy

from pullback.autograd.answers.report import Report, lines
from pullback.autograd.answers.watch import counted

if TYPE_CHECKING:
    from pullback.autograd.answers.watch import Watch

_SHOWN = 1500  # points of a curve
_COLUMNS = 120  # of a histogram over time


def page(run: Watch, title: str) -> Report:
    """The page."""
    body = [f"<p>{_about(run)}</p>"]
    if run.losses:
        kept = run.losses[:: max(1, len(run.losses) // _SHOWN)]
        if kept[-1] is not run.losses[-1]:
            kept.append(run.losses[-1])
        places = [step for step, _ in kept]
        curve = {"loss": [value for _, value in kept]}
        body += ["<h2>Loss</h2>", lines("loss by step", curve, places=places, end=run.steps)]
    if run.samples:
        body += ["<h2>Gradients, log10 of the norm</h2>", _curves(run, "gradient")]
        body += ["<h2>Updates, log10 of update to weight</h2>", _curves(run, "ratio")]
        body += ["<p>About -3 is healthy; much more is unsteady, much less is slow.</p>"]
        body += ["<h2>Parameters</h2>", _rows(run)]
    return Report(title, "\n".join(body))


def _about(run: Watch) -> str:
    last = f", the last loss {run.losses[-1][1]:.5g}" if run.losses else ""
    return (
        f"{counted(run.steps, 'step')}{last}; {counted(len(run.samples), 'sample')} of "
        f"{counted(len(run.names), 'parameter')}; "
        f"watching took {run.share:.1%} of the time"
    )


def _values(run: Watch, number: int, what: str) -> list[float]:
    if what == "ratio":
        values = [one.update[number] / (one.weight[number] or 1.0) for one in run.samples]
    else:
        values = [getattr(one, what)[number] for one in run.samples]
    with numpy.errstate(all="ignore"):
        return [float(value) for value in numpy.log10(values)]


def _curves(run: Watch, what: str) -> str:
    """The parameters with the largest and the smallest last values, eight at most."""
    every = {name: _values(run, number, what) for number, name in enumerate(run.names)}
    finite = {name: v for name, v in every.items() if numpy.isfinite(v).any()}
    order = sorted(finite, key=lambda name: float(numpy.nanmean(finite[name])))
    chosen = order if len(order) <= 8 else [*order[:4], *order[-4:]]
    curves = {name: finite[name] for name in run.names if name in chosen}
    return lines(what, curves, places=[one.step for one in run.samples], end=run.steps)


def _rows(run: Watch) -> str:
    head = "".join(
        f'<th scope="col">{text}</th>'
        for text in ("parameter", "module", "weight", "gradient", "update/weight", "zeros", "")
    )
    body = []
    last = run.samples[-1]
    for number, name in enumerate(run.names):
        path = name.rpartition(".")[0]
        update = _last_update(run, number)
        cells = (
            name,
            run.modules.get(path, ""),
            f"{last.weight[number]:.3g}",
            f"{last.gradient[number]:.3g}",
            "" if numpy.isnan(update) else f"{update:.2g}",
            f"{last.zeros[number]:.0%}",
        )
        written = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        body.append(f"<tr>{written}<td>{_over_time(run, number, name)}</td></tr>")
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _last_update(run: Watch, number: int) -> float:
    """The last update over its weight that was seen: that of a sample comes with the next step."""
    for one in reversed(run.samples):
        if not numpy.isnan(one.update[number]):
            return float(one.update[number] / (one.weight[number] or 1.0))
    return float("nan")


def _over_time(run: Watch, number: int, name: str) -> str:
    """Sizes of the gradient's elements, small ones below, step by step from left to right."""
    samples: list[Any] = run.samples[:: max(1, -(-len(run.samples) // _COLUMNS))]
    counts = numpy.array([one.histograms[number] for one in samples], float)
    used = numpy.flatnonzero(counts.sum(0))
    if not used.size:
        return ""
    low, high = int(used[0]), int(used[-1]) + 1
    counts = counts[:, low:high] / counts.sum(1, keepdims=True).clip(1)
    width, height = 240 / len(samples), 48 / (high - low)
    cells = [
        f'<rect x="{x * width:.1f}" y="{48 - (y + 1) * height:.1f}" width="{width + 0.3:.1f}" '
        f'height="{height + 0.3:.1f}" style="fill: var(--curve0)" fill-opacity="{share:.2f}"/>'
        for (x, y), share in numpy.ndenumerate(counts)
        if share >= 0.01
    ]
    about = escape(f"histogram over time of log10 of the gradient of {name}")
    drawn = "".join(cells)
    return f'<svg width="240" viewBox="0 0 240 48" role="img" aria-label="{about}">{drawn}</svg>'

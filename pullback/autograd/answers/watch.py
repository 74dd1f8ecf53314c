"""A training run written down as it goes: loss, gradients and updates, for one page.

The loss is noted at every step. Norms and histograms of all parameters are taken at the first
thirty steps, from then on whenever the run is a tenth longer, at the last step, and else as often
as a budget of the run's own time allows (1 %), so that watching a small model costs as little as
watching a large one. What is kept is bounded: a long run keeps every second, then every fourth.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from math import sqrt
from time import perf_counter
from typing import Any

import numpy

from pullback.autograd.answers.modules import described, named_tensors
from pullback.core.tensor import Tensor

__all__ = ["Sample", "Watch", "watch"]

_MOST_LOSSES, _MOST_SAMPLES = 20_000, 400
# Whatever the budget says, so that a short run has curves too; a million steps have 110 of these.
_FIRST, _LONGER = 30, 1.1
# Histograms are of log10 |gradient|, in steps of half a power of ten, zeros apart.
LOWEST, HIGHEST, BINS = -12, 4, 32


@dataclass(slots=True)
class Sample:
    """All parameters at one step; arrays with one entry for each, in the model's order."""

    step: int
    weight: Any  # norms
    gradient: Any
    update: Any  # nan where the step before was not at hand
    zeros: Any  # shares of gradients that are 0
    histograms: Any  # counts by bin


class Watch:
    """What was seen of a run. Call `step(loss)` once per step, after the optimizer's."""

    def __init__(self, params: Any, path: Any, budget: float) -> None:
        named = [(n, t) for n, t in named_tensors(params) if t.requires_grad]
        if not named:
            raise ValueError("watch(): there is no parameter that requires grad.")
        self.names = [name for name, _ in named]
        self._tensors = [tensor for _, tensor in named]
        modules = params.named_modules() if hasattr(params, "named_modules") else ()
        self.modules = {where: described(module) for where, module in modules}
        self.path = None if path is None else os.fspath(path)
        self.budget = budget
        self.steps = 0
        self.losses: list[tuple[int, float]] = []
        self.samples: list[Sample] = []
        self.cost = 0.0  # seconds spent here
        self.server: Any = None
        self._every = 1  # of the losses
        self._began = perf_counter()
        self._ended = self._began
        self._each = 0.0  # what a sample costs
        self._credit = 0.0  # seconds that may be spent
        self._before: list[Any] | None = None  # weights of the step before
        self._lock = threading.Lock()  # a page may be asked for while a step is noted

    def step(self, loss: Any = None) -> None:
        """Note a step; `loss` is a tensor or a number."""
        start = perf_counter()
        self.steps += 1
        if loss is not None and self.steps % self._every == 0:
            self._note_loss(float(loss._array) if isinstance(loss, Tensor) else float(loss))
        # What may be spent: a pause of the run's own is no reason for several samples at once.
        earned = self.budget * (start - self._ended)
        self._credit = min(self._credit + earned, 2 * self._each)
        sampling = self._before is not None or not self.samples
        if sampling:
            self._take()
            self._each = max(perf_counter() - start, self._each * 0.9)
        if self._is_due(self.steps + 1) or (not sampling and self._credit > self._each):
            # The next one is to be a sample: its update needs the weights of now.
            self._before = [one._array.copy() for one in self._tensors]
            sampling = True
        self._ended = perf_counter()
        self.cost += self._ended - start
        if sampling:  # noting a loss is not: of a short step it would take all that is earned
            self._credit -= self._ended - start

    def _is_due(self, step: int) -> bool:
        """Whether a step is sampled whatever that costs."""
        return step <= _FIRST or step >= _LONGER * self.samples[-1].step

    @property
    def share(self) -> float:
        """Of the run's time that was spent here."""
        elapsed = self._ended - self._began
        return self.cost / elapsed if elapsed else 0.0

    def _note_loss(self, value: float) -> None:
        self.losses.append((self.steps, value))  # a page reads a whole list, or one less
        if len(self.losses) > _MOST_LOSSES:
            with self._lock:
                del self.losses[::2]
                self._every *= 2

    def _take(self) -> None:
        before, self._before = self._before, None
        rows = []
        for number, tensor in enumerate(self._tensors):
            weight, grad = tensor._array, tensor._stored_grad
            update = float("nan") if before is None else _norm(weight - before[number])
            if grad is None:
                rows.append((_norm(weight), float("nan"), update, 0.0, _NO_COUNTS))
            else:
                array = grad._array
                counts, zeros = _histogram(array)
                rows.append((_norm(weight), _norm(array), update, zeros, counts))
        columns = [numpy.array(column) for column in zip(*rows, strict=True)]
        with self._lock:
            self.samples.append(Sample(self.steps, *columns))
            if len(self.samples) > _MOST_SAMPLES:
                del self.samples[1:-1:2]

    # Pages.

    def page(self, title: str = "a training run") -> Any:
        """All that was noted, as a page that stands alone; the last step is on it."""
        if self.samples and self.samples[-1].step < self.steps:
            self._take()
        return self.page_so_far(title)

    def page_so_far(self, title: str = "a training run") -> Any:
        """The same while a step may be under way in another thread: nothing is looked at anew."""
        from pullback.autograd.answers.watch_page import page

        with self._lock:
            return page(self, title)

    def save(self, path: Any = None) -> str:
        """Write the page; to the path that was given to watch() if none is given here."""
        where = self.path if path is None else path
        if where is None:
            raise ValueError("save() needs a path here, or watch(path=...) one before.")
        return str(self.page().save(where))

    def close(self) -> None:
        """End the server, and write the page if watch() was given a path."""
        if self.server is not None:
            self.server.close()
            self.server = None
        if self.path is not None:
            self.save()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"<{counted(self.steps, 'step')} of {counted(len(self.names), 'parameter')}, "
            f"{counted(len(self.samples), 'sample')}; "
            f"{self.share:.1%} of the time; .save(path) writes the page>"
        )

    def _repr_html_(self) -> str:
        return str(self.page()._repr_html_())


def counted(number: int, word: str) -> str:
    """`1 sample`, `2 samples`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


_NO_COUNTS = numpy.zeros(BINS, int)


def _norm(array: Any) -> float:
    flat = array.ravel()
    if flat.dtype.kind == "c":
        return sqrt(float(numpy.vdot(flat, flat).real))
    if flat.dtype.itemsize < 4 or flat.dtype.kind == "V":
        flat = flat.astype(numpy.float32)
    return sqrt(float(flat.dot(flat)))


def _histogram(array: Any) -> tuple[Any, float]:
    sizes = numpy.abs(array.ravel()).astype(float)
    some = sizes[sizes > 0]
    if not sizes.size:
        return _NO_COUNTS, 0.0
    place = (numpy.log10(some) - LOWEST) * (BINS / (HIGHEST - LOWEST))
    place = numpy.nan_to_num(place, nan=BINS - 1, posinf=BINS - 1)
    counts = numpy.bincount(place.clip(0, BINS - 1).astype(int), minlength=BINS)
    return counts, 1.0 - some.size / sizes.size


def watch(
    params: Any,
    *,
    path: str | os.PathLike[str] | None = None,
    serve: bool | int = False,
    budget: float = 0.01,
) -> Watch:
    """Watch a training run; call `step(loss)` after each step of the optimizer.

    `params` is the model (or a dict of tensors). At the end, `close()` or the end of a `with` block
    writes the page to `path`. `serve=True`, or a port, shows the page live under an address of this
    machine alone (127.0.0.1), which is printed. `budget` is the share of time that may be spent on
    norms and histograms.

    >>> import pullback as torch
    >>> model = torch.nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> run = torch.autograd.graph.watch(model)
    >>> for _ in range(3):
    ...     optimizer.zero_grad()
    ...     loss = model(torch.ones(4, 2)).pow(2).mean()
    ...     loss.backward()
    ...     optimizer.step()
    ...     run.step(loss)
    >>> run.steps, len(run.losses), run.names
    (3, 3, ['weight', 'bias'])
    >>> run.save("run.html")  # doctest: +SKIP
    """
    if not 0 < budget <= 1:
        raise ValueError(f"watch(): budget is a share of the time, more than 0, got {budget}.")
    if path is not None and not os.fspath(path).lower().endswith((".html", ".htm")):
        raise ValueError(f"watch(): a page is written as .html, not {os.fspath(path)!r}.")
    made = Watch(params, path, budget)
    if serve is not False:
        from pullback.autograd.answers.serve import Server

        made.server = Server(made.page_so_far, 0 if serve is True else serve)
        print(f"watching at {made.server.address}")
    return made

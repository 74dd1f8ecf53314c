"""Live bytes through forward and backward: how much, when, and whose they are at the peak.

Every array that an operator or a node makes is followed by a weak reference from then on. What the
user had before, and what NumPy allocates for a moment inside one kernel, is not seen.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy

from pullback.autograd.answers.report import Report, lines, table
from pullback.autograd.graph.memory import shown_bytes
from pullback.autograd.graph.table import as_text
from pullback.core.node import AccumulateGrad
from pullback.core.origin import Origin, getframe, user_frame
from pullback.core.tensor import Tensor
from pullback.engine import node_observers
from pullback.operators.dispatch import observers

__all__ = ["Timeline", "memory_timeline"]


@dataclass(frozen=True, slots=True)
class Moment:
    """After one operator or node: how many bytes live."""

    name: str
    phase: str  # "forward" or "backward"
    place: str
    bytes: int


class Timeline:
    """The moments of a run; prints the peak and the lines that hold memory there.

    `peak` is the most bytes that were alive at once, `at_peak` the bytes by the line of the program
    that made them, largest first, and `result` what the function returned.
    """

    def __init__(self, moments: list[Moment], at_peak: dict[str, int], result: Any) -> None:
        self.moments = moments
        self.at_peak = dict(sorted(at_peak.items(), key=lambda pair: -pair[1]))
        self.result = result

    def __len__(self) -> int:
        return len(self.moments)

    def __iter__(self) -> Iterator[Moment]:
        return iter(self.moments)

    @property
    def peak(self) -> int:
        """The most bytes at once."""
        return max((one.bytes for one in self.moments), default=0)

    @property
    def peak_at(self) -> Moment | None:
        """The first moment with so many."""
        return next((one for one in self.moments if one.bytes == self.peak), None)

    def _title(self) -> str:
        at = self.peak_at
        if at is None:
            return "no operator ran"
        where = f" at {at.place}" if at.place else ""
        return (
            f"peak {shown_bytes(self.peak)} in the {at.phase}, after {at.name}{where}; "
            f"{len(self)} moments, {shown_bytes(self.moments[-1].bytes)} at the end"
        )

    def _rows(self) -> list[tuple[str, str]]:
        return [(shown_bytes(size), line) for line, size in self.at_peak.items()]

    def __repr__(self) -> str:
        return as_text(self._title(), ("at the peak", "made by"), self._rows())

    def page(self, title: str = "live bytes through forward and backward") -> Report:
        """The curve, and what lives at its peak, as a page."""
        turn = next((i for i, one in enumerate(self.moments) if one.phase == "backward"), None)
        marks = {} if turn is None else {turn: "backward"}
        curve = lines(
            title, {"live": [m.bytes for m in self.moments]}, unit=shown_bytes, marks=marks
        )
        found = table(("at the peak", "made by"), self._rows())
        return Report(title, f"<p>{self._title()}</p>{curve}<h2>At the peak</h2>{found}")

    def save(self, path: Any) -> str:
        """Write the page as an .html file."""
        return self.page().save(path)

    def _repr_html_(self) -> str:
        return self.page()._repr_html_()


def memory_timeline(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Timeline:
    """Run `fn(*args, **kwargs)`, e.g. a training step, and see what lives when.

    A tensor that it returns with a history, where it called no backward() itself, is
    differentiated (its sum), so that a function of the loss alone shows both halves.

    >>> import pullback as torch
    >>> w = torch.ones(1000, requires_grad=True)
    >>> run = torch.autograd.graph.memory_timeline(lambda: (w * 2).exp().sum())
    >>> run.peak >= 8000, run.peak_at.phase
    (True, 'backward')
    """
    ledger = _Ledger()
    with ledger.on():
        result = fn(*args, **kwargs)
        if not ledger.went_back and isinstance(result, Tensor) and result.grad_fn is not None:
            result.sum().backward()
    return Timeline(ledger.moments, ledger.at_peak, result)


class _Ledger:
    """Who sees operators and nodes, and follows what they make."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.at_peak: dict[str, int] = {}
        self.went_back = False
        self._alive: dict[int, Any] = {}
        self._by_line: dict[str, int] = {}
        self._total = self._peak = 0
        self._nodes = 0  # nodes that run now: operators inside them are of the backward

    @contextmanager
    def on(self) -> Iterator[None]:
        """Inside, everything is followed."""
        observers.observe(self)
        node_observers.add(self)
        try:
            yield
        finally:
            observers.stop(self)
            node_observers.remove(self)
            self._alive.clear()

    # Operators.

    def enter(self, op: Any, called: str) -> str:
        """Before an operator."""
        return called

    def leave(self, called: str, result: Any, operands: tuple[Any, ...]) -> None:
        """After it."""
        frame = user_frame(getframe(1))
        place = "" if frame is None else _line(Origin(frame.f_code, frame.f_lasti))
        self._made(result, place or called)
        self._note(called, "backward" if self._nodes else "forward", place.partition("  ")[0])

    def enter_function(self, cls: Any) -> str:
        """Before a custom Function."""
        return str(cls.__name__)

    leave_function = leave

    # Nodes.

    def start(self, node: Any) -> Any:
        """Before a node."""
        self._nodes += 1
        self.went_back = True
        return node

    def ran(self, node: Any, gradients: Any, results: Any) -> Any:
        """After it."""
        origin = node._origin
        name = type(node).__name__
        place = "" if origin is None else _line(origin)
        self._made(results, f"gradient of {place or name}")
        self._note(name, "backward", place.partition("  ")[0])
        return node

    def finish(self, node: Any, token: Any) -> None:
        """Its results are where they go."""
        self._nodes -= 1
        if isinstance(node, AccumulateGrad):
            self._note("AccumulateGrad", "backward", "")

    # The count.

    def _made(self, values: Any, line: str) -> None:
        for one in values if isinstance(values, tuple | list) else (values,):
            array = getattr(one, "_array", one)
            if type(array) is numpy.ndarray and array.base is None and id(array) not in self._alive:
                self._follow(array, line)

    def _follow(self, array: Any, line: str) -> None:
        size, key, alive, by_line = int(array.nbytes), id(array), self._alive, self._by_line

        def gone(_: Any) -> None:
            if alive.pop(key, None) is not None:
                self._total -= size
                by_line[line] -= size

        alive[key] = weakref.ref(array, gone)
        self._total += size
        by_line[line] = by_line.get(line, 0) + size

    def _note(self, name: str, phase: str, place: str) -> None:
        self.moments.append(Moment(name, phase, place, self._total))
        if self._total > self._peak:
            self._peak = self._total
            self.at_peak = {line: size for line, size in self._by_line.items() if size}


def _line(origin: Origin) -> str:
    return f"{origin}  {origin.source}"

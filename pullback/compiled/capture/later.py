"""What of the user's runs only when a backward pass arrives: hooks, custom Functions, checkpoints.

Eager runs it then, and it meets the world of that moment; a program has its results in it. So what
it reads is asked once more when a pass arrives, and a pass that meets another answer raises. What
it writes, or draws at random, ends the capture: eager would do that later than a program, or twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import CellType, FunctionType, ModuleType
from typing import Any

from pullback.compiled.capture.known import Known
from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.capture.steps import Call
from pullback.compiled.interpreter.sources import Guards
from pullback.core import autocast
from pullback.core.device import get_default_device
from pullback.core.dtype import get_default_dtype
from pullback.core.mode import changed, current, get_mode
from pullback.core.tensor import Tensor

__all__ = ["Asked", "Later"]

_WHO = "code that runs in the backward pass (a hook, or backward() of a Function)"
_DRAWS = "code that runs in the backward pass draws"


class Asked:
    """What a program takes for granted of the moment when a backward pass comes to it."""

    def __init__(self, guards: Guards, inputs: frozenset[int], *, alone: bool, once: bool) -> None:
        """`inputs`: numbers of the values from outside that are read then, as they are then.

        `alone`: autocast and the default device are those of that moment, too. `once`: something in
        there is computed without recording, so gradients of gradients do not follow from the calls.
        """
        self.once = once
        self.guards = guards
        self.inputs = inputs
        self._check = guards.write()
        self._dtype = get_default_dtype()
        self._device = get_default_device() if alone else None
        self._alone = alone

    def change(self) -> str | None:
        """What is no longer as it was; None if all is."""
        number = self._check(())
        if number is not None:
            return str(self.guards.told(number))
        if get_default_dtype() is not self._dtype:
            return "the default dtype differs"
        if self._alone and autocast.now().enabled:
            return "autocast is on"
        if self._alone and get_default_device() is not self._device:
            return "the default device differs"
        return None


class Later:
    """The backward pass of one capture, and what the user's code does in it."""

    def __init__(self, inner: Any, tracer: Any, known: dict[int, Known], leaves: list[Any]) -> None:
        """`leaves` are the results, which nothing in the pass may change."""
        self.inner, self.tracer, self.known, self.leaves = inner, tracer, known, leaves
        self.depth = 0
        self.early: dict[int, tuple[Any, Any]] | None = None  # what was made before, with its items
        self.calls: list[Call] = []  # that the user's code makes
        self.guards = Guards()  # what it reads
        self._alone = self._reruns = False
        self.is_recorded = False  # whether operators here must be: they would be differentiated
        self.is_once = False  # whether some are not

    def begin(self) -> None:
        """The pass runs from here on."""
        inner = self.inner
        self._before = inner.guards, inner.free
        self._values = self._results()
        self._written = {id(one) for one in self.known.values() if one.written}
        self._first = {id(one) for one in self.known.values()}
        self._log, self._start = len(inner.log), len(self.tracer.calls)
        inner.guards, inner.free, inner.later = self.guards, set(), self
        inner.proxies.clear()  # the order of resolution of a class is asked once a view

    def end(self) -> None:
        """The pass is over, or was given up."""
        inner = self.inner
        inner.later = None
        inner.guards, inner.free = self._before
        for mark, guard in self.guards.all.items():
            inner.guards.all.setdefault(mark, guard)

    def asked(self) -> Asked | None:
        """What passes must find as it was; None where no code of the user's ran."""
        if self.early is None:
            return None
        self._check_writes()
        for _, source, answer in self.guards.all.values():
            for one in (source, answer):
                self._check_source(one)
        return Asked(self.guards, self._read(), alone=self._alone, once=self.is_once)

    def _check_source(self, source: Any) -> None:
        if type(source).__name__ != "Source":
            return
        root = source
        while root.parent is not None:
            root = root.parent
        if root.kind != "root":
            raise CannotCapture(f"{_WHO} reads {source}")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Inside, the user's code runs."""
        if self.depth:
            yield
            return
        if self.early is None:
            self.early = _snapshot(self.inner)
        start = len(self.tracer.calls)
        is_rerun = not self.tracer.may_draw  # of a checkpoint, which installs what was around
        self._reruns = self._reruns or is_rerun
        if not is_rerun:
            self._alone = True
            if autocast.now().enabled:
                raise CannotCapture(f"{_WHO} under autocast, which may be off by then")
        self.depth = 1
        mode = get_mode()
        try:
            if is_rerun:
                yield
            else:
                # As in a pass whose graph is kept: what switches recording off shows itself.
                current.set(changed(mode, grad=True))
                self.is_recorded = True
                with self.tracer.no_draws(_DRAWS):
                    yield
        finally:
            current.set(mode)
            self.depth, self.is_recorded = 0, False
            self.calls += self.tracer.calls[start:]

    def check(self, value: Any) -> None:
        """Refuse what is there since before the pass and would be used up."""
        if self.early is not None and id(value) in self.early:
            raise CannotCapture(f"{_WHO} uses up what was there before")

    def check_read(self, value: Any, source: Any) -> None:
        """Refuse what each call fetches anew: a later moment may find another there."""
        if source.key in self.inner.fluid or id(value) in self.inner.found:
            raise CannotCapture(f"{_WHO} reads {source}, which varies")

    def _results(self) -> list[Any]:
        return [self.tracer.value_of(one._array) for one in self.leaves if isinstance(one, Tensor)]

    def _check_writes(self) -> None:
        """Refuse what a program would have done too early, or not at all."""
        pairs = zip(self._values, self._results(), strict=True)
        written = {id(one) for one in self.known.values() if one.written}
        changed_results = any(before is not now for before, now in pairs)
        if written != self._written or len(self.inner.log) != self._log or changed_results:
            raise CannotCapture(f"{_WHO} writes to what was there before")
        first = self._first
        if any(one.requires_grad and id(one) not in first for one in self.known.values()):
            raise CannotCapture(f"{_WHO} reads a tensor whose gradient may be wanted")
        self._check_early()

    def _check_early(self) -> None:
        for one, items in (self.early or {}).values():
            now = _items(one)
            if len(now) != len(items) or not all(a is b for a, b in zip(now, items, strict=True)):
                raise CannotCapture(f"{_WHO} changes a {type(one).__name__} that was there before")

    def _read(self) -> frozenset[int]:
        """Values from outside that this code looks at, directly or through views."""
        found = set()
        # A checkpoint hands what it reads to nodes, whose formulas are the engine's.
        calls = self.tracer.calls[self._start :] if self._reruns else self.calls
        for call in calls:
            for value in call.inputs:
                while value.call is not None and value.call.op is not None:
                    if value.call.op.kind != "view":
                        break
                    (value,) = value.call.inputs[:1]
                if value.call is None:
                    found.add(value.number)
        return frozenset(found)


def _snapshot(inner: Any) -> dict[int, tuple[Any, Any]]:
    """What was made so far and can change, with its items."""
    found: dict[int, tuple[Any, Any]] = {}
    for one in [*inner.made.values(), *inner.native.values()]:
        if isinstance(one, type | FunctionType | ModuleType | str | int | float | tuple):
            continue
        found[id(one)] = (one, _items(one))
    return found


def _items(one: Any) -> list[Any]:
    """What an object is made of, as far as anybody can change it."""
    made: list[Any] = []
    if isinstance(one, dict):
        made += [item for pair in one.items() for item in pair]
    elif isinstance(one, list | deque):
        made += one
    elif isinstance(one, set):
        made += sorted(one, key=id)
    elif isinstance(one, CellType):
        with suppress(ValueError):
            made.append(one.cell_contents)
    table = getattr(one, "__dict__", None)
    if type(table) is dict:
        made += [item for pair in table.items() for item in pair]
    return made

"""What runs between native parts: eager kernels, and looks at values that lowered calls rely on."""

from __future__ import annotations

from typing import Any

from pullback.compiled.capture.steps import Call, Value, prepared, say_where

__all__ = ["Check", "Kernel", "NeedsMemory"]


class NeedsMemory(Exception):  # noqa: N818 (no error: the other back end runs it)
    """The program depends on how eager lays its arrays out."""


class Kernel:
    """An eager kernel between native parts: arrays of its inputs in, arrays out."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.inputs: list[Value] = list({one.number: one for one in call.inputs}.values())
        self.numbers = [one.number for one in self.inputs]
        self.random = call.random
        self._run: Any = None  # written when it first runs

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """Run it."""
        run = self._run
        if run is None:
            run = self._run = prepared(self.call, self.numbers)
        made: list[Any]
        try:
            made = run(arrays)
        except Exception as error:
            say_where(error, self.call)
            raise
        return made

    def at(self, call: Call) -> Kernel:
        """The same of a call like its own, for other sizes."""
        return Kernel(call)

    @property
    def name(self) -> str:
        """The operator's name."""
        return self.call.name


class Check:
    """A look at values that a lowered call relies on; raises as eager does."""

    random = True  # it runs whether or not somebody reads what it gives: nothing

    def __init__(self, call: Call) -> None:
        from pullback.compiled.lower.classes import check_kernel

        self.call, self.check = call, check_kernel(call)

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """Run it."""
        try:
            self.check(*arrays)
        except Exception as error:
            say_where(error, self.call)
            raise
        return []

    def at(self, call: Call) -> Check:
        """The same of a call like its own, for other sizes."""
        return Check(call)

    @property
    def name(self) -> str:
        """What is checked."""
        return f"check of {self.call.name}"

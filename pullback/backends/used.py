"""Which kernel ran for each operator call: `with torch.backends.kernels_used() as used:`.

Nothing asks while nobody wants to know. Inside, functions that choose among kernels have lines that
say what they chose (`operators/choice.py`), and operators without kernels are seen as by a
profiler; in all threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.operators.choice import notes
from pullback.operators.declare import Op
from pullback.operators.dispatch.observers import observe, stop
from pullback.operators.kernels import Kernel

__all__ = ["Used", "kernels_used"]

MEANING = "meaning"


class Used(NamedTuple):
    """One run of a kernel."""

    operator: str
    kernel: str  # its name, or "meaning": the declared forward; "inline": an expression of it
    when: str = ""  # the condition on which it was chosen

    def __str__(self) -> str:
        return f"{self.operator}: {self.kernel}" + (f", as {self.when}" if self.when else "")


class kernels_used:  # noqa: N801 (a context manager, named as one calls it)
    """Notes which kernel ran for each call of an operator, in the order in which they ran.

    A backward pass runs rules on arrays: of those only operators that have kernels to choose from
    are noted. `pullback show NAME` lists the kernels that an operator has.

    >>> import pullback as torch
    >>> with torch.backends.kernels_used() as used:
    ...     y = torch.ones(10).sum() * 2
    >>> [(one.operator, one.kernel) for one in used]
    [('sum.full', 'short_by_dot'), ('mul', 'meaning')]
    """

    def __init__(self) -> None:
        self._runs: list[Used] = []

    def __enter__(self) -> list[Used]:
        notes.tell(self._note)
        observe(self)
        return self._runs

    def __exit__(self, *error: object) -> None:
        stop(self)
        notes.forget(self._note)

    def _note(self, op: Op, kernel: Kernel | None) -> None:
        name, when = (MEANING, "") if kernel is None else (kernel.name, repr(kernel.when))
        self._runs.append(Used(op.name, name, when))

    # As an observer of operator calls -------------------------------------------------------------

    def enter(self, op: Op, called: str) -> tuple[Op, int]:
        """An operator starts."""
        return op, len(self._runs)

    def leave(self, token: Any, result: Any, operands: tuple[Any, ...]) -> None:
        """It is over: where no choice was noted, there was none."""
        op, before = token
        if result is None or any(one.operator == op.name for one in self._runs[before:]):
            return
        inline = next((one.name for one in op.kernels if one.inline), "inline")
        self._runs.insert(before, Used(op.name, inline if op.inline else MEANING))

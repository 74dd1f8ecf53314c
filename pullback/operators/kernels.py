"""The kernels of an operator: other ways to its meaning, each with the condition on which it runs.

The declared forward says what an operator means, for every size, dtype and array library. A kernel
is quicker where its condition holds, and gives the same to within `ulp`. Kernels are tried in the
order in which they are entered; `choice.py` writes the choice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pullback.operators.conditions import FACTS, Condition

if TYPE_CHECKING:
    from pullback.operators.declare import Op

__all__ = ["Kernel"]


class Kernel:
    """One entry: a function of some of the operator's parameters, of `xp` and of facts."""

    __slots__ = (
        *("declines", "function", "inline", "machine_code"),
        *("name", "on", "params", "tries", "ulp", "when"),
    )

    def __init__(
        self,
        op: Op,
        function: Callable[..., Any],
        when: Condition,
        *,
        on: str = "host",
        declines: bool = False,
        tries: bool = False,
        inline: bool = False,
        machine_code: bool = False,
        ulp: float = 4,
    ) -> None:
        # What makes its indices long where addresses are short stands before it (core/addresses).
        code = getattr(function, "__wrapped__", function).__code__
        self.function = function
        self.name = function.__name__.strip("_")
        self.params = code.co_varnames[: code.co_argcount]
        self.when = when.of(op.inputs[0].name)
        self.on = on  # "host", or a device
        # Whether it may answer None, or (`tries`) refuse by a ValueError: then the next one is
        # asked, and at the end the meaning, which says what is wrong.
        self.declines = declines or machine_code
        self.tries = tries
        # Whether it is one expression that stands in the operator's own function, before any call.
        self.inline = inline
        self.machine_code = machine_code
        # How far it may be from the meaning, in units in the last place of the largest result.
        self.ulp = ulp
        self._check(op)

    def _check(self, op: Op) -> None:
        own = {param.name for param in op.params}
        facts = {f"{param.name}_{fact}" for param in op.inputs for fact in FACTS}
        used = self.when.names() | {*self.params}
        if clash := own & (facts & used | {*self.when.facts}):
            raise TypeError(f"{op.name}: {min(clash)!r} is a parameter, and so no fact.")
        known = own | facts | {"xp"} | {*self.when.facts}
        if unknown := {*self.params} - known:
            raise TypeError(
                f"{op.name}: the kernel {self.name} asks for {sorted(unknown)}; known are "
                f"{sorted(known)}."
            )
        words = {
            "and",
            "or",
            "not",
            "is",
            "in",
            "None",
            "True",
            "False",
            "len",
            "type",
            "int",
            "float",
        }
        if unknown := self.when.names() - known - words - {*self.when.scope}:
            raise TypeError(
                f"{op.name}: the condition of {self.name} names {sorted(unknown)}, which are "
                "neither parameters nor facts nor in its scope."
            )

    def __repr__(self) -> str:
        return f"<kernel {self.name} on {self.on} when {self.when}>"

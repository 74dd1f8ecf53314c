"""The operators that an exported graph in a file may name, by text, and what they are called by.

A file never says what code runs: each text is looked up in tables, and nothing is imported for it.
Operators of pullback's own are not among them: they do not check arguments as public ones do.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import pullback
from pullback.library.builtin.adjoints import WRITTEN
from pullback.library.builtin.schema import torchs_schemas
from pullback.library.overload import OpOverload

from ._values import refused

__all__ = ["Operators", "name_of"]

# Arithmetic of sizes, and items of results.
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    f"operator.{name}": getattr(operator, name)
    for name in ("getitem", "add", "sub", "mul", "floordiv", "mod", "truediv", "neg")
}
_RECORDING = "torch._C._set_grad_enabled"
# What reads or writes outside of the program.
_OUTSIDE = frozenset({"from_file"})

_FILLS = frozenset(
    {
        *("bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_"),
        *("random_", "uniform_"),
    }
)


def _switch() -> Callable[..., Any]:
    from importlib import import_module

    function: Callable[..., Any] = import_module("pullback._C")._set_grad_enabled
    return function


def name_of(target: Any) -> str:
    """The text for a function that a graph calls; ValueError where a file cannot name it."""
    if isinstance(target, OpOverload):
        return f"{target.namespace}.{target._opname}.{target._overloadname}"
    for name, one in _ARITHMETIC.items():
        if one is target:
            return name
    if target is _switch():
        return _RECORDING
    raise ValueError(f"save: the program calls {target!r}, which is no operator.")


class Operators:
    """Looks operators up; `more` are overloads of the user's that a file may call too."""

    def __init__(self, more: Iterable[Any] = ()) -> None:
        self.more: dict[str, Any] = {}
        for one in more:
            if not isinstance(one, OpOverload):
                raise TypeError(f"load: operators are overloads, got {type(one).__name__}.")
            self.more[name_of(one)] = one

    def find(self, text: Any) -> Callable[..., Any]:
        """The function of this name."""
        if type(text) is not str:
            raise refused("the name of an operator is no text")
        known = self.more.get(text) or _ARITHMETIC.get(text)
        if known is not None:
            found: Callable[..., Any] = known
            return found
        if text == _RECORDING:
            return _switch()
        space, _, rest = text.partition(".")
        name, _, overload = rest.partition(".")
        if space == "aten" and self._is_aten(name, overload):
            return self._overload(pullback.ops.aten, name, overload)
        raise refused(
            f"it calls {text!r}, which is no public operator; pass those of your own that it may "
            "call as load(..., operators=[...])"
        )

    @staticmethod
    def _is_aten(name: str, overload: str) -> bool:
        if name in _OUTSIDE:
            return False
        key = f"{name}.{overload}"
        known = key in torchs_schemas() or key in WRITTEN or name in _FILLS
        return known or (overload == "default" and name in WRITTEN)

    @staticmethod
    def _overload(space: Any, name: str, overload: str) -> Callable[..., Any]:
        packet = getattr(space, name, None)
        if packet is None or overload not in packet.overloads():
            raise refused(f"there is no operator {name}.{overload}")
        found: Callable[..., Any] = getattr(packet, overload)
        return found

"""Functions of an operator that take its arguments in another form: `x.view(2, 3)` for a size.

A composition that turns one form into the other and calls the operator costs a call, looks at the
arguments twice, and the operator has to climb over it to the user's line. Where that is half of the
work, the operator's fast path is written once more, with the other form in adapter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

from pullback.core.home import home_of
from pullback.core.ports import ports

__all__ = ["Adapter", "adapted", "stub"]


class Adapter(NamedTuple):
    """How the arguments become the operator's; names that are the caller's have their mark."""

    parameters: str
    # Lines that set the operator's own parameters, or hand the call to `otherwise`.
    lines: list[str]
    # The result for most arguments; without it the declaration's `inline`.
    inline: str = ""
    # Whether the operator's parameters are as it wants them, and need not be looked at.
    is_normal: bool = False


def stub(*args: Any, **kwargs: Any) -> Any:
    """The code of such a function until its first call; see `declare.stub`."""
    return write_now()(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821 (in the scope it runs in)


def adapted(
    function: Any, adapter: Adapter, otherwise: Callable[..., Any] | None = None, **names: Any
) -> Any:
    """The operator of `function` behind `adapter`; to all who look at it, it is `otherwise`.

    The adapter's lines know what is called `otherwise`, and `names`.
    """
    op = function.op
    scope: dict[str, Any] = {"__name__": home_of(otherwise or function)}
    made = FunctionType(stub.__code__, scope, op.name)
    if otherwise is not None:
        functools.update_wrapper(made, otherwise)
    names["otherwise"] = otherwise
    scope["write_now"] = lambda: ports.build(made, op, op.name, adapter=adapter, **names)
    return made

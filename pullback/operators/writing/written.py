"""The functions written so far, so that who wants to look at every operator call finds them.

Its own file because both who writes (`build`, `inplace`) and who looks (`observe`) need it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

from pullback.core import sequence
from pullback.operators.declare import Op


class Written(NamedTuple):
    """A function that users call, and the operator that it runs."""

    function: FunctionType
    op: Op
    called: str  # the operator's name, or that of its in-place form


WRITTEN: list[Written] = []
# Called with each function that is written from now on.
followers: list[Callable[[Written], None]] = []


def finished(function: Any, op: Op, called: str) -> None:
    """Note a function whose code has just been written."""
    sequence.follow(function.__globals__)
    written = Written(function, op, called)
    WRITTEN.append(written)
    for follower in followers:
        follower(written)

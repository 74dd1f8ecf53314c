"""Finds the operator that makes the first NaN, in the forward or the backward.

NumPy raises the floating-point flag "invalid" when a ufunc makes a NaN of something else, and calls
us then: as long as it does not, most operators cost nothing more. BLAS and the like leave no
reliable flag: results of such operators and nodes are looked at, by their sum of squares, which is
NaN or infinite if any element is. Only what looks suspicious is examined in full.
"""

from __future__ import annotations

from math import isfinite
from threading import get_ident
from typing import Any

import numpy

from pullback.autograd.check.nan_suspects import (
    Suspect,
    arrays_of,
    leaves_no_flag,
    node_leaves_no_flag,
)
from pullback.core.arrays import F32, F64
from pullback.core.dtype import from_numpy_dtype
from pullback.core.mode import settle
from pullback.core.origin import getframe
from pullback.core.process.whole import Reentrant, Whole
from pullback.core.tensor import Tensor
from pullback.engine import node_observers
from pullback.operators.declare import Op
from pullback.operators.dispatch import observers

__all__ = ["NanError", "detect_nan"]


class NanError(FloatingPointError):
    """An operator made NaN (or inf) from values without any.

    `operator` is its name, `node` the node if it was in the backward; `origin` is the user's line,
    for a node that of its forward.
    """

    def __init__(self, text: str, found: Suspect) -> None:
        super().__init__(text)
        self.operator = found.name
        self.node = found.node
        self.origin = found.place


class detect_nan(Reentrant):
    """Raise NanError at the first operator inside that produces a NaN; with `inf`, or an infinity.

    Forward and backward are checked. NaNs in the input are ignored: what counts is the operator
    that produced one from values without any. NumPy's floating-point flags are checked only in the
    thread that entered the block; in others, only operators that raise no flags are checked.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, -1.0], requires_grad=True)
    >>> with torch.autograd.detect_nan():
    ...     y = x.log()
    Traceback (most recent call last):
    pullback.autograd.check.nan_search.NanError: log made 1 NaN at ...
    """

    def __init__(self, inf: bool = False) -> None:
        if not isinstance(inf, bool):
            raise TypeError(f"detect_nan(inf=...) must be a bool, got {type(inf).__name__}.")
        self.inf = inf

    def _entry(self) -> Whole:
        return _Searching(_Search(inf=self.inf))


class _Searching(Whole):
    """The time while a search is on."""

    def __init__(self, search: _Search) -> None:
        settle()  # or the first operator in this thread would set NumPy's error state again
        self.search = search
        self.flags: Any = numpy.geterr()
        self.told = numpy.geterrcall()

    def _enter(self) -> None:
        heard: Any = {"under": "ignore", "invalid": "call", "divide": "call", "over": "call"}
        numpy.seterrcall(self.search)
        numpy.seterr(**heard)
        node_observers.add(self.search)
        observers.observe(self.search)

    def _leave(self) -> None:
        numpy.seterr(**self.flags)
        numpy.seterrcall(self.told)
        observers.stop(self.search)
        node_observers.remove(self.search)


class _Search:
    """Who NumPy calls when a flag is raised, and who sees what operators and nodes return."""

    __slots__ = ("began", "flagged", "inf", "overflowed")

    def __init__(self, *, inf: bool) -> None:
        self.inf = inf
        self.flagged = 0  # the thread in which a flag was raised since somebody was judged
        self.overflowed = 0  # the same for flags that tell of infinities, which are no NaN yet
        self.began = ""  # who made the first infinity of finite values, and where

    def __call__(self, error: str, flag: int) -> None:
        """NumPy's call from inside a ufunc that made a NaN, of which its operator may make none.

        Its result is not there yet: it is judged when the operator, or the node, is over.
        """
        if self.inf or error.startswith("invalid"):
            self.flagged = get_ident()
        else:
            self.overflowed = get_ident()

    def _note_infinity(self, found: Suspect) -> None:
        """Remember who made the first infinity: a NaN that comes of it began there."""
        self.overflowed = 0
        if self.began or not all(map(_is_finite, arrays_of(tuple(found.given.values())))):
            return
        if not all(map(_is_finite, arrays_of(found.results))):
            self.began = f"{found.name}{_at(found)}"

    def _takes_flag(self) -> bool:
        if self.flagged and self.flagged == get_ident():
            self.flagged = 0
            return True
        return False

    def enter(self, op: Op, called: str) -> tuple[Op, str]:
        """Before an operator."""
        return op, called

    def leave(self, token: tuple[Op, str], result: Any, operands: tuple[Any, ...]) -> None:
        """After it: its result is looked at if a flag was raised, or it is of those without any."""
        flagged = self.flagged and self._takes_flag()
        op, called = token
        if self.overflowed and result is not None:
            names = [param.name for param in op.inputs]
            given = dict(zip(names, operands, strict=False))
            self._note_infinity(Suspect(called, None, given, result, getframe(1)))
        if result is None or not (flagged or leaves_no_flag(op)):
            return
        if result.__class__ is Tensor and not self.is_bad(result._array):
            return  # the usual case, before anything is made for the other
        given = dict(zip((param.name for param in op.inputs), operands, strict=False))
        if called != op.name:
            # Of values written over nobody knows whether they were NaN before; a flag says so.
            if not flagged:
                return
            del given[op.inputs[0].name]
        self.judge(Suspect(called, None, given, result, getframe(1)))

    def start(self, node: Any) -> Any:
        """Before a node."""
        return node

    def ran(self, node: Any, gradients: Any, results: Any) -> Any:
        """After it."""
        flagged = self.flagged and self._takes_flag()
        if self.overflowed:
            self._note_infinity(Suspect.of_node(node, gradients, results))
        if flagged or node_leaves_no_flag(node):
            for one in results:
                if one is not None and (one.__class__ is not numpy.ndarray or self.is_bad(one)):
                    self.judge(Suspect.of_node(node, gradients, results))
                    break
        return node

    def finish(self, node: Any, token: Any) -> None:
        """Its results are where they go."""

    def judge(self, found: Suspect) -> None:
        """Raise if the results have a NaN and the operands have none."""
        for array in arrays_of(found.results):
            if self.is_bad(array):
                if not any(self.is_bad(one) for one in arrays_of(tuple(found.given.values()))):
                    raise self.error(found, array)
                return

    def is_bad(self, array: Any) -> bool:
        """Whether it has a NaN, or an infinity if those are searched too."""
        dtype = array.dtype
        if dtype is F64 or dtype is F32:
            flat = array.ravel("K")
            if isfinite(flat.dot(flat)):  # BLAS takes half the time of a sum
                return False
        elif dtype.kind not in "fcV":
            return False
        return bool(self.found(array).any())

    def found(self, array: Any) -> Any:
        """Which elements are bad."""
        return ~numpy.isfinite(array) if self.inf else numpy.isnan(array)

    def error(self, found: Suspect, array: Any) -> NanError:
        """What to tell the user."""
        which = self.found(array)
        first = tuple(int(index) for index in numpy.argwhere(which)[0])
        what = "NaN" if numpy.isnan(array[which]).all() else "inf or NaN"
        lines = [
            f"{found.name} made {int(which.sum())} {what}{_at(found)}",
            *(f"  from {one}" for one in _described(found.shown())),
            f"  to   {_range(array)}, the first at index {first}",
        ]
        if self.began and not all(map(_is_finite, arrays_of(tuple(found.given.values())))):
            lines.append(f"  The infinity that it came from began in {self.began}")
        return NanError("\n".join(lines), found)


def _at(found: Suspect) -> str:
    place = found.place
    return "" if place is None else f" at {place}: {place.source}"


def _is_finite(array: Any) -> bool:
    return array.dtype.kind not in "fc" or bool(numpy.isfinite(array).all())


def _described(given: dict[str, Any]) -> list[str]:
    lines = []
    for name, value in given.items():
        if isinstance(value, int | float | complex):
            lines.append(f"{name}: {value}")
        lines += [f"{name}: {_range(array)}" for array in arrays_of(value)]
    return lines


def _range(array: Any) -> str:
    """Shape, dtype and extremes of an array."""
    dtype = str(from_numpy_dtype(array.dtype)).removeprefix("torch.")
    text = f"{dtype}{list(array.shape)}"
    if array.dtype.kind == "c":
        array, text = numpy.abs(array), f"{text}, absolute values"
    finite = array[numpy.isfinite(array)] if array.dtype.kind in "fV" else array
    if not finite.size:
        return f"{text} without a finite element" if array.size else text
    low, high = finite.min(), finite.max()
    rest = array.size - finite.size
    return f"{text} from {low:.4g} to {high:.4g}" + (f" and {rest} not finite" if rest else "")

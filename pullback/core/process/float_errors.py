"""NumPy's floating-point errors: silent in pullback's own calls, as the user wants them elsewhere.

torch says nothing of infinities and NaN. NumPy does, by a state of the context in which a ufunc is
called. So that is changed once in each context: NumPy then calls a function of ours, which happens
only where a flag was raised, and that looks whose call it was. `numpy.geterr()` says "call" there.

What was tried to leave the state alone, on sums and products of ten elements (0.51 us a ufunc):
to set and put it back around each, with the object that `errstate` makes kept ready, 0.28 us more,
half of a ufunc. One context of our own that is silent, in which ufuncs run (`Context.run`): 0.03
us, 6 % of a ufunc; that a signal's handler or another thread is in it already is an error before
anything ran, so it can be caught. But that serves operators that are one call of a ufunc. Forwards
written in Python ask for the mode, which a context of our own does not have, as do kernels, rules
and whatever else calls NumPy on the way; each would need its own place in which the state is
changed, and one that is forgotten warns. Filters of warnings see no callers below Python, and
`__warningregistry__` is emptied whenever somebody changes a filter.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextvars import copy_context
from types import FrameType
from typing import Any

import numpy

from pullback.core.home import scope_name
from pullback.core.origin import internal

_LIBRARIES = ("numpy", "scipy")  # they call ufuncs for whoever called them
_NAMES = {
    "divide by zero": "divide",
    "overflow": "over",
    "underflow": "under",
    "invalid value": "invalid",
}


def hear_float_errors(undone: Callable[[], object]) -> None:
    """From now on, in this context, ignore the errors of our own calls.

    `undone` is called when that no longer holds: a block of `numpy.errstate` that is left takes
    back what was changed inside it.
    """
    told = numpy.geterrcall()
    if isinstance(told, _OfOthers):  # a context that was copied
        return
    wanted = numpy.geterr()
    heard: Any = {name: "call" for name, way in wanted.items() if way != "ignore"}
    # Where the context has no state of NumPy's of its own, it is in no block.
    changed = any(one.name == "numpy.ufunc.extobj" for one in copy_context())
    numpy.seterrcall(_UntilUndone(wanted, told, undone) if changed else _OfOthers(wanted, told))
    numpy.seterr(**heard)


class _OfOthers:
    """Who NumPy calls when a ufunc raised a flag: does what was wanted, unless the call was ours.

    NumPy does not tell which ufunc it was, so the text ends before its name.
    """

    __slots__ = ("told", "wanted")

    def __init__(self, wanted: Any, told: Any) -> None:
        self.wanted = wanted
        self.told = told

    def __call__(self, error: str, flag: int) -> None:
        if _ours(sys._getframe(1)):
            return
        way = self.wanted[_NAMES[error]]
        text = f"{error} encountered"
        if way == "warn":
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        elif way == "raise":
            raise FloatingPointError(text)
        elif way == "print":
            print(f"Warning: {text}", file=sys.stderr)
        elif way in ("call", "ignore") and self.told is not None:  # or it was ignored before
            self.told(error, flag)
        elif way == "log" and self.told is not None:
            self.told.write(f"Warning: {text}\n")

    def write(self, text: str) -> None:
        """What NumPy calls where "log" is asked for later."""
        if self.told is not None and not _ours(sys._getframe(1)):
            self.told.write(text)


class _UntilUndone(_OfOthers):
    """The same, in a state that may be a block's: NumPy drops it when the block is left."""

    __slots__ = ("undone",)

    def __init__(self, wanted: Any, told: Any, undone: Callable[[], object]) -> None:
        super().__init__(wanted, told)
        self.undone = undone

    def __del__(self) -> None:
        # NumPy is about to change its state, so nothing here may; the next operator does.
        self.undone()


def _ours(frame: FrameType | None) -> bool:
    while frame is not None:
        if internal[frame.f_code.co_filename]:
            return True
        if scope_name(frame.f_globals).partition(".")[0] not in _LIBRARIES:
            return False
        frame = frame.f_back
    return False

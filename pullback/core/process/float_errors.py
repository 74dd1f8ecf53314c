"""NumPy's floating-point errors: silent in pullback's own calls, as the user wants them elsewhere.

torch says nothing of infinities and NaN. NumPy does, by a state of the context in which a ufunc is
called; changing that around each of our calls would cost an operator a quarter of its time (set
and reset 0.13 us, `x * y` of ten elements 0.54). So it is changed once: NumPy then calls a function
of ours, which happens only where a flag was raised, and that looks whose call it was.
So `numpy.geterr()` says "call" in a thread that has used pullback. A context of our own to run each
ufunc in (`Context.run`) would hide that for 16 ns, but cannot be entered twice: a signal's handler
or a `__del__` in the middle of a call would fail; and forwards that ask for the mode would not find
it there.
"""

from __future__ import annotations

import sys
import warnings
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


def hear_float_errors() -> None:
    """From now on, in this context, ignore the errors of our own calls."""
    told = numpy.geterrcall()
    if isinstance(told, _OfOthers):  # a context that was copied
        return
    wanted = numpy.geterr()
    heard: Any = {name: "call" for name, way in wanted.items() if way != "ignore"}
    if heard:
        numpy.seterrcall(_OfOthers(wanted, told))
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
        elif way == "call" and self.told is not None:
            self.told(error, flag)
        elif way == "log" and self.told is not None:
            self.told.write(f"Warning: {text}\n")


def _ours(frame: FrameType | None) -> bool:
    while frame is not None:
        if internal[frame.f_code.co_filename]:
            return True
        if scope_name(frame.f_globals).partition(".")[0] not in _LIBRARIES:
            return False
        frame = frame.f_back
    return False

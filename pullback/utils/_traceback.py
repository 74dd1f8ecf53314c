"""`torch.utils._traceback`: where a program was, kept for later and told in short."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable
from types import TracebackType

__all__ = ["CapturedTraceback", "format_frame", "format_traceback_short", "shorten_filename"]


class CapturedTraceback:
    """The calls that are active at a place, outermost first; they are worded when asked for.

    >>> from pullback.utils._traceback import CapturedTraceback
    >>> def inner():
    ...     return CapturedTraceback.extract()
    >>> inner().summary()[-1].name
    'inner'
    """

    __slots__ = ("skip", "tb")

    def __init__(self, tb: traceback.StackSummary | None, skip: int = 0) -> None:
        self.tb = tb
        self.skip = skip

    @staticmethod
    def extract(*, script: bool = False, cpp: bool = False, skip: int = 0) -> CapturedTraceback:
        """The calls up to the caller, or to `skip` calls above it.

        There is no TorchScript here and no C++, so those flags change nothing.
        """
        frames = traceback.walk_stack(sys._getframe(1 + skip))
        # Lines are read from their files when they are wanted.
        known = traceback.StackSummary.extract(frames, lookup_lines=False)
        known.reverse()
        return CapturedTraceback(known, skip)

    def cleanup(self) -> None:
        """Forget the calls."""
        self.tb = None

    def summary(self) -> traceback.StackSummary:
        """The calls, each with its file, line and name."""
        return traceback.StackSummary() if self.tb is None else self.tb

    def format(self) -> list[str]:
        """The calls in Python's words."""
        return traceback.format_list(self.summary())

    @staticmethod
    def format_all(tbs: Iterable[CapturedTraceback]) -> list[list[str]]:
        """Several of them in Python's words."""
        return [one.format() for one in tbs]


def shorten_filename(fn: str, *, base: str | None = None) -> str:
    """The path of a file as seen from a folder that holds it: without `base`, the package's.

    >>> from pullback.utils._traceback import shorten_filename
    >>> shorten_filename("/work/models/net.py", base="/work")
    'models/net.py'
    """
    if base is None:
        base = __file__.replace("\\", "/").rsplit("/", 3)[0]
    return fn.removeprefix(base).removeprefix("/") if fn.startswith(f"{base}/") else fn


def format_frame(
    frame: traceback.FrameSummary, *, base: str | None = None, line: bool = False
) -> str:
    """File, number and name of a call, after its line where that is wanted."""
    text = f"{frame.line}  # " if line else ""
    return f"{text}{shorten_filename(frame.filename, base=base)}:{frame.lineno} in {frame.name}"


def format_traceback_short(tb: TracebackType | None) -> str:
    """The innermost call of an exception's traceback."""
    return format_frame(traceback.extract_tb(tb)[-1])

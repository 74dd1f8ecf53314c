"""Where in the user's code something happened.

One small module that nodes, version bumps, frees and detach points all call.

Recording takes a code object and an instruction offset from the first frame outside the package
(0.1 us); turning them into file and line waits until someone asks.
"""

from __future__ import annotations

import linecache
import os
import sys
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import Any, NamedTuple

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
GENERATED = "<pullback "  # file names of built operators start with this
ENGINE_LOOP = f"{GENERATED}loop over tensors>"  # that of the loop of a recorded pass

getframe = sys._getframe


class _InternalFiles(dict[str, int]):
    """File name -> does it belong to the package? 1: yes, 2: the recorded pass's loop; 0: no.

    Filled as names are met.
    """

    def __missing__(self, filename: str) -> int:
        if len(self) > 10_000:  # notebooks and exec make ever new names
            self.clear()
        own = filename.startswith((_PACKAGE, GENERATED, "<frozen", "<__array_function__"))
        self[filename] = answer = own + (filename == ENGINE_LOOP)
        return answer


internal = _InternalFiles()


class _LastUser:
    """The code that last called an operator, once it is known to be no file of the package.

    Most calls come from where the one before came from, which takes a sixth of asking `internal`.
    """

    __slots__ = ("code", "loop")

    def __init__(self) -> None:
        self.code: CodeType | None = None
        self.loop: CodeType | None = None  # that of the recorded pass last met


last_user = _LastUser()


class Origin(NamedTuple):
    """A place in the user's program.

    >>> import pullback as torch
    >>> y = torch.ones(2, requires_grad=True) * 2
    >>> y.grad_fn.origin.line > 0
    True
    """

    code: CodeType
    lasti: int

    @property
    def file(self) -> str:
        """Path of the source file."""
        return self.code.co_filename

    @property
    def line(self) -> int:
        """Line number, 1-based; the first line of the function when the exact one is unknown."""
        for start, end, line in self.code.co_lines():
            if start <= self.lasti < end and line is not None:
                return line
        return self.code.co_firstlineno

    @property
    def function(self) -> str:
        """Name of the function the place is in."""
        return self.code.co_name

    @property
    def source(self) -> str:
        """The text of the line, or an empty string."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{_cell(self.file) or os.path.basename(self.file)}:{self.line}"


def _cell(file: str) -> str | None:
    """A notebook's cell as its user knows it, `In [3]`; None for other files."""
    if not ("ipykernel_" in file or file.startswith("<ipython-input-")):
        return None
    number: object = None
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    if running is not None:  # it compiles each cell under a name made from the text
        known = getattr(running.compile, "_filename_map", {})
        number = known.get(file)
    if number is None and file.startswith("<ipython-input-"):
        number = file.removeprefix("<ipython-input-").partition("-")[0]
    return None if number is None else f"In [{number}]"


# The frame of the user's call of backward() or grad(), while a recorded pass runs. What the rules
# compute comes from there: whoever meets the pass's loop need not climb on.
passing: ContextVar[FrameType | None] = ContextVar("pullback_passing", default=None)


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The first frame at or above `frame` that is not the package's own."""
    while frame is not None:
        whose = internal[frame.f_code.co_filename]
        if not whose:
            break
        if whose == 2:
            last_user.loop = frame.f_code
            return passing.get()
        frame = frame.f_back
    return frame


class _Nobody:
    """The frame of calls that no code of the user's made."""

    f_code = None
    f_lasti = 0


_NOBODY: Any = _Nobody()


def caller(frame: FrameType) -> tuple[Any, CodeType | None]:
    """The frame of the user's call at or above `frame`, and its code: remembered for the next."""
    of_pass = frame.f_code is last_user.loop
    found: Any = (passing.get() if of_pass else user_frame(frame)) or _NOBODY
    last_user.code = found.f_code
    return found, found.f_code


def here(depth: int = 1) -> Origin | None:
    """The user's place, seen from `depth` frames above the caller."""
    frame = user_frame(getframe(depth))
    return None if frame is None else Origin(frame.f_code, frame.f_lasti)


def stacklevel() -> int:
    """For `warnings.warn`: the level at which the warning points to the user's line."""
    level, frame = 1, getframe(1)
    while frame.f_back is not None and internal[frame.f_code.co_filename]:
        level, frame = level + 1, frame.f_back
    return level

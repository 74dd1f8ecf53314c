"""Native code that runs on the function's behalf: what it raises is the function's own error.

Whatever else is raised inside the interpreter is a mistake of ours, and ends the capture: a handler
of the user's must not meet it.
"""

from __future__ import annotations

import dis
import os
from types import CodeType
from typing import Any

__all__ = ["is_theirs", "natively"]

_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_RAISING = frozenset({"RAISE_VARARGS", "RERAISE"})


def natively(function: Any, *args: Any, **kwargs: Any) -> Any:
    """`function(*args, **kwargs)`."""
    return function(*args, **kwargs)


_places: dict[CodeType, frozenset[int]] = {}


def is_theirs(error: BaseException) -> bool:
    """Whether an error was raised for the user: on purpose here, or by code that ran for them."""
    trace, ours = error.__traceback__, None
    while trace is not None:  # the innermost frame of the compiler's, and whether it is the last
        if trace.tb_frame.f_code.co_filename.startswith(_FOLDER):
            ours = trace
        trace = trace.tb_next
    if ours is None or ours.tb_frame.f_code is natively.__code__:
        return True
    if ours.tb_next is not None:  # code that the compiler called for itself
        return False
    code = ours.tb_frame.f_code
    known = _places.get(code)
    if known is None:
        found = dis.get_instructions(code)
        known = _places[code] = frozenset(i.offset for i in found if i.opname in _RAISING)
    return ours.tb_lasti in known

"""One version counter per memory, shared by base, views and detached aliases.

The counter is a list: `[version, write, write, ...]`, the last few writes with the line that made
them. A tensor that was never written and shares its memory with nobody needs none of its own: all of
these have the constant `UNWRITTEN`, and get a list when they are first written, viewed or aliased.
"""

from __future__ import annotations

from typing import Any

from pullback.core import errors
from pullback.core.origin import Origin, getframe, internal, user_frame

Cell = Any  # a list, or UNWRITTEN
UNWRITTEN = (0,)
_REMEMBERED_WRITES = 8


def own_cell(tensor: Any) -> Cell:
    """The tensor's counter, to be shared with a view, an alias or a saved value."""
    cell = tensor._cell
    if cell is UNWRITTEN:
        cell = tensor._cell = [0]
    return cell


def bump(tensor: Any, op: str) -> None:
    """Count a write by `op`, called from the user's code."""
    cell = own_cell(tensor)
    if cell is INFERENCE_CELL:
        return
    cell[0] += 1
    frame: Any = getframe(1)
    if internal[frame.f_code.co_filename]:
        frame = user_frame(frame)
    if frame is not None:
        cell.append((op, frame.f_code, frame.f_lasti))
        if len(cell) > _REMEMBERED_WRITES + 1:
            del cell[1]


def writes(cell: Cell, since: int = 0) -> list[str]:
    """The remembered writes after version `since`, oldest first, as readable text."""
    known = cell[1:]
    return [
        f"{op} at {Origin(code, lasti)}"
        for op, code, lasti in known[max(0, len(known) - (cell[0] - since)) :]
    ]


class _InferenceCell(list[Any]):
    """The counter of an inference tensor: there is none, and reading it says so."""

    def __getitem__(self, index: Any) -> Any:
        raise errors.inference_has_no_version()

    def __setitem__(self, index: Any, value: Any) -> None:
        raise errors.inference_has_no_version()


INFERENCE_CELL: Cell = _InferenceCell()

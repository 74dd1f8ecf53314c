"""One version counter per memory, shared by base, views and detached aliases.

The counter is a list: `[version, write, write, ...]`, the last few writes with the line that made
them. A tensor that was never written and shares its memory with nobody needs none of its own: all
of these have the constant `UNWRITTEN`, and get a list when they are first written, viewed or
aliased.
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


class _VersionSinceDetach(int):
    """A version read after `detach_()`: equal to its like only, so no earlier save matches it."""

    def __eq__(self, other: object) -> bool:
        return type(other) is _VersionSinceDetach and int(self) == int(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__


class DetachedCell(list[Any]):
    """The counter of a tensor that `detach_()` tore from its node: the shared one, read anew.

    What was saved before must not be used in backward, where the tensor would count as a constant.
    The fast path compares versions and nothing else; here they never equal the earlier ones.
    """

    __slots__ = ("shared",)

    def __init__(self, shared: Cell) -> None:
        super().__init__()
        self.shared = shared

    def __getitem__(self, index: Any) -> Any:
        value = self.shared[index]
        return _VersionSinceDetach(value) if type(value) is int else value

    def __setitem__(self, index: Any, value: Any) -> None:
        self.shared[index] = int(value)

    def __delitem__(self, index: Any) -> None:
        del self.shared[index]

    def __len__(self) -> int:
        return len(self.shared)

    def append(self, value: Any) -> None:
        """Remember a write."""
        self.shared.append(value)


def detached_before(cell: Cell, version: int) -> bool:
    """Whether `version` was read before the tensor was torn from its node."""
    return type(cell) is DetachedCell and type(version) is not _VersionSinceDetach

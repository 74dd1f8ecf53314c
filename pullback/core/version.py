"""One version counter per memory, shared by base, views and detached aliases.

The counter is a list: `[version, write, write, ...]`, the last few writes with the line that made
them. A tensor that was never written and shares its memory with nobody needs none of its own: it
has a tuple, mostly the constant `UNWRITTEN`, and gets a list when it is first written, viewed or
aliased. Where something is known about how a tensor without history was made (which `no_grad`
block, which line's `tensor()`), the tuple says so in a second item, a `Birth`; `why.py` reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import ref

from pullback.core import errors
from pullback.core.explain.birth import FROM_ARRAYS, Birth, FromArray, Lent, make_birth
from pullback.core.origin import Origin, getframe, internal, last_user, user_frame

Cell = Any  # a list; or a tuple, before the first write
UNWRITTEN = (0,)
MOST_WRITES = 65  # what a counter grows to before older writes are folded: a version and 64
_RECENT = 8
_EXACT = 130  # up to this version every write is looked at; then some, as loops repeat themselves
_MOST_PLACES = 32


class _Earlier(dict[int, tuple[int, Any]]):
    """Writes folded: place -> version of the last one there, and that write.

    A loop writes at few places, so these stay known however often it runs.
    """


def own_cell(tensor: Any) -> Cell:
    """The tensor's counter, to be shared with a view, an alias or a saved value."""
    cell = tensor._cell
    if cell.__class__ is tuple:
        cell = tensor._cell = [*cell]
    return cell


def birth(cell: Cell) -> Birth | None:
    """What the counter tells about how the tensor was made."""
    note = cell[1] if cell is not INFERENCE_CELL and len(cell) > 1 else None
    return note if isinstance(note, Birth) else None


def remember_birth(tensor: Any, how: str, lent: Any = None) -> None:
    """Note that `how`, called from the user's code, made this tensor; free where it has history.

    `lent` is what owns its memory, where that is another's.
    """
    if tensor._cell is not UNWRITTEN or tensor._node is not None:
        return
    frame: Any = getframe(2)
    if internal[frame.f_code.co_filename]:
        frame = user_frame(frame)
    if frame is not None:
        if lent is not None:
            tensor._cell = (0, make_birth(Lent, (how, frame.f_code, frame.f_lasti, ref(lent))))
            return
        kind = FromArray if how in FROM_ARRAYS else Birth
        tensor._cell = (0, make_birth(kind, (how, frame.f_code, frame.f_lasti)))


def bump(tensor: Any, op: str) -> None:
    """Count a write by `op`, called from the user's code."""
    cell = tensor._cell
    if cell.__class__ is tuple:
        cell = tensor._cell = [*cell]
    elif cell is INFERENCE_CELL:
        return
    cell[0] += 1
    try:
        frame: Any = getframe(2)  # the caller of the function that wrote
    except ValueError:  # which nobody of Python called
        return
    code = frame.f_code
    if code is not last_user.code and internal[code.co_filename]:
        frame = user_frame(frame)
        if frame is None:
            return
        code = frame.f_code
    cell.append((op, code, frame.f_lasti))
    if len(cell) > MOST_WRITES:
        shorten(cell)


def bump_all(tensors: list[Any], op: str) -> None:
    """Count a write by `op` to each of many tensors, all from one place in the user's code."""
    frame: Any = getframe(1)
    while frame is not None and internal[frame.f_code.co_filename]:
        frame = frame.f_back
    write = None if frame is None else (op, frame.f_code, frame.f_lasti)
    for tensor in tensors:
        cell = tensor._cell
        if cell.__class__ is tuple:
            cell = tensor._cell = [*cell]
        elif cell is INFERENCE_CELL:
            continue
        cell[0] += 1
        if write is not None:
            cell.append(write)
            if len(cell) > MOST_WRITES:
                shorten(cell)


def shorten(cell: Cell) -> None:
    """Fold all but the last few writes into one entry.

    Called once in 56 writes. Looking at all of them would cost each write 0.2 us, at two dozen
    0.05; a code object's own hash takes ten times as long as its identity. Other threads may write
    to the same memory meanwhile, and come here too: each works on a copy and puts its entry in by
    one step. Where two meet, a few writes are forgotten, and nothing fails.
    """
    memory = cell.shared if type(cell) is DetachedCell else cell
    entries = memory[:]
    if len(entries) <= MOST_WRITES:  # somebody has just done it
        return
    notes = 1
    while type(entries[notes]) is not tuple:
        notes += 1
    end = len(entries) - _RECENT
    looked_at: Iterable[int] = range(notes, end)
    if entries[0] > _EXACT:
        looked_at = (*range(notes, notes + 8), *range(end - 16, end))
    latest = {}
    for number in looked_at:
        _, code, lasti = entries[number]
        latest[id(code) + lasti] = number
    start = notes - 1 if type(entries[notes - 1]) is _Earlier else notes
    # A copy, as somebody may be reading the old one.
    folded = _Earlier(entries[start]) if start < notes else _Earlier()
    before = entries[0] - len(entries) + 1  # the version of what was written by the entry 0
    for place, number in latest.items():
        folded.pop(place, None)
        folded[place] = (before + number, entries[number])
    while len(folded) > _MOST_PLACES:
        del folded[next(iter(folded))]
    memory[start:end] = [folded]


def writes(cell: Cell, since: int = 0) -> list[str]:
    """The remembered writes after version `since`, oldest first, as readable text."""
    places: dict[int, tuple[Any, bool]] = {}  # place -> the write, and whether there were several
    for entry in cell[1:]:
        if type(entry) is _Earlier:
            places |= {at: (write, False) for at, (last, write) in entry.items() if last > since}
    known = [write for write in cell[1:] if type(write) is tuple]
    for write in known[max(0, len(known) - (cell[0] - since)) :]:
        place = id(write[1]) + write[2]
        places[place] = (write, place in places)
    return [
        f"{op} at {Origin(code, lasti)}" + (" (more than once)" if several else "")
        for (op, code, lasti), several in places.values()
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

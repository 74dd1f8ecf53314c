"""How the reason for having no gradient travels: from operands without history to results.

A result that nothing was recorded for takes over the counter of its operand, and with it the note
of how that came to be (`birth.py`). Written operators do so in line for the usual case, one
comparison on the way that records nothing; what is not usual comes here. Of several operands the
one counts that was cut off, before one that is just a constant.
"""

from __future__ import annotations

import warnings
from types import CodeType, FrameType
from typing import Any

from pullback.core.explain.birth import Birth, Cut, Ended, FromArray, Lent, Unrecorded, make_birth
from pullback.core.mode import get_mode
from pullback.core.node import Leaf
from pullback.core.origin import getframe, internal, stacklevel, user_frame
from pullback.core.process.warning_once import should_warn
from pullback.core.version import INFERENCE_CELL, UNWRITTEN, Cell, birth, own_cell
from pullback.core.view import View

_INFERENCE = Unrecorded("inference_mode", None, 0)
# How much a cause explains; by class, so that written operators need not look closer at equals.
_WEIGHTS: dict[type, int] = {Birth: 1, FromArray: 2, Lent: 2, Unrecorded: 3, Cut: 3, Ended: 3}
# Of constants nothing is told by what they are written into.
CONSTANTS = frozenset({kind for kind, weight in _WEIGHTS.items() if weight < 3})
_MOST_EXITS = 64


def cause_of(tensor: Any) -> Birth | None:
    """What is known of how a tensor without history came to be."""
    cell = tensor._cell
    if cell is INFERENCE_CELL:
        return _INFERENCE
    cut = tensor._cut
    if cut is None:
        base = tensor._base
        cut = None if base is None else base._cut
    return birth(cell) if cut is None else cut


def _weight(cause: Birth) -> int:
    """How much a cause explains, from 1."""
    return _WEIGHTS[cause.__class__]


def inherited(*operands: Any) -> Cell:
    """The counter of a result that nothing was recorded for, with its operands' best reason."""
    best: Cell = UNWRITTEN
    most = 0
    for one in operands:
        try:
            cell = one._cell
        except AttributeError:
            if one.__class__ is not tuple and one.__class__ is not list:
                continue  # a number, or None
            cause = strongest(one)
        else:
            if cell is UNWRITTEN:
                continue
            # Not in calls: constants are many, and each operator that records nothing asks.
            if cell.__class__ is tuple:  # a note and nothing else
                weight = _WEIGHTS[cell[1].__class__]
                if weight > most:
                    best, most = cell, weight
                continue
            # A counter's note is all, if nothing took the tensor, or what it is a view of, out.
            if (
                cell.__class__ is list
                and one._cut is None
                and ((node := one._node).__class__ is not View or node.base._cut is None)
            ):
                weight = _WEIGHTS.get(cell[1].__class__, 0) if len(cell) > 1 else 0
                if weight > most:
                    best, most = (0, cell[1]), weight
                continue
            cause = cause_of(one)
        if cause is not None and _weight(cause) > most:
            best, most = (0, cause), _weight(cause)
    return best


def strongest(operands: Any) -> Birth | None:
    """The reason that explains most among the operands'; the first of equals."""
    best, most = None, 0
    for one in operands:
        if one.__class__ is tuple or one.__class__ is list:
            cause = strongest(one)
        elif getattr(one, "_cell", UNWRITTEN) is UNWRITTEN:
            continue
        else:
            cause = cause_of(one)
        if cause is not None and _weight(cause) > most:
            best, most = cause, _weight(cause)
            if most == 3:
                break
    return best


def ended(name: str, frame: FrameType | None, *operands: Any) -> Cell:
    """As `inherited`, for a result without gradient of operands that may have one: it ends here."""
    for one in operands:
        if one.__class__ is tuple or one.__class__ is list:
            cell = ended(name, frame, *one)
            if cell is not UNWRITTEN and type(cell[1]) is Ended:
                return cell
        else:
            node = getattr(one, "_node", None)
            if node is not None and (node.__class__ is Leaf or one.requires_grad):
                return ended_at(name, frame)
    return inherited(*operands)


def ended_at(name: str, frame: FrameType | None) -> Cell:
    """The counter of a result that has no gradient though its operands have."""
    if frame is not None and frame.f_code is not None and internal[frame.f_code.co_filename]:
        frame = user_frame(frame)
    if frame is None or frame.f_code is None:  # no code of the user's made the call
        return (0, Ended(name, None, 0))
    return (0, make_birth(Ended, (name, frame.f_code, frame.f_lasti)))


def adopt(target: Any, *sources: Any) -> None:
    """Let a tensor that `sources` were written into, unrecorded, know what they know."""
    best = inherited(*sources)
    if best is UNWRITTEN or best[1].__class__ in CONSTANTS or target._cell is INFERENCE_CELL:
        return
    cause = best[1]
    cell = own_cell(target)
    known = birth(cell)
    if known is None:
        cell.insert(1, cause)
    elif _weight(known) < 3:
        cell[1] = cause


# Where values of tensors with a history went to Python: who makes a tensor of them has no other way
# to know. By place, as the identity of its code (whose own hash takes ten times as long) and the
# instruction; the oldest goes.
_exits: dict[tuple[int, int], Cut] = {}


class _LastExit:
    """The place noted last: a loop that asks there again need not come here."""

    __slots__ = ("code", "how", "lasti")

    def __init__(self) -> None:
        self.code: CodeType | None = None
        self.how = ""
        self.lasti = -1


last_exit = _LastExit()


def remember_exit(tensor: Any, how: str, depth: int = 2) -> None:
    """Note that `how`, called from the user's code, gave values of this tensor to Python."""
    node = tensor._node
    if node is None or (node.__class__ is View and not tensor.requires_grad):
        return
    frame: Any = getframe(depth)
    if internal[frame.f_code.co_filename]:
        frame = user_frame(frame)
        if frame is None:
            return
    code = frame.f_code
    place = id(code), frame.f_lasti
    known = _exits.get(place)
    if known is not None and known[0] == how:
        last_exit.code, last_exit.how, last_exit.lasti = code, how, frame.f_lasti
        return
    if known is None and len(_exits) >= _MOST_EXITS:
        _exits.pop(next(iter(_exits), None), None)  # type: ignore[arg-type]  # None is never a key
        last_exit.code = None
    _exits[place] = Cut(how, code, frame.f_lasti)


def warn_of_exit(tensor: Any, how: str) -> None:
    """As `remember_exit`, with a warning once in a process: `item()` would say that it is meant."""
    if not (get_mode().grad and tensor.requires_grad):
        return
    remember_exit(tensor, how, 3)
    if should_warn("number of a tensor that requires grad"):
        warnings.warn(
            "Converting a tensor with requires_grad=True to a scalar may lead to unexpected "
            f"behavior: what is computed with the number that {how} takes has no gradient. If that "
            "is meant, say tensor.item(), or tensor.detach() before.",
            UserWarning,
            stacklevel=stacklevel(),
        )


def exits_in(code: CodeType) -> list[Cut]:
    """Those of one function, oldest first."""
    return [one for one in list(_exits.values()) if one.code is code]

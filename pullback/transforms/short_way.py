"""The shortest way through a vmap level, for calls that need no closer look.

Most calls inside a map are elementwise, or pick and sum parts of one tensor, with the examples in
front. They go to the batches as they stand: without binding arguments, taking them apart and
asking rules, which takes five times as long as a small operator. `NotImplemented` leaves a call to
`process` in vmap_level.py, which knows every case.
"""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from pullback.core.forward import LEVELS
from pullback.core.mode import NO_GRAD, PLAIN, Mode, changed, current, fast
from pullback.core.tensor import Tensor, new
from pullback.core.version import own_cell
from pullback.operators.batching import padded
from pullback.operators.declare import Op
from pullback.operators.options import NORMALISE, as_dim
from pullback.transforms.batched import Batched, batched

__all__ = ["at_once", "is_random"]


def at_once(level: Any, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any], mode: Mode) -> Any:
    """The call by the shortest way, before anybody looks at it; mostly NotImplemented.

    For examples in front, of one dtype and rank: what is elementwise goes to the batches as it
    stands; of one tensor, after a shift of the dimensions that options name.
    """
    if mode not in level._short:
        below = level.below(mode)
        level._short[mode] = below if _is_plain_inside(mode, below) else None
    below = level._short[mode]
    way = _ways.get(op) or _way_of(op)
    if below is None or way is _GENERAL or LEVELS or fast.plain is None:
        return NotImplemented
    if kwargs.get("out") is not None:
        return NotImplemented
    values, places, rank = _in_front(level, op, args)
    if not values:
        return NotImplemented
    if way is _SHIFTED and not _shift(level, op, values):
        return NotImplemented
    try:
        current.set(below)
        for place in places:
            values[place] = _padded(values[place], rank)
        result = op.function(*values, **kwargs)
    finally:
        current.set(mode)
    return batched(result, 0, level)


def _in_front(level: Any, op: Op, args: tuple[Any, ...]) -> tuple[list[Any], list[int], int]:
    """The arguments with batches in place of examples, which all are in front and of one dtype.

    And the places of those that need `padded`, with the rank that it is to give them. No values
    at all where the call wants a closer look.
    """
    dtype, rank, alike = None, -1, True
    values: list[Any] = []
    places: list[int] = []
    for is_tensor, arg in zip(_flags[op], args, strict=False):
        kind = arg.__class__
        if not is_tensor:
            pass
        elif kind is Batched or kind is Tensor:
            value = arg
            if kind is Batched:
                value = arg.value
                if arg.level is not level or arg.bdim:
                    return _NONE
                places.append(len(values))
            array = value._array
            if (dtype is not None and array.dtype is not dtype) or value._kind is not None:
                return _NONE
            dtype = array.dtype
            own = array.ndim - (kind is Batched)
            alike = alike and rank in (own, -1)
            rank = max(rank, own)
            arg = value
        elif kind is not float and kind is not int:
            return _NONE
        values.append(arg)
    if not places:
        return _NONE
    return values, [] if alike else places, rank


def _shift(level: Any, op: Op, values: list[Any]) -> bool:
    """Move the dimensions that options name by one; False where a rule has more to say."""
    ndim = values[0]._array.ndim - 1
    if ndim == 0:
        return False
    for place, kind in _shifts[op]:
        given = values[place]
        if kind == "dim":
            if given is None:
                return False
            inside = given.__class__ is int and 0 <= given < ndim
            values[place] = (given if inside else as_dim(given, ndim, op.name)) + 1
        elif kind == "dims":
            dims = NORMALISE["dims"](given, ndim, op.name) or range(ndim)
            values[place] = tuple([dim + 1 for dim in dims])
        elif given is not None:
            values[place] = (level.size, *NORMALISE["shape"](given, ndim, op.name))
    return True


# How `at_once` runs an operator.
_GENERAL, _ALIKE, _SHIFTED = "general", "alike", "shifted"
_ways: dict[Op, str] = {}
_shifts: dict[Op, tuple[tuple[int, str], ...]] = {}  # place and kind of what a shift moves
_MOVED = frozenset(("dim", "dims", "shape"))
_flags: dict[Op, tuple[bool, ...]] = {}  # of its parameters: whether tensors are passed there


_NONE: tuple[list[Any], list[int], int] = ([], [], 0)


def _padded(value: Any, rank: int) -> Any:
    """As `padded`, for examples in front."""
    array = value._array
    missing = rank + 1 - array.ndim
    if missing <= 0:
        return value
    if value.__class__ is not Tensor or value._node is not None or type(array) is not ndarray:
        return padded(value, 0, rank)
    # Nobody will see it, and without history it need not be known as a view.
    made = new(Tensor)
    made._array = array[(slice(None), *(None,) * missing)]
    made._cell = own_cell(value)
    made._node = None
    return made


def _way_of(op: Op) -> str:
    way = _GENERAL
    one = len(op.outputs) == 1 and op.outputs != ("*",)
    if op.batch is None and one and not is_random(op) and not op.makes_kind:
        if op.kind == "elementwise" and all(param.kind == "tensor" for param in op.inputs):
            way = _ALIKE
        elif [param.kind for param in op.inputs] == ["tensor"] and op.shifts:
            moved = [(at, param) for at, param in enumerate(op.params) if param.kind in _MOVED]
            if op.params[0] is op.inputs[0] and not any(one.keyword_only for _, one in moved):
                way = _SHIFTED
                _shifts[op] = tuple((at, param.kind) for at, param in moved)
    _flags[op] = tuple(param.is_tensor for param in op.params)
    _ways[op] = way
    return way


def _is_plain_inside(mode: Mode, below: Mode) -> bool:
    """Whether levels are all that is unusual about a mode."""
    inside = changed(mode, levels=()) if below.levels else below
    usual = inside is PLAIN or inside is NO_GRAD
    return usual and all(level.transform == "vmap" for level in mode.levels)


def is_random(op: Op) -> bool:
    """Whether an operator draws random numbers: then it takes a generator."""
    known = _random.get(op)
    if known is None:
        known = _random[op] = any(param.name == "generator" for param in op.params)
    return known


_random: dict[Op, bool] = {}

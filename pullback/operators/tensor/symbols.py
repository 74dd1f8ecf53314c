"""Torch's names for sizes that are not known yet: here sizes are numbers, so these are simple.

Programs ask `isinstance(size, (int, torch.SymInt))` and compute with `torch.sym_max` so that they
work while torch captures them with unknown sizes. Of these classes are sizes of ragged dimensions
alone, which are no numbers (`nested/symbol.py`).
"""

from __future__ import annotations

import math
from typing import Any

FOUND_IN = {
    "torch": """
        SymBool SymFloat SymInt sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum
    """
}


class _Symbol:
    __slots__ = ()

    def __init__(self, node: Any) -> None:
        raise TypeError(
            f"{type(self).__name__}: sizes are numbers here, and none is a symbol; use the number."
        )


class SymInt(_Symbol):
    """What a size can be instead of an int: that of a dimension in which components differ.

    >>> import pullback as torch
    >>> isinstance(torch.zeros(2, 3).shape[0], torch.SymInt)
    False
    """

    __slots__ = ()


class SymFloat(_Symbol):
    """What could stand for a float in torch; no object is one here.

    >>> import pullback as torch
    >>> isinstance(torch.tensor(1.5).item(), torch.SymFloat)
    False
    """


class SymBool(_Symbol):
    """What could stand for a bool in torch; no object is one here.

    >>> import pullback as torch
    >>> isinstance(torch.tensor(True).item(), torch.SymBool)
    False
    """


def sym_int(a: Any) -> int:
    """The whole part of a number.

    >>> import pullback as torch
    >>> torch.sym_int(-1.7)
    -1
    """
    whole: int = math.trunc(a)
    return whole


def sym_float(a: Any) -> float:
    """A number as float.

    >>> import pullback as torch
    >>> torch.sym_float(2)
    2.0
    """
    return float(a)


def sym_not(a: Any) -> bool:
    """The contrary.

    >>> import pullback as torch
    >>> torch.sym_not(3 > 2)
    False
    """
    return not a


def _alike(a: Any, b: Any) -> tuple[Any, Any]:
    return (float(a), float(b)) if isinstance(a, float) or isinstance(b, float) else (a, b)


def sym_max(a: Any, b: Any) -> Any:
    """The larger of two numbers, a float if one of them is.

    >>> import pullback as torch
    >>> torch.sym_max(3, 2.5)
    3.0
    """
    return max(*_alike(a, b))


def sym_min(a: Any, b: Any) -> Any:
    """The smaller of two numbers, a float if one of them is.

    >>> import pullback as torch
    >>> torch.sym_min(2, 3.5)
    2.0
    """
    return min(*_alike(a, b))


def sym_sqrt(a: Any) -> float:
    """The square root of a number.

    >>> import pullback as torch
    >>> torch.sym_sqrt(9)
    3.0
    """
    return math.sqrt(a)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """`t` if `b`, else `f`, which are of one type.

    >>> import pullback as torch
    >>> torch.sym_ite(True, 1, 2)
    1
    """
    if type(t) is not type(f):
        raise TypeError(
            f"sym_ite: both must be of one type, got {type(t).__name__} and {type(f).__name__}."
        )
    return t if b else f


def sym_sum(*args: Any) -> Any:
    """The sum of numbers, given one by one or in a list.

    >>> import pullback as torch
    >>> torch.sym_sum([1, 2]), torch.sym_sum(1, 2)
    (3, 3)
    """
    given = args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args
    return sum(given)

"""How a tensor without history came to be; `why.py` makes sentences of it.

Its own file since version counters keep it and modes say what it is: both are below everything
else. A note in `__dict__` would cost each result under `no_grad` a dict and a look at the frame;
the counter is there anyway, and one tuple serves all results of a block.
"""

from __future__ import annotations

from types import CodeType
from typing import NamedTuple


class Birth(NamedTuple):
    """What made the tensor, and the user's line."""

    how: str
    code: CodeType | None
    lasti: int


class Cut(Birth):
    """`how` took it out of the graph: detach(), .data, a parameter frozen, a copy by tensor()."""

    __slots__ = ()


class Ended(Birth):
    """`how` is an operator whose result has no gradient, called with something that had one."""

    __slots__ = ()


# Constants: nobody asked for their gradients, and most programs have many.
FROM_ARRAYS = ("from_numpy()", "tensor() of an array", "as_tensor() of an array")


class FromArray(Birth):
    """Made of an array: a constant, but one that a graph may have gone into."""

    __slots__ = ()


class Lent(FromArray):
    """The same on the very memory of the array; a fourth item refers to that, weakly.

    A note goes on to results, which have memory of their own: so it says whose it is about.
    """

    __slots__ = ()


class Unrecorded(Birth):
    """Computed with grad mode off; `how` is the block."""

    __slots__ = ()


# Birth's own constructor is a Python function, and takes three times as long.
make_birth = tuple.__new__

# The counter of what was computed with grad mode off, where no block of the user's can be named.
UNRECORDED = (0, Unrecorded("no_grad", None, 0))

"""Memory that others see: arrays and buffers that tensors were made on, or that NumPy was given.

Nobody but its owner can make it larger or give it back, and what NumPy was given would stay behind
where a tensor moves to a larger one. How a tensor came to be is noted in its
counter, which views and aliases share, so they know it too; results of operators take the note
over, and have memory of their own.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from pullback.core.explain.birth import Lent
from pullback.core.version import birth

__all__ = ["lend", "lender_of", "receiver_of", "refuse_borrowed"]

# What NumPy was given, by id: for as long as the memory lives, as nobody knows who still looks.
_lent: dict[int, ref[Any]] = {}
_OWN = "numpy()"


def lend(owner: Any) -> None:
    """Note that an array on this memory was handed out."""
    key = id(owner)
    if key not in _lent:
        forget = _lent.pop
        _lent[key] = ref(owner, lambda _: forget(key, None))


def receiver_of(owner: Any) -> str | None:
    """The call that handed an array on this memory out; None where none has."""
    return _OWN if id(owner) in _lent else None


def lender_of(tensor: Any, owner: Any) -> str | None:
    """The call that put a tensor on memory of others, `from_numpy()`; None for its own."""
    note = birth(tensor._cell)
    if type(note) is not Lent:
        return None
    how, _, _, memory = tuple[Any, ...](note)  # one item more than other notes have
    return how if memory() is owner else None


def refuse_borrowed(op: str, lender: str | None) -> None:
    """Raise for memory that was lent, where its size would have to change."""
    if lender is _OWN:
        raise RuntimeError(
            f"{op}: numpy() has given out an array on this memory, which would no longer see the "
            "tensor at another size; clone() the tensor first."
        )
    if lender is not None:
        raise RuntimeError(
            f"{op}: this memory belongs to the array or buffer that was given to {lender}, so its "
            "size cannot change, and a copy would no longer be seen there; clone() the tensor "
            "first."
        )

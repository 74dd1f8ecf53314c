"""Memory that belongs to others: arrays and buffers that tensors were made on.

Nobody but its owner can make it larger or give it back. How a tensor came to be is noted in its
counter, which views and aliases share, so they know it too; results of operators take the note
over, and have memory of their own.
"""

from __future__ import annotations

from typing import Any

from pullback.core.explain.birth import Lent
from pullback.core.version import birth

__all__ = ["lender_of", "refuse_borrowed"]


def lender_of(tensor: Any, owner: Any) -> str | None:
    """The call that put a tensor on memory of others, `from_numpy()`; None for its own."""
    note = birth(tensor._cell)
    if type(note) is not Lent:
        return None
    how, _, _, memory = tuple[Any, ...](note)  # one item more than other notes have
    return how if memory() is owner else None


def refuse_borrowed(op: str, lender: str | None) -> None:
    """Raise for memory that was lent, where its size would have to change."""
    if lender is not None:
        raise RuntimeError(
            f"{op}: this memory belongs to the array or buffer that was given to {lender}, so its "
            "size cannot change, and a copy would no longer be seen there; clone() the tensor "
            "first."
        )

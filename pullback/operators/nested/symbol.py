"""The size of a dimension that has no number, since components differ in it: `j1` in a shape."""

from __future__ import annotations

from typing import Any

from pullback.operators.tensor.symbols import SymInt

__all__ = ["RaggedSize"]


class RaggedSize(SymInt):
    """A multiple of the size of a ragged dimension; equal to itself alone.

    `owner` is what makes two of them the same: the object for jagged tensors, whose components
    must belong together, the lengths for strided ones.
    """

    __slots__ = ("factor", "name", "owner")

    def __init__(self, name: str, owner: Any, factor: int = 1) -> None:
        self.name = name
        self.owner = owner
        self.factor = factor

    def __repr__(self) -> str:
        return self.name if self.factor == 1 else f"{self.factor}*{self.name}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RaggedSize) or self.factor != other.factor:
            return False
        if isinstance(self.owner, tuple):
            return bool(self.owner == other.owner)
        return self.owner is other.owner

    def __hash__(self) -> int:
        own = self.owner
        return hash((own if isinstance(own, tuple) else id(own), self.factor))

    def __mul__(self, other: Any) -> RaggedSize:
        if not isinstance(other, int):
            return NotImplemented
        return RaggedSize(self.name, self.owner, self.factor * other)

    __rmul__ = __mul__

    def _is_at_least(self, other: Any, op: str) -> bool:
        if isinstance(other, RaggedSize) and other == self:
            return True
        if isinstance(other, int) and other <= 2:
            return True  # what torch takes any such size to be
        raise ValueError(f"{self!r} {op} {other!r}: components have different sizes there.")

    def __ge__(self, other: Any) -> bool:
        return self._is_at_least(other, ">=")

    def __gt__(self, other: Any) -> bool:
        if isinstance(other, RaggedSize) and other == self:
            return False
        if isinstance(other, int):
            return self._is_at_least(other + 1, ">")
        return self._is_at_least(other, ">")

    def __le__(self, other: Any) -> bool:
        if isinstance(other, RaggedSize) and other == self:
            return True
        return not self.__gt__(other)

    def __lt__(self, other: Any) -> bool:
        return not self.__ge__(other)

    def __index__(self) -> int:
        raise TypeError(
            f"{self!r} stands for different sizes in different components and is no number; read "
            "them with offsets().diff() or lengths()."
        )

    __int__ = __index__

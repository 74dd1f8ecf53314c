"""Gradients that a call stores, where they are results as well: in eager both are one tensor."""

from __future__ import annotations

from typing import Any

from pullback.compiled.capture.captured import Output
from pullback.compiled.capture.reasons import CannotCapture
from pullback.core.tensor import Tensor

__all__ = ["Stored"]


class Stored:
    """Memory of one call's results and stored gradients, each piece with the one that has it."""

    def __init__(self) -> None:
        self.memory: dict[int, Tensor] = {}  # by id of the storage
        self._stored: set[int] = set()
        self._results: dict[int, Tensor] = {}  # by place among the stores

    def check(self, grad: Tensor, place: int) -> None:
        """Note that a gradient is stored; refuse one whose memory another tensor has, too."""
        key = id(getattr(grad._array, "storage", None))
        first = self.memory.get(key)
        if key in self._stored or (first is not None and first is not grad):
            raise CannotCapture("a stored gradient that shares its memory with another tensor")
        self._stored.add(key)
        if first is grad:
            self._results[place] = grad

    def numbers(self, leaves: list[Any], outputs: list[Output]) -> dict[int, int]:
        """By place among the stores: the number of the result that the gradient is; the end."""
        pairs = zip(leaves, outputs, strict=True)
        results = [id(leaf) for leaf, one in pairs if one.kind == "value"]
        found = {place: results.index(id(one)) for place, one in self._results.items()}
        self._results.clear()
        self.memory.clear()  # which holds tensors that nobody else has
        return found

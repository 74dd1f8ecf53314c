"""Programs between stops at sizes that vary: a section captured at some serves all.

A section is known by what its nodes keep, and by the gradients that wait for them. Passes that
differ in sizes alone share what was learned of each of their sections.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from pullback.compiled.backward.graph import geometry_of
from pullback.compiled.backward.resized import at_other_sizes
from pullback.compiled.backward.sizes import Passes, skeleton
from pullback.compiled.capture.capture import Captured
from pullback.compiled.counting import counters
from pullback.compiled.sizes.fit import NoFit
from pullback.core.node import AccumulateGrad

__all__ = ["SectionSizes", "part_of", "section_key"]


def section_key(section: Any, everything: list[Any], arrays: list[Any], waiting: Any) -> Any:
    """All that the program of a section depends on."""
    parts: list[Any] = []
    for here in section.nodes:
        node = everything[here]
        plan = type(node).plan
        parts.append(type(node))
        for name in (*plan.options, *plan.derived):
            value = getattr(node, f"s_{name}")
            parts.append((type(value), value))
    for here, slot in section.numbers:
        value = getattr(everything[here], slot)
        parts.append((type(value), value))
    parts += [geometry_of(everything[here]) for here in section.touched]
    parts += [(one.shape, one.strides, one.dtype) for one in section.arrays(arrays)]
    return (*parts, *waiting)


class SectionSizes:
    """What was captured of one section of passes that differ in sizes alone."""

    def __init__(self) -> None:
        self._passes = Passes()
        self._structures: dict[Any, Any] = {}  # where results go, which no size changes

    def find(self, backend: Any, key: Any, arrays: list[Any]) -> Any:
        """The capture at these sizes, what its code is shared with, where its results go."""
        found = self._passes.find(backend, key, arrays)
        return None if found is None else (*found, self._structures[skeleton(key)])

    def learn(self, backend: Any, captured: Captured, structure: Any) -> None:
        """Remember a capture, one of several that a family is made of."""
        if self._is_like(captured, structure):
            self._count(self._passes.note(backend, captured))

    def generalise(
        self,
        backend: Any,
        captured: Captured,
        structure: Any,
        part: SimpleNamespace,
        numbers: list[int],
        capture: Callable[[dict[int, Any]], Any],
    ) -> None:
        """Capture a section at sizes that it does not have.

        `part` has its arrays, which are inputs of these `numbers`, and its nodes.
        """
        if not self._is_like(captured, structure):
            return

        def join(others: list[Any], places: Any, _: Any) -> None:
            if any(one != structure for _, one in others):
                raise NoFit("gradients go elsewhere at other sizes")
            inputs = {name: (numbers[n], dim) for name, (n, dim) in places.items()}
            self._passes.join(backend, [captured, *[one for one, _ in others]], inputs)

        try:
            at_other_sizes(part, capture, join)  # type: ignore[arg-type]  # as a graph, in part
        except NoFit as reason:
            self._count(str(reason))

    def _is_like(self, captured: Captured, structure: Any) -> bool:
        bare = skeleton(captured.outputs[0].place)
        return bool(self._structures.setdefault(bare, structure) == structure)

    @staticmethod
    def _count(reason: str | None) -> None:
        if reason is not None:
            counters["sizes"][f"a part of a backward pass: {reason}"] += 1


def part_of(section: Any, everything: list[Any], arrays: list[Any], arrived: list[Any]) -> Any:
    """The arrays of a section and what waits for it, and the nodes that it touches."""
    touched = [everything[here] for here in section.touched]
    own = section.arrays(arrays)
    return SimpleNamespace(
        arrays=[*own, *arrived],
        tensors=[None] * (len(own) + len(arrived)),
        nodes=[one for one in touched if not isinstance(one, AccumulateGrad)],
        leaves=[one for one in touched if isinstance(one, AccumulateGrad)],
    )

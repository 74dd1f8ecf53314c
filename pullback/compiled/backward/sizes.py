"""Passes that differ in sizes alone: a few of them captured, every further size is derived.

The keys of such passes agree in all but numbers. What those numbers and the captured calls come to
is an expression of the sizes (sizes/family.py); three captures tell it, one more for each further
size that varies on its own. A later pass whose key is what the expressions say runs without a
capture, its machine code that of the others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy

from pullback.compiled.capture.capture import Captured, Input, Output
from pullback.compiled.llvm.template import Sharing, Templates
from pullback.compiled.sizes.family import Joined
from pullback.compiled.sizes.fit import NoFit

__all__ = ["Family", "Passes", "as_captured", "skeleton"]

_SMALLEST = 2  # sizes 0 and 1 choose other formulas
_MOST_SEEN = 5
_MOST_SKELETONS = 64


def skeleton(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key without its numbers, other than those that say how nodes hang together."""
    return tuple([_bare(part) for part in key])


def _bare(part: Any) -> Any:
    if part.__class__ is not tuple or not part:
        return part
    if isinstance(part[0], type):  # an option of a node, which may be a dtype
        return part[0], _blurred(part[1])
    if isinstance(part[-1], numpy.dtype):
        return len(part[0]), part[-1]
    return tuple([_bare(one) for one in part])


def _blurred(value: Any) -> Any:
    if value.__class__ in (int, float):
        return value.__class__
    if isinstance(value, tuple):
        return tuple([_blurred(one) for one in value])
    return value


class Family:
    """Captures of one skeleton joined: the pass at any sizes."""

    def __init__(
        self,
        seen: list[Captured],
        places: dict[str, tuple[int, int]],
        points: list[dict[str, Any]] | None = None,
    ) -> None:
        """`places` are numbers of inputs and dimensions; -1 and the number of one that is no size.

        `points` are what stands there, where shapes do not tell.
        """
        points = points or [
            {name: one.inputs[n].value.shape[dim] for name, (n, dim) in places.items()}
            for one in seen
        ]
        self.joined = Joined(seen, points)
        self.places = list(places.values())
        self.templates = Templates()

    def at(
        self, key: Any, arrays: list[Any], factors: Sequence[Any] = ()
    ) -> tuple[Captured, Sharing] | None:
        """The capture of a pass with this key; None where the expressions say another key."""
        sizes = self.sizes(arrays, factors)
        pairs = zip(sizes, self.places, strict=True)
        if any(number >= 0 and size < _SMALLEST for size, (number, _) in pairs):
            return None
        captured = self.joined.at(sizes, None)
        if captured.outputs[0].place != key:
            return None
        return captured, Sharing(self.templates, self.joined.moving(sizes))

    def sizes(self, arrays: list[Any], factors: Sequence[Any] = ()) -> list[Any]:
        """The sizes that vary, of a pass over these arrays, and the other numbers."""
        return [arrays[n].shape[dim] if n >= 0 else factors[dim] for n, dim in self.places]


class Passes:
    """What was captured, by skeleton, and the families made of it."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Any, list[Captured]] = OrderedDict()
        self._families: dict[Any, Family] = {}

    def clear(self) -> None:
        """Forget all."""
        self._seen.clear()
        self._families.clear()

    def find(self, backend: Any, key: Any, arrays: list[Any]) -> tuple[Captured, Sharing] | None:
        """The capture of a pass that differs in sizes alone from some that were captured."""
        family = self._families.get((backend, skeleton(key)))
        return None if family is None else family.at(key, arrays)

    def join(self, backend: Any, captures: list[Captured], places: Any) -> None:
        """Make a family of captures at sizes that were chosen; NoFit where that cannot be."""
        family = Family(captures, places)
        place, _ = self._entry(backend, captures[0])
        self._families[place] = family

    def _entry(self, backend: Any, captured: Captured) -> tuple[Any, list[Captured]]:
        """Where captures of a sort are kept, and those that are; the least used sorts go."""
        place = (backend, skeleton(captured.outputs[0].place))
        seen = self._seen.setdefault(place, [])
        self._seen.move_to_end(place)
        while len(self._seen) > _MOST_SKELETONS:
            self._families.pop(self._seen.popitem(last=False)[0], None)
        return place, seen

    def note(self, backend: Any, captured: Captured) -> str | None:
        """Remember a capture; says why a few of them cannot be joined."""
        place, seen = self._entry(backend, captured)
        seen.append(captured)
        del seen[:-_MOST_SEEN]
        varying = _varying(seen)
        if not varying or len(seen) < 2 + len(varying):
            return None
        try:
            self._families[place] = Family(seen, varying)
        except NoFit as error:
            return str(error)
        seen.clear()
        return None


def _varying(seen: list[Captured]) -> dict[str, tuple[int, int]]:
    """One place for each size that varies on its own: the tensor's number, the dimension."""
    found: dict[tuple[int, ...], tuple[int, int]] = {}
    # Not what a rule made: a later pass tells its sizes by its arrays alone.
    arrays = [[one for one in captured.inputs if one.kind == "argument"] for captured in seen]
    for number, inputs in enumerate(zip(*arrays, strict=False)):
        for dim, sizes in enumerate(zip(*[one.value.shape for one in inputs], strict=True)):
            if len(set(sizes)) > 1:
                found.setdefault(sizes, (number, dim))
    if any(min(sizes) < _SMALLEST for sizes in found):
        return {}
    return {f"s{n}": place for n, place in enumerate(found.values())}


def as_captured(
    values: list[Any], calls: list[Any], gradients: list[Any], constants: list[Any], key: Any
) -> Captured:
    """A captured pass in the form that families are made of; its key stands among the results."""
    inputs = [Input("argument", value, n) for n, value in enumerate(values)]
    inputs += [Input("constant", value, array) for value, array in constants]
    nothing: Any = None
    return Captured(
        calls=calls, forward=0, inputs=inputs, outputs=[Output("object", place=key)], tree=nothing,
        arguments=nothing, mode=nothing, world=nothing, gradients=gradients,
    )  # fmt: skip

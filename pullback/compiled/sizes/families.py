"""The families of one compiled function: when they are made, and which one serves a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pullback.compiled.backends import is_exact
from pullback.compiled.counting import counters
from pullback.compiled.runtime.entry import Entry
from pullback.compiled.runtime.guards import Guards
from pullback.compiled.sizes.moulds import writes_code
from pullback.compiled.sizes.places import NUMBER, Place, differing, is_number, marked, standing
from pullback.core.tensor import Tensor

if TYPE_CHECKING:
    from pullback.compiled.sizes.generalise import Family

__all__ = ["Families"]

_MOST_FAMILIES = 4
_MOST_MET = 1000


class Families:
    """Captures of a function for all sizes; `dynamic` as `compile` takes it.

    None: a size that was seen to change varies from then on. True: every size does from the first
    call on. False: never.
    """

    def __init__(self, function: Any, backend: Any, dynamic: bool | None,
                 note: Callable[[str], None], make: type[Entry] = Entry) -> None:  # fmt: skip
        self.function, self.backend, self.dynamic, self.note = function, backend, dynamic, note
        self._make = make
        self.found: list[Family] = []
        self._failed: set[Any] = set()
        self._met: set[Any] = set()  # sizes of calls that ran eagerly when they first came
        self.waits = False  # whether the last call that was asked about should

    def clear(self) -> None:
        """Forget them."""
        self.found.clear()
        self._failed.clear()
        self._met.clear()

    def entry(self, mode: Any, spec: Any, leaves: list[Any]) -> Entry | None:
        """The program of a family that fits a call."""
        for place, family in enumerate(self.found):
            sizes, reason = family.miss(mode, spec, leaves)
            if reason is None:
                if place:
                    self.found.insert(0, self.found.pop(place))
                return family.entry(sizes, leaves, self._sized)
            counters["misses"][reason] += 1
            self.note(reason)
        return None

    def _sized(self, captured: Any, leaves: list[Any], sharing: Any) -> Entry:
        return self._make(captured, leaves, self.backend, sharing)

    def grown(self, args: Any, kwargs: Any, mode: Any, spec: Any, leaves: list[Any],
              entries: list[Entry]) -> Entry | None:  # fmt: skip
        """A program of a new family, where sizes are all in which a call differs from another."""
        self.waits = False
        if self.dynamic is False:
            return None
        is_fixed = False
        # Programs of a device are made for one size each.
        bases: list[Any] = [*self.found, *(one for one in entries if one.library is None)]
        for base in bases:
            if getattr(base, "outside", ()):
                continue  # its guards leave out the numbers that it finds
            places, outside = _only_sizes(base.guards, mode, spec, leaves)
            # Other back ends write a program for each number, which would cost more than eager.
            has_numbers = bool(outside) or any(dim == NUMBER for _, dim in places)
            if not (places or outside) or (has_numbers and not writes_code(self.backend)):
                continue
            places |= getattr(base, "places", set())  # of a family
            family = self._made(args, kwargs, leaves, base, places, outside)
            if family is not None:
                sizes, reason = family.miss(mode, spec, leaves)
                return family.entry(sizes, leaves, self._sized) if reason is None else None
            is_fixed = True
        self.waits = is_fixed and self._is_new(leaves)
        return None

    def _is_new(self, leaves: list[Any]) -> bool:
        """Whether sizes that are fixed come for the first time, and may never come again.

        A loop over a size is captured anew for each, which takes longer than many eager calls.
        """
        sizes = tuple([
            one._array.shape if isinstance(one, Tensor)
            else one if one.__class__ in (int, float)
            else None
            for one in leaves
        ])  # fmt: skip
        is_new = sizes not in self._met
        if len(self._met) < _MOST_MET:
            self._met.add(sizes)
        return is_new

    def begin(self, args: Any, kwargs: Any, leaves: list[Any], base: Entry) -> None:
        """Make a family of a first call, where the user said that sizes vary."""
        if self.dynamic is False or base.library is not None:
            return
        places = marked(leaves, every=self.dynamic is True)
        if places:
            self._made(args, kwargs, leaves, base, places)

    def _made(
        self,
        args: Any,
        kwargs: Any,
        leaves: list[Any],
        base: Any,
        places: set[Place],
        outside: list[Any] | None = None,
    ) -> Family | None:
        outside = outside or []
        found_at = tuple([source.key for source, _, _ in outside])
        key = (tuple(map(_described, base.guards.leaves)), frozenset(places), found_at)
        if key in self._failed or len(self.found) >= _MOST_FAMILIES:
            return None
        # When a size first varies: most functions have none that does.
        from pullback.compiled.sizes.generalise import attempts, generalised

        groups: dict[int, set[Place]] = {}
        own = [place for place in places if place[0] < len(leaves)]
        for place in own:
            groups.setdefault(standing(leaves, place), set()).add(place)
        try:
            family = attempts(
                lambda some: generalised(
                    self.function,
                    args,
                    kwargs,
                    leaves,
                    base,
                    some,
                    outside,
                    exact=is_exact(self.backend),
                ),
                places,
                list(groups.values()),
            )
        except Exception as error:
            # At another size the function may raise whatever it likes: then its sizes are fixed.
            self._failed.add(key)
            reason = f"its sizes are fixed: {error}"
            counters["sizes"][reason] += 1
            self.note(reason)
            return None
        counters["compile"]["families"] += 1
        self.found.insert(0, family)
        return family


def _only_sizes(
    guards: Guards, mode: Any, spec: Any, leaves: list[Any]
) -> tuple[set[Place], list[Any]]:
    """The sizes that differ, and numbers that the function finds, where nothing else does."""
    nothing: tuple[set[Place], list[Any]] = (set(), [])
    if spec != guards.arguments:
        return nothing
    places = differing(guards, leaves)
    if places is None:
        return nothing
    wanted = list(guards.leaves)
    for number in {number for number, dim in places if dim == NUMBER}:
        wanted[number] = (None, leaves[number])
    for number in {number for number, dim in places if dim != NUMBER}:
        kind, dtype, _, _, *rest = wanted[number]
        leaf = leaves[number]
        if not isinstance(leaf, Tensor):
            return nothing
        wanted[number] = (kind, dtype, leaf._array.shape, leaf._array.strides, *rest)
    if guards.miss(mode, spec, leaves, wanted) is None:
        return places, []
    outside = guards.world.other_numbers(leaves)
    if not outside or not all(is_number(now, then) for _, then, now in outside):
        return nothing
    # All but those numbers must be as it was; whether it is, the family itself will say.
    reason = guards.miss(mode, spec, leaves, wanted)
    return (places, outside) if reason == guards.world.change(leaves) else nothing


def _described(wanted: Any) -> Any:
    return wanted[:3] if wanted[0] is not None else (type(wanted[1]), repr(wanted[1]))

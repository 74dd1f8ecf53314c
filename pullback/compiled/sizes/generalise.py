"""Makes a family of a captured call: which sizes vary, and the captures at other sizes.

A size is taken for one that varies when it was seen to (or was marked, or `dynamic=True`). The
function is then captured at two more sizes: at a small one, since a loop over a size that does the
same at a small and at a large one does the same at every larger one; and at a prime number that no
other size is, where every number remembers the sizes that it comes from (`sized.py`). Where the
function decides by sizes, both are chosen between those that were seen.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from pullback.compiled.capture.capture import Captured, capture
from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.interpreter.sources import Guards as WorldGuards
from pullback.compiled.llvm.template import Sharing, Templates
from pullback.compiled.runtime.entry import Entry
from pullback.compiled.runtime.guards import Guards
from pullback.compiled.sizes.family import Joined
from pullback.compiled.sizes.fit import NUMBERS, NoFit, evaluator
from pullback.compiled.sizes.moulds import Moulds
from pullback.compiled.sizes.places import NUMBER, SMALLEST, Place, is_number, is_word, standing
from pullback.compiled.sizes.sized import Ledger, Sized, SizedFloat
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_unflatten

__all__ = ["Family", "attempts", "generalised"]

_SMALL = 5  # where half of it, or all but a few, should be more than 1 as well
_MOST_PROGRAMS = 32
_MOST_SHAPED = 4096  # sizes of which it is known what operators make of them
_SHARES = (0.1458980337503154, 0.6180339887498949, 0.3819660112501051)  # of an interval
_PRIMES = (11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)


class Family:
    """A capture for all sizes, and the programs made for those that came."""

    def __init__(self, joined: Joined, guards: Guards, symbols: dict[str, list[Place]],
                 decisions: dict[str, bool], least: tuple[Any, ...],
                 outside: list[Any]) -> None:  # fmt: skip
        """`outside`: where numbers stand that vary and are no arguments, and what they were."""
        self.joined, self.guards, self.symbols = joined, guards, symbols
        self.outside = outside
        # As if they were arguments, after all others.
        self.known = [*guards.leaves, *((None, then) for _, then in outside)]
        self.found = WorldGuards.fetching([source for source, _ in outside]) if outside else None
        self.decisions, self.least = decisions, least
        self._decide = evaluator(joined.names, [f"({text})" for text in decisions])
        self._outcomes = tuple(decisions.values())
        made = [text for text in joined.texts if NUMBERS in text]  # of numbers, not of sizes
        self._made_of_numbers = evaluator(joined.names, made)
        self._shaped: dict[tuple[int, ...], bool] = {}
        self.templates = Templates()  # object code that the programs of all sizes share
        self.moulds = Moulds(self)
        self.entries: OrderedDict[tuple[int, ...], Entry] = OrderedDict()
        self._numbers = {n for n, name in enumerate(symbols) if name.startswith(NUMBERS)}
        self._twins: OrderedDict[tuple[int, ...], Entry] = OrderedDict()

    @property
    def places(self) -> set[Place]:
        """The sizes that vary."""
        count = len(self.guards.leaves)
        return {place for places in self.symbols.values() for place in places if place[0] < count}

    def miss(self, mode: Any, spec: Any, leaves: list[Any]) -> tuple[tuple[int, ...], str | None]:
        """The sizes of a call, and why the family does not fit it; None if it does."""
        guards = self.guards
        if spec != guards.arguments:
            return (), "the structure of the arguments differs"
        sizes = []
        every = leaves
        if self.found is not None:
            try:
                every = [*leaves, *self.found(leaves)]
            except Exception:  # something on the way to a number is gone
                return (), "a number that the function found is gone"
        for places in self.symbols.values():
            number, dim = places[0]
            leaf = every[number]
            if dim == NUMBER:
                if not is_number(leaf, self.known[number][1]):
                    return (), f"argument {number}: {leaf!r} is no number like the ones before"
                sizes.append(leaf)
                continue
            rank = len(guards.leaves[number][2])
            if not isinstance(leaf, Tensor) or leaf._array.ndim != rank:
                return (), f"argument {number}: another number of dimensions"
            size = leaf._array.shape[dim]
            if type(size) is not int:
                return (), f"argument {number}: components of different sizes"
            sizes.append(size)
        if any(size < least for size, least in zip(sizes, self.least, strict=True)):
            return (), f"sizes {tuple(sizes)}; the program for all sizes begins at {self.least}"
        now = tuple(sizes)
        reason = guards.miss(mode, spec, leaves, self._wanted(now))
        if reason is None and not all(map(is_word, self._made_of_numbers(*now))):
            return now, "a whole number of more than 64 bits"
        if reason is None and self._decide(*now) != self._outcomes:
            found = zip(self.decisions, self._outcomes, self._decide(*now), strict=True)
            text = next(text for text, wanted, got in found if wanted is not got)
            reason = f"the function decides by a size: {text} is {not self.decisions[text]} now"
        if reason is None and not self._has_its_shapes(now):
            reason = "an operator rounds a size to another one"
        return now, reason

    def fits(self, *sizes: Any) -> bool:
        """Whether sizes are large enough, and decide as those that were captured."""
        pairs = zip(sizes, self.least, strict=True)
        if not all(size >= least and size != 0 for size, least in pairs):
            return False
        if not all(map(is_word, self._made_of_numbers(*sizes))):
            return False
        return self._decide(*sizes) == self._outcomes and self._has_its_shapes(sizes)

    def _has_its_shapes(self, sizes: tuple[Any, ...]) -> bool:
        """Whether operators that round sizes do there as they did, asked once of each size."""
        key = tuple([one for n, one in enumerate(sizes) if n not in self._numbers])
        known = self._shaped.get(key)
        if known is None:
            if len(self._shaped) > _MOST_SHAPED:
                self._shaped.clear()
            known = self._shaped[key] = self.joined.has_its_shapes(sizes)
        return known

    def _with_numbers(self, sizes: tuple[Any, ...]) -> Entry | None:
        """The entry of the same sizes, with other numbers; None where there is none."""
        other = next(
            (
                one
                for key, one in reversed(self.entries.items())
                if all(a == b for n, (a, b) in enumerate(zip(key, sizes, strict=True))
                       if n not in self._numbers)
            ),
            None,
        )  # fmt: skip
        if other is None or any(one.kind == "view" for one in other.captured.outputs):
            return None
        captured = self.joined.with_numbers(other.captured, sizes)
        sharing = Sharing(self.templates, self.joined.moving(sizes), self, sizes)
        made = self.entries[sizes] = other.twin(captured, other.backend, sharing)
        if len(self.entries) > _MOST_PROGRAMS:
            self.entries.popitem(last=False)
        return made

    def twin(self, entry: Entry, sizes: tuple[Any, ...]) -> Entry:
        """An entry for sizes that runs backward passes; guards are those of another one."""
        known = self.entries.get(sizes) or self._twins.get(sizes)
        if known is None:
            captured = self.joined.at(sizes, self.guards.world)
            sharing = Sharing(self.templates, self.joined.moving(sizes), self, sizes)
            known = self._twins[sizes] = entry.twin(captured, entry.backend, sharing)
            if len(self._twins) > _MOST_PROGRAMS:
                self._twins.popitem(last=False)
        return known

    def _wanted(self, sizes: tuple[int, ...]) -> list[Any]:
        wanted = list(self.guards.leaves)
        for size, places in zip(sizes, self.symbols.values(), strict=True):
            for number, dim in places:
                if dim == NUMBER:
                    if number < len(wanted):
                        wanted[number] = (None, size)
                    continue
                kind, dtype, shape, strides, *rest = wanted[number]
                changed = (*shape[:dim], size, *shape[dim + 1 :])
                wanted[number] = (kind, dtype, changed, strides, *rest)
        for number in {n for places in self.symbols.values() for n, dim in places if dim != NUMBER}:
            kind, dtype, shape, strides, *rest = wanted[number]
            made = restrided(self.guards.leaves[number][2], strides, shape, dtype.itemsize)
            wanted[number] = (kind, dtype, shape, made, *rest)
        return wanted

    def entry(self, sizes: tuple[int, ...], leaves: list[Any], make: Callable[..., Entry]) -> Entry:
        """The program for these sizes; the least used ones are forgotten.

        `make` makes an entry of a capture, the arguments and what programs of a family share.
        """
        known = self.entries.get(sizes)
        if known is None and self._numbers and self.joined.keeps_values:
            known = self._with_numbers(sizes)
        if known is None:
            captured = self.joined.at(sizes, self.guards.world)
            sharing = Sharing(self.templates, self.joined.moving(sizes), self, sizes)
            known = self.entries[sizes] = make(captured, leaves, sharing)
            if len(self.entries) > _MOST_PROGRAMS:
                self.entries.popitem(last=False)
        else:
            self.entries.move_to_end(sizes)
        return known


def restrided(
    before: tuple[int, ...], strides: tuple[int, ...], shape: tuple[int, ...], itemsize: int
) -> tuple[int, ...]:
    """Strides of an array without gaps in another size, its dimensions in the same order."""
    order = sorted(range(len(shape)), key=lambda dim: (-strides[dim], dim))
    made, step, known = [0] * len(shape), itemsize, itemsize
    for dim in reversed(order):
        if strides[dim] != known and before[dim] != 1:
            raise NoFit("an argument whose memory has gaps")
        made[dim] = step
        step *= shape[dim]
        known *= before[dim]
    return tuple(made)


def generalised(
    function: Any,
    args: Any,
    kwargs: Any,
    leaves: list[Any],
    base: Any,
    places: set[Place],
    outside: list[Any],
    *,
    exact: bool = False,
) -> Family:
    """A family of a call whose sizes at `places` vary; NoFit or CannotCapture says why not.

    `base` is an entry or family that was made before; `exact` as `capture` takes it. `outside` are
    numbers that the function finds and that vary: where, what they were, and are.
    """
    guards: Guards = base.guards
    count = len(leaves)
    leaves = [*leaves, *(now for _, _, now in outside)]
    before = [*guards.leaves, *((None, then) for _, then, _ in outside)]
    places = places | {(count + n, NUMBER) for n in range(len(outside))}
    for number, wanted in enumerate(before):
        fixed = wanted[0] is None and (number, NUMBER) not in places
        if fixed and is_number(leaves[number], wanted[1]) and leaves[number] != wanted[1]:
            raise NoFit("another number that varies too")  # it would be taken for the earlier one
    groups: dict[Any, list[Place]] = {}
    for number, dim in sorted(places):
        now, wanted = standing(leaves, (number, dim)), before[number]
        then = wanted[1] if dim == NUMBER else wanted[2][dim]
        groups.setdefault((now, then, dim == NUMBER), []).append((number, dim))
    symbols = {
        f"{NUMBERS if is_number else 's'}{n}": found
        for n, ((_, _, is_number), found) in enumerate(groups.items())
    }

    def at(point: dict[str, int], ledger: Ledger | None = None) -> Captured:
        shapes = _shapes(before, symbols, point, leaves)
        given = args, kwargs
        numbers: dict[Any, Any] = {}
        if any(name.startswith(NUMBERS) for name in symbols):
            every = _leaves(leaves, symbols, point, ledger)
            given = tree_unflatten(every[:count], guards.arguments)
            numbers = {
                source.key: one for (source, _, _), one in zip(outside, every[count:], strict=True)
            }
        return capture(function, *given, shapes, ledger, exact=exact, numbers=numbers)

    now, then, _ = (dict(zip(symbols, sizes, strict=True)) for sizes in zip(*groups, strict=True))
    first = base.captured if isinstance(base, Entry) else at(then)
    seen = [(then, first)] if now == then else [(then, first), (now, at(now))]
    if outside:  # the guards of a capture in which those numbers may be others
        guards = copy(guards)
        guards.world = seen[-1][1].world
    found_at = [(source, then) for source, then, _ in outside]
    for least in (SMALLEST, _SMALL):
        small, prime, further = _wide_points(guards, symbols, least, seen)
        try:
            joined, decisions = _joined(at, [*seen, (small, at(small))], prime, further)
        except (NoFit, CannotCapture):
            continue
        smallest = [
            -math.inf if now[one].__class__ is float else min(small[one], now[one], then[one])
            for one in symbols
        ]
        return Family(joined, guards, symbols, decisions, tuple(smallest), found_at)
    small, prime, further = _near_points(now, then)
    joined, decisions = _joined(at, seen, prime, further)
    lowest = [-math.inf if one.__class__ is float else one for one in small.values()]
    return Family(joined, guards, symbols, decisions, tuple(lowest), found_at)


def _leaves(leaves: list[Any], symbols: Any, point: dict[str, Any], ledger: Any) -> list[Any]:
    """The arguments with other numbers in them, which remember what they are for a ledger."""
    made = list(leaves)
    for name, places in symbols.items():
        value = point[name]
        if ledger is not None:
            ledger.computed[name] = value
            value = (SizedFloat if value.__class__ is float else Sized)(value, name, ledger)
        for number, dim in places:
            if dim == NUMBER:
                made[number] = value
    return made


def _joined(
    at: Any, known: list[Any], prime: dict[str, int], further: dict[str, int] | None
) -> tuple[Joined, dict[str, bool]]:
    """Captures joined, with one more in which sizes remember what they are.

    Where a size is divided and rounded, many expressions are the same at few points: then at a
    `further` one too.
    """
    draft = Joined([one for _, one in known], [point for point, _ in known], draft=True)
    texts = draft.sizes_of_values()
    points = [*(point for point, _ in known), prime]
    while True:
        ledger = Ledger(texts)
        last = at(prime, ledger)
        ledger.is_open = False
        joined = Joined([*(one for _, one in known), last], points, certain=True,
                        computed=ledger.computed)  # fmt: skip
        if joined.fit.rounds and further is not None:
            return _joined(at, [*known, (further, at(further))], prime, None)
        if joined.sizes_of_values() == texts:
            noted = {**_roundings(ledger, joined), **_agreed(ledger.compared, joined)}
            return joined, {**ledger.decisions, **noted, **joined.conditions}
        texts = joined.sizes_of_values()  # two sizes seemed to depend on each other, and do not


def _roundings(ledger: Ledger, joined: Joined) -> dict[str, bool]:
    """Decisions that what was rounded is what it seemed to be at the points.

    It may be a constant at all of them, or another expression, as `n % 64` is `n` below 64; and
    programs may have that.
    """
    rounded = ledger.rounded
    if not rounded:
        return {}
    points = joined.fit.points
    decide = evaluator(list(points[0]), [f"({text})" for text in ledger.decisions])
    # Of those that decide alike: others may have what they have by chance.
    alike = [decide(**one) == tuple(ledger.decisions.values()) for one in points]
    values = evaluator(list(points[0]), list(rounded))
    try:
        made = list(zip(*[values(**point) for point in points], strict=True))
    except ArithmeticError as error:
        raise NoFit("a size is divided by what is 0 at another one") from error
    found: dict[str, bool] = {}
    for text, numbers in zip(rounded, made, strict=True):
        seeming: str | None = repr(numbers[-1])
        if len(set(numbers)) > 1:
            try:
                seeming = joined.fit.text(numbers)
            except NoFit:
                some = {one for one, is_so in zip(numbers, alike, strict=True) if is_so}
                if len(some) > 1:
                    seeming = None  # then no program has it under another expression
        if seeming is not None and seeming != text:
            found[f"{text} == {seeming}"] = True
    return found


def _agreed(compared: dict[str, bool], joined: Joined) -> dict[str, bool]:
    """Comparisons of the library that came out alike at all points.

    Those that did not made no difference, since the captures are alike.
    """
    points = joined.fit.points
    values = evaluator(list(points[0]), [f"({text})" for text in compared])
    made = zip(*[values(**point) for point in points], strict=True)
    pairs = zip(compared.items(), made, strict=True)
    return {text: wanted for (text, wanted), found in pairs if set(found) == {wanted}}


def _wide_points(
    guards: Guards, symbols: Any, least: int, seen: list[Any]
) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Small sizes; prime ones that no other size is, far from one another; and even ones."""
    taken = {n for wanted in guards.leaves if wanted[0] is not None for n in wanted[2]}
    free = [prime for prime in _PRIMES if prime not in taken]
    many = len(symbols)
    if len(free) < 2 * many:
        raise NoFit(f"{many} sizes vary, which are too many")
    chosen = free[:: len(free) // (2 * many)]
    primes = dict(zip(symbols, chosen, strict=False))
    further = dict(zip(symbols, [2 * one for one in chosen[many : 2 * many]], strict=True))
    found = _small_points(symbols, least, seen), primes, further
    for point, share in zip(found, _SHARES, strict=True):
        point.update(_between_reals(seen, share))
    return found


def _between_reals(seen: list[Any], share: float) -> dict[str, float]:
    """Real numbers between those that were seen, so that what is decided is decided alike."""
    (then, _), *more = seen
    now = more[0][0] if more else then
    return {
        name: one + (now[name] - one) * share for name, one in then.items()
        if one.__class__ is float
    }  # fmt: skip


def _small_points(symbols: Any, least: int, seen: list[Any]) -> dict[str, int]:
    """Small sizes that differ, even where none was: or nobody could tell how halves are rounded."""
    small: dict[str, int] = {}
    for name in symbols:
        all_odd = all(point[name] % 2 for point, _ in seen)
        wanted = range(least, least + 2 * len(symbols) + 2)
        small[name] = next(n for n in wanted if n not in small.values() and not (all_odd and n % 2))
    return small


def _near_points(now: Any, then: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The smaller of the sizes seen, and twice sizes between them."""
    least = {name: min(now[name], then[name]) for name in now}
    between = {name: _between(now[name], then[name]) for name in now if now[name].__class__ is int}
    first: dict[str, Any]
    second: dict[str, Any]
    first, second = ({name: found[n] for name, found in between.items()} for n in (0, 1))
    seen = [(then, None), (now, None)]
    return (
        least,
        first | _between_reals(seen, _SHARES[1]),
        second | _between_reals(seen, _SHARES[2]),
    )


def _between(a: int, b: int) -> list[int]:
    """Sizes near two others that leave other rests, so that halves and thirds are told apart."""
    low, high = min(a, b), max(a, b)
    sizes = sorted(range(low + 1, high + 13), key=lambda n: abs(2 * n - low - high))
    return [n for n in sizes if n not in (a, b) and n % 2 != a % 2 and n % 3 != a % 3]


def _shapes(
    before: Any, symbols: dict[str, list[Place]], point: dict[str, int], leaves: list[Any]
) -> dict[int, Any]:
    """Shape and strides of the arguments at other sizes.

    Sizes that do not vary in the family are those that its guards know, not those of the call.
    """
    shapes: dict[int, list[int]] = {
        number: list(wanted[2])
        for number, (wanted, leaf) in enumerate(zip(before, leaves, strict=True))
        if wanted[0] is not None and leaf._array.shape != wanted[2]
    }
    for name, places in symbols.items():
        for number, dim in places:
            if dim == NUMBER:
                continue
            shapes.setdefault(number, list(before[number][2]))[dim] = point[name]
    made = {}
    for number, shape in shapes.items():
        _, dtype, old, strides, *_ = before[number]
        if tuple(shape) == old:
            made[number] = (old, strides)
            continue
        made[number] = (tuple(shape), restrided(old, strides, tuple(shape), dtype.itemsize))
    return made


def attempts(
    make: Callable[[set[Place]], Family], places: set[Place], groups: Sequence[set[Place]]
) -> Family:
    """The family in which most sizes vary: all of them, else those that can alone."""
    try:
        return make(places)
    except (NoFit, CannotCapture, RuntimeError, ValueError, IndexError, TypeError):
        if len(groups) < 2:
            raise
    able: set[Place] = set()
    for group in groups:
        try:
            make(group)
        except (NoFit, CannotCapture, RuntimeError, ValueError, IndexError, TypeError):
            continue
        able |= group
    if not able:
        raise NoFit("none of the sizes that should vary can")
    return make(able)

"""Sizes that vary in an exported program: what the module decides by them, and the joined graph.

What the module decides is found as `torch.compile` finds it: its bytecode is run with sizes that
remember what they are. The graph is traced at several sizes, and joined.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice, product
from types import SimpleNamespace
from typing import Any

import pullback
from pullback.compiled.capture.capture import capture
from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.runtime.guards import Guards
from pullback.compiled.sizes.fit import NoFit
from pullback.compiled.sizes.generalise import generalised
from pullback.core.tensor import Tensor
from pullback.core.trees import pytree
from pullback.fx.experimental._symbols import join, numbers_and_frame, points
from pullback.fx.experimental.proxy_tensor import same_held, tensors_held
from pullback.fx.graph import Graph

from ._conditions import Condition
from .dynamic_shapes import UNBOUNDED, Varying

__all__ = ["Sizes", "Symbol", "joined", "settled"]

_REFUSALS = (CannotCapture, NoFit, RuntimeError, ValueError, LookupError, TypeError, AssertionError)
_MOST_TRIED = 4096
_MOST_POINTS = 64


@dataclass
class Symbol:
    """A size that varies: what it was, between what it may be, where it stands."""

    name: str
    given: int
    least: int
    most: int
    places: list[tuple[int, int]]


@dataclass
class Sizes:
    """All sizes of a program that vary, and what it decided by them."""

    symbols: dict[str, Symbol] = field(default_factory=dict)
    conditions: list[Condition] = field(default_factory=list)

    def broken(self, sizes: dict[str, int]) -> str | None:
        """Which condition does not hold at these sizes; None where all do."""
        for name, symbol in self.symbols.items():
            if not symbol.least <= sizes[name] <= symbol.most:
                most = "" if symbol.most == UNBOUNDED else f" <= {symbol.most}"
                return f"{symbol.least} <= {name}{most}, which is {sizes[name]}"
        failed = (str(one) for one in self.conditions if not one.holds(sizes))
        return next(failed, None)


def settled(
    mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any],
    wanted: list[Varying],
) -> Sizes:  # fmt: skip
    """The sizes that vary; raises where one that must cannot."""
    chosen = list(wanted)
    while chosen:
        try:
            return _Asking(mod, args, kwargs, leaves, chosen).sizes()
        except _REFUSALS as error:
            free = [one for one in chosen if not one.demanded]
            if not free:
                names = ", ".join(one.name for one in chosen)
                raise ValueError(
                    f"export: the module does not let the sizes {names} vary: {error}"
                ) from error
            chosen.remove(free[-1])
    return Sizes()


class _Asking:
    """Finds what a module decides by sizes."""

    def __init__(
        self, mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any],
        wanted: list[Varying],
    ) -> None:  # fmt: skip
        self.mod, self.wanted, self.leaves = mod, wanted, leaves
        self.spec = pytree.tree_flatten((args, kwargs))[1]
        self.given = {one.name: self._size(one) for one in wanted}

    def _size(self, one: Varying) -> int:
        sizes = {self.leaves[number].shape[dim] for number, dim in one.places}
        if len(sizes) > 1:
            raise ValueError(f"{one.name} is one size, and the examples have {sorted(sizes)}")
        return int(sizes.pop())

    def sizes(self) -> Sizes:
        """The sizes, with conditions that hold for the example."""
        now = self._apart(lambda one: max(self.given[one.name], 2))
        low = self._apart(lambda one: max(one.least, 2) if one.least > 2 else now[one.name])
        args, kwargs = self._arguments(now)
        base_args, base_kwargs = self._arguments(low)
        flat_low = pytree.tree_flatten((base_args, base_kwargs))[0]
        captured = capture(self.mod, base_args, base_kwargs)
        base = SimpleNamespace(guards=Guards(captured, flat_low))
        places = {place for one in self.wanted for place in one.places}
        flat = pytree.tree_flatten((args, kwargs))[0]
        family = generalised(self.mod, args, kwargs, flat, base, places, [])
        names: dict[str, str] = {}
        for short, found in family.symbols.items():
            names[short] = next(one.name for one in self.wanted if found[0] in one.places)
        made = Sizes()
        for (short, name), least in zip(names.items(), family.least, strict=True):
            one = next(one for one in self.wanted if one.name == name)
            lowest = max(one.least, int(least))
            if one.least > 2 and lowest > one.least:
                raise ValueError(f"{name} is at least {one.least}, and it works from {lowest} on")
            made.symbols[short] = Symbol(
                short, self.given[name], lowest, one.most, list(one.places)
            )
        known = set(made.symbols)
        made.conditions = [
            Condition(text, outcome, known) for text, outcome in family.decisions.items()
        ]
        self._check(made, names)
        return made

    def _apart(self, wish: Any) -> dict[str, int]:
        """A size for each, all different, so that nobody takes one for another."""
        found: dict[str, int] = {}
        for one in self.wanted:
            size = wish(one)
            while size in found.values():
                size += 1
            if size > one.most:
                size = next(n for n in range(one.most, 1, -1) if n not in found.values())
            found[one.name] = size
        return found

    def _arguments(self, sizes: dict[str, int]) -> Any:
        leaves = list(self.leaves)
        for number, leaf in enumerate(leaves):
            if not isinstance(leaf, Tensor):
                continue
            shape = list(leaf.shape)
            for one in self.wanted:
                for at, dim in one.places:
                    if at == number:
                        shape[dim] = sizes[one.name]
            if shape != list(leaf.shape):
                made = pullback.zeros(shape, dtype=leaf.dtype, device=leaf.device)
                leaves[number] = made.requires_grad_(leaf.requires_grad)
        return pytree.tree_unflatten(leaves, self.spec)

    def _check(self, made: Sizes, names: dict[str, str]) -> None:
        given = {short: self.given[name] for short, name in names.items()}
        broken = made.broken(given)
        if broken is not None:
            raise ValueError(f"the example does not fit what it decides: {broken}")
        demanded = {one.name for one in self.wanted if one.demanded}
        bounded = [
            one for short, one in made.symbols.items()
            if names[short] in demanded and one.most < UNBOUNDED
        ]  # fmt: skip
        if len(bounded) < len(made.symbols):
            return
        ranges = [range(one.least, one.most + 1) for one in bounded]
        for sizes in islice(product(*ranges), _MOST_TRIED):
            at = dict(zip(made.symbols, sizes, strict=True))
            broken = made.broken(at)
            if broken is not None:
                shown = ", ".join(f"{names[short]}={size}" for short, size in at.items())
                raise ValueError(f"it decides otherwise at {shown}: {broken} does not hold")


def joined(trace: Any, values: list[Any], sizes: Sizes, held: int) -> tuple[Any, Graph]:
    """The graph of a function for all its sizes; the first `held` values are not the caller's."""
    root, graph = trace.without_data(values)
    if not sizes.symbols:
        return root, graph
    given = {name: one.given for name, one in sizes.symbols.items()}
    places = {
        name: [(number + held, dim) for number, dim in one.places]
        for name, one in sizes.symbols.items()
    }
    numbers, frame = numbers_and_frame(graph)
    constants = tensors_held(root, graph)
    found = [(dict(given), numbers)]
    needed, more = _points(sizes)
    for point in [*needed, *more]:
        at = {place: point[name] for name in point for place in places[name]}
        other = trace.without_data(values, at)
        others, other_frame = numbers_and_frame(other[1])
        if other_frame != frame:
            raise RuntimeError(f"export: other operators are called at the sizes {point}.")
        if not same_held(constants, tensors_held(*other)):
            raise RuntimeError(f"export: it makes other constants at the sizes {point}.")
        found.append((point, others))
    join(graph, places, found, len(needed))
    return root, graph


def _points(sizes: Sizes) -> tuple[list[dict[str, int]], list[dict[str, int]]]:
    """Sizes to trace at that fit the conditions: multiples of the example's first, then others."""
    given = {name: one.given for name, one in sizes.symbols.items()}
    wanted, others = points(given)
    needed = [one for one in wanted if sizes.broken(one) is None]
    more = [one for one in others if sizes.broken(one) is None]
    if len(needed) == len(wanted) and more:
        return needed, more
    ranges = []
    for one in sizes.symbols.values():
        most = min(one.most, one.least + 64 * one.given)
        multiples = [n for n in range(one.given, most + 1, one.given) if n >= one.least]
        rest = [n for n in range(one.least, min(most, one.least + 32) + 1) if n % one.given]
        ranges.append((multiples, rest))
    inside = _spread([multiples for multiples, _ in ranges], sizes, len(wanted))
    other = _spread([rest or multiples for multiples, rest in ranges], sizes, 4)
    return [one for one in inside if one != given], other


def _spread(lists: list[list[int]], sizes: Sizes, count: int) -> list[dict[str, int]]:
    """Points from lists of sizes, each dimension going at a pace of its own."""
    found: list[dict[str, int]] = []
    for step in range(_MOST_POINTS):
        at = {
            name: one[(step * (2 * k + 1) + k) % len(one)]
            for k, (name, one) in enumerate(zip(sizes.symbols, lists, strict=True))
        }
        if at not in found and sizes.broken(at) is None:
            found.append(at)
        if len(found) == count:
            break
    return found

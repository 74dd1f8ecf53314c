"""What backward reads of the forward, in a program of both: kept by a minimum cut.

Values of the array language are in loops, so to make one again costs no memory traffic where it
comes elementwise from one array that is there anyway: `gelu` of a product, what a norm subtracts.
Of those and their source the cut keeps the fewest bytes; the others are made again by the loops
that read them. Products, reductions and whatever is made of two arrays are kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.symbols import sample
from pullback.compiled.ir.values import EW, LIBM, REDUCTIONS, Val, live_values
from pullback.compiled.partition.network import Network

__all__ = ["recompute"]

_FREE = frozenset({"const", "input", "iota"})
_KEPT = frozenset({"take", *LIBM})  # elementwise, and yet not made again
_SMALL = 1 << 20  # bytes that backward reads, which stay in the cache


def recompute(builder: Builder, outputs: list[Val], boundary: int) -> None:
    """Let values from the number `boundary` on make again what costs them nothing."""
    values = live_values(builder.values, [*outputs, *_calls(builder)])
    ahead = [v for v in values if v.id < boundary and not v.is_view and v.op not in _FREE]
    behind = [v for v in values if v.id >= boundary and not v.is_view]
    again = _again(builder, ahead, behind, {one.base.id for one in outputs})
    if again:
        _Copies(builder, again, boundary).make()


def _calls(builder: Builder) -> list[Val]:
    return [v for v in builder.values if v.op == "call"]


def _bytes(v: Val) -> int:
    return int(sample(v.size)) * v.itemsize


def _again(builder: Builder, ahead: list[Val], behind: list[Val], wanted: set[int]) -> set[int]:
    """Values of the forward that are not kept."""
    roots: dict[int, Val | None] = {}  # of one that can be made again: the array that it comes from
    for v in ahead:
        roots[v.id] = _root(builder, v, roots)
    read: dict[int, Val] = {}
    for v in behind:
        for one in v.ins:
            base = builder.strip(one).base
            if base.id not in roots:
                continue
            read[base.id] = base
            # A step that is no loop wants it in memory, and so does whoever sees it as a view.
            if (v.op not in EW and v.op not in REDUCTIONS) or builder.strip(one).is_view:
                roots[base.id] = None
    if sum(map(_bytes, read.values())) < _SMALL:
        return set()
    network = Network()
    source, sink = network.node(), network.node()
    ways: dict[int, tuple[int, int]] = {}
    for place, v in enumerate(ahead):
        ways[v.id] = begin, end = network.node(), network.node()
        # Of two that cost the same, the later one: less is made again.
        network.edge(begin, end, 0 if v.id in wanted else _bytes(v) + 1 - place / len(ahead) / 2)
        if roots[v.id] is None:
            network.edge(source, begin)
            continue
        for one in v.ins:
            base = builder.strip(one).base
            if base.op not in _FREE:  # which are there in any case
                network.edge(ways[base.id][1], begin)
    for number in read:
        network.edge(ways[number][1], sink)
    near = network.near(source, sink)
    if near is None:
        return set()
    # What lies between the cut and its readers.
    found: set[int] = set()
    stack = list(read.values())
    while stack:
        v = stack.pop()
        begin, end = ways[v.id]
        if v.id in found or begin in near:  # kept, or before what is kept
            continue
        found.add(v.id)
        stack += [one for one in (builder.strip(i).base for i in v.ins) if one.op not in _FREE]
    return found


def _root(builder: Builder, v: Val, roots: dict[int, Val | None]) -> Val | None:
    """The one large array that a value comes from, elementwise; None where it must be kept."""
    if v.op not in EW or v.op in _KEPT:
        return None
    found: Val | None = None
    for one in v.ins:
        shown = builder.strip(one)
        if shown.base.op == "const" or shown.size < v.size:
            continue  # a number, or one for each row or column
        if shown.is_view or shown.op == "iota":
            return None
        root = roots.get(shown.id) or shown
        if found is not None and root is not found:
            return None
        found = root
    return found


class _Copies:
    """Writes the values again, in front of their first readers."""

    def __init__(self, builder: Builder, again: set[int], boundary: int) -> None:
        self.builder, self.again, self.boundary = builder, again, boundary
        self.by_id = {v.id: v for v in builder.values}
        self.copies: dict[int, Val] = {}
        self.listed: list[Val] = []

    def make(self) -> None:
        """Put them among the builder's values, and number those anew."""
        for v in self.builder.values:
            if v.id >= self.boundary:
                v.ins = tuple([self._instead(one) for one in v.ins])
                if v.is_view:
                    v.base = v.ins[0].base
            self.listed.append(v)
        for number, v in enumerate(self.listed):
            v.id = number
        self.builder.values = self.listed

    def _instead(self, one: Val) -> Val:
        """A value as the backward reads it."""
        if one.id >= self.boundary or one.base.id not in self.again:
            return one
        stack = [one]
        while stack:
            v = stack[-1]
            waiting = [i for i in self._read(v) if i.id not in self.copies]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if v.id not in self.copies:
                self.copies[v.id] = self._copied(v)
        return self.copies[one.id]

    def _read(self, v: Val) -> Iterable[Val]:
        return [i for i in v.ins if i.base.id in self.again]

    def _copied(self, v: Val) -> Val:
        made = Val()
        for name in ("id", "op", "attr", "shape", "dtype", "origin", "off", "strides"):
            setattr(made, name, getattr(v, name))
        made.ins = tuple([self.copies.get(i.id, i) for i in v.ins])
        made.base = made.ins[0].base if v.is_view else made
        self.listed.append(made)
        return made

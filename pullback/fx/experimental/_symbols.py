"""`make_fx(tracing_mode="symbolic")`: graphs of a function at several sizes, joined into one.

A function is traced at the sizes given and at others, without data. Where the graphs have the same
operators, a number in which they differ is an expression of the sizes, found by solving for its
coefficients; the joined graph computes it from `aten.sym_size` of the arguments. A size that the
function loops over, or decides by so that the graphs differ, stays the number it is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from math import lcm, prod
from typing import Any

import pullback
from pullback.core.trees import pytree
from pullback.fx.graph import Graph
from pullback.fx.node import Node

__all__ = ["Place", "join", "numbers_and_frame", "points", "symbols_of"]

Place = tuple[int, int]  # number of the argument among the leaves, dimension
Point = dict[str, int]  # what each symbol is in one trace

_FAR = (97, 1009, 20011)  # without data: nothing as large is made
_PRIMES = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89)


def symbols_of(shapes: Sequence[tuple[int, ...] | None]) -> dict[str, list[Place]]:
    """A symbol for each size above 1; equal sizes are one symbol, as torch takes them."""
    named: dict[int, str] = {}
    places: dict[str, list[Place]] = {}
    for number, shape in enumerate(shapes):
        for dim, size in enumerate(shape or ()):
            if size > 1:
                name = named.setdefault(size, f"s{len(named)}")
                places.setdefault(name, []).append((number, dim))
    return places


def points(given: Point) -> tuple[list[Point], list[Point]]:
    """Sizes to trace at: multiples, which divide as the given ones do; and some that need not.

    The last ones are far away: what is rounded (`n // 1000`) may be a constant at all others.
    """
    count = len(_monomials(list(given))) + 1
    needed: list[Point] = []
    for at in range(count):
        step = 1 + at // len(_PRIMES)
        needed.append(
            {
                name: size * _PRIMES[(at * (2 * k + 1) + k) % len(_PRIMES)] * step
                for k, (name, size) in enumerate(given.items())
            }
        )
    return needed, [
        {name: size * 3 + 1 + k for k, (name, size) in enumerate(given.items())},
        {name: size * 5 + 2 + 3 * k for k, (name, size) in enumerate(given.items())},
        *[
            {name: size * far + 7 + 4 * k for k, (name, size) in enumerate(given.items())}
            for far in _FAR
        ],
    ]


def numbers_and_frame(graph: Graph) -> tuple[list[Any], list[Any]]:
    """The numbers among a graph's arguments, and all that is beside them."""
    order = {node: at for at, node in enumerate(graph.nodes)}
    numbers: list[Any] = []
    frame: list[Any] = []
    for node in graph.nodes:
        frame.append((node.op, node.target if node.op != "get_attr" else "constant"))
        leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
        frame.append(str(spec))
        for leaf in leaves:
            if type(leaf) in (int, float):
                numbers.append(leaf)
                frame.append("number")
            else:
                frame.append(order[leaf] if isinstance(leaf, Node) else leaf)
    return numbers, frame


def join(graph: Graph, places: dict[str, list[Place]], found: Sequence[tuple[Point, list[Any]]],
         needed: int) -> None:  # fmt: skip
    """Put expressions where the numbers of the traces differ; the first `needed` are multiples."""
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    writer = _Writer(graph, {name: (inputs[n], dim) for name, ((n, dim), *_) in places.items()})
    columns = iter(list(zip(*(numbers for _, numbers in found), strict=True)))
    traced = [point for point, _ in found]

    def written(leaf: Any) -> Any:
        if type(leaf) not in (int, float):
            return leaf
        values = next(columns)
        if all(value == values[0] for value in values):
            return leaf
        return writer.node(_expression(traced, values, needed, writer.at))

    for node in list(graph.nodes):
        writer.at = node
        args, kwargs = pytree.tree_map(written, (node.args, node.kwargs))
        node.args, node.kwargs = args, kwargs


# Expressions -------------------------------------------------------------------------------------


def _monomials(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Products of at most two sizes, of all, and the empty one."""
    found: list[tuple[str, ...]] = [()]
    for count in (1, 2):
        found.extend(combinations_with_replacement(names, count))
    return found if len(names) < 3 else [*found, tuple(names)]


class _Polynomial:
    """Whole coefficients of products of sizes, all divided by one number and rounded down."""

    def __init__(self, terms: dict[tuple[str, ...], int], part: int, rest: int) -> None:
        self.terms, self.part, self.rest = terms, part, rest

    def __call__(self, point: Point) -> int:
        """What it is at sizes."""
        whole = sum(factor * prod(point[n] for n in names) for names, factor in self.terms.items())
        return (whole + self.rest) // self.part


def _expression(
    traced: Sequence[Point], values: Sequence[Any], needed: int, node: Any
) -> _Polynomial:
    """The expression that gives `values` at the points traced."""
    pairs = list(zip(traced, values, strict=True))
    if all(type(value) is int for value in values):
        for monomials in _choices(list(traced[0])):
            solved = _solved(pairs[: needed + 1], monomials)
            if solved is None:
                continue
            part = lcm(*(factor.denominator for factor in solved))
            terms = {m: int(f * part) for m, f in zip(monomials, solved, strict=True) if f}
            for rest in range(part):
                made = _Polynomial(terms, part, rest)
                if all(made(point) == value for point, value in pairs):
                    return made
    shown = ", ".join(f"{value} at {tuple(point.values())}" for point, value in pairs[:3])
    raise NotImplementedError(
        f"make_fx: an argument of {node.target} is no simple expression of the sizes ({shown}); "
        "trace it with tracing_mode='fake' for the sizes given."
    )


def _choices(names: list[str]) -> Iterator[list[tuple[str, ...]]]:
    """Few products first: what they can say needs no others."""
    every = _monomials(names)
    for one in every[1:]:
        yield [(), one]
    yield [m for m in every if len(m) < 2]
    yield every


def _solved(
    pairs: Sequence[tuple[Point, int]], monomials: list[tuple[str, ...]]
) -> list[Fraction] | None:
    """Coefficients that fit all pairs, by elimination; None where there are none."""
    rows = [
        [*(Fraction(prod(point[n] for n in names)) for names in monomials), Fraction(value)]
        for point, value in pairs
    ]
    for column in range(len(monomials)):
        pivot = next((r for r in rows[column:] if r[column]), None)
        if pivot is None:
            return None
        at = rows.index(pivot, column)
        rows[column], rows[at] = rows[at], rows[column]
        rows[column] = [one / pivot[column] for one in pivot]
        for other, row in enumerate(rows):
            if other != column and row[column]:
                factor = row[column]
                rows[other] = [a - factor * b for a, b in zip(row, rows[column], strict=True)]
    if any(row[-1] for row in rows[len(monomials) :]):
        return None
    return [row[-1] for row in rows[: len(monomials)]]


class _Writer:
    """Writes expressions as nodes, each once, before the first node that wants it."""

    def __init__(self, graph: Graph, sizes: dict[str, tuple[Node, int]]) -> None:
        self.graph, self.sizes = graph, sizes
        self.at: Any = None
        self._made: dict[Any, Any] = {}

    def node(self, wanted: _Polynomial) -> Any:
        """The node that computes an expression."""
        total: Any = None
        for names, factor in wanted.terms.items():
            term: Any = None
            for name in names:
                size = self._size(name)
                term = size if term is None else self._call(operator.mul, term, size)
            if term is None:
                continue
            if factor != 1:
                term = self._call(operator.mul, term, factor)
            total = term if total is None else self._call(operator.add, total, term)
        rest = wanted.terms.get((), 0) + wanted.rest
        if rest:
            total = self._call(operator.add, total, rest)
        return total if wanted.part == 1 else self._call(operator.floordiv, total, wanted.part)

    def _size(self, name: str) -> Any:
        return self._call(pullback.ops.aten.sym_size.int, *self.sizes[name])

    def _call(self, target: Callable[..., Any], *args: Any) -> Any:
        key = (target, args)
        if key not in self._made:
            with self.graph.inserting_before(self.at):
                self._made[key] = self.graph.call_function(target, args)
        return self._made[key]

"""A pass captured at sizes that it does not have: what sizes as inputs are told from.

A capture reads shapes and no data, so for its time the graph's tensors may stand on arrays of other
sizes that have no memory. A size is known by its number: wherever the graph has that number as a
size, it is changed. Where that was not so (two sizes were equal by chance), a later pass has
another key than the one foretold, and is captured by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy

from pullback.compiled.backward.graph import Graph, Unsupported
from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.sizes.fit import NoFit
from pullback.core.node import Output
from pullback.core.process.alone import is_alone

__all__ = ["at_other_sizes", "factors_of"]

_SMALLEST = 2  # sizes 0 and 1 choose other formulas
_MOST_SYMBOLS = 6
_POINTS = 3
_PRIMES = (11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101,
           103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173)  # fmt: skip
_SIZES = ("size", "shape", "length")  # what options that hold sizes are called
FAILURES = (
    *(NoFit, Unsupported, CannotCapture),
    *(RuntimeError, ValueError, IndexError, TypeError),
)


# Numbers that operators' formulas only multiply or divide by, whatever they are.
_FACTORS = {
    "add": ("alpha",), "addcdiv": ("value",), "addcmul": ("value",), "addmm": ("alpha", "beta"),
    "lerp.Scalar": ("weight",), "mul": ("input", "other"), "rsub": ("alpha",), "sub": ("alpha",),
    "true_divide": ("other",),
}  # fmt: skip
_MOST_FACTORS = 8


def factors_of(graph: Graph) -> list[tuple[Any, str]]:
    """Nodes, and their slots, that keep a number which may be another in the next pass."""
    found = []
    for node in graph.nodes:
        plan = getattr(type(node), "plan", None)
        for name in () if plan is None else _FACTORS.get(plan.op.name, ()):
            slot = f"s_{name}"
            found += [(node, slot)] if getattr(node, slot, None).__class__ in (int, float) else []
    return found if len(found) <= _MOST_FACTORS else []


def at_other_sizes(
    graph: Graph,
    capture: Callable[[dict[int, Any]], Any],
    join: Callable[[list[Any], dict[str, tuple[int, int]], list[dict[str, Any]]], Any],
    varying: set[int] | None = None,
    factors: Sequence[tuple[Any, str]] = (),
) -> Any:
    """What `join` makes of a pass captured at some other sizes; NoFit where none will do.

    `capture` captures it anew; it is told which array stands in place of one, by id. `join` takes
    the captures; by name, where the sizes stand (number of an array, dimension; -1 and
    its number for a factor); and what they were, first in the pass itself. `varying` are the
    numbers of the sizes that vary; None: all that can.
    """
    if not is_alone():  # it could compute with the graph's leaves meanwhile
        raise NoFit("another thread runs")
    reason: Exception = NoFit("no size that can vary")
    for used in (factors, ()) if factors else ((),):
        for symbols, with_products in _attempts(graph, varying, bool(used)):
            try:
                return _tried(graph, capture, join, symbols, with_products, used)
            except FAILURES as error:
                reason = error
    raise NoFit(str(reason)) from reason


def _tried(
    graph: Graph, capture: Any, join: Any, symbols: list[int], with_products: bool, factors: Any
) -> Any:
    places = {f"s{n}": _place(graph, size) for n, size in enumerate(symbols)}
    places |= {f"c{n}": (-1, n) for n in range(len(factors))}
    now = [getattr(node, slot) for node, slot in factors]
    points = [dict(zip(places, (*symbols, *now), strict=True))]
    made = []
    for number, sizes in enumerate(_points(graph, symbols)):
        others = [type(one)(_PRIMES[-1 - n - number * len(now)]) for n, one in enumerate(now)]
        points.append(dict(zip(places, (*sizes.values(), *others), strict=True)))
        changed = [(*one, other) for one, other in zip(factors, others, strict=True)]
        mapping = _mapping(graph, sizes, with_products=with_products)
        with _resized(graph, mapping, changed) as arrays:
            made.append(capture(arrays))
    return join(made, places, points)


def _attempts(
    graph: Graph, varying: set[int] | None, has_factors: bool
) -> Iterator[tuple[list[int], bool]]:
    """Sets of sizes to vary together, the likeliest first: parameters seldom change theirs."""
    fixed = {size for leaf in graph.leaves for size in leaf._g_shape}
    everything = _all_sizes(graph)
    sizes = sorted({n for array in graph.arrays for n in array.shape if n >= _SMALLEST})
    sets = []
    if varying is not None:
        sizes = [size for size in sizes if size in varying]
        sets.append(sizes)
    else:
        sizes.sort(key=lambda size: (size in fixed, size))
        sets += [[size for size in sizes if size not in fixed], sizes]
    for chosen in sets:
        alone = [size for size in chosen if not _is_product(size, chosen, everything)]
        for symbols, with_products in ((alone, True), (chosen, False)):
            if symbols and len(symbols) <= _MOST_SYMBOLS:
                yield symbols, with_products
    for size in sizes if len(sizes) > 1 else ():
        yield [size], True
    if has_factors:
        yield [], False


def _all_sizes(graph: Graph) -> set[int]:
    shapes = [array.shape for array in graph.arrays]
    for node in (*graph.nodes, *graph.leaves):
        sizes = node._g_sizes if node._g_sizes is not None else ((node._g_shape, None),)
        shapes += [one[0] for one in sizes if one is not None]
    return {n for shape in shapes for n in shape if n >= _SMALLEST}


def _is_product(size: int, chosen: Iterable[int], everything: set[int]) -> bool:
    """Whether a size may be that of several dimensions made one, one of them chosen."""
    for one in chosen:
        rest, left = divmod(size, one)
        if not left and 1 < rest < size and _is_made_of(rest, everything):
            return True
    return False


def _is_made_of(size: int, everything: set[int]) -> bool:
    return size in everything or any(
        size % one == 0 and _is_made_of(size // one, everything) for one in everything if one < size
    )


def _place(graph: Graph, size: int) -> tuple[int, int]:
    for number, array in enumerate(graph.arrays):
        if size in array.shape:
            return number, array.shape.index(size)
    raise NoFit("a size that no tensor has")


def _points(graph: Graph, symbols: list[int]) -> list[dict[int, int]]:
    taken = {n for array in graph.arrays for n in array.shape}
    free = [prime for prime in _PRIMES if prime not in taken]
    if len(free) < _POINTS * len(symbols):
        raise NoFit(f"{len(symbols)} sizes vary, which are too many")
    many = len(symbols)
    return [dict(zip(symbols, free[n * many :], strict=False)) for n in range(_POINTS)]


def _mapping(graph: Graph, point: dict[int, int], *, with_products: bool) -> Callable[[int], int]:
    """What a size becomes; with products, also one that is made of those that change."""
    everything = _all_sizes(graph)

    def other(size: int) -> int:
        if size in point:
            return point[size]
        for one, new in point.items() if with_products else ():
            rest, left = divmod(size, one)
            if not left and rest > 1 and _is_made_of(rest, everything):
                return new * other(rest)
        return size

    return other


@contextmanager
def _resized(
    graph: Graph, other: Callable[[int], int], factors: list[tuple[Any, str, Any]]
) -> Iterator[dict[int, Any]]:
    """Within the block the graph has other sizes, and its tensors no data."""
    restore: list[tuple[Any, str, Any]] = []

    def put(owner: Any, name: str, value: Any) -> None:
        restore.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    arrays = {id(one): _other_array(one, other) for one in graph.arrays}
    arrays |= {id(one): one for one in list(arrays.values())}  # which stay if they are met again
    try:
        for leaf in graph.leaves:
            _put_tensor(leaf.variable, arrays, other, put)
        for tensor in graph.tensors:
            if tensor is not None:
                _put_tensor(tensor, arrays, other, put)
        outputs: set[int] = set()
        for node in (*graph.nodes, *graph.leaves):
            _put_node(node, arrays, other, put, outputs)
        for node, slot, value in factors:
            put(node, slot, value)
        yield arrays
    finally:
        for owner, name, value in reversed(restore):
            setattr(owner, name, value)


def _put_tensor(tensor: Any, arrays: dict[int, Any], other: Any, put: Any) -> None:
    array = tensor._array
    if id(array) in arrays:
        put(tensor, "_array", arrays[id(array)])
    elif type(array) is numpy.ndarray and tensor.is_leaf and tensor.requires_grad:
        arrays[id(array)] = _other_array(array, other)
        arrays[id(arrays[id(array)])] = arrays[id(array)]
        put(tensor, "_array", arrays[id(array)])


def _put_node(node: Any, arrays: Any, other: Any, put: Any, outputs: set[int]) -> None:
    if node._g_sizes is None:
        put(node, "_g_shape", _other_shape(node._g_shape, other))
    else:
        put(node, "_g_sizes", type(node._g_sizes)(
            one if one is None else (_other_shape(one[0], other), one[1]) for one in node._g_sizes
        ))  # fmt: skip
    for edge in node._edges:
        if isinstance(edge, Output) and id(edge) not in outputs:
            outputs.add(id(edge))
            put(edge, "_g_shape", _other_shape(edge._g_shape, other))
    plan = getattr(type(node), "plan", None)
    if plan is None:
        for one in getattr(node, "_saved", None) or ():  # results that a custom Function saved
            if id(getattr(one, "array", None)) in arrays:
                put(one, "array", arrays[id(one.array)])
        return
    for param in plan.inputs:
        value = getattr(node, f"s_{param.name}")
        for one in value if isinstance(value, tuple) else (value,):
            if id(getattr(one, "_array", None)) in arrays:
                put(one, "_array", arrays[id(one._array)])
    for name in plan.outputs:
        value = getattr(node, f"s_{name}")
        if id(value) in arrays:
            put(node, f"s_{name}", arrays[id(value)])
    for name in plan.derived:
        put(node, f"s_{name}", _other_value(getattr(node, f"s_{name}"), other))
    for name in plan.options:
        if any(word in name for word in _SIZES):
            put(node, f"s_{name}", _other_value(getattr(node, f"s_{name}"), other))


def _other_shape(shape: tuple[int, ...], other: Any) -> tuple[int, ...]:
    return tuple([other(size) for size in shape])


def _other_value(value: Any, other: Any) -> Any:
    """A size, or a shape, or several of them; whatever else a node remembers stays."""
    if value.__class__ is int:
        return other(value) if value >= _SMALLEST else value
    if isinstance(value, tuple):
        made = [_other_value(one, other) for one in value]
        return tuple(made) if value.__class__ is tuple else type(value)(made)
    return value


def _other_array(array: Any, other: Any) -> Any:
    shape = _other_shape(array.shape, other)
    strides = _other_strides(array, shape)
    base = numpy.empty((), array.dtype)
    return numpy.lib.stride_tricks.as_strided(base, shape, strides)


def _other_strides(array: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in the same order of dimensions; gaps stay where nothing inside of them changes."""
    made = list(array.strides)
    before = after = array.itemsize
    dims = [dim for dim, stride in enumerate(array.strides) if stride]
    for dim in sorted(dims, key=lambda dim: (array.strides[dim], array.shape[dim])):
        if array.strides[dim] == before:
            made[dim] = after
        elif before != after or array.strides[dim] < 0:
            raise NoFit("a tensor whose memory has gaps")
        before = array.strides[dim] * array.shape[dim]
        after = made[dim] * shape[dim]
    return tuple(made)

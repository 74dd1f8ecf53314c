"""Which elements of one input each element of an operator's result may depend on.

By the kind where that says it. What is affine in an input (linear and multilinear operators, and a
list of others) is probed: the operator runs on random numbers that stand in chosen places alone,
and where its result changes, there is a dependence. Of any other operator, every element of the
result depends on every element of the input: too much is slow, too little would be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.tensor import Tensor, wrap
from pullback.operators.declare import Op
from pullback.transforms.colouring import columns
from pullback.transforms.dependence.sets import Sets, spans
from pullback.transforms.dependence.shadow import broadcast_places

__all__ = ["related"]

# Not linear by kind, but affine in each tensor, whatever the others are.
_AFFINE = frozenset(
    {
        *("_constant_pad", "_copy", "_diagonal_scatter", "_embedding_adjoint", "_fill"),
        *("_fill_rows", "_fill_rows_with", "_fill_with", "_index_put", "_index_put_many"),
        *("_narrow_copy", "_padded", "_put", "_refill", "_refill_with"),
        *("_scatter", "_select_scatter", "_slice_scatter", "_strided_scatter", "_weight_adjoint"),
        *("_zero", "addbmm", "addmm", "addmv", "addr"),
        *("baddbmm", "cat", "convolution", "embedding", "fill_along"),
        *("index_add", "index_copy", "linear", "masked_scatter", "pick"),
        *("put", "put_back", "put_places", "scatter_add", "stack"),
        *("take_places", "transposed_convolution"),
    }
)

# Element by element, though not by kind; which input an element comes from is a matter of values.
_BY_PLACE = frozenset({"_where", "masked_fill"})

# Each element of the result depends on the elements along `dim` at its own place in other dims.
_ALONG_DIM = frozenset(
    {
        *("_log_softmax_adjoint", "_softmax_adjoint", "amax", "amin", "aminmax"),
        *("cummax", "cummin", "cumprod", "kthvalue", "log_softmax"),
        *("logcumsumexp", "logsumexp", "max", "mean_of_ties", "median"),
        *("min", "mode", "nanmedian", "nansum", "prod"),
        *("softmax", "sort", "sort.stable", "std", "std_mean"),
        *("topk", "var", "var_mean", "vector_norm"),
    }
)


class Place:
    """One tensor among an operator's arguments: a name, and a number within a sequence."""

    __slots__ = ("name", "number", "tensor")

    def __init__(self, name: str, number: int | None, tensor: Tensor) -> None:
        self.name = name
        self.number = number
        self.tensor = tensor


def places_in(op: Op, bound: dict[str, Any]) -> list[Place]:
    """Every tensor among the arguments."""
    found = []
    for param in op.inputs:
        value = bound[param.name]
        if isinstance(value, Tensor):
            found.append(Place(param.name, None, value))
        elif isinstance(value, tuple | list):
            found += [
                Place(param.name, number, one)
                for number, one in enumerate(value)
                if isinstance(one, Tensor)
            ]
    return found


def related(
    op: Op,
    bound: dict[str, Any],
    place: Place,
    sets: Sets,
    shape: tuple[int, ...],
    moving: set[int],
) -> Sets:
    """What the elements of a result of this shape depend on through one input.

    `sets` is for the elements of that input, `moving` the ids of all inputs that have such.
    """
    count = math.prod(shape)
    given = tuple(place.tensor.shape)
    if op.kind == "elementwise" or op.name in _BY_PLACE:
        rows = broadcast_places(given, shape)
        if rows is not None:
            return sets.taken(rows)
    pairs = None
    if op.name in _ALONG_DIM:
        pairs = _along_dim(bound.get("dim"), given, shape)
    elif count > 1 and (op.kind in ("linear", "multilinear", "view") or op.name in _AFFINE):
        pairs = _probed(op, bound, place, shape, moving)
    if pairs is not None:
        return sets.united(count, *pairs)
    every = numpy.unique(sets.members)
    starts = numpy.arange(count + 1) * every.size
    return Sets(starts, numpy.tile(every, count))


def _along_dim(
    dim: Any, given: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[Array, Array] | None:
    if dim is None or not given:
        return None
    dims = {one % len(given) for one in (dim if isinstance(dim, tuple | list) else (dim,))}
    other = [one for one in range(len(given)) if one not in dims]
    kept = len(shape) == len(given)
    seen = other if kept else range(len(shape))
    if [given[one] for one in other] != [shape[one] for one in seen]:
        return None
    # The number of the line of each element, and the elements of each line.
    lines = _line_numbers(given, other)
    asked = _line_numbers(shape, list(seen))
    order = numpy.argsort(lines, kind="stable")
    counts = numpy.bincount(lines, minlength=max(1, math.prod(given[one] for one in other)))
    firsts = counts.cumsum() - counts
    places = order[spans(firsts[asked], counts[asked])]
    return numpy.repeat(numpy.arange(asked.size), counts[asked]), places


def _line_numbers(shape: tuple[int, ...], dims: list[int]) -> Array:
    total = numpy.zeros(shape, numpy.int64)
    for one in dims:
        index = numpy.arange(shape[one]).reshape([-1 if d == one else 1 for d in range(len(shape))])
        total = total * shape[one] + index
    return total.reshape(-1)


# Probing ------------------------------------------------------------------------------------------


def _probed(
    op: Op, bound: dict[str, Any], place: Place, shape: tuple[int, ...], moving: set[int]
) -> tuple[Array, Array] | None:
    """Pairs of places in result and input, None if the operator cannot be run so."""
    random = numpy.random.default_rng(0)
    call = _caller(op, bound, place, moving, random)
    given = tuple(place.tensor.shape)
    values = random.uniform(1, 2, given)
    if place.tensor.dtype.is_complex:
        values = values + 1j * random.uniform(1, 2, given)
    try:
        still = call(numpy.zeros_like(values))
        moved = call(values)
        if still.shape != shape or not place.tensor.numel():
            return None
        copied = _copied(still, moved, values)
        if copied is not None:
            return copied
        return _refined(call, still, values, *_by_digits(call, still, values))
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return None


def _caller(
    op: Op, bound: dict[str, Any], place: Place, moving: set[int], random: numpy.random.Generator
) -> Callable[[Array], Array]:
    """The operator as a function of one input in double precision.

    Others that depend on the inputs of the run are random: their zeros may be by chance.
    """
    fixed = dict(bound)
    for other in places_in(op, bound):
        tensor = other.tensor
        if not tensor.dtype.is_differentiable:
            continue
        array = numpy.asarray(tensor.resolve_conj().resolve_neg()._array)
        wide = array.astype(numpy.complex128 if tensor.dtype.is_complex else numpy.float64)
        if id(tensor) in moving:
            wide = random.uniform(1, 2, wide.shape).astype(wide.dtype)
        _put(fixed, other, wrap(wide))

    def call(values: Array) -> Array:
        _put(fixed, place, wrap(values))
        made = op.function(**fixed)
        if not isinstance(made, Tensor):
            raise TypeError(op.name)
        return numpy.asarray(made.resolve_conj().resolve_neg()._array)

    return call


def _put(bound: dict[str, Any], place: Place, tensor: Tensor) -> None:
    if place.number is None:
        bound[place.name] = tensor
        return
    several = list(bound[place.name])
    several[place.number] = tensor
    bound[place.name] = several


def _copied(still: Array, moved: Array, values: Array) -> tuple[Array, Array] | None:
    """The pairs where every element of the result is one of the input, or no matter of it."""
    if moved.dtype != values.dtype or moved.dtype.kind != "f":
        return None
    changed = (moved != still).reshape(-1)
    found = moved.reshape(-1)[changed]
    order = numpy.argsort(values, axis=None)
    ordered = values.reshape(-1)[order]
    at = numpy.minimum(numpy.searchsorted(ordered, found), ordered.size - 1)
    if not numpy.array_equal(ordered[at], found):
        return None
    return numpy.flatnonzero(changed), order[at]


def _digits(shape: tuple[int, ...]) -> list[tuple[int, Array]]:
    """Ways to tell the elements of a shape apart: (base, the digit of each element)."""
    made = []
    for dim, length in enumerate(shape):
        index = numpy.arange(length).reshape([-1 if d == dim else 1 for d in range(len(shape))])
        base = length if length <= 32 else math.isqrt(length - 1) + 1
        for part, size in ((index // base, -(-length // base)), (index % base, base)):
            if size > 1:
                made.append((size, numpy.broadcast_to(part, shape)))
    return made


def _by_digits(call: Callable[[Array], Array], still: Array, values: Array) -> tuple[Array, Array]:
    """For each element of the result, all input elements each of whose digits has an effect.

    A run for each digit: of a dimension of length n there are two of about its square root.
    """
    owners = numpy.arange(still.size)
    parts: list[Array] = []  # for each digit that of each pair
    digits = _digits(values.shape)
    for base, digit in digits:
        hit = numpy.stack(
            [
                (call(numpy.where(digit == one, values, 0)) != still).reshape(-1)
                for one in range(base)
            ],
            1,
        )
        counts = hit.sum(1)
        chosen = numpy.flatnonzero(hit.reshape(-1)) % base  # by rows
        firsts = counts.cumsum() - counts
        places = spans(firsts[owners], counts[owners])
        repeats = counts[owners]
        parts = [numpy.repeat(one, repeats) for one in parts] + [chosen[places]]
        owners = numpy.repeat(owners, repeats)
    return _numbered(digits, values.shape, owners, parts)


def _refined(
    call: Callable[[Array], Array], still: Array, values: Array, owners: Array, places: Array
) -> tuple[Array, Array]:
    """The pairs without those that have no effect, by a run for each colour; all if many."""
    if 4 * owners.size > still.size * values.size:
        return owners, places
    colours = columns(Sets.of_pairs(still.size, owners, places), values.size)
    count = int(colours.max(initial=-1)) + 1
    if 4 * count > values.size:
        return owners, places
    painted = colours.reshape(values.shape)
    hit = numpy.stack(
        [
            (call(numpy.where(painted == one, values, 0)) != still).reshape(-1)
            for one in range(count)
        ]
    )
    real = hit[colours[places], owners]
    return owners[real], places[real]


def _numbered(
    digits: list[tuple[int, Array]], shape: tuple[int, ...], owners: Array, parts: list[Array]
) -> tuple[Array, Array]:
    """Pairs by the number of the input element; digits that no element has are left out."""
    total = math.prod(base for base, _ in digits)
    keys = numpy.zeros(shape, numpy.int64)
    asked = numpy.zeros(owners.size, numpy.int64)
    for (base, digit), part in zip(digits, parts, strict=True):
        keys = keys * base + digit
        asked = asked * base + part
    number = numpy.full(total, -1, numpy.int64)
    number[keys.reshape(-1)] = numpy.arange(keys.size)
    found = number[asked]
    real = found >= 0
    return owners[real], found[real]

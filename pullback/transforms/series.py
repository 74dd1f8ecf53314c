"""The level of func.jet: tensors carry truncated power series, as many coefficients as asked for.

The coefficients of a tensor after its value are its tangent at this level, a batch of them at a
vmap level of their own. So what is linear (views, sums, copies, writes in place) takes them all in
one call, as it takes the tangents of jacfwd. Products are sums over the ways in which orders add
up, and a few functions have recurrences. All else follows from the declaration: with x and y = f(x)
as functions of one number t, the rule of forward mode says y' = f'(x) x', which is evaluated on
series of one order less, and integrated.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from pullback.core.forward import Level
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor
from pullback.operators import derive
from pullback.operators.create.data import tensor as tensor_of
from pullback.operators.create.sizes import zeros_like
from pullback.operators.declare import Op, parameters_of
from pullback.operators.shape.joining import cat, stack
from pullback.transforms.batched import batched, is_batched_at, with_levels
from pullback.transforms.mapping import mapped, over_batch, taken_out
from pullback.transforms.pushing import Within
from pullback.transforms.recurrences import RECURRENCES
from pullback.transforms.vmap_level import VmapLevel

__all__ = [
    "Entering",
    "RowsLevel",
    "SeriesLevel",
    "constant_slope",
    "fitted",
    "multiplies",
    "order_of",
    "rows_at",
]

# Primitives that are a product of two inputs and a sum with the others.
_FACTORS = {
    "linear": ("input", "weight"),
    "convolution": ("input", "weight"),
    "transposed_convolution": ("input", "weight"),
    "addmm": ("mat1", "mat2"),
    "addmv": ("mat", "vec"),
    "addr": ("vec1", "vec2"),
    "addbmm": ("batch1", "batch2"),
    "baddbmm": ("batch1", "batch2"),
}


class RowsLevel(Level):
    """Tensors carry batches, the examples of the vmap level `maps`: what is linear takes them all.

    For all else a subclass says what the results carry, in `_bent`.
    """

    __slots__ = ("maps",)

    def __init__(self, maps: VmapLevel) -> None:
        super().__init__(everywhere=False)
        self.maps = maps

    def rule(
        self,
        op: Op,
        values: dict[str, Any],
        options: dict[str, Any],
        results: list[Tensor],
        tangents: dict[str, Any],
    ) -> list[Any]:
        """What the results carry, from what the inputs do."""
        felt = derive.felt_inputs(op)
        moving = {name: given for name, given in tangents.items() if name in felt}
        if not moving or (op.jvp is None and not op.rules):
            return [None] * len(results)
        if constant_slope(op, moving):
            return derive.jvp(op, values, options, results, moving)
        return self._bent(op, values, options, results, moving)

    def _bent(
        self,
        op: Op,
        values: dict[str, Any],
        options: dict[str, Any],
        results: list[Tensor],
        moving: dict[str, Any],
    ) -> list[Any]:
        raise NotImplementedError

    def _inside(self) -> AbstractContextManager[None]:
        """The mode without the level of the examples, whose batches are arrays' rows there."""
        return with_levels([one for one in get_mode().levels if one is not self.maps])


class SeriesLevel(RowsLevel):
    """The series that tensors carry: examples are coefficients."""

    __slots__ = ()

    def _bent(
        self,
        op: Op,
        values: dict[str, Any],
        options: dict[str, Any],
        results: list[Tensor],
        moving: dict[str, Any],
    ) -> list[Any]:
        """The coefficients of the results after their values, from those of the inputs."""
        with self._inside():
            later = {name: rows_at(self.maps, given) for name, given in moving.items()}
            made = _series(op, values, options, results, later)
            return [None if one is None else batched(one, 0, self.maps) for one in made]

    def through(
        self, jvp: Callable[[list[Any]], Sequence[Any]], args: Sequence[Any], outputs: Sequence[Any]
    ) -> list[Any]:
        """The coefficients of what a function that is known by its `jvp` alone gave.

        `jvp` is called with a tangent or None for each of `args`, order by order: what it reads of
        `args` and `outputs` carries the series that are known by then.
        """
        with self._inside():
            given = [self.get(one) if isinstance(one, Tensor) else None for one in args]
            later = [None if one is None else rows_at(self.maps, one) for one in given]
            known: list[Any] = [None] * len(outputs)
            for reached in range(self.maps.size):
                slopes = _slopes_by(jvp, args, later, outputs, known, reached)
                known = [None if one is None else _divided(one) for one in slopes]
            return [
                None if one is None else batched(fitted(one, output), 0, self.maps)
                for one, output in zip(known, outputs, strict=True)
            ]


def rows_at(maps: VmapLevel, tangent: Any) -> Any:
    """All examples of a tangent, along the first dimension; of a sequence those of each."""
    if isinstance(tangent, tuple | list):
        return [None if one is None else rows_at(maps, one) for one in tangent]
    if not is_batched_at(tangent, maps):
        return tangent.unsqueeze(0).expand((maps.size, *tangent.shape))
    return tangent.value.movedim(tangent.bdim, 0)


def constant_slope(op: Op, moving: dict[str, Any]) -> bool:
    """Whether the derivative by the inputs that move is the same wherever they are."""
    if op.kind in ("linear", "view"):
        return True
    if op.jvp is None and op.kind == "multilinear":
        return len(moving) == 1
    factors = _FACTORS.get(op.name, ())
    if factors and not all(name in moving for name in factors):
        return True
    return not _asked(op, moving) & {*moving, *op.outputs}


def multiplies(op: Op) -> bool:
    """Whether it is linear in each of its inputs, all of which are tensors by themselves."""
    if op.name == "mul":
        return True
    return (
        op.kind == "multilinear" and op.jvp is None and all(p.kind == "tensor" for p in op.inputs)
    )


def _asked(op: Op, moving: dict[str, Any]) -> set[str]:
    """What the rules of these inputs ask for by name; those of `ports.transposed` may ask all."""
    if op.jvp is not None:
        return set(parameters_of(op.jvp))
    if op.kind == "primitive":
        return {param.name for param in op.params} | set(op.outputs)
    return {name for one in moving if one in op.rules for name in parameters_of(op.rules[one])}


def _series(
    op: Op,
    values: dict[str, Any],
    options: dict[str, Any],
    results: list[Tensor],
    later: dict[str, Any],
) -> list[Any]:
    if multiplies(op):
        whole = {name: cat([values[name].unsqueeze(0), rows]) for name, rows in later.items()}
        fixed = {**values, **options}
        made = _product(lambda **parts: op.function(**{**fixed, **parts}), whole)
        return [fitted(made, results[0])]
    recurrence = RECURRENCES.get(op.name)
    if recurrence is not None:
        return [fitted(recurrence(values, later, results[0]), results[0])]
    return _integrated(op, values, options, results, later)


def fitted(rows: Any, result: Tensor) -> Any:
    """Coefficients in the shape and dtype of their result."""
    rows = rows if rows.dtype is result.dtype else rows.to(result.dtype)
    shape = (rows.shape[0], *result.shape)
    return rows if tuple(rows.shape) == shape else rows.expand(shape)


# Products -----------------------------------------------------------------------------------------


def _product(call: Callable[..., Any], whole: dict[str, Any]) -> Any:
    """A product of series, given from order 0 on: all terms of an order in one call."""
    names = list(whole)
    made = []
    for order in range(1, next(iter(whole.values())).shape[0]):
        ways = list(_compositions(order, len(names)))

        def term(*parts: Any) -> list[Any]:
            return [call(**dict(zip(names, parts, strict=True)))]

        columns = zip(*ways, strict=True)
        parts = [
            whole[name].index_select(0, tensor_of(column))
            for name, column in zip(names, columns, strict=True)
        ]
        made.append(over_batch(term, parts, len(ways))[0].sum(0))
    return stack(made)


def _compositions(total: int, count: int) -> itertools.chain[tuple[int, ...]]:
    """All ways to write `total` as a sum of `count` orders."""
    if count == 1:
        return itertools.chain([(total,)])
    return itertools.chain.from_iterable(
        ((first, *rest) for rest in _compositions(total - first, count - 1))
        for first in range(total + 1)
    )


# By the rule of forward mode ----------------------------------------------------------------------


def _integrated(
    op: Op,
    values: dict[str, Any],
    options: dict[str, Any],
    results: list[Tensor],
    later: dict[str, Any],
) -> list[Any]:
    """The series of y from that of y' = f'(x) x', which is of one order less.

    Where the rule asks for y itself, order by order: the series of y' up to an order needs that of
    y up to the same, and gives the next.
    """
    order = order_of(later)
    itself = bool(_asked(op, later) & set(op.outputs))
    known: list[Any] = [None] * len(results)
    for reached in range(0 if itself else order - 1, order):
        slopes = _slopes(op, values, options, results, later, known, reached)
        known = [None if one is None else _divided(one) for one in slopes]
    return [
        None if one is None else fitted(one, result)
        for one, result in zip(known, results, strict=True)
    ]


def order_of(later: dict[str, Any]) -> int:
    """How many rows the inputs that move have."""
    first = next(iter(later.values()))
    rows = next(one for one in first if one is not None) if _many(first) else first
    return int(rows.shape[0])


def _many(given: Any) -> bool:
    return isinstance(given, tuple | list)


def _divided(slopes: Any) -> Any:
    """The coefficients 1, 2, ... of a series from those 0, 1, ... of its derivative."""
    return _weighted(slopes, [1 / (number + 1) for number in range(slopes.shape[0])])


def _weighted(rows: Any, weights: Sequence[float]) -> Any:
    if len(weights) == 1:
        return rows if weights[0] == 1 else rows * weights[0]
    like = rows.real if rows.dtype.is_complex else rows
    shape = (len(weights), *(1 for _ in rows.shape[1:]))
    return rows * tensor_of(weights, dtype=like.dtype).reshape(shape)


def _slopes(
    op: Op,
    values: dict[str, Any],
    options: dict[str, Any],
    results: list[Tensor],
    later: dict[str, Any],
    known: list[Any],
    order: int,
) -> list[Any]:
    """The coefficients 0 to `order` of the derivative of each result; None of one that has none."""
    entering = Entering()
    inputs = {name: entering.each(values[name], _up_to(order, later.get(name))) for name in values}
    directions = {name: _slope(entering, order, later[name]) for name in later}
    outputs = [entering.one(result, _up_to(order, known[i])) for i, result in enumerate(results)]
    if order == 0:
        made = derive.jvp(op, inputs, options, outputs, directions)
        return [None if one is None else one.unsqueeze(0) for one in made]
    with mapped(order, "same", for_tangents=True) as maps:
        series = [batched(one, 0, maps) for one in entering.tangents]
        within = Within("jet", entering.primals, series, level=SeriesLevel(maps))
        with within as duals:
            entered = entering.replaced(duals)
            slopes = derive.jvp(
                op,
                {name: entered(one) for name, one in inputs.items()},
                options,
                [entered(one) for one in outputs],
                {name: entered(one) for name, one in directions.items()},
            )
            pairs = [(one, None if one is None else within.tangent_of(one)) for one in slopes]
    return [_whole(value, tangent, maps) for value, tangent in pairs]


def _whole(value: Any, tangent: Any, maps: VmapLevel) -> Any:
    """A slope and its coefficients, as rows."""
    if value is None:
        return None
    rest = taken_out(zeros_like(value) if tangent is None else tangent, maps)
    return cat([value.unsqueeze(0), rest])


def _slopes_by(
    jvp: Callable[[list[Any]], Sequence[Any]],
    args: Sequence[Any],
    later: list[Any],
    outputs: Sequence[Any],
    known: list[Any],
    order: int,
) -> list[Any]:
    """As `_slopes`, where the tensors that the rule reads are these themselves, and no others."""
    entering = Entering()
    directions = [None if rows is None else _slope(entering, order, rows) for rows in later]
    if order == 0:
        return [None if one is None else one.unsqueeze(0) for one in jvp(directions)]
    with mapped(order, "same", for_tangents=True) as maps:
        series = [batched(one, 0, maps) for one in entering.tangents]
        level = SeriesLevel(maps)
        within = Within("jet", entering.primals, series, level=level)
        with within as duals:
            for one, rows in zip((*args, *outputs), (*later, *known), strict=True):
                if rows is not None:
                    level.put(one, batched(rows[:order], 0, maps))
            entered = entering.replaced(duals)
            slopes = jvp([entered(one) for one in directions])
            pairs = [(one, None if one is None else within.tangent_of(one)) for one in slopes]
    return [_whole(value, tangent, maps) for value, tangent in pairs]


def _up_to(order: int, rows: Any) -> Any:
    """The first coefficients; None if that is none."""
    if rows is None or not order:
        return None
    if _many(rows):
        return [_up_to(order, one) for one in rows]
    return rows[:order]


def _slope(entering: Entering, order: int, rows: Any) -> Any:
    """The derivative of a series, as a tensor that enters with its own."""
    if _many(rows):
        return [None if one is None else _slope(entering, order, one) for one in rows]
    weights = [float(number + 2) for number in range(order)]
    return entering.one(rows[0], _weighted(rows[1 : order + 1], weights) if weights else None)


class Entering:
    """Tensors on their way into a perturbation, each with its tangent."""

    def __init__(self) -> None:
        self.primals: list[Any] = []
        self.tangents: list[Any] = []

    def one(self, value: Any, tangent: Any) -> Any:
        """A tensor that has a tangent, as a place to be filled; itself if it has none."""
        if tangent is None:
            return value
        self.primals.append(value)
        self.tangents.append(tangent)
        return _Place(len(self.primals) - 1)

    def each(self, value: Any, tangent: Any) -> Any:
        """The same for an input that may be a sequence."""
        if _many(tangent):
            return [self.one(v, t) for v, t in zip(value, tangent, strict=True)]
        return self.one(value, tangent)

    @staticmethod
    def replaced(duals: list[Any]) -> Callable[[Any], Any]:
        """What fills the places."""
        return functools.partial(_filled, duals)


def _filled(duals: list[Any], one: Any) -> Any:
    if isinstance(one, list):
        return [_filled(duals, part) for part in one]
    return duals[one.number] if isinstance(one, _Place) else one


class _Place:
    """Where a tensor will stand."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

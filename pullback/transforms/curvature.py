"""The level of func.laplacian: tensors carry their gradient and their Laplacian, in one run.

The tangent of a tensor at this level is a batch: its derivative in each of `count` directions, and
last the sum of its second derivatives in those. What is linear takes them all in one call. For all
else, with y = f(x), the chain rule says that the last is f'(x) of the last of x, plus the second
derivatives of f in the directions in which x moves, summed over these: the forward Laplacian.
"""

from __future__ import annotations

import itertools
from typing import Any

from pullback.core.tensor import Tensor
from pullback.operators import derive
from pullback.operators.create.sizes import ones_like
from pullback.operators.declare import Op
from pullback.operators.shape.joining import cat
from pullback.transforms.batched import batched
from pullback.transforms.mapping import mapped, over_batch, taken_out
from pullback.transforms.pushing import Within
from pullback.transforms.series import Entering, RowsLevel, fitted, multiplies, order_of, rows_at
from pullback.transforms.vmap_level import VmapLevel

__all__ = ["CurvatureLevel"]


class CurvatureLevel(RowsLevel):
    """First derivatives and the sum of second ones, examples of the vmap level `maps`."""

    __slots__ = ()

    def _bent(
        self,
        op: Op,
        values: dict[str, Any],
        options: dict[str, Any],
        results: list[Tensor],
        moving: dict[str, Any],
    ) -> list[Any]:
        """What the results carry, from what the inputs do."""
        made = derive.jvp(op, values, options, results, moving)
        count = self.maps.size - 1
        with self._inside():
            first = [None if one is None else rows_at(self.maps, one) for one in made]
            directions = {
                name: _without_last(rows_at(self.maps, given)) for name, given in moving.items()
            }
            slopes = [None if one is None else one[:count] for one in first]
            bends = _bends(op, values, options, results, directions, slopes)
            return [
                whole if bend is None else self._with(rows, bend, result)
                for whole, rows, bend, result in zip(made, first, bends, results, strict=True)
            ]

    def _with(self, rows: Any, bend: Any, result: Tensor) -> Any:
        """A batch whose last example has one term more."""
        rows = fitted(rows, result)
        count = rows.shape[0] - 1
        last = fitted((rows[count] + bend).unsqueeze(0), result)
        return batched(cat([rows[:count], last]), 0, self.maps)


def _without_last(rows: Any) -> Any:
    if isinstance(rows, list):
        return [None if one is None else one[:-1] for one in rows]
    return rows[:-1]


def _bends(
    op: Op,
    values: dict[str, Any],
    options: dict[str, Any],
    results: list[Tensor],
    directions: dict[str, Any],
    slopes: list[Any],
) -> list[Any]:
    """Second derivatives of the operator in each direction, summed over these."""
    if multiplies(op):
        return [_of_product(op, {**values, **options}, directions)]
    if _is_function_of_one(op, values, results, directions):
        ((name, rows),) = directions.items()
        one = ones_like(values[name])
        slope = derive.jvp(op, values, options, results, {name: one})
        found = _second(op, values, options, results, {name: one}, slope)
        return [None if bend is None else bend * (rows * rows).sum(0) for bend in found]
    with mapped(order_of(directions), "same", for_tangents=True) as maps:
        inside = {name: _each(rows, maps) for name, rows in directions.items()}
        moved = [None if one is None else batched(one, 0, maps) for one in slopes]
        found = _second(op, values, options, results, inside, moved)
    return [None if one is None else taken_out(one, maps).sum(0) for one in found]


def _is_function_of_one(
    op: Op, values: dict[str, Any], results: list[Tensor], directions: dict[str, Any]
) -> bool:
    """Whether elements are a function of one real number: all directions have one curvature."""
    if op.kind != "elementwise" or len(directions) != 1:
        return False
    one = values[next(iter(directions))]
    real = not one.dtype.is_complex and not results[0].dtype.is_complex
    return real and tuple(one.shape) == tuple(results[0].shape)


def _each(rows: Any, maps: VmapLevel) -> Any:
    if isinstance(rows, list):
        return [None if one is None else batched(one, 0, maps) for one in rows]
    return batched(rows, 0, maps)


def _of_product(op: Op, fixed: dict[str, Any], directions: dict[str, Any]) -> Any:
    """Twice the products of what two factors do, for each two that move."""
    total = None
    for pair in itertools.combinations(directions, 2):

        def term(*parts: Any, pair: tuple[str, ...] = pair) -> list[Any]:
            return [op.function(**{**fixed, **dict(zip(pair, parts, strict=True))})]

        rows = [directions[name] for name in pair]
        made = over_batch(term, rows, rows[0].shape[0])[0].sum(0) * 2
        total = made if total is None else total + made
    return total


def _second(
    op: Op,
    values: dict[str, Any],
    options: dict[str, Any],
    results: list[Tensor],
    direction: dict[str, Any],
    slopes: list[Any],
) -> list[Any]:
    """The second derivative of each result in a direction; None of one that has none."""
    entering = Entering()
    inputs = {name: entering.each(values[name], direction.get(name)) for name in values}
    outputs = [entering.one(result, slopes[i]) for i, result in enumerate(results)]
    within = Within("laplacian", entering.primals, entering.tangents)
    with within as duals:
        entered = entering.replaced(duals)
        made = derive.jvp(
            op,
            {name: entered(one) for name, one in inputs.items()},
            options,
            [entered(one) for one in outputs],
            direction,
        )
        return [None if one is None else within.tangent_of(one) for one in made]

"""Determinants, inverses and systems of equations, by elimination: exact where the numbers are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.numbers.array import held
from pullback.core.numbers.functions import compared, truth
from pullback.core.numbers.types import NumberType
from pullback.operators.linalg.solve import check_regular

__all__ = ["KERNEL_OVERRIDES"]

Rows = list[list[Any]]


def _pivot(numbers: NumberType, rows: Rows, column: int) -> int | None:
    """The row to eliminate with: the first that is not zero, of rounded numbers the largest."""
    found = [row for row in range(column, len(rows)) if _is_other(numbers, rows[row][column])]
    if not found:
        return None
    if numbers.is_complex or numbers.encloses or not numbers.rounds:
        return found[0]
    less, best = compared(numbers, "less"), found[0]
    for row in found[1:]:
        if less(abs(rows[best][column]), abs(rows[row][column])):
            best = row
    return best


def _is_other(numbers: NumberType, value: Any) -> bool:
    """Whether a number is certainly not zero."""
    try:
        return truth(numbers, value)
    except RuntimeError:  # an interval around it
        return False


def _triangular(numbers: NumberType, rows: Rows) -> tuple[int, int]:
    """Eliminate in place; the sign of the exchanges, and the column that has no pivot."""
    sign = 1
    for column in range(len(rows)):
        pivot = _pivot(numbers, rows, column)
        if pivot is None:
            return 0, column + 1
        if pivot != column:
            rows[pivot], rows[column] = rows[column], rows[pivot]
            sign = -sign
        top = rows[column]
        for row in rows[column + 1 :]:
            factor = row[column] / top[column]
            for place in range(column, len(row)):
                row[place] = row[place] - factor * top[place]
    return sign, 0


def _back(rows: Rows, size: int) -> Rows:
    """The columns behind a triangle, solved for it."""
    made: Rows = [[] for _ in range(size)]
    for number in range(size - 1, -1, -1):
        row = rows[number]
        for right in range(size, len(row)):
            value = row[right]
            for other in range(number + 1, size):
                value = value - row[other] * made[other][right - size]
            made[number].append(value / row[number])
    return made


def _determinant(numbers: NumberType, matrix: Array) -> Any:
    rows = matrix.tolist()
    sign, failed = _triangular(numbers, rows)
    if failed:
        if numbers.encloses:
            return _by_minors(numbers, matrix.tolist())
        return numbers.convert(0)
    made = numbers.convert(sign)
    for number, row in enumerate(rows):
        made = made * row[number]
    return made


def _by_minors(numbers: NumberType, rows: Rows) -> Any:
    """Without any division, for intervals around zero."""
    if not rows:
        return numbers.convert(1)
    total = numbers.convert(0)
    for place, one in enumerate(rows[0]):
        rest = [[*row[:place], *row[place + 1 :]] for row in rows[1:]]
        term = one * _by_minors(numbers, rest)
        total = total - term if place % 2 else total + term
    return total


def _each(numbers: NumberType, function: Callable[..., Any], shape: Any, *batches: Array) -> Array:
    """A function of matrices for each of a batch; `shape` is that of one result."""
    lead = numpy.broadcast_shapes(*(one.shape[:-2] for one in batches))
    made = numpy.empty((*lead, *shape), object)
    plain = [one.view(numpy.ndarray) for one in batches]
    wide = [numpy.broadcast_to(one, lead + one.shape[-2:]) for one in plain]
    for place in numpy.ndindex(lead):
        result = function(*[one[place] for one in wide])
        made[place] = result if not shape else _objects(result, shape)
    return held(made, numbers)


def _objects(rows: Any, shape: Any) -> Array:
    made = numpy.empty(shape, object)
    for place in numpy.ndindex(shape):
        made[place] = rows[place[0]][place[1]]
    return made


def _det(numbers: NumberType, A: Array) -> Array:
    return _each(numbers, lambda one: _determinant(numbers, one), (), A)


def _solve(numbers: NumberType, A: Array, B: Array, strict: str) -> tuple[Array, Array]:
    size = A.shape[-1]

    def solved(a: Array, b: Array) -> Rows:
        rows = [[*left, *right] for left, right in zip(a.tolist(), b.tolist(), strict=True)]
        failed = _triangular(numbers, rows)[1]
        if failed:
            check_regular(strict or "linalg.solve", numpy.asarray(failed))
        return _back(rows, size)

    made = _each(numbers, solved, B.shape[-2:], A, B)
    return made, numpy.zeros(A.shape[:-2], numpy.int32)


def _inv(numbers: NumberType, A: Array, strict: str) -> tuple[Array, Array]:
    size = A.shape[-1]
    unit = numpy.empty((size, size), object)
    for place in numpy.ndindex(unit.shape):
        unit[place] = numbers.convert(int(place[0] == place[1]))
    return _solve(numbers, A, held(unit, numbers), strict or "linalg.inv")


def _without(rows: Rows, row: int, column: int) -> Rows:
    kept = [one for number, one in enumerate(rows) if number != row]
    return [[*one[:column], *one[column + 1 :]] for one in kept]


def _signed(numbers: NumberType, row: int, column: int, value: Any) -> Any:
    return numbers.convert(0) - value if (row + column) % 2 else value


def _of_rows(numbers: NumberType, rows: Rows) -> Any:
    return _determinant(numbers, _objects(rows, (len(rows), len(rows)))) if rows else (
        numbers.convert(1)
    )  # fmt: skip


def _adjugate(numbers: NumberType, A: Array) -> Array:
    """The determinants of what is left without a row and a column, with signs."""

    def of_one(a: Array) -> Rows:
        rows = a.tolist()
        places = range(len(rows))
        return [
            [_signed(numbers, i, j, _of_rows(numbers, _without(rows, i, j))) for i in places]
            for j in places
        ]

    return _each(numbers, of_one, A.shape[-2:], A)


def _adjugate_change(numbers: NumberType, A: Array, change: Array) -> Array:
    """Its derivative: a determinant is linear in each row."""

    def moved(rows: Rows, by: Rows) -> Any:
        total = numbers.convert(0)
        for number in range(len(rows)):
            total = total + _of_rows(numbers, [*rows[:number], by[number], *rows[number + 1 :]])
        return total

    def of_one(a: Array, by: Array) -> Rows:
        rows, other = a.tolist(), by.tolist()
        places = range(len(rows))
        return [
            [
                _signed(numbers, i, j, moved(_without(rows, i, j), _without(other, i, j)))
                for i in places
            ]
            for j in places
        ]

    return _each(numbers, of_one, A.shape[-2:], A, change)


KERNEL_OVERRIDES: dict[str, Callable[..., Any]] = {
    "_linalg_det": _det,
    "_inv": _inv,
    "_solve": _solve,
    "_adjugate": _adjugate,
    "_adjugate_change": _adjugate_change,
}

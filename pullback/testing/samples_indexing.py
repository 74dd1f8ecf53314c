"""Sample inputs of operators that pick, place or order elements."""

from __future__ import annotations

from math import nan
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.testing.cases import Case, Draw, Entry, case, entry, kink, real

WHOLE = slice(None)


def index(*values: Any) -> Array:
    """Positions."""
    return numpy.array(values, numpy.int64)


def mask(*rows: str) -> Array:
    """Which elements to take: ones and zeros, row by row."""
    taken = [[digit == "1" for digit in row] for row in rows]
    return numpy.array(taken[0] if len(rows) == 1 else taken)


def items(t: Draw) -> list[Case]:
    """Indices of every sort, and mixtures."""
    x = (3, 4)
    return [
        case(t(*x), 1),
        case(t(*x), -1),
        case(t(*x), (1, 2)),
        case(t(*x), slice(1, None)),
        case(t(*x), (WHOLE, slice(None, None, 2))),
        case(t(*x), (slice(-2, None), slice(1, -1))),
        case(t(*x), slice(2, 1)),
        case(t(*x), None),
        case(t(*x), (Ellipsis, 0)),
        case(t(*x), (None, 1, None, slice(0, 2))),
        case(t(*x), ()),
        case(t(), Ellipsis),
        case(t(), None),
        case(t(*x), index(0, 2, 0)),
        case(t(*x), (index(0, 2), index(1, 3))),
        case(t(*x), (index([0], [2]), index(1, 3))),
        case(t(*x), (WHOLE, index(1, 1, -1))),
        case(t(*x), (index(1, 0), slice(1, 3))),
        case(t(2, 3, 4), (index(0, 1), WHOLE, index(2, 3))),
        case(t(2, 3, 4), (WHOLE, index(0, 1), index(2, 3))),
        case(t(*x), index()),
        case(t(*x), mask("101")),
        case(t(2, 2), mask("10", "11")),
        case(t(2, 2), (WHOLE, mask("01"))),
        case(t(2, 2), mask("00", "00")),
        case(t(*x), [0, 2]),
        case(t(*x), (slice(0, 2), [1, 3])),
        case(t(*x), (index(1), WHOLE)),
        case(t(*x), numpy.array(2)),
        case(t(0, 4), (WHOLE, index(1, 2))),
        case(t(*x), True),
        case(t(2, 3, 4), (index(0, 1, 1), index(2, 0, 0), index(3, 1, 1))),
    ]


def taken_along(t: Draw) -> list[Case]:
    """An index for each element of the result."""
    return [
        case(t(3, 4), 1, index([0, 2], [1, 1], [3, 0])),
        case(t(3, 4), 0, index([0, 2, 1, 1])),
        case(t(3, 4), -1, index([0], [1], [3])),
        case(t(4), 0, index(3, 3, 0)),
        case(t(), 0, numpy.array(0)),
        case(t(3, 4), 1, numpy.zeros((0, 4), numpy.int64)),
    ]


def scattered(t: Draw, *, numbers: bool) -> list[Case]:
    """Elements of `src`, or a number, to places that differ."""
    found = [
        case(t(3, 4), 1, index([0, 2], [1, 3], [3, 0]), t(3, 2)),
        case(t(3, 4), 0, index([0, 2, 1, 1]), t(1, 4)),
        case(t(3, 4), 0, index([0, 2, 1, 1]), t.fixed(2, 4)),
        case(t(3, 4), -1, index([0], [1]), t.fixed(3, 4)),
        case(t(4), 0, index(3, 0), t(2)),
        case(t(), 0, numpy.array(0), t()),
        case(t(3, 4), 1, numpy.zeros((0, 4), numpy.int64), t.fixed(3, 4)),
    ]
    if numbers:
        found += [
            case(t(3, 4), 1, index([0, 2], [1, 3], [3, 0]), 1.5),
            case(t(3, 4), dim=0, index=index([0, 2, 1, 1]), value=2),
        ]
    return found


def added_along(t: Draw) -> list[Case]:
    """Slices to places that may be the same."""
    return [
        case(t(3, 4), 0, index(0, 2, 0), t(3, 4)),
        case(t(3, 4), 1, index(1, 3), t(3, 2)),
        case(t(3, 4), -1, index(1, 1), t(3, 2)),
        case(t(4), 0, index(3, 0), t(2)),
        case(t(3, 4), 0, index(), t(0, 4)),
    ]


def ordered(t: Draw) -> list[Case]:
    """Values without ties, in both directions."""
    return [
        case(t(2, 4)),
        case(t(3, 4), 0),
        case(t(2, 4), -1, descending=True),
        case(t(2, 4), 1, True),
        case(t(4)),
        case(t()),
        case(t(0, 3)),
        case(t(2, 0), 0),
        case(t.ints(2, 4, high=100), 1),
    ]


def stable(t: Draw) -> list[Case]:
    """Ties, which a stable order keeps; NaN is the greatest."""
    rows = ([2.0, 1.0, 2.0, 1.0, 2.0], [1.0, nan, 0.0, nan, -1.0])
    return [
        kink(t.of(*rows), stable=True),
        kink(t.of(*rows), stable=True, dim=1, descending=True),
        kink(t.of(*rows), stable=True, dim=0),
    ]


def repeated(t: Draw) -> list[Case]:
    """Places that get several elements."""
    return [case(t(3, 4), 1, index([0, 0], [1, 1]), t(2, 2)), case(t(2), 0, index(1, 1), t(2))]


REDUCTIONS = ("sum", "mean", "prod", "amax", "amin")
REDUCED_BY = ("mean", "prod", "amax", "amin")

INDEXING: dict[str, Entry] = {
    "Tensor.__getitem__": entry(items),
    "gather": entry(taken_along),
    "take_along_dim": entry(
        lambda t: [
            case(t(3, 4), index([0, 2], [1, 1], [3, 0]), 1),
            case(t(3, 4), index([0, 2, 1, 1]), dim=0),
            case(t(3, 4), index(3, 3, 11)),
            case(t(1, 4), index([0, 2], [1, 1]), 1),
        ]
    ),
    "scatter": entry(lambda t: scattered(t, numbers=True)),
    "scatter_add": entry(lambda t: [*scattered(t, numbers=False), *repeated(t)]),
    "scatter_reduce": entry(
        lambda t: [
            *(real(t(3, 4), 1, index([0, 2], [1, 3]), t(2, 2), how) for how in REDUCTIONS),
            real(t(3), 0, index(0, 1, 1), t(3), "sum", include_self=False),
            real(t(3), 0, index(0, 1, 1), t(3), "amax", include_self=False),
        ]
    ),
    "index_select": entry(
        lambda t: [
            case(t(3, 4), 0, index(0, 2, 0)),
            case(t(3, 4), -1, index(1, 3)),
            case(t(4), 0, index(3)),
            case(t(3, 4), 1, index()),
            case(t(), 0, index(0)),
            case(t(0, 4), 1, index(1, 2)),
        ],
        expands=False,
    ),
    "index_add": entry(
        lambda t: [*added_along(t), case(t(3, 4), 0, index(0, 0), t(2, 4), alpha=2)]
    ),
    "index_copy": entry(
        lambda t: [case(t(3, 4), 0, index(0, 2), t(2, 4)), case(t(3, 4), -1, index(1), t(3, 1))]
    ),
    "index_fill": entry(
        lambda t: [
            case(t(3, 4), 0, index(0, 2), 1.5),
            case(t(3, 4), -1, index(1), t()),
            case(t(3, 4), 1, index(), 2),
        ]
    ),
    "index_put": entry(
        lambda t: [
            case(t(3, 4), (index(0, 2), index(1, 3)), t(2)),
            case(t(3, 4), (index(0, 2),), t(4)),
            case(t(3, 4), (index(0, 0), index(1, 1)), t(2), accumulate=True),
            case(t(2, 2), (mask("10", "11"),), t(3)),
            case(t(2, 2), (mask("10", "11"),), t()),
            case(t(2, 3, 4), (index(0, 1), index(2, 0), index(3, 1)), t(2)),
        ]
    ),
    "masked_fill": entry(
        lambda t: [
            case(t(2, 3), mask("101", "001"), 1.5),
            case(t(2, 3), mask("101"), t()),
            case(t(3), mask("101", "001"), 2),
            case(t(), t.bools(), 0.5),
            case(t(0, 3), mask("101"), 1.5),
        ],
        expands=True,
    ),
    "masked_select": entry(
        lambda t: [
            case(t(2, 3), mask("101", "001")),
            case(t(2, 3), mask("101")),
            case(t(3), mask("1", "0")),
            case(t(), t.bools()),
            case(t(2, 3), mask("0")),
            case(t(0, 3), mask("101")),
        ]
    ),
    "masked_scatter": entry(
        lambda t: [
            case(t(2, 3), mask("101", "001"), t(4)),
            case(t(2, 3), mask("101"), t(2, 3)),
        ]
    ),
    "take": entry(
        lambda t: [case(t(3, 4), index(0, 11, -1)), case(t(3, 4), index([0, 5], [5, 0]))]
    ),
    "put": entry(
        lambda t: [
            case(t(3, 4), index(0, 11), t(2)),
            case(t(3, 4), index(0, 0), t(2), accumulate=True),
        ]
    ),
    "select_scatter": entry(lambda t: [case(t(3, 4), t(4), 0, 1), case(t(3, 4), t(3), 1, -1)]),
    "slice_scatter": entry(
        lambda t: [case(t(3, 4), t(2, 4), 0, 1), case(t(3, 4), t(3, 2), 1, 0, 4, 2)]
    ),
    "as_strided_scatter": entry(
        lambda t: [case(t(3, 4), t(2, 2), (2, 2), (4, 1), 1)], strided=False
    ),
    "index_reduce": entry(
        lambda t: [
            *(real(t.positive(3, 4), 0, index(0, 2), t.positive(2, 4), how) for how in REDUCED_BY),
            real(t(4), 0, index(1, 1, 3), t(3), "amax", include_self=False),
            real(t(4), 0, index(1, 1, 3), t(3), "mean", include_self=False),
        ]
    ),
    "unravel_index": entry(lambda t: [case(index(0, 5, 11), (3, 4)), case(numpy.array(7), (2, 4))]),
    "nonzero_static": entry(lambda t: [case(t.ints(2, 3, high=2), size=4)]),
    "diagonal_scatter": entry(lambda t: [case(t(3, 3), t(3)), case(t(3, 3), t(2), 1)]),
    "sort": entry(lambda t: [*ordered(t), *stable(t)]),
    "argsort": entry(lambda t: [*ordered(t), *stable(t)]),
    "msort": entry(lambda t: [case(t(3, 2)), case(t(3)), case(t())]),
    "topk": entry(
        lambda t: [
            case(t(2, 5), 3),
            case(t(3, 4), 2, 0),
            case(t(2, 5), 2, -1, largest=False),
            case(t(2, 5), 1, 1, False, True),
            case(t(), 1),
            case(t(2, 5), 0),
            case(t.ints(2, 5, high=100), 2),
        ]
    ),
    "kthvalue": entry(lambda t: [case(t(2, 5), 3), case(t(3, 4), 1, 0, keepdim=True)]),
    "searchsorted": entry(
        lambda t: [
            case(numpy.array([1.0, 2.0, 3.0]), numpy.array([0.5, 2.0, 9.0])),
            case(numpy.array([1.0, 2.0, 3.0]), numpy.array([0.5, 2.0, 9.0]), right=True),
        ],
        strided=False,
    ),
    "bucketize": entry(
        lambda t: [case(numpy.array([0.5, 2.0, 9.0]), numpy.array([1.0, 2.0]))], strided=False
    ),
    "nonzero": entry(
        lambda t: [
            case(t.ints(2, 3, high=2)),
            case(t.bools(4)),
            case(t.ints(2, 3, high=2), as_tuple=True),
        ]
    ),
    "argwhere": entry(lambda t: [case(t.ints(2, 3, high=2)), case(t.bools(4))]),
    "unique": entry(lambda t: [case(t.ints(8)), case(t.ints(8), return_counts=True)]),
    "unique_consecutive": entry(lambda t: [case(t.ints(8, high=2), return_counts=True)]),
    "isin": entry(lambda t: [case(t.ints(2, 3), t.ints(2)), case(t.ints(2, 3), 2)]),
}

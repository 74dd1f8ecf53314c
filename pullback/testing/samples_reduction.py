"""Sample inputs of reductions and of scans along a dimension."""

from __future__ import annotations

from math import inf, nan
from typing import Any

from pullback.testing.cases import Case, Draw, DtypeName, Entry, case, entry, kink, real, real_kink


def over_dims(*more: Any) -> Entry:
    """A reduction over none, one or several dimensions."""

    def cases(t: Draw) -> list[Case]:
        return [
            case(t(2, 3)),
            case(t(2, 3), 1),
            case(t(2, 3), -2, keepdim=True),
            case(t(2, 3, 2), (0, -1)),
            case(t(2, 3, 2), (1, 0), True),
            *(one for make in more for one in make(t)),
        ]

    return entry(cases, expands=True)


def single(t: Draw) -> list[Case]:
    """0-d, and nothing to reduce where there is something to reduce over."""
    return [case(t()), case(t(), 0), case(t(2, 0, 3), 0)]


def empty(t: Draw) -> list[Case]:
    """Nothing to reduce over."""
    return [case(t(0, 3)), case(t(2, 0), 1)]


def over_dim(*more: Any) -> Entry:
    """A reduction over everything, or over one dimension."""

    def cases(t: Draw) -> list[Case]:
        return [
            case(t(2, 3)),
            case(t(2, 3), 1),
            case(t(2, 3, 2), -2, keepdim=True),
            case(t()),
            case(t(), -1),
            case(t(2, 0, 3), 0),
            *(one for make in more for one in make(t)),
        ]

    return entry(cases)


def along(*more: Any) -> Entry:
    """A scan along one dimension."""

    def cases(t: Draw) -> list[Case]:
        return [
            case(t(2, 3), 1),
            case(t(2, 3, 2), -2),
            case(t(3), 0),
            case(t(), 0),
            case(t(0, 3), 0),
            case(t(2, 0, 3), 2),
            *(one for make in more for one in make(t)),
        ]

    return entry(cases, expands=True)


def tied(t: Draw) -> list[Case]:
    """Equal greatest and least elements, and NaN."""
    return [
        kink(t.of(2.0, 1.0, 2.0, 1.0)),
        kink(t.of([1.0, 3.0, 3.0], [2.0, 2.0, 2.0]), 1),
        kink(t.of(1.0, nan, 3.0)),
        kink(t.of([nan, 1.0, nan], [0.0, inf, -inf]), 1),
    ]


def counted(t: Draw) -> list[Case]:
    """Integers and booleans."""
    return [case(t.ints(2, 3)), case(t.ints(2, 3), 1), case(t.bools(2, 3)), case(t.bools(2, 3), 0)]


def whole_numbers(t: Draw) -> list[Case]:
    """Integers alone, which some reductions take and booleans not."""
    return [case(t.ints(2, 3)), case(t.ints(2, 3), 1)]


def converted(t: Draw) -> list[Case]:
    """With a dtype to reduce in."""
    return [
        real(t(2, 3), dtype=DtypeName("float64")),
        case(t.ints(2, 3), 1, dtype=DtypeName("float64")),
        case(t.fixed(2, 3), 1, dtype=DtypeName("complex128")),
    ]


def scanned_in(t: Draw) -> list[Case]:
    """Integers, and a dtype to scan in."""
    return [
        case(t.ints(2, 3), 1),
        case(t.bools(2, 3), 0),
        case(t.ints(2, 3), 1, dtype=DtypeName("float64")),
        case(t.fixed(2, 3), 1, dtype=DtypeName("complex128")),
    ]


def zeros_in_product(t: Draw) -> list[Case]:
    """No zero, one and two: where a product's gradient cannot divide by its factors."""
    rows = t.of([1.0, 2.0, 3.0], [1.0, 0.0, 3.0], [0.0, 2.0, 0.0])
    return [case(rows, 1), case(rows), case(t.of(2.0, 0.0, 3.0), 0)]


def corrections(t: Draw) -> list[Case]:
    """Divisors other than one less than the count; constant and single data."""
    return [
        case(t(2, 3), 1, correction=0),
        case(t(2, 3), correction=2),
        case(t(2, 3), (0, 1), correction=0, keepdim=True),
        case(t(2, 3), unbiased=False),
        case(t(2, 3), 0, unbiased=False),
        kink(t.of(1.5, 1.5, 1.5)),
        case(t(3, 4), None, keepdim=True),
        kink(t(), correction=0),
    ]


def orders(t: Draw) -> list[Case]:
    """Norms of every sort, and the zero vector, where they have a corner."""
    return [
        case(t(2, 3), 2),
        case(t(2, 3), 1),
        case(t(2, 3), 3.5),
        case(t(2, 3), 0.5),
        case(t(2, 3), 2, 1),
        case(t(2, 3), 1, 0, True),
        case(t(2, 3), inf),
        case(t(2, 3), -inf, 1),
        case(t(2, 3, 2), 3, (0, 2), keepdim=True),
        case(t(), 2),
        *(kink(t.of(0.0, 0.0, 0.0), order) for order in (1, 2, 3, 0.5, inf)),
        kink(t.of(1.0, -1.0, 0.5), inf),
        kink(t.of(0.0, 0.0), 0),
    ]


REDUCTION: dict[str, Entry] = {
    "sum": over_dims(single, empty, counted, converted),
    "nansum": over_dims(single, empty, lambda t: [kink(t.of(1.0, nan, 2.0))]),
    "mean": over_dims(single, empty, converted),
    "nanmean": over_dims(single, lambda t: [kink(t.of(1.0, nan, 2.0)), kink(t(0, 3))]),
    "prod": over_dim(empty, counted, zeros_in_product, converted),
    "amax": over_dims(single, tied, counted),
    "amin": over_dims(single, tied, counted),
    "aminmax": entry(
        lambda t: [
            case(t(2, 3)),
            case(t(2, 3), dim=1),
            case(t(2, 3, 2), dim=-2, keepdim=True),
            case(t()),
            kink(t.of(2.0, 1.0, 2.0, 1.0)),
            case(t.ints(2, 3)),
        ]
    ),
    "max": over_dim(tied, counted, lambda t: [case(t(2, 3), t(3)), case(t.ints(3), t.ints(3))]),
    "min": over_dim(tied, counted, lambda t: [case(t(2, 3), t(3)), case(t.ints(3), t.ints(3))]),
    "var": over_dims(corrections),
    "std": over_dims(corrections),
    "var_mean": over_dims(corrections),
    "std_mean": over_dims(corrections),
    "logsumexp": entry(
        lambda t: [
            case(t(2, 3), 1),
            case(t(2, 3), -2, keepdim=True),
            case(t(2, 3, 2), (0, -1)),
            case(t(), 0),
            case(t(2, 0), 0),
            real_kink(t.of(-inf, -inf), 0),
            real_kink(t.of([-inf, 1.0], [inf, 2.0]), 1),
            case(t.ints(2, 3), 1),
        ],
        expands=True,
    ),
    "norm": entry(lambda t: [case(t(2, 3)), case(t(2, 3), "fro", 1), *orders(t)], expands=True),
    "linalg.vector_norm": entry(
        lambda t: [
            case(t(2, 3)),
            case(t(2, 3), 3, dim=1, keepdim=True),
            case(t(2, 3), 1, dim=(0, 1)),
            case(t(2, 3), inf),
            kink(t.of(0.0, 0.0)),
        ]
    ),
    "argmax": over_dim(tied, whole_numbers),
    "argmin": over_dim(tied, whole_numbers),
    "all": over_dims(single, empty, counted),
    "any": over_dims(single, empty, counted),
    "count_nonzero": entry(lambda t: [case(t.ints(2, 3, high=2)), case(t.ints(2, 3, high=2), 1)]),
    "cumsum": along(scanned_in),
    "cumprod": along(scanned_in, lambda t: zeros_in_product(t)[::2]),
    "logcumsumexp": along(),
    "cummax": along(lambda t: [kink(t.of(1.0, 2.0, 2.0, 1.0), 0), case(t.ints(2, 3), 1)]),
    "cummin": along(lambda t: [kink(t.of(2.0, 1.0, 1.0, 2.0), 0), case(t.ints(2, 3), 1)]),
    "median": over_dim(lambda t: [kink(t.of(1.0, 2.0, 2.0, 3.0)), kink(t.of(1.0, nan, 2.0))]),
    "nanmedian": over_dim(lambda t: [kink(t.of(1.0, nan, 2.0))]),
    "mode": entry(lambda t: [kink(t.of([1.0, 2.0, 2.0], [3.0, 3.0, 1.0])), case(t.ints(2, 5), 0)]),
    "quantile": entry(
        lambda t: [case(t(2, 3), 0.4), case(t(2, 3), 0.6, 1), case(t(5), 0.3, 0, keepdim=True)]
    ),
    "nanquantile": entry(
        lambda t: [case(t(2, 3), 0.4), case(t(2, 3), 0.6, 1), kink(t.of(1.0, nan, 2.0), 0.5)]
    ),
    "cumulative_trapezoid": entry(
        lambda t: [case(t(2, 3)), case(t(2, 3), t(3)), case(t(3, 2), dx=2, dim=0)]
    ),
    "trapz": entry(lambda t: [case(t(2, 3)), case(t(2, 3), t(3)), case(t(3, 2), dx=2, dim=0)]),
    "gradient": entry(
        lambda t: [
            case(t(4)),
            case(t(3, 4), spacing=2.0),
            case(t(3, 4), dim=1),
            case(t(4), spacing=0.5, edge_order=2),
        ]
    ),
    "histogram": entry(lambda t: [case(t.fixed(6), 4), case(t.fixed(6), 3, range=(-1.0, 1.0))]),
    "bincount": entry(
        lambda t: [
            case(t.ints(6)),
            case(t.ints(6), minlength=9),
            case(t.ints(6), t.fixed(6), 3),
            case(t.ints(0)),
        ]
    ),
    "histc": entry(
        lambda t: [case(t.fixed(6), 4), case(t.fixed(2, 6), 3, -1, 1), case(t.fixed(6), bins=2)]
    ),
    "dist": entry(lambda t: [case(t(2, 3), t(3)), case(t(2, 3), t(2, 3), 3)]),
    "diff": entry(lambda t: [case(t(2, 3)), case(t(3, 3), 2, 0), case(t(2, 3), prepend=t(2, 1))]),
    "trapezoid": entry(lambda t: [case(t(2, 3)), case(t(2, 3), t(3)), case(t(3, 2), dx=2, dim=0)]),
    "cov": entry(lambda t: [case(t(2, 4)), case(t(4)), case(t(2, 4), correction=0)]),
    "corrcoef": entry(lambda t: [case(t(2, 4)), case(t(3, 5))]),
    "allclose": entry(lambda t: [case(t.fixed(2, 3), t.fixed(2, 3)), case(t.ints(3), t.ints(3))]),
    "equal": entry(lambda t: [case(t.fixed(2, 3), t.fixed(2, 3)), case(t.ints(3), t.ints(2))]),
    "Tensor.sum_to_size": entry(lambda t: [case(t(2, 3), 1, 3), case(t(2, 3), (2, 1))]),
}

"""Sample inputs of decompositions, systems and functions of matrices."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.testing.cases import Case, Draw, Entry, case, entry, kink


def regular(t: Draw, *shape: int) -> Array:
    """Matrices of full rank, far from any that are not, and not symmetric."""
    return t(*shape) + 3 * numpy.eye(shape[-2], shape[-1]).astype(t.dtype)


def lower(t: Draw, *shape: int) -> Array:
    """Lower triangles with a positive diagonal."""
    return numpy.linalg.cholesky(t.positive_definite(*shape))


def squares(t: Draw) -> list[Case]:
    """One matrix, a batch, none."""
    return [case(regular(t, 3, 3)), case(regular(t, 2, 2, 2)), case(t(0, 0)), case(t(2, 0, 0))]


def definite(t: Draw, **options: Any) -> list[Case]:
    """Hermitian matrices, of which one triangle is read; finite differences see that."""
    return [
        kink(t.positive_definite(3, 3), **options),
        kink(t.positive_definite(2, 2, 2), **options),
        kink(t(0, 0), **options),
    ]


def shapes(t: Draw, **options: Any) -> list[Case]:
    """Square, tall, wide, in a batch, empty."""
    return [
        case(regular(t, 3, 3), **options),
        case(regular(t, 4, 2), **options),
        case(regular(t, 2, 3), **options),
        case(regular(t, 2, 3, 2), **options),
        case(t(0, 3, 2), **options),
    ]


def systems(t: Draw) -> list[Case]:
    """Matrices, vectors, from the right, batches that broadcast, nothing."""
    return [
        case(regular(t, 3, 3), t(3, 2)),
        case(regular(t, 3, 3), t(3)),
        case(regular(t, 2, 2), t(3, 2), left=False),
        case(regular(t, 2, 2, 2), t(2, 2)),
        case(regular(t, 2, 2), t(3, 2, 2)),
        case(t(0, 0), t(0, 2)),
    ]


def triangles(t: Draw) -> list[Case]:
    """Both triangles, both sides, ones on the diagonal."""
    return [
        case(regular(t, 3, 3), t(3, 2), upper=False),
        case(regular(t, 2, 2), t(3, 2), upper=True, left=False),
        case(regular(t, 2, 2), t(2, 2), upper=True, unitriangular=True),
        case(regular(t, 2, 2, 2), t(2, 3), upper=False),
    ]


def factors(t: Draw, *shape: int) -> tuple[Array, Array]:
    """What an LU decomposition may give: packed triangles, and pivots."""
    size = min(shape[-2:])
    pivots = numpy.arange(1, size + 1, dtype=numpy.int32)
    if size > 1:
        pivots[0] = 2
    batch = numpy.zeros((*shape[:-2], size), numpy.int32) + pivots
    return regular(t, *shape), batch


def packed(t: Draw) -> list[Case]:
    """Right sides for factors of one matrix and of a batch."""
    one, many = factors(t, 3, 3), factors(t, 2, 2, 2)
    return [
        case(*one, t(3, 2)),
        case(*one, t(3, 2), adjoint=True),
        case(*one, t(2, 3), left=False),
        case(*many, t(2, 2, 3)),
    ]


def reflections(t: Draw, *shape: int) -> tuple[Array, Array]:
    """Vectors of reflections below the diagonal, and their factors."""
    return t(*shape), t(*shape[:-2], shape[-1])


MATRICES: dict[str, Entry] = {
    "linalg.det": entry(squares),
    "det": entry(squares),
    "linalg.slogdet": entry(lambda t: squares(t)[:3]),
    "slogdet": entry(lambda t: squares(t)[:3]),
    "logdet": entry(
        lambda t: [case(t.positive_definite(3, 3)), case(t.positive_definite(2, 2, 2))]
    ),
    "linalg.inv": entry(squares),
    "linalg.inv_ex": entry(squares),
    "inverse": entry(squares),
    "linalg.solve": entry(systems),
    "linalg.solve_ex": entry(systems),
    "linalg.solve_triangular": entry(triangles),
    "triangular_solve": entry(
        lambda t: [case(t(3, 2), regular(t, 3, 3)), case(t(2, 2), regular(t, 2, 2), upper=False)]
    ),
    "linalg.cholesky": entry(definite),
    "linalg.cholesky_ex": entry(lambda t: definite(t, upper=True)),
    "cholesky": entry(definite),
    "cholesky_solve": entry(
        lambda t: [kink(t(3, 2), lower(t, 3, 3)), kink(t(2, 2), lower(t, 2, 2).mT, upper=True)]
    ),
    "cholesky_inverse": entry(
        lambda t: [kink(lower(t, 3, 3)), kink(lower(t, 2, 2).mT, upper=True)]
    ),
    "linalg.qr": entry(lambda t: shapes(t)[:4]),
    "qr": entry(lambda t: shapes(t)[:4]),
    "geqrf": entry(lambda t: [case(t(3, 3)), case(t(4, 2)), case(t(2, 2, 3))]),
    "linalg.householder_product": entry(
        lambda t: [case(*reflections(t, 3, 3)), case(*reflections(t, 2, 4, 2))]
    ),
    "orgqr": entry(lambda t: [case(*reflections(t, 3, 2))]),
    "ormqr": entry(
        lambda t: [
            case(*reflections(t, 3, 2), t(3, 2)),
            case(*reflections(t, 3, 3), t(2, 3), False, True),
        ]
    ),
    "linalg.lu": entry(shapes),
    "linalg.lu_factor": entry(shapes),
    "linalg.lu_factor_ex": entry(shapes),
    "lu": entry(shapes),
    "lu_unpack": entry(
        lambda t: [case(*factors(t, 3, 3)), case(*factors(t, 4, 2)), case(*factors(t, 2, 2, 3))]
    ),
    "linalg.lu_solve": entry(packed),
    "lu_solve": entry(lambda t: [case(t(3, 2), *factors(t, 3, 3))]),
    "linalg.ldl_factor": entry(lambda t: definite(t)[:2]),
    "linalg.ldl_factor_ex": entry(lambda t: definite(t, hermitian=True)[:2]),
    "linalg.svdvals": entry(shapes),
    "linalg.eigvalsh": entry(definite),
    "linalg.eigvals": entry(lambda t: squares(t)[:2]),
    "linalg.pinv": entry(shapes),
    "pinverse": entry(shapes),
    "linalg.lstsq": entry(
        lambda t: [case(t(4, 2), t(4, 3)), case(t(2, 4, 2), t(2, 4)), case(t(2, 3), t(2, 2))]
    ),
    "linalg.matrix_power": entry(
        lambda t: [
            case(t(3, 3), 3),
            case(t(2, 2), 0),
            case(t(2, 2), 1),
            case(regular(t, 2, 2, 2), -2),
        ]
    ),
    "matrix_power": entry(lambda t: [case(t(3, 3), 2), case(regular(t, 2, 2), -1)]),
    "linalg.matrix_exp": entry(squares),
    "matrix_exp": entry(squares),
    "linalg.matrix_rank": entry(
        lambda t: [case(t(3, 2)), case(t.positive_definite(2, 2), hermitian=True), case(t(2, 3, 3))]
    ),
    "linalg.cond": entry(lambda t: [case(regular(t, 3, 3)), case(t(4, 2), -2)]),
    "linalg.norm": entry(
        lambda t: [
            case(t(2, 3)),
            case(t(3), 3),
            case(t(3), inf),
            case(t(2, 3), "fro"),
            case(t(2, 3), "nuc"),
            case(t(2, 3), 1, (0, 1)),
            case(t(2, 3), 2, dim=1, keepdim=True),
            case(t(2, 3), 2),
        ]
    ),
    "linalg.matrix_norm": entry(
        lambda t: [
            case(t(2, 3)),
            case(t(2, 3), 1),
            case(t(2, 2, 3), inf, keepdim=True),
            case(t(2, 3), 2),
            case(t(2, 3), -2),
            case(t(2, 3, 2), "nuc", dim=(0, 2), keepdim=True),
        ]
    ),
    "linalg.tensorinv": entry(
        lambda t: [case(t(2, 3, 6), 2), case(t(4, 2, 2), ind=1)], strided=False
    ),
    "linalg.tensorsolve": entry(
        lambda t: [case(t(2, 3, 6), t(2, 3)), case(t(6, 2, 3), t(2, 3), dims=(0,))], strided=False
    ),
    "linalg.vander": entry(lambda t: [case(t(3)), case(t(2, 3), N=4), case(t.ints(3))]),
    "linalg.diagonal": entry(lambda t: [case(t(2, 3, 3)), case(t(2, 3), offset=1)]),
}

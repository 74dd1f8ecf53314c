"""Sample inputs of products of vectors and matrices, and of linear algebra."""

from __future__ import annotations

from math import inf

from pullback.testing.cases import Case, Draw, Entry, case, entry, real


def multiplied(t: Draw) -> list[Case]:
    """Every pairing of ranks: vectors, matrices, batches that broadcast, nothing."""
    pairs = [
        ((2, 3), (3, 2)),
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 2)),
        ((2, 2, 3), (2, 3, 2)),
        ((2, 2, 3), (3, 2)),
        ((2, 3), (2, 3, 2)),
        ((2, 1, 2, 3), (2, 3, 2)),
        ((3,), (2, 3, 2)),
        ((2, 2, 3), (3,)),
        ((0, 3), (3, 2)),
        ((2, 0), (0, 3)),
        ((0,), (0,)),
    ]
    return [case(t(*a), t(*b)) for a, b in pairs]


def equations(t: Draw) -> list[Case]:
    """Products, sums, traces, diagonals, batches, several operands."""
    return [
        case("ij,jk->ik", t(2, 3), t(3, 2)),
        case("ij,jk", t(2, 3), t(3, 2)),
        case("ii", t(3, 3)),
        case("ii->i", t(3, 3)),
        case("ij->ji", t(2, 3)),
        case("ij->", t(2, 3)),
        case("ij->j", t(2, 3)),
        case("i,j->ij", t(2), t(3)),
        case("i,i", t(3), t(3)),
        case("bij,bjk->bik", t(2, 2, 3), t(2, 3, 2)),
        case("...ij,...jk->...ik", t(2, 2, 3), t(3, 2)),
        case("bi,bj,ijk->bk", t(2, 2), t(2, 3), t(2, 3, 2)),
        case("ij,ij->i", t(2, 3), t(2, 3)),
        case("ij,kl->jk", t(2, 3), t(2, 2)),
        case("i j, j -> i", t(2, 3), t(3)),
        case("ij,jk->ik", [t(2, 3), t(3, 2)]),
        case("ij,jk->ik", t(2, 0), t(0, 2)),
        case(",i->i", t(), t(2)),
    ]


def triangular(t: Draw, *shape: int) -> Case:
    """A lower triangle and right-hand sides."""
    a = t.positive_definite(*shape)
    return case(a, t(*shape[:-1], 2), upper=False)


PRODUCTS: dict[str, Entry] = {
    "matmul": entry(multiplied),
    "linalg.matmul": entry(lambda t: [case(t(2, 3), t(3, 2)), case(t(3), t(3))]),
    "Tensor.__rmatmul__": entry(lambda t: [case(t(3, 2), t(2, 3)), case(t(3), t(3))]),
    "mm": entry(
        lambda t: [
            case(t(2, 3), t(3, 2)),
            case(t(0, 3), t(3, 2)),
            case(t(2, 0), t(0, 2)),
            real(t.ints(2, 3), t.ints(3, 2)),
        ],
        expands=True,
    ),
    "bmm": entry(
        lambda t: [
            case(t(2, 2, 3), t(2, 3, 2)),
            case(t(0, 2, 3), t(0, 3, 2)),
            case(t(2, 2, 0), t(2, 0, 2)),
        ],
        expands=True,
    ),
    "mv": entry(lambda t: [case(t(2, 3), t(3)), case(t(0, 3), t(3)), case(t(2, 0), t(0))]),
    "dot": entry(lambda t: [case(t(3), t(3)), case(t(0), t(0)), real(t.ints(3), t.ints(3))]),
    "vdot": entry(lambda t: [case(t(3), t(3)), case(t(0), t(0))]),
    "inner": entry(lambda t: [case(t(2, 3), t(3)), case(t(2, 3), t(2, 3)), case(t(), t(2))]),
    "outer": entry(lambda t: [case(t(2), t(3)), case(t(0), t(3)), case(t(2), t.ints(3))]),
    "ger": entry(lambda t: [case(t(2), t(3))]),
    "linalg.vecdot": entry(lambda t: [case(t(2, 3), t(2, 3)), case(t(2, 3), t(2, 1), dim=0)]),
    "addmm": entry(
        lambda t: [
            case(t(2, 2), t(2, 3), t(3, 2)),
            case(t(2), t(2, 3), t(3, 2)),
            case(t(), t(2, 3), t(3, 2), beta=0.5, alpha=2),
            case(t(2, 1), t(2, 3), t(3, 2), beta=0),
            case(t(2), t(0, 3), t(3, 2)),
            case(t(2, 2), t(2, 0), t(0, 2), beta=2),
        ],
        expands=True,
    ),
    "addmv": entry(
        lambda t: [case(t(2), t(2, 3), t(3)), case(t(), t(2, 3), t(3), beta=0.5, alpha=2)]
    ),
    "addbmm": entry(
        lambda t: [
            case(t(2, 2), t(2, 2, 3), t(2, 3, 2)),
            case(t(2), t(2, 2, 3), t(2, 3, 2), beta=0.5, alpha=2),
        ]
    ),
    "baddbmm": entry(
        lambda t: [
            case(t(2, 2, 2), t(2, 2, 3), t(2, 3, 2)),
            case(t(2), t(2, 2, 3), t(2, 3, 2), beta=0.5, alpha=2),
            case(t(2, 1, 2), t(2, 2, 3), t(2, 3, 2), beta=0),
        ],
        expands=True,
    ),
    "addr": entry(lambda t: [case(t(2, 3), t(2), t(3)), case(t(3), t(2), t(3), beta=0.5, alpha=2)]),
    "einsum": entry(equations),
    "tensordot": entry(
        lambda t: [
            case(t(2, 3), t(3, 2), 1),
            case(t(2, 3), t(2, 3)),
            case(t(2, 3), t(2, 2), 0),
            case(t(2, 3, 2), t(2, 2, 3), ([0, 1], [1, 2])),
            case(t(2, 3), t(3, 2), dims=([-1], [0])),
        ]
    ),
    "kron": entry(
        lambda t: [case(t(2, 2), t(1, 3)), case(t(2), t(3)), case(t(2, 2), t(3))], strided=False
    ),
    "cross": entry(lambda t: [case(t(2, 3), t(2, 3), dim=1), case(t(3, 2), t(3, 2), 0)]),
    "linalg.cross": entry(lambda t: [case(t(2, 3), t(2, 3)), case(t(3, 2), t(3, 1), dim=0)]),
    "trace": entry(lambda t: [case(t(3, 3)), case(t(2, 3)), case(t(0, 0))]),
    "linalg.multi_dot": entry(lambda t: [case([t(2, 3), t(3, 2), t(2, 2)]), case([t(3), t(3)])]),
    "linalg.matrix_power": entry(
        lambda t: [case(t(2, 2), 3), case(t(2, 2), 0), case(t.positive_definite(2, 2), -2)]
    ),
    "linalg.norm": entry(
        lambda t: [
            case(t(2, 3)),
            case(t(3), 3),
            case(t(3), inf),
            case(t(2, 3), "fro"),
            case(t(2, 3), 1, (0, 1)),
            case(t(2, 3), 2, dim=1, keepdim=True),
        ]
    ),
    "linalg.matrix_norm": entry(
        lambda t: [case(t(2, 3)), case(t(2, 3), 1), case(t(2, 2, 3), inf, keepdim=True)]
    ),
    "linalg.inv": entry(lambda t: [case(t.positive_definite(2, 2)), case(t(0, 0))]),
    "inverse": entry(lambda t: [case(t.positive_definite(2, 2))]),
    "linalg.det": entry(lambda t: [case(t.positive_definite(2, 2)), case(t(2, 3, 3))]),
    "linalg.solve": entry(
        lambda t: [
            case(t.positive_definite(2, 2), t(2)),
            case(t.positive_definite(2, 2), t(2, 3)),
            case(t.positive_definite(2, 2), t(3, 2), left=False),
        ]
    ),
    "linalg.slogdet": entry(lambda t: [case(t.positive_definite(2, 2))]),
    "logdet": entry(lambda t: [case(t.positive_definite(2, 2))]),
    "linalg.solve_triangular": entry(lambda t: [triangular(t, 2, 2), triangular(t, 2, 3, 3)]),
}

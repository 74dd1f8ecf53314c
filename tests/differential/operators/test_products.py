"""Products against torch: all dimensions and dtypes, derivatives of both orders, errors."""

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")

from tests.differential.compared import assert_same_outcome, compare

DTYPES = ["float64", "complex128", "float32"]


def randn(*shape, seed=0, dtype="float64"):
    random = numpy.random.default_rng([seed, *shape])
    made = random.standard_normal(shape)
    if dtype.startswith("complex"):
        made = made + 1j * random.standard_normal(shape)
    return numpy.asarray(made, dtype)


SHAPES = """
    3|3  2,3|3  3|3,4  2,3|3,4  5,2,3|3  5,2,3|3,4  3|5,3,4  2,3|5,3,4  5,2,3|5,3,4
    7,5,2,3|5,3,4  7,1,2,3|5,3,4  5,2,3|7,5,3,4  7,5,2,3|3  3|7,5,3,4  0,3|3,4  2,0|0,4
    0,2,3|0,3,4  1,1|1,1  1,2,3|5,3,4
"""


def shape_of(text):
    return tuple(map(int, text.split(",")))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", SHAPES.split())
def test_matmul_is_torchs_for_all_dimensions(shapes, dtype):
    left, right = map(shape_of, shapes.split("|"))
    arrays = randn(*left, dtype=dtype), randn(*right, seed=1, dtype=dtype)
    compare(pullback.matmul, torch.matmul, arrays)
    compare(pullback.matmul, torch.matmul, arrays, fixed=(0,))
    compare(pullback.matmul, torch.matmul, arrays, fixed=(1,))


MATRICES = [s for s in SHAPES.split() if all("," in part for part in s.split("|"))]


@pytest.mark.parametrize("shapes", MATRICES)
def test_matmul_of_transposed_views_is_torchs(shapes):
    left, right = map(shape_of, shapes.split("|"))
    arrays = randn(*left).swapaxes(-1, -2).copy(), randn(*right, seed=1).swapaxes(-1, -2).copy()
    compare(lambda a, b: pullback.matmul(a.mT, b.mT), lambda a, b: torch.matmul(a.mT, b.mT), arrays)


SUMS = {
    "addmm": [(2, 4), (4,), (1, 4), (2, 1), ()],
    "addr": [(2, 4), (4,), (2, 1), ()],
    "addbmm": [(2, 4), (4,), ()],
    "baddbmm": [(5, 2, 4), (2, 4), (4,), ()],
    "addmv": [(2,), (1,), ()],
}
FACTORS = {
    "addmm": ((2, 3), (3, 4)),
    "addr": ((2,), (4,)),
    "addbmm": ((5, 2, 3), (5, 3, 4)),
    "baddbmm": ((5, 2, 3), (5, 3, 4)),
    "addmv": ((2, 3), (3,)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SUMS)
def test_sums_with_a_product_are_torchs(name, dtype):
    numbers = {"beta": 0.5, "alpha": 2.5}
    if dtype == "complex128":
        numbers = {"beta": 0.5 + 1j, "alpha": 2.5 - 0.5j}
    for options in ({}, numbers, {"beta": 0}, {"alpha": 0}):
        for shape in SUMS[name]:
            factors = [randn(*s, seed=n, dtype=dtype) for n, s in enumerate(FACTORS[name], 1)]
            compare(
                lambda *t, o=options: getattr(pullback, name)(*t, **o),
                lambda *t, o=options: getattr(torch, name)(*t, **o),
                [randn(*shape, dtype=dtype), *factors],
            )


PAIRS = [
    ("dot", (3,), (3,)),
    ("vdot", (3,), (3,)),
    ("mv", (2, 3), (3,)),
    ("bmm", (5, 2, 3), (5, 3, 4)),
    ("outer", (3,), (4,)),
    ("inner", (2, 3), (4, 3)),
    ("inner", (), (2, 3)),
    ("inner", (2, 5, 3), (3,)),
    ("kron", (2, 3), (4, 5)),
    ("kron", (3,), (4, 5)),
    ("kron", (2, 3, 4), (2, 2)),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "left", "right"), PAIRS)
def test_products_of_two_are_torchs(name, left, right, dtype):
    arrays = randn(*left, dtype=dtype), randn(*right, seed=1, dtype=dtype)
    compare(getattr(pullback, name), getattr(torch, name), arrays)


EQUATIONS = """
    ij,jk|2,3|3,4  ij,jk->ki|2,3|3,4  ii->i|3,3  ii|3,3  ij,ij->|3,3|3,3  ij->|3,4  ij->j|3,4
    ij->ji|3,4  i,j->ij|3|4  i,j->ji|3|4  bij,bjk->bik|5,2,3|5,3,4  bij,bjk->ikb|5,2,3|5,3,4
    bij,jk->bik|5,2,3|3,4  ij,bjk->bik|2,3|5,3,4  ...ij,...jk|7,2,3|3,4
    ...ij,...jk->...|7,2,3|3,4  ...ij->ji...|7,6,2,3  i...,i...|3,4,5|3,4,5
    i...,i...->...|3,4,5|3,4,5  bn,anm,bm->ba|2,5|3,5,4|2,4  ij,jk,kl->il|2,5|5,4|4,3
    ij,jk,kl,lm->im|2,5|5,4|4,3|3,2  iij,jkk->ik|2,2,3|3,4,4  ij,j->i|2,3|3  ij,j->ij|2,3|3
    ijk,k->ij|2,3,4|4  ij,ij->i|2,3|2,3  ij,ik->jk|2,3|2,4  bqhd,bkhd->bhqk|2,3,4,5|2,6,4,5
    bhqk,bkhd->bqhd|2,4,3,6|2,6,4,5  ij,kl->|2,3|4,5  ij,kl->i|2,3|4,5  a,b,c->abc|2|3|4
    abc,bd,cd->a|2,3,4|3,5|4,5  ij,jk|2,1|3,4  ...i,...i->...|5,1,3|4,3  Ab,bA|2,3|3,2
    i,i|0|0  ij,jk|0,3|3,4  ij,jk|2,0|0,4  iii->i|3,3,3  ji,ij->|2,3|3,2  bA|2,3
"""


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("case", EQUATIONS.split())
def test_einsum_is_torchs(case, dtype):
    equation, *shapes = case.split("|")
    arrays = [randn(*shape_of(s), seed=n, dtype=dtype) for n, s in enumerate(shapes)]
    compare(
        lambda *given: pullback.einsum(equation, *given),
        lambda *given: torch.einsum(equation, *given),
        arrays,
    )


DIMS = [
    ((2, 3, 4), (3, 4, 5), 2),
    ((2, 3), (4,), 0),
    ((2, 3, 4), (5, 4, 3), ([1, 2], [2, 1])),
    ((2, 3, 4), (5, 4, 3), ([-1, 1], [1, -1])),
    ((2, 3, 4), (1, 4, 5), 2),
    ((2, 1, 4), (3, 4, 5), 2),
    ((3,), (3,), 1),
    ((0, 3), (3, 4), 1),
]


@pytest.mark.parametrize(("left", "right", "dims"), DIMS)
def test_tensordot_is_torchs(left, right, dims):
    compare(
        lambda a, b: pullback.tensordot(a, b, dims),
        lambda a, b: torch.tensordot(a, b, dims),
        (randn(*left), randn(*right, seed=1)),
    )


EXPRESSIONS = """
torch.mm(torch.ones(2, 3), torch.ones(2, 4))
torch.mm(torch.ones(2, 3), torch.ones(3))
torch.mm(torch.ones(2, 3), torch.ones(3, 4, dtype=torch.float64))
torch.mm(torch.ones(2, 2, dtype=torch.bool), torch.ones(2, 2, dtype=torch.bool))
torch.mm(torch.ones(2, 2, dtype=torch.int8), torch.ones(2, 2, dtype=torch.int8))
torch.mm(torch.ones(2, 2, dtype=torch.int8), torch.ones(2, 2, dtype=torch.int64))
torch.matmul(torch.ones(3), torch.ones(4))
torch.matmul(torch.ones(()), torch.ones(3))
torch.matmul(torch.ones(4, 2, 3), torch.ones(5, 3, 2))
torch.matmul(torch.ones(3), 3)
torch.ones(3) @ 3
3 @ torch.ones(3)
torch.dot(torch.ones(3), torch.ones(4))
torch.dot(torch.ones(3, 1), torch.ones(3))
torch.mv(torch.ones(2, 3), torch.ones(4))
torch.bmm(torch.ones(5, 2, 3), torch.ones(4, 3, 4))
torch.bmm(torch.ones(2, 3), torch.ones(4, 3, 4))
torch.addmm(torch.ones(2, 3), torch.ones(2, 3), torch.ones(3, 4))
torch.addmm(*[torch.ones(2, 2, dtype=torch.int64)] * 3, alpha=1.5)
torch.addmm(torch.ones(2, 4), torch.ones(2, 3).long(), torch.ones(3, 4).long())
torch.addr(torch.ones(2, 3), torch.ones(2, dtype=torch.float64), torch.ones(3))
torch.outer(torch.ones(2, 2), torch.ones(3))
torch.outer(torch.ones(2).long(), torch.ones(3))
torch.inner(torch.ones(2, 3), torch.ones(4, 2))
torch.tensordot(torch.ones(2, 3, 4), torch.ones(3, 4, 5), 3)
torch.tensordot(torch.ones(2, 3), torch.ones(4), -1)
torch.tensordot(torch.ones(2, 3), torch.ones(4), ([0], [0, 1]))
torch.cross(torch.ones(2, 2), torch.ones(2, 2), dim=0)
torch.cross(torch.ones(2, 2), torch.ones(2, 2))
torch.cross(torch.ones(2, 3).long(), torch.ones(2, 3), dim=1)
torch.trace(torch.ones(2))
torch.trace(torch.ones(2, 3).long())
torch.einsum('ij,jk', torch.ones(2, 3), torch.ones(4, 4))
torch.einsum('ij,jk->il', torch.ones(2, 3), torch.ones(3, 4))
torch.einsum('ij,jk->ii', torch.ones(2, 3), torch.ones(3, 4))
torch.einsum('ij,jk', torch.ones(2, 3))
torch.einsum('ij', torch.ones(2, 3, 4))
torch.einsum('i1', torch.ones(2, 3))
torch.einsum('i.j', torch.ones(2, 3))
torch.einsum('i...j...', torch.ones(2, 3))
torch.einsum(torch.ones(2, 3), [0, 52])
torch.einsum(torch.ones(2, 3), [0, 1], torch.ones(3, 4), [1, 2], [0, 2])
torch.einsum(' i j , j k -> i k ', torch.ones(2, 3), torch.ones(3, 4))
torch.einsum('ij,jk', [torch.ones(2, 3), torch.ones(3, 4)])
torch.einsum('->', torch.ones(()))
torch.einsum('ij')
torch.einsum('ij,jk', torch.ones(2, 2).long(), torch.ones(2, 2).long())
torch.einsum('ij,ij->ij', torch.ones(2, 2).long(), torch.ones(2, 2))
"""


@pytest.mark.parametrize("expression", EXPRESSIONS.strip().splitlines())
def test_expressions_come_out_as_torchs(expression):
    assert_same_outcome(expression)


MIXED = {
    "kron of a 0-d tensor": ("torch.kron(a, b)", ((), (2,))),
    "kron": ("torch.kron(a, b)", ((2, 3), (4,))),
    "kron of many elements": ("torch.kron(a, b)", ((9, 8), (2, 8, 9))),
    "outer": ("torch.outer(a, b)", ((2,), (3,))),
    "einsum with a 0-d tensor": ("torch.einsum('i,->i', a, b)", ((3,), ())),
    "einsum that sums one side": ("torch.einsum('ij,k->j', a, b)", ((2, 3), (4,))),
    "einsum without sums": ("torch.einsum('ij,jk->kij', a, b)", ((2, 3), (3, 4))),
}


@pytest.mark.parametrize("dtypes", [("float32", "float64"), ("float64", "complex64")], ids=str)
@pytest.mark.parametrize("name", MIXED)
def test_products_element_by_element_promote(name, dtypes):
    expression, shapes = MIXED[name]
    # Whole numbers: sums are exact in either precision, whatever is summed first.
    arrays = [numpy.round(4 * randn(*s, dtype=d)) for s, d in zip(shapes, dtypes, strict=True)]

    def on(library):
        return lambda a, b: eval(expression, {"torch": library, "a": a, "b": b})

    compare(on(pullback), on(torch), arrays, orders=0)


@pytest.mark.parametrize(
    "ord", ["1", "-1", "2", "-2", "float('inf')", "-float('inf')", "'nuc'", "'fro'"]
)
@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0), (2, 0, 3)], ids=str)
def test_norms_of_nothing_are_torchs(ord, shape):
    assert_same_outcome(f"torch.linalg.matrix_norm(torch.ones({shape}), {ord})")


@pytest.mark.parametrize(
    "expression",
    [
        "torch.linalg.norm(torch.tensor(1.0), 2)",
        "torch.trace(torch.ones(2, 2, dtype=torch.bool))",
        "torch.linalg.vecdot(torch.ones(2, dtype=torch.int64), torch.ones(2, dtype=torch.int64))",
        "torch.linalg.vander(torch.ones(3, dtype=torch.float16))",
        "torch.addmm(torch.ones(3, 4), torch.ones(2, 3), torch.ones(3, 4))",
        "torch.addmm(torch.ones(1, 2, 4), torch.ones(2, 3), torch.ones(3, 4))",
    ],
)
def test_refused_products_raise_what_torch_raises(expression):
    assert_same_outcome(expression)

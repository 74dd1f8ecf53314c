"""Products: all combinations of dimensions, no copies that BLAS can do without, what is refused."""

import itertools
import math

import numpy
import pytest

import pullback as torch
from pullback.autograd.gradcheck import gradcheck, gradgradcheck
from pullback.operators.linalg import products


def randn(*shape, seed=0, dtype=torch.float64, requires_grad=True):
    values = numpy.random.default_rng(seed).standard_normal(shape)
    return torch.tensor(values, dtype=dtype, requires_grad=requires_grad)


SHAPES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((6, 1, 2, 3), (5, 3, 4)),
    ((5, 2, 3), (6, 5, 3, 4)),
    ((2, 0), (0, 4)),
    ((0, 2, 3), (3, 4)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_matmul_agrees_with_numpy_for_all_dimensions(left, right):
    a, b = randn(*left), randn(*right, seed=1)
    numpy.testing.assert_allclose(
        torch.matmul(a, b).detach().numpy(), a.detach().numpy() @ b.detach().numpy(), rtol=1e-12
    )


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_matmul_gradients_hold_for_all_dimensions(left, right):
    inputs = randn(*left), randn(*right, seed=1)
    assert gradcheck(torch.matmul, inputs)
    assert gradgradcheck(torch.matmul, inputs)


@pytest.mark.parametrize(("left", "right"), [s for s in SHAPES if len(s[0]) > 1 and len(s[1]) > 1])
def test_matmul_of_transposed_views_has_the_gradients_of_copies(left, right):
    a = randn(*left[:-2], left[-1], left[-2])
    b = randn(*right[:-2], right[-1], right[-2], seed=1)
    views = torch.matmul(a.mT, b.mT)
    copies = torch.matmul(a.mT.contiguous(), b.mT.contiguous())
    weights = randn(*views.shape, seed=2, requires_grad=False)
    for one, other in zip(
        torch.autograd.grad(views, (a, b), weights),
        torch.autograd.grad(copies, (a, b), weights),
        strict=True,
    ):
        numpy.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)


def test_at_sign_is_matmul_and_takes_no_numbers():
    a, b = randn(2, 3), randn(3, 2, seed=1)
    expected = torch.matmul(a, b).detach().numpy()
    numpy.testing.assert_array_equal((a @ b).detach().numpy(), expected)
    with pytest.raises(TypeError):
        a @ 3


def test_a_batch_times_a_matrix_is_one_product():
    calls = []

    class Counting(numpy.ndarray):
        def dot(self, other):
            calls.append((self.shape, other.shape))
            return numpy.dot(self, other)

    a, b = numpy.ones((7, 5, 3)).view(Counting), numpy.ones((3, 4))
    assert products.product(numpy, "matmul", a, b).shape == (7, 5, 4)
    assert calls == [((35, 3), (3, 4))]


def test_transposed_matrices_reach_blas_without_a_copy():
    transposed = numpy.ones((64, 32), numpy.float32).T
    assert products.for_blas(numpy, transposed) is transposed
    part = numpy.ones((64, 64), numpy.float32)[:, :32]
    assert products.for_blas(numpy, part) is part


def test_what_blas_cannot_read_is_copied_first():
    expanded = numpy.broadcast_to(numpy.float32(1), (64, 64))
    assert products.for_blas(numpy, expanded).flags.c_contiguous
    every_second = numpy.ones((64, 128), numpy.float32)[:, ::2]
    assert products.for_blas(numpy, every_second).flags.c_contiguous


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.uint8, torch.float16])
def test_products_keep_their_dtype(dtype):
    a = torch.tensor([[1, 2], [3, 4]], dtype=dtype)
    assert torch.mm(a, a).dtype is dtype
    assert torch.mm(a, a).tolist() == [[7, 10], [15, 22]]


def test_vdot_conjugates_its_first_vector_and_dot_none():
    a, b = torch.tensor([1j, 2.0]), torch.tensor([1j, 1j])
    assert torch.vdot(a, b).item() == 1 + 2j
    assert torch.dot(a, b).item() == -1 + 2j


def test_addmm_with_beta_zero_ignores_what_input_holds():
    input = torch.full((2, 2), math.nan)
    result = torch.addmm(input, torch.eye(2), torch.eye(2), beta=0)
    assert result.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
def test_products_times_zero_are_not_looked_at_where_blas_does_not(dtype):
    bad, good = torch.full((2, 2), math.nan, dtype=dtype), torch.ones(2, 2, dtype=dtype)
    assert torch.addmm(good, bad, good, alpha=0, beta=2).tolist() == [[2, 2], [2, 2]]
    assert torch.addmv(good[0], bad, good[0], alpha=0).tolist() == [1, 1]
    assert torch.addbmm(good, bad[None], good[None], alpha=0).tolist() == [[1, 1], [1, 1]]
    assert torch.addmm(good, bad, good, alpha=0, beta=0).tolist() == [[0, 0], [0, 0]]
    assert torch.addr(good, bad[0], good[0], alpha=0).isnan().all()  # as torch's


def test_products_times_zero_are_not_looked_at_in_compiled_code():
    bad, good = torch.full((2, 2), math.nan), torch.ones(2, 2)
    scaled = torch.compile(lambda a, b, c: torch.addmm(a, b, c, alpha=0) + 1)
    assert scaled(good, bad, good).tolist() == [[2, 2], [2, 2]]


def test_addmm_in_place_keeps_its_target():
    target = torch.zeros(2, 2)
    result = target.addmm_(torch.eye(2), torch.eye(2), alpha=3)
    assert result is target
    assert target.tolist() == [[3, 0], [0, 3]]


def test_gradients_of_scaled_sums_are_scaled():
    for beta, alpha in itertools.product((1, 0.5), (1, 2.0)):
        inputs = randn(4), randn(2, 3, seed=1), randn(3, 4, seed=2)
        assert gradcheck(lambda *t, b=beta, a=alpha: torch.addmm(*t, beta=b, alpha=a), inputs)


def test_results_go_to_out():
    a = torch.eye(2)
    out = torch.empty(0)
    assert torch.matmul(a, a, out=out) is out
    assert out.tolist() == a.tolist()
    with pytest.raises(RuntimeError, match="out="):
        torch.matmul(a, randn(2, 2, dtype=torch.float32), out=out)


REFUSED = [
    (RuntimeError, "cannot be multiplied", lambda: torch.mm(torch.ones(2, 3), torch.ones(2, 3))),
    (RuntimeError, "2 dimensions", lambda: torch.mm(torch.ones(2, 3), torch.ones(3))),
    (RuntimeError, "same dtype", lambda: torch.ones(2, 2) @ torch.ones(2, 2).double()),
    (NotImplementedError, "bool", lambda: torch.mm(*[torch.ones(2, 2, dtype=torch.bool)] * 2)),
    (RuntimeError, "at least 1", lambda: torch.matmul(torch.tensor(1.0), torch.ones(2))),
    (RuntimeError, "do not broadcast", lambda: torch.ones(2, 1, 1) @ torch.ones(3, 1, 1)),
    (TypeError, "must be a Tensor", lambda: torch.matmul(torch.ones(2), 3)),
    (RuntimeError, "cannot be multiplied", lambda: torch.dot(torch.ones(2), torch.ones(3))),
    (RuntimeError, "equally many", lambda: torch.bmm(torch.ones(2, 1, 1), torch.ones(3, 1, 1))),
    (RuntimeError, "expand", lambda: torch.addmm(torch.ones(3), *[torch.ones(2, 2)] * 2)),
    (RuntimeError, "complex", lambda: torch.addmm(*[torch.ones(2, 2)] * 3, alpha=1j)),
    (RuntimeError, "1 dimensions", lambda: torch.outer(torch.ones(2, 2), torch.ones(2))),
    (RuntimeError, "3 elements", lambda: torch.cross(torch.ones(2), torch.ones(2), dim=0)),
    (RuntimeError, "needs a matrix", lambda: torch.trace(torch.ones(2))),
]


@pytest.mark.parametrize(("kind", "words", "call"), REFUSED)
def test_misfits_are_refused_with_their_shapes(kind, words, call):
    with pytest.raises(kind, match=words):
        call()


COMPLEX = torch.tensor([[1 + 1j, 2.0], [0.5j, 1.0]], dtype=torch.complex128)
SUMS = {
    "addmm": (COMPLEX, COMPLEX, COMPLEX),
    "addmv": (COMPLEX[0], COMPLEX, COMPLEX[1]),
    "addr": (COMPLEX, COMPLEX[0], COMPLEX[1]),
    "addbmm": (COMPLEX, COMPLEX[None], COMPLEX[None]),
    "baddbmm": (COMPLEX[None], COMPLEX[None], COMPLEX[None]),
}


@pytest.mark.parametrize("name", SUMS)
def test_tangents_of_sums_with_a_product_meet_the_complex_factors_as_they_are(name):
    """They were conjugated."""

    def call(*tensors):
        return getattr(torch, name)(*tensors, beta=2j, alpha=1 + 2j)

    for place, tensor in enumerate(SUMS[name]):
        others = list(SUMS[name])

        def of_one(one, place=place, others=others):
            return call(*others[:place], one, *others[place + 1 :])

        direction = tensor * (1 - 1j)
        _, tangent = torch.func.jvp(of_one, (tensor,), (direction,))
        assert torch.allclose(tangent, of_one(tensor + direction) - of_one(tensor))


HALVES = {
    "linear": lambda c, a, b, m: torch.nn.functional.linear(a, b.t(), c),
    "addmm": lambda c, a, b, m: torch.addmm(c, a, b, beta=0.5, alpha=0.3),
    "addmv": lambda c, a, b, m: torch.addmv(c, a, b[:, 0]),
    "baddbmm": lambda c, a, b, m: torch.baddbmm(c, m, m.mT),
    "addbmm": lambda c, a, b, m: torch.addbmm(c, m, m.mT),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", HALVES)
def test_sums_with_products_of_half_precision_are_rounded_once(name, dtype):
    torch.manual_seed(0)
    shapes = (16,), (16, 24), (24, 16), (3, 16, 24)
    given = [torch.randn(shape).to(dtype) for shape in shapes]
    found = HALVES[name](*given)
    assert found.dtype is dtype
    exact = HALVES[name](*[one.double() for one in given])
    # Half of the distance to the next number, and what float32 loses before that.
    ulp = torch.exp2(exact.abs().log2().floor()) * torch.finfo(dtype).eps
    assert ((found.double() - exact).abs() <= 0.501 * ulp + 1e-5).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128])
def test_a_transposed_weight_gets_its_gradient_in_its_own_order(dtype):
    random = numpy.random.default_rng(0)
    x = torch.tensor(random.standard_normal((2, 3, 4))).to(dtype)
    plain = torch.tensor(random.standard_normal((4, 5))).to(dtype).requires_grad_()
    turned = plain.detach().t().contiguous().requires_grad_()
    y, z = x @ plain, x @ turned.t()
    g = torch.tensor(random.standard_normal((2, 3, 5))).to(dtype)
    (found,) = torch.autograd.grad(z, turned, g)
    (expected,) = torch.autograd.grad(y, plain, g)
    assert found.is_contiguous()
    assert expected.is_contiguous()
    numpy.testing.assert_allclose(found, expected.t(), rtol=1e-6)


@pytest.mark.parametrize("shape", [(10, 20), (300, 30), (300, 200)])
@pytest.mark.parametrize("rows", [1, 2, 16, 41, 100, 129])
def test_products_with_weights_are_new_rows_whichever_side_is_turned(rows, shape):
    random = numpy.random.default_rng(rows)
    a, weight = random.standard_normal((rows, shape[1])), random.standard_normal(shape)
    found = products.times_transposed(a.astype("f"), weight.astype("f"))
    numpy.testing.assert_allclose(found, a @ weight.T, atol=2e-4)
    assert found.flags.c_contiguous
    assert found.base is None

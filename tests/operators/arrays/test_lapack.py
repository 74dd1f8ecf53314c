"""LAPACK by the shortest way: the results of NumPy's public functions, with SciPy and without."""

import numpy
import pytest

import pullback as torch
from pullback.operators.arrays import lapack
from pullback.operators.linalg import lu, triangular

CODES = "fdFD"
SHAPES = [(3, 3), (4, 3, 3), (2, 2, 5, 5), (1, 1), (40, 12, 12)]


def matrices(*shape, code="d", seed=0):
    random = numpy.random.default_rng(seed)
    values = random.standard_normal(shape)
    if code in "FD":
        values = values + 1j * random.standard_normal(shape)
    return values.astype(code)


def definite(*shape, code="d"):
    root = matrices(*shape, code=code)
    return (root @ root.mT.conj() + numpy.eye(shape[-1])).astype(code)


def tolerance(code):
    return {"rtol": 2e-4, "atol": 2e-4} if code in "fF" else {"rtol": 1e-10, "atol": 1e-10}


@pytest.mark.parametrize("name", sorted(lapack._PUBLIC))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("code", CODES)
def test_kernels_agree_with_public_functions(name, shape, code):
    arrays = [definite(*shape, code=code)]
    if name == "solve":
        arrays.append(matrices(*shape, code=code))
    ours = lapack.lapack(numpy, name, *arrays)
    theirs = lapack._PUBLIC[name](numpy.linalg, *arrays)
    if name == "slogdet":  # the one that is a tuple of equal shapes
        ours, theirs = numpy.stack(ours), numpy.stack(theirs)
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (ours, theirs)), strict=True):
        assert a.dtype == b.dtype
        numpy.testing.assert_allclose(a, b, **tolerance(code))


@pytest.mark.parametrize("name", ["inv", "cholesky_lo", "cholesky_up"])
def test_what_lapack_refuses_is_an_error_also_where_numpy_raises_by_itself(name):
    bad = numpy.stack([numpy.eye(2), numpy.zeros((2, 2))])
    for state in ("ignore", "raise"):
        with numpy.errstate(all=state), pytest.raises(numpy.linalg.LinAlgError):
            lapack.lapack(numpy, name, bad)


def test_nan_in_the_input_is_no_refusal():
    a = numpy.eye(3)
    a[0, 1] = numpy.nan
    assert numpy.isnan(lapack.lapack(numpy, "solve", a, numpy.eye(3))).any()


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (4, 2, 5), (0, 3, 3), (2, 0, 3), (1, 1)])
@pytest.mark.parametrize("code", CODES)
def test_qr_agrees_with_numpy(shape, code):
    a = matrices(*shape, code=code)
    for ours, theirs in zip(lapack.qr(numpy, a), numpy.linalg.qr(a), strict=True):
        assert ours.dtype == theirs.dtype
        numpy.testing.assert_allclose(ours, theirs, **tolerance(code))


def test_numpy_without_kernels_is_asked_by_its_public_functions(monkeypatch):
    monkeypatch.setattr(lapack, "_DIRECT", dict.fromkeys(lapack._DIRECT))
    a = torch.tensor(definite(2, 3, 3), requires_grad=True)
    for function in (torch.linalg.cholesky, torch.linalg.inv, torch.linalg.qr, torch.linalg.svd):
        result = function(a)
        result = result if isinstance(result, torch.Tensor) else result[0]
        torch.autograd.grad(result.abs().sum(), a)
    assert torch.allclose(torch.linalg.inv(a) @ a, torch.eye(3, dtype=torch.float64))


# With SciPy and without ---------------------------------------------------------------------------


@pytest.fixture(params=["scipy", "numpy alone"])
def library(request, monkeypatch):
    if request.param == "scipy":
        pytest.importorskip("scipy.linalg")
    else:
        monkeypatch.setattr(lapack, "_routines", lambda name: {})
    return request.param


LU_SHAPES = [*SHAPES, (4, 5, 3), (3, 3, 5), (40, 3, 4), (33, 70, 70), (0, 3, 3), (2, 0, 3)]


@pytest.mark.parametrize("shape", LU_SHAPES)
@pytest.mark.parametrize("code", CODES)
def test_lu_factors_multiply_to_the_matrix(library, shape, code):
    a = torch.tensor(matrices(*shape, code=code))
    p, lower, upper = torch.linalg.lu(a)
    assert torch.allclose(p @ lower @ upper, a, rtol=1e-4, atol=1e-4 if code in "fF" else 1e-10)
    packed, pivots, info = torch.linalg.lu_factor_ex(a)
    assert packed.shape == a.shape
    assert pivots.dtype is torch.int32
    assert pivots.shape == (*shape[:-2], min(shape[-2:]))
    assert info.shape == shape[:-2]
    assert not info.any()
    assert (lower.abs() <= 1.5).all()  # complex numbers are compared by the sum of both parts


def test_lu_says_where_the_first_zero_pivot_is(library):
    a = numpy.stack([numpy.eye(3), numpy.diag([1.0, 0.0, 2.0]), numpy.zeros((3, 3))])
    assert lu.factored(numpy, a)[2].tolist() == [0, 2, 1]


def test_lu_leaves_its_input_alone(library):
    a = matrices(4, 5, 5)
    kept = a.copy()
    lu.factored(numpy, a)
    lu.factored(numpy, a.mT)
    numpy.testing.assert_array_equal(a, kept)


@pytest.mark.parametrize("shape", [(3, 3), (40, 12, 12), (2, 3, 30, 30), (80, 80)])
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_systems_read_their_triangle_alone(library, shape, code, upper, unit):
    n = shape[-1]
    a = matrices(*shape, code=code) / n + 3 * numpy.eye(n, dtype=code)
    triangle = numpy.triu(a) if upper else numpy.tril(a)
    if unit:
        triangle[..., range(n), range(n)] = 1
    b = matrices(*shape[:-1], 4, code=code, seed=1)
    for one in (a, numpy.ascontiguousarray(a.mT).mT):  # rows, and columns, one after another
        x = triangular.solved(numpy, one, b, upper=upper, unit=unit)
        assert x.dtype == code
        numpy.testing.assert_allclose(triangle @ x, b, **tolerance(code))


def test_triangular_systems_broadcast(library):
    a, b = numpy.triu(matrices(3, 1, 40, 40)) + 9 * numpy.eye(40), matrices(2, 40, 5, seed=1)
    x = triangular.solved(numpy, a, b, upper=True, unit=False)
    numpy.testing.assert_allclose(a @ x, numpy.broadcast_to(b, x.shape), atol=1e-10)


def test_a_zero_on_the_diagonal_gives_infinities(library):
    a = numpy.eye(70)
    a[3, 3] = 0
    x = triangular.solved(numpy, a, numpy.ones((70, 1)), upper=True, unit=False)
    assert numpy.isinf(x[3, 0])
    assert x[4:].tolist() == [[1.0]] * 66


LARGE = 256


def large(code="d", seed=0):
    """A matrix that LAPACK need not be careful with, of either sign."""
    return matrices(LARGE, LARGE, code=code, seed=seed) / 16 + numpy.eye(LARGE, dtype=code)


@pytest.mark.parametrize("order", ["rows", "columns", "every other"])
@pytest.mark.parametrize("code", "fd")
@pytest.mark.parametrize("name", ["det", "inv", "slogdet", "solve"])
def test_large_matrices_agree_with_public_functions(name, code, order):
    a = large(code)
    if order == "every other":
        a = numpy.repeat(numpy.repeat(a, 2, 0), 2, 1)[::2, ::2]
    a = a.T if order == "columns" else a
    arrays = [a, matrices(LARGE, 3, code=code)] if name == "solve" else [a]
    before = [one.copy() for one in arrays]
    ours = lapack.lapack(numpy, name, *arrays)
    theirs = lapack._PUBLIC[name](numpy.linalg, *arrays)
    for one, other in zip(
        *(x if isinstance(x, tuple) else (x,) for x in (ours, theirs)), strict=True
    ):
        assert one.dtype == other.dtype == numpy.dtype(code)
        size = numpy.abs(other).max()
        numpy.testing.assert_allclose(one / size, other / size, **tolerance(code))
    assert all((one == kept).all() for one, kept in zip(arrays, before, strict=True))


@pytest.mark.parametrize("name", ["inv", "solve"])
def test_a_large_singular_matrix_is_refused(name):
    a = large()
    a[7] = a[3]
    a[:, 7] = 0  # exactly, whatever is rounded
    a[7] = 0
    with pytest.raises(numpy.linalg.LinAlgError):
        lapack.lapack(numpy, name, a, *([matrices(LARGE, 2)] if name == "solve" else []))


def test_the_determinant_of_a_large_singular_matrix_is_zero():
    a = large()
    a[7] = 0
    assert lapack.lapack(numpy, "det", a) == 0
    sign, logarithm = lapack.lapack(numpy, "slogdet", a)
    assert sign == 0
    assert logarithm == -numpy.inf


def test_nan_in_a_large_matrix_is_no_refusal():
    a = large()
    a[3, 4] = numpy.nan
    assert numpy.isnan(lapack.lapack(numpy, "inv", a)).any()


def test_gradients_of_a_large_system_are_those_of_both_rules():
    a = torch.tensor(large(), requires_grad=True)
    b = torch.tensor(matrices(LARGE, 2, seed=1), requires_grad=True)
    x = torch.linalg.solve(a, b)
    g = torch.tensor(matrices(LARGE, 2, seed=2))
    of_a, of_b = torch.autograd.grad(x, (a, b), g, retain_graph=True)
    (alone,) = torch.autograd.grad(x, b, g, retain_graph=True)
    assert torch.allclose(of_b, alone)
    assert torch.allclose(of_a, -(of_b @ x.detach().T))
    assert torch.allclose(a.detach().T @ of_b, g)


# LAPACK does not come back from its search for singular values of these.
ENDLESS = [
    [[2, 1, 1, 0.5], [0.5, numpy.inf, 1, 0.5], [numpy.inf, 1, 0, -1], [-numpy.inf, -1, 0.5, 0]],
    [[2 - 1j, 0.5, 0.5 + 1j], [-numpy.inf, 1j, 1], [0.5 - 1j, -1, 0.5]],
]
BY_SINGULAR_VALUES = {
    "svd": lambda a: torch.linalg.svd(a).S,
    "svdvals": torch.linalg.svdvals,
    "pinv": torch.linalg.pinv,
    "cond": torch.linalg.cond,
    "matrix_norm": lambda a: torch.linalg.matrix_norm(a, 2),
    "nuc": lambda a: torch.linalg.matrix_norm(a, "nuc"),
    "lstsq": lambda a: torch.linalg.lstsq(a, a).solution,
    "det, once": lambda a: bent(torch.linalg.det(a), a, 1),
    "det, twice": lambda a: bent(torch.linalg.det(a), a, 2),
    "det, three times": lambda a: bent(torch.linalg.det(a), a, 3),
}


def bent(value, x, times):
    for _ in range(times):
        (value,) = torch.autograd.grad(value.abs().sum(), x, create_graph=True)
    return value


@pytest.mark.parametrize("name", BY_SINGULAR_VALUES)
@pytest.mark.parametrize("values", ENDLESS, ids=["real", "complex"])
@pytest.mark.parametrize("single", [False, True])
def test_infinity_ends_and_is_nan(name, values, single):
    a = torch.tensor(values)
    a = a.to(torch.complex128 if a.is_complex() else torch.float64)
    a = (a.to(torch.complex64 if a.is_complex() else torch.float32) if single else a).detach()
    assert BY_SINGULAR_VALUES[name](a.requires_grad_()).isnan().any()
    both = torch.stack([a.detach(), torch.eye(len(a), dtype=a.dtype)]).requires_grad_()
    result = BY_SINGULAR_VALUES[name](both)
    assert result[0].isnan().any()
    assert result[1].isfinite().all()


@pytest.mark.parametrize("bad", [numpy.inf, numpy.nan])
@pytest.mark.parametrize("name", ["eigh", "eigvalsh"])
def test_eigenvalues_of_what_is_not_finite_are_refused(name, bad):
    a = torch.eye(3, dtype=torch.float64)
    a[2, 1] = bad
    with pytest.raises(torch.linalg.LinAlgError):
        getattr(torch.linalg, name)(a)


@pytest.mark.parametrize("name", ["svd", "svdvals", "pinv", "cond", "matrix_norm", "lstsq"])
def test_singular_values_of_nan_are_refused(name):
    a = torch.eye(3, dtype=torch.float64)
    a[2, 1] = numpy.nan
    with pytest.raises(torch.linalg.LinAlgError):
        BY_SINGULAR_VALUES[name](a)

"""Decompositions multiply back, solutions solve, errors name the matrix, gauges are respected."""

import numpy
import pytest

import pullback as torch
from pullback import linalg
from pullback.autograd import gradcheck, gradgradcheck

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
in_all_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
in_double = pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)


def drawn(*shape, dtype=torch.float64, seed=0):
    random = numpy.random.default_rng(seed)
    values = random.normal(size=shape)
    if dtype.is_complex:
        values = values + 1j * random.normal(size=shape)
    return torch.from_numpy(numpy.asarray(values).astype(dtype.numpy))


def regular(*shape, dtype=torch.float64, seed=0):
    return drawn(*shape, dtype=dtype, seed=seed) + 3 * torch.eye(*shape[-2:], dtype=dtype)


def hermitian(*shape, dtype=torch.float64, seed=0):
    root = drawn(*shape, dtype=dtype, seed=seed)
    return root @ root.mH + torch.eye(shape[-1], dtype=dtype)


def close(a, b):
    single = a.dtype in (torch.float32, torch.complex64)
    tolerance = 2e-4 if single else 1e-10
    numpy.testing.assert_allclose(a._array, b._array, rtol=tolerance, atol=tolerance)
    return True


def identity_like(product):
    return torch.eye(product.shape[-1], dtype=product.dtype).expand(product.shape)


SHAPES = [(3, 3), (4, 2), (2, 4), (2, 3, 3), (0, 2, 3), (2, 0, 3), (0, 0)]
of_all_shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


# Decompositions -----------------------------------------------------------------------------------


@in_all_dtypes
@of_all_shapes
def test_svd_multiplies_back_to_the_matrix(shape, dtype):
    a = drawn(*shape, dtype=dtype)
    u, s, vh = linalg.svd(a, full_matrices=False)
    assert s.dtype is (dtype if not dtype.is_complex else a.real.dtype)
    assert close(u * s.unsqueeze(-2).to(dtype) @ vh, a)
    assert close(u.mH @ u, identity_like(u.mH @ u))
    assert close(linalg.svdvals(a), s)


@in_all_dtypes
@of_all_shapes
def test_qr_multiplies_back_to_the_matrix(shape, dtype):
    a = drawn(*shape, dtype=dtype)
    for mode in ("reduced", "complete"):
        q, r = linalg.qr(a, mode)
        assert close(q @ r, a)
        assert close(q.mH @ q, identity_like(q.mH @ q))
        assert close(r, r.triu())
    assert linalg.qr(a, "r").Q.numel() == 0
    assert close(linalg.qr(a, "r").R, linalg.qr(a).R)


@in_all_dtypes
@of_all_shapes
def test_lu_multiplies_back_to_the_matrix(shape, dtype):
    a = drawn(*shape, dtype=dtype)
    p, low, up = linalg.lu(a)
    assert close(p @ low @ up, a)
    assert close(low, low.tril())
    packed = linalg.lu_factor_ex(a)
    unpacked = torch.lu_unpack(packed.LU, packed.pivots)
    for one, other in zip(unpacked, (p, low, up), strict=True):
        assert close(one, other)


def test_lu_of_more_columns_than_a_panel_multiplies_back():
    a = drawn(2, 90, 75)
    p, low, up = linalg.lu(a)
    assert close(p @ low @ up, a)
    square = drawn(90, 90)
    p, low, up = linalg.lu(square)
    assert close(p @ low @ up, square)
    assert close(linalg.lu_solve(*linalg.lu_factor(square), a[0]), linalg.solve(square, a[0]))


@in_all_dtypes
def test_eigenvectors_are_only_stretched(dtype):
    a = hermitian(2, 4, 4, dtype=dtype)
    values, vectors = linalg.eigh(a)
    assert close(a @ vectors, vectors * values.unsqueeze(-2).to(dtype))
    assert close(linalg.eigvalsh(a, "U"), values)
    general = drawn(2, 4, 4, dtype=dtype)
    values, vectors = linalg.eig(general)
    assert values.dtype.is_complex
    assert close(general.to(values.dtype) @ vectors, vectors * values.unsqueeze(-2))


@in_all_dtypes
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_multiplies_back_and_reads_one_triangle(upper, dtype):
    a = hermitian(2, 4, 4, dtype=dtype)
    factor = linalg.cholesky(a, upper=upper)
    assert close(factor.mH @ factor if upper else factor @ factor.mH, a)
    half = a.triu() if upper else a.tril()
    assert close(linalg.cholesky(half, upper=upper), factor)
    b = drawn(2, 4, 3, dtype=dtype)
    assert close(a @ torch.cholesky_solve(b, factor, upper), b)
    assert close(torch.cholesky_inverse(factor, upper), linalg.inv(a))


@in_all_dtypes
@pytest.mark.parametrize("conjugates", [False, True])
def test_ldl_solves_indefinite_systems(conjugates, dtype):
    a = drawn(3, 6, 6, dtype=dtype)
    a = a + (a.mH if conjugates else a.mT)
    a[0, 0, 0] = 0.0
    b = drawn(3, 6, 2, dtype=dtype, seed=1)
    packed, pivots = linalg.ldl_factor(a, hermitian=conjugates)
    assert (pivots < 0).any()  # blocks of two
    assert close(a @ linalg.ldl_solve(packed, pivots, b, hermitian=conjugates), b)


@in_all_dtypes
def test_householder_product_is_the_q_of_geqrf(dtype):
    a = drawn(2, 4, 3, dtype=dtype)
    packed, tau = torch.geqrf(a)
    q, r = linalg.qr(a)
    assert close(linalg.householder_product(packed, tau), q)
    assert close(packed.triu()[..., :3, :], r)
    other = drawn(2, 4, 2, dtype=dtype)
    whole = linalg.qr(a, "complete").Q
    assert close(torch.ormqr(packed, tau, other), whole @ other)
    assert close(torch.ormqr(packed, tau, other, transpose=True), whole.mH @ other)
    assert close(torch.ormqr(packed, tau, other.mT, left=False), other.mT @ whole)


# Systems ------------------------------------------------------------------------------------------


@in_all_dtypes
def test_solutions_solve(dtype):
    a, b = regular(2, 3, 3, dtype=dtype), drawn(2, 3, 4, dtype=dtype)
    assert close(a @ linalg.solve(a, b), b)
    assert close(linalg.solve(a, b.mT, left=False) @ a, b.mT)
    assert close(a @ linalg.inv(a), identity_like(a))
    vectors = drawn(2, 3, dtype=dtype)
    assert close((a @ linalg.solve(a, vectors).unsqueeze(-1)).squeeze(-1), vectors)


@pytest.mark.parametrize("n", [3, 64, 65, 200])
@pytest.mark.parametrize("upper", [False, True])
def test_triangular_solutions_solve_at_every_size(n, upper):
    a = regular(n, n) / n + torch.eye(n, dtype=torch.float64)
    triangle = a.triu() if upper else a.tril()
    b = drawn(n, 3)
    assert close(triangle @ linalg.solve_triangular(a, b, upper=upper), b)
    assert close(linalg.solve_triangular(a, b.mT, upper=upper, left=False) @ triangle, b.mT)


def test_triangular_system_with_a_zero_on_the_diagonal_gives_infinities():
    a = torch.tensor([[1.0, 2.0], [0.0, 0.0]])
    x = linalg.solve_triangular(a, torch.ones(2, 1), upper=True)
    assert not torch.isfinite(x).any()


@in_all_dtypes
def test_least_squares_leave_a_rest_that_is_orthogonal_to_the_columns(dtype):
    a, b = drawn(2, 5, 3, dtype=dtype), drawn(2, 5, 2, dtype=dtype)
    found = linalg.lstsq(a, b, driver="gelsd")
    rest = b - a @ found.solution
    assert close(a.mH @ rest, torch.zeros(2, 3, 2, dtype=dtype))
    assert close(found.residuals, (rest * rest.conj()).real.sum(-2))
    assert found.rank.tolist() == [3, 3]
    assert close(linalg.pinv(a) @ b, found.solution)


def test_pseudo_inverse_has_the_four_properties_for_a_matrix_of_low_rank():
    a = drawn(5, 2) @ drawn(2, 4)
    p = linalg.pinv(a)
    assert close(a @ p @ a, a)
    assert close(p @ a @ p, p)
    assert close((a @ p).mH, a @ p)
    assert close((p @ a).mH, p @ a)
    assert linalg.matrix_rank(a).item() == 2


def test_tensor_systems():
    a = drawn(2, 3, 6)
    inverse = linalg.tensorinv(a)
    b = drawn(2, 3)
    assert close(torch.tensordot(inverse, b, 2), linalg.tensorsolve(a, b))


# Functions of matrices ----------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-3, 0.1, 0.5, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_exponential_of_a_symmetric_matrix_is_that_of_its_eigenvalues(scale, dtype):
    a = hermitian(2, 3, 3, dtype=dtype) * (scale / 10)
    values, vectors = linalg.eigh(a)
    expected = vectors * torch.exp(values).unsqueeze(-2) @ vectors.mT
    largest = expected.abs().max()
    assert close(linalg.matrix_exp(a) / largest, expected / largest)


def test_exponential_scales_each_matrix_of_a_batch_for_itself():
    a = torch.stack([drawn(3, 3) * 1e-8, drawn(3, 3) * 30])
    for one, together in zip(a, linalg.matrix_exp(a), strict=True):
        alone = linalg.matrix_exp(one)
        assert close(together / alone.abs().max(), alone / alone.abs().max())


def test_matrix_power_is_repeated_multiplication():
    a = regular(3, 3)
    assert close(linalg.matrix_power(a, 5), a @ a @ a @ a @ a)
    assert close(linalg.matrix_power(a, -2), linalg.inv(a) @ linalg.inv(a))
    assert close(linalg.matrix_power(a, 0), torch.eye(3, dtype=torch.float64))


def test_condition_of_a_singular_matrix_is_infinite():
    a = torch.diag(torch.tensor([1.0, 0.0]))
    assert all(torch.isinf(linalg.cond(a, p)) for p in (None, 2, 1, "fro", float("inf")))


def test_low_rank_decomposition_finds_a_matrix_of_low_rank():
    torch.manual_seed(0)
    a = drawn(30, 4) @ drawn(4, 20)
    for one in (a, a.mT):
        u, s, v = torch.svd_lowrank(one, q=4)
        assert close(u * s @ v.mT, one)
    centred = a - a.mean(-2, keepdim=True)
    u, s, v = torch.pca_lowrank(a, q=4)
    assert close(u * s @ v.mT, centred)


# Derivatives --------------------------------------------------------------------------------------


@in_double
@pytest.mark.parametrize(
    "function",
    [
        lambda a: linalg.cholesky((a + a.mH) / 2 + 5 * torch.eye(3)),
        lambda a: linalg.eigvalsh((a + a.mH) / 2),
        lambda a: linalg.eigh((a + a.mH) / 2).eigenvectors.abs(),
        lambda a: linalg.svd(a, full_matrices=False).U.abs(),
        lambda a: linalg.svd(a).Vh.abs(),
        lambda a: linalg.svd(a[:, :2]).S,
        lambda a: linalg.eig(a).eigenvectors.abs(),
        lambda a: linalg.pinv(a[:, :2] @ a[:2]),
    ],
    ids=["cholesky", "eigvalsh", "eigh", "svd-u", "svd-v", "svd-s", "eig", "pinv"],
)
def test_derivatives_through_symmetric_parts_and_absolute_values(function, dtype):
    a = regular(3, 3, dtype=dtype).requires_grad_()
    assert gradcheck(function, a)
    assert gradgradcheck(function, a, fast_mode=True)


def test_gradients_through_values_are_finite_where_values_coincide():
    a = torch.eye(3, dtype=torch.float64, requires_grad=True)
    for values in (linalg.eigh(a)[0], linalg.svd(a)[1], linalg.eigvalsh(a), linalg.svdvals(a)):
        (gradient,) = torch.autograd.grad(values.sum(), a)
        assert close(gradient, torch.eye(3, dtype=torch.float64))


@pytest.mark.parametrize(
    "loss",
    [
        lambda a: linalg.eigh(a).eigenvectors ** 2,
        lambda a: linalg.eigh(a).eigenvectors @ linalg.eigh(a).eigenvectors.mT,
        lambda a: linalg.eig(a).eigenvectors.abs(),
        lambda a: linalg.svd(a).U @ linalg.svd(a).Vh,
    ],
    ids=["eigh", "projector", "eig", "svd"],
)
def test_gradients_through_vectors_are_not_finite_where_values_coincide(loss):
    """T-146: NaN, as in torch. A zero would pass for an answer, which there is none."""
    a = torch.eye(2, dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    (gradient,) = torch.autograd.grad((loss(a) * weights).sum(), a)
    assert not torch.isfinite(gradient).any()


def derivatives_of_det(a, directions):
    """The value of each mixed derivative of the determinant, from the first on."""
    value, found = linalg.det(a), []
    for direction in directions:
        (gradient,) = torch.autograd.grad(value, a, create_graph=True)
        value = (gradient * direction).sum()
        found.append(value.item())
    return found


def mixed_discriminant(*matrices):
    """The terms of det(the sum of matrices) in which each comes once; by inclusion, exclusion."""
    found = 0.0
    for chosen in range(1, 2 ** len(matrices)):
        some = [m for i, m in enumerate(matrices) if chosen >> i & 1]
        found += (-1) ** (len(matrices) - len(some)) * numpy.linalg.det(sum(some))
    return found


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_three_derivatives_of_the_determinant_exist_at_any_rank(rank):
    """Torch's third one is off at singular matrices (2.28 for 2.60, or NaN): ours is exact."""
    a = (drawn(3, rank) @ drawn(rank, 3, seed=1)).requires_grad_()
    directions = [drawn(3, 3, seed=seed) for seed in (2, 3, 4)]
    given, (x, y, z) = a.detach().numpy(), (one.numpy() for one in directions)
    exact = [
        mixed_discriminant(given, given, x) / 2,
        mixed_discriminant(given, x, y),
        mixed_discriminant(x, y, z),
    ]
    numpy.testing.assert_allclose(derivatives_of_det(a, directions), exact, rtol=1e-9, atol=1e-9)


def test_four_derivatives_of_the_determinant_of_a_regular_matrix():
    directions = [drawn(4, 4, seed=seed) for seed in (2, 3, 4, 5)]
    found = derivatives_of_det(regular(4, 4).requires_grad_(), directions)
    exact = mixed_discriminant(*(one.numpy() for one in directions))
    numpy.testing.assert_allclose(found[-1], exact, rtol=1e-8)


def test_forward_mode_reaches_the_third_derivative_of_the_determinant():
    a = drawn(3, 2) @ drawn(2, 3, seed=1)
    x, y, z = (drawn(3, 3, seed=seed) for seed in (2, 3, 4))

    def along(function, direction):
        return lambda a: torch.func.jvp(function, (a,), (direction,))[1]

    third = along(along(along(linalg.det, x), y), z)(a)
    exact = mixed_discriminant(x.numpy(), y.numpy(), z.numpy())
    numpy.testing.assert_allclose(third.item(), exact, rtol=1e-9)


def test_gradient_of_the_determinant_exists_where_it_is_zero():
    a = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=torch.float64, requires_grad=True)
    linalg.det(a).backward()
    assert close(a.grad, torch.tensor([[4.0, -2.0], [-2.0, 1.0]], dtype=torch.float64))
    a = (drawn(4, 3) @ drawn(3, 4)).requires_grad_()
    assert gradcheck(linalg.det, a)


@pytest.mark.parametrize(
    "vectors",
    [
        lambda a: linalg.eigh(a).eigenvectors,
        lambda a: linalg.eig(a).eigenvectors,
        lambda a: linalg.svd(a).U,
    ],
    ids=["eigh", "eig", "svd"],
)
def test_loss_that_depends_on_the_phase_of_vectors_is_refused(vectors):
    a = hermitian(3, 3, dtype=torch.complex128).requires_grad_()
    with pytest.raises(RuntimeError, match="phase"):
        vectors(a).real.sum().backward()


def test_loss_that_depends_on_added_vectors_is_refused():
    a = drawn(4, 2).requires_grad_()
    with pytest.raises(RuntimeError, match="full_matrices"):
        linalg.svd(a).U.sum().backward()
    linalg.svd(a).U[:, :2].abs().sum().backward()  # those of the matrix are fine
    assert torch.isfinite(a.grad).all()


def test_complete_q_of_a_tall_matrix_has_no_derivative():
    a = drawn(3, 2).requires_grad_()
    with pytest.raises(RuntimeError, match="complete"):
        linalg.qr(a, "complete").R.sum().backward()
    with pytest.raises(RuntimeError, match="mode='r'"):
        linalg.qr(a, "r").R.sum().backward()


# Refusals -----------------------------------------------------------------------------------------


def test_singular_matrix_of_a_batch_is_named():
    a = torch.stack([torch.eye(2), torch.ones(2, 2)])
    for call in (linalg.inv, lambda a: linalg.solve(a, a)):
        with pytest.raises(linalg.LinAlgError, match="matrix 1 of the batch"):
            call(a)
    assert issubclass(linalg.LinAlgError, RuntimeError)
    found = linalg.inv_ex(a)
    assert found.info.tolist() == [0, 2]
    assert close(found.inverse[0], torch.eye(2))
    with pytest.raises(linalg.LinAlgError):
        linalg.inv_ex(a, check_errors=True)
    with pytest.raises(RuntimeError, match="zero at diagonal place 2"):
        linalg.lu_factor(a)


def test_indefinite_matrix_of_a_batch_is_named():
    a = torch.stack([torch.eye(3), torch.diag(torch.tensor([1.0, -1.0, 1.0]))])
    with pytest.raises(linalg.LinAlgError, match=r"matrix 1.*order 2"):
        linalg.cholesky(a)
    assert linalg.cholesky_ex(a).info.tolist() == [0, 2]
    with pytest.raises(linalg.LinAlgError):
        linalg.cholesky(torch.full((2, 2), float("nan")))


SQUARE = "inv det slogdet cholesky eigh eigvalsh eig eigvals matrix_exp matrix_power"


@pytest.mark.parametrize("name", SQUARE.split())
def test_functions_of_square_matrices_refuse_others(name):
    function = getattr(linalg, name)
    options = (2,) if name == "matrix_power" else ()
    with pytest.raises(RuntimeError, match="square"):
        function(torch.ones(2, 3), *options)
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        function(torch.ones(3), *options)
    if name != "matrix_power":
        with pytest.raises(RuntimeError, match="int64"):
            function(torch.ones(2, 2, dtype=torch.int64))


def test_systems_that_do_not_fit_are_refused():
    a = torch.eye(3)
    for b in (torch.ones(4, 2), torch.ones(2), torch.tensor(1.0)):
        with pytest.raises(RuntimeError):
            linalg.solve(a, b)
    with pytest.raises(RuntimeError, match="dtype"):
        linalg.solve(a, torch.ones(3, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="broadcast"):
        linalg.solve(a.expand(2, 3, 3), torch.ones(4, 3, 2))
    with pytest.raises(RuntimeError, match="at least 2"):
        linalg.solve_triangular(a, torch.ones(3), upper=True)


def test_unknown_options_are_refused():
    a = torch.eye(2)
    for call in (
        lambda: linalg.eigh(a, "X"),
        lambda: linalg.qr(a, "X"),
        lambda: linalg.svd(a, driver="gesvd"),
        lambda: linalg.lu(a, pivot=False),
        lambda: linalg.matrix_norm(a, 3),
        lambda: linalg.lstsq(a, a, driver="X"),
    ):
        with pytest.raises(RuntimeError):
            call()


def test_results_go_to_out():
    a = regular(3, 3)
    target = torch.empty(0, dtype=torch.float64)
    assert linalg.inv(a, out=target) is target
    assert close(target, linalg.inv(a))
    q, r = torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.float64)
    linalg.qr(a, out=(q, r))
    assert close(q @ r, a)


@pytest.mark.parametrize("rank", [2, 1, 0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_determinant_of_singular_matrices_has_two_derivatives(rank, dtype):
    random = numpy.random.default_rng(3)
    values = random.standard_normal((3, rank)) @ random.standard_normal((rank, 3))
    a = torch.tensor(values).to(dtype).requires_grad_()
    assert torch.autograd.gradcheck(torch.linalg.det, (a,))
    assert torch.autograd.gradgradcheck(torch.linalg.det, (a,))


def test_orgqr_is_the_older_name_of_householder_product():
    matrix = torch.tensor(numpy.random.default_rng(0).standard_normal((4, 3)))
    a, tau = torch.geqrf(matrix)
    assert torch.orgqr(a, tau).equal(torch.linalg.householder_product(a, tau))
    assert a.orgqr(tau).shape == (4, 3)


@pytest.mark.parametrize("dtype", [numpy.float32, numpy.complex128])
def test_many_small_matrices_are_factored_and_solved_like_one(dtype):
    random = numpy.random.default_rng(1)
    values = random.standard_normal((50, 6, 6)).astype(dtype)
    together = torch.linalg.lu_factor(torch.tensor(values))
    right = torch.tensor(random.standard_normal((50, 6, 2)).astype(dtype))
    triangle = torch.tensor(numpy.triu(values) + 4 * numpy.eye(6, dtype=dtype))
    solved = torch.linalg.solve_triangular(triangle, right, upper=True)
    for i in range(50):
        alone = torch.linalg.lu_factor(torch.tensor(values[i]))
        assert torch.allclose(together.LU[i], alone.LU, atol=1e-4)
        assert together.pivots[i].equal(alone.pivots)
        assert torch.allclose(triangle[i] @ solved[i], right[i], atol=1e-4)


def test_the_older_name_factorises_singular_matrices():
    packed, pivots = torch.lu(torch.ones(2, 2))
    assert packed.tolist() == [[1.0, 1.0], [1.0, 0.0]]
    assert pivots.tolist() == [1, 2]


def test_arguments_that_are_no_tensors_are_named():
    square = torch.ones(2, 2)
    with pytest.raises(TypeError, match="`B` must be a Tensor"):
        torch.linalg.solve_triangular(square, 1, upper=True)
    with (
        pytest.warns(UserWarning, match="deprecated"),
        pytest.raises(TypeError, match=r"matrices\[0\]"),
    ):
        torch.chain_matmul("ij->i")
    with pytest.raises(TypeError, match="Module is needed"):
        torch.func.functional_call(square, {}, 1)


@pytest.mark.filterwarnings("ignore:chain_matmul is deprecated:UserWarning")
def test_a_chain_of_one_matrix_is_a_copy_of_it():
    x, out = torch.ones(3, 2, requires_grad=True), torch.empty(0)
    made = torch.chain_matmul(x)
    made.sum().backward()
    with torch.no_grad():
        made += 1
    assert torch.equal(x, torch.ones(3, 2))
    assert torch.equal(x.grad, torch.ones(3, 2))
    assert torch.chain_matmul(x.detach(), out=out) is out
    assert torch.equal(out, torch.ones(3, 2))


def test_the_order_of_polygamma_may_be_a_tensor():
    x = torch.tensor([1.0, 2.0])
    assert torch.equal(torch.polygamma(torch.tensor(2), x), torch.polygamma(2, x))
    with pytest.raises(TypeError, match="prepend"):
        torch.diff(x, prepend=2)
    kept = torch.zeros(3)
    with pytest.raises(TypeError, match="tuple of Tensors"):
        torch.unbind_copy(x, out=kept)
    with pytest.raises(RuntimeError, match="out has 1 tensors for 2"):
        torch.unbind_copy(x, out=[kept])
    assert kept.tolist() == [0, 0, 0]


def test_svd_lowrank_refuses_rounds_that_never_end():
    with pytest.raises(ValueError, match="niter must be"):
        torch.svd_lowrank(torch.ones(3, 2), niter=2**45)


@pytest.mark.parametrize("shift", [1.0, 3.0, 6.0, 20.0, 60.0, -1.0, -6.0, -20.0])
def test_the_exponential_of_a_nearly_diagonal_matrix_is_exact_in_single_precision(shift):
    small = torch.tensor(numpy.random.default_rng(1).random((4, 4)) * 1e-3)
    matrix = (torch.eye(4, dtype=torch.float64) * shift + small).float()
    expected = torch.linalg.matrix_exp(matrix.double())
    made = torch.linalg.matrix_exp(matrix)
    off = float((made - expected).abs().max() / expected.abs().max())
    assert off < (1e-6 if abs(shift) < 40 else 1e-5)


def test_exponentials_overflow_only_where_the_result_does():
    for diagonal in ([200.0, -1.0], [60.0, -200.0], [-400.0, 0.0], [87.0, 86.0], [-300.0, -300.0]):
        made = torch.linalg.matrix_exp(torch.diag(torch.tensor(diagonal)))
        torch.testing.assert_close(made.diagonal(), torch.tensor(diagonal).exp(), rtol=2e-4, atol=0)


@pytest.mark.parametrize("cross", [torch.linalg.cross, torch.cross])
def test_cross_products_are_not_written_over_what_they_are_of(cross):
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    before = x.clone()
    for out in (x, y):
        with pytest.raises(RuntimeError, match="share one memory location"):
            cross(x, y, dim=1, out=out)
    assert torch.equal(x, before)
    out = torch.empty(2, 3)
    assert cross(x, y, dim=1, out=out) is out
    assert torch.equal(out, cross(x, y, dim=1))


INFINITE_SIDES = [[torch.inf, 1.0], [1.0, torch.inf], [torch.inf, torch.inf], [-torch.inf, 2.0]]


@pytest.mark.parametrize("side", INFINITE_SIDES)
@pytest.mark.parametrize("many", [1, 20, 40])
def test_infinity_goes_through_a_triangle_as_substitution_has_it(side, many):
    """However the systems are solved: each alone, row by row, or side by side."""
    lower = torch.tensor([[1.0, 0.0], [0.5, 2.0]], dtype=torch.float64)
    b = torch.tensor(side, dtype=torch.float64)[:, None]
    first = b[0]
    expected = torch.stack([first, (b[1] - 0.5 * first) / 2])
    found = torch.linalg.solve_triangular(lower.repeat(many, 1, 1), b, upper=False)
    torch.testing.assert_close(found, expected.expand(many, 2, 1), equal_nan=True)
    alone = torch.linalg.solve_triangular(lower, b, upper=False)
    torch.testing.assert_close(alone, expected, equal_nan=True)

"""Linear algebra against torch where its samples cannot go: through vectors with a free phase.

Everything else of linalg is compared in test_all_operators.py. Here results are made independent of
the phase (absolute values, products), and forward mode and second derivatives are compared too.
"""

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")

# torch's own jvp compiles something on its first call, and complains of itself.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

DTYPES = ["float64", "complex128"]
in_both_dtypes = pytest.mark.parametrize("dtype", DTYPES)


def drawn(shape, dtype, seed):
    random = numpy.random.default_rng(seed)
    values = random.normal(size=shape)
    if dtype.startswith("complex"):
        values = values + 1j * random.normal(size=shape)
    return numpy.asarray(values).astype(dtype) + 3 * numpy.eye(*shape[-2:]).astype(dtype)


def hermitian(a):
    return (a + a.mH) / 2


def svd(m, a):
    u, s, vh = m.linalg.svd(a, full_matrices=False)
    return u.abs(), s, vh.abs(), u @ vh


def older_svd(m, a):
    u, s, v = m.svd(a)
    return u.abs(), s, v.abs()


def eigh(m, a):
    values, vectors = m.linalg.eigh(hermitian(a))
    return values, vectors.abs(), vectors * values.unsqueeze(-2) ** 2 @ vectors.mH


def eig(m, a):
    values, vectors = m.linalg.eig(a)
    # Both libraries order eigenvalues as their LAPACK does; sums do not depend on that.
    return values.sum(-1), (values**2).sum(-1), vectors.abs().sum((-2, -1))


SQUARE = {
    "svd": svd,
    "older svd": older_svd,
    "full svd": lambda m, a: m.linalg.svd(a).S,
    "eigh": eigh,
    "eig": eig,
    "cholesky": lambda m, a: m.linalg.cholesky(hermitian(a) @ hermitian(a).mH),
    "upper cholesky": lambda m, a: m.linalg.cholesky(hermitian(a) @ hermitian(a).mH, upper=True),
    "eigvalsh": lambda m, a: m.linalg.eigvalsh(hermitian(a), "U"),
    "hermitian pinv": lambda m, a: m.linalg.pinv(hermitian(a), hermitian=True),
    "low-rank pinv": lambda m, a: m.linalg.pinv(a[..., :2] @ a[..., :2, :]),
    "solve by lu": lambda m, a: m.linalg.lu_solve(*m.linalg.lu_factor(a), a.mH),
    "nuclear norm": lambda m, a: m.linalg.matrix_norm(a, "nuc"),
}
TALL = {"svd": svd, "older svd": older_svd, "full svd": SQUARE["full svd"]}
CASES = [(name, shape) for name in SQUARE for shape in ((3, 3), (2, 3, 3))]
CASES += [(name, shape) for name in TALL for shape in ((4, 2), (2, 4), (2, 4, 3))]


def array_of(tensor):
    if isinstance(tensor, pullback.Tensor):
        return tensor._array
    return tensor.detach().resolve_conj().numpy(force=True)


def weights(tensor, seed):
    random = numpy.random.default_rng(seed)
    values = random.normal(size=tuple(tensor.shape))
    if tensor.dtype.is_complex:
        values = values + 1j * random.normal(size=tuple(tensor.shape))
    module = pullback if isinstance(tensor, pullback.Tensor) else torch
    return module.from_numpy(numpy.asarray(values).astype(array_of(tensor).dtype))


def listed(result):
    return list(result) if isinstance(result, tuple) else [result]


def gradient(module, outputs, x, **options):
    return module.autograd.grad(
        outputs, x, [weights(out, i) for i, out in enumerate(outputs)], **options
    )[0]


def everything(module, function, array):
    """Values, gradient, second gradient and tangent of a function at an array."""
    x = module.from_numpy(array.copy()).requires_grad_()
    outputs = listed(function(module, x))
    first = gradient(module, outputs, x, create_graph=True)
    second = gradient(module, [first], x)
    direction = weights(x.detach(), 7)
    tangents = module.func.jvp(
        lambda a: tuple(listed(function(module, a))), (x.detach(),), (direction,)
    )[1]
    return [*outputs, first, second, *tangents]


@in_both_dtypes
@pytest.mark.parametrize(("name", "shape"), CASES)
def test_values_and_derivatives_are_torchs(name, shape, dtype):
    array = drawn(shape, dtype, seed=len(name))
    ours = everything(pullback, SQUARE[name], array)
    theirs = everything(torch, SQUARE[name], array)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert str(a.dtype) == str(b.dtype)
        assert tuple(a.shape) == tuple(b.shape)
        numpy.testing.assert_allclose(array_of(a), array_of(b), rtol=1e-7, atol=1e-8)


@in_both_dtypes
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4)])
def test_ldl_is_torchs(shape, dtype):
    array = drawn(shape, dtype, seed=1)
    array = array + array.swapaxes(-1, -2)
    array[..., 0, 0] = 0
    ours = pullback.linalg.ldl_factor_ex(pullback.from_numpy(array))
    theirs = torch.linalg.ldl_factor_ex(torch.from_numpy(array))
    for a, b in zip(ours, theirs, strict=True):
        numpy.testing.assert_allclose(array_of(a), array_of(b), rtol=1e-12, atol=1e-13)


NOT_SQUARE = numpy.ones((2, 3))
SINGULAR = numpy.ones((2, 2))
SQUARE_ONLY = ["inv", "det", "slogdet", "cholesky", "eigh", "eig", "matrix_exp"]
REFUSED = [
    *[(name, (NOT_SQUARE,)) for name in SQUARE_ONLY],
    *[(name, (numpy.ones(3),)) for name in ("inv", "svd", "qr", "lu", "pinv", "cond")],
    *[(name, (numpy.ones((2, 2), int),)) for name in ("inv", "det", "svd", "qr", "eigh")],
    *[(name, (numpy.ones((2, 2), "float16"),)) for name in ("inv", "svd", "qr", "eigh")],
    ("inv", (SINGULAR,)),
    ("lu_factor", (SINGULAR,)),
    ("cholesky", (-numpy.eye(2),)),
    ("solve", (SINGULAR, SINGULAR)),
    ("solve", (numpy.eye(3), numpy.ones((4, 2)))),
    ("solve", (numpy.eye(3), numpy.ones(3, "float32"))),
    ("matrix_norm", (SINGULAR, 3)),
    ("norm", (numpy.ones((2, 2, 2)), 2)),
    ("tensorinv", (numpy.ones((2, 3, 5)),)),
    ("vander", (numpy.array(1.0),)),
]


@pytest.mark.parametrize(("name", "arguments"), REFUSED)
def test_refusals_have_torchs_types(name, arguments):
    def call(module):
        tensors = [
            module.from_numpy(a.copy()) if isinstance(a, numpy.ndarray) else a for a in arguments
        ]
        return getattr(module.linalg, name)(*tensors)

    with pytest.raises(RuntimeError) as theirs:
        call(torch)
    with pytest.raises(RuntimeError) as ours:
        call(pullback)
    numerical = isinstance(theirs.value, torch.linalg.LinAlgError)
    assert isinstance(ours.value, pullback.linalg.LinAlgError) == numerical

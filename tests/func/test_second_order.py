"""func.laplacian and func.hessian_diagonal: the Hessian's trace and diagonal, without it."""

import itertools

import numpy
import pytest

import pullback as torch
from pullback.func import grad, hessian, hessian_diagonal, jacfwd, laplacian, vmap
from pullback.testing.samples import SAMPLES, resolve, samples_for, tensors_in

F64 = torch.float64
# Backward and forward mode refuse.
NO_DERIVATIVE = {"floor_divide", "heaviside", "geqrf", "linalg.ldl_factor", "linalg.ldl_factor_ex"}
NO_DERIVATIVE |= {"nn.functional.ctc_loss"}  # no forward mode
NAMES = [n for n in SAMPLES if n not in NO_DERIVATIVE and resolve(torch, n) is not None]


def _assert_close(a, b):
    a, b = a.detach().numpy(), b.detach().numpy()
    scale = numpy.abs(b[numpy.isfinite(b)]).max(initial=1.0)
    assert a.shape == b.shape
    assert a.dtype == b.dtype
    numpy.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-10 * scale)


def _diagonal(function, x):
    """By the whole Hessian, input flat."""
    flat = jacfwd(jacfwd(lambda v: function(v.reshape(x.shape))))(x.reshape(-1))
    return torch.diagonal(flat, 0, -2, -1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_of_every_operator_they_are_those_of_the_hessian(name):
    function = resolve(torch, name)
    smooth = (s for s in samples_for(name) if s.smooth and isinstance(s.input, torch.Tensor))
    for sample in itertools.islice(smooth, 1):
        x = sample.input.detach()
        if not sample.input.requires_grad or x.is_complex() or not 0 < x.numel() <= 30:
            continue

        def call(value, sample=sample):
            results = tensors_in(function(value, *sample.args, **sample.kwargs))
            return next((one for one in results if one.dtype.is_floating_point), None)

        if call(x) is None or not call(x).numel():
            continue
        wanted = _diagonal(call, x)
        _assert_close(laplacian(call)(x), wanted.sum(-1))
        _assert_close(hessian_diagonal(call)(x), wanted.reshape((*call(x).shape, *x.shape)))


W = torch.tensor(numpy.random.default_rng(0).standard_normal((3, 5)))
X = torch.tensor([0.3, -0.4, 0.9], dtype=F64)


def _net(x):
    return torch.tanh(x @ W).exp().sum() * x[0]


def test_laplacian_of_a_net_is_the_trace():
    _assert_close(laplacian(_net)(X), torch.trace(hessian(_net)(X)))


def test_function_runs_once_and_gradient_and_value_come_along():
    runs = []

    def counted(x):
        runs.append(1)
        return _net(x)

    value, gradient, total = laplacian(counted, with_gradient=True)(X)
    assert len(runs) == 1
    _assert_close(value, _net(X))
    _assert_close(gradient, grad(_net)(X))
    _assert_close(total, torch.trace(hessian(_net)(X)))


@pytest.mark.parametrize("chunk_size", [1, 2, 100])
def test_chunks_change_nothing(chunk_size):
    _assert_close(laplacian(_net, chunk_size=chunk_size)(X), laplacian(_net)(X))
    _assert_close(hessian_diagonal(_net, chunk_size=chunk_size)(X), hessian_diagonal(_net)(X))
    gradient = laplacian(_net, chunk_size=chunk_size, with_gradient=True)(X)[1]
    _assert_close(gradient, grad(_net)(X))


def test_several_inputs_and_outputs():
    def function(x, pair):
        return (x * pair["a"]).sum() ** 2, pair["a"] * x.exp()

    pair = {"a": X + 1}
    both = laplacian(function, (0, 1))(X, pair)
    joined = torch.cat([X, X + 1])
    wanted = [_diagonal(lambda v, n=n: function(v[:3], {"a": v[3:]})[n], joined) for n in (0, 1)]
    for made, diagonal in zip(both, wanted, strict=True):
        _assert_close(made, diagonal.sum(-1))
    parts = hessian_diagonal(function, (0, 1))(X, pair)
    _assert_close(parts[1][0], wanted[1][:, :3])
    _assert_close(parts[1][1]["a"], wanted[1][:, 3:])


def test_under_vmap_and_grad_and_compile():
    xs = torch.stack([X, X * 2, X - 1])
    rows = torch.stack([laplacian(_net)(x) for x in xs])
    _assert_close(vmap(laplacian(_net))(xs), rows)
    _assert_close(
        grad(lambda x: laplacian(_net)(x))(X), grad(lambda x: torch.trace(hessian(_net)(x)))(X)
    )
    compiled = torch.compile(laplacian(_net))
    for x in xs:
        _assert_close(compiled(x), laplacian(_net)(x))
    diagonal = torch.compile(hessian_diagonal(_net))
    for x in xs:
        _assert_close(diagonal(x), torch.diagonal(hessian(_net)(x)))


def test_laplacian_of_the_laplacian_is_the_bilaplacian():
    _assert_close(
        laplacian(laplacian(lambda x: (x**2).sum() ** 2))(X),
        torch.tensor(8.0 * 3 * (3 + 2), dtype=F64),
    )


def test_complex_results_of_real_inputs():
    def wave(x):
        return torch.exp(1j * (x * X).sum())

    got = laplacian(wave)(X)
    wanted = -(X * X).sum() * wave(X)
    assert abs(complex(got) - complex(wanted)) < 1e-12


def test_empty_input_and_constant_function():
    empty = torch.zeros(0, dtype=F64)
    assert laplacian(lambda x: x.sum())(empty).item() == 0
    assert laplacian(lambda x: torch.ones(2))(X).tolist() == [0, 0]
    assert hessian_diagonal(lambda x: torch.ones(2))(X).tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("transform", [laplacian, hessian_diagonal])
def test_refusals(transform):
    with pytest.raises(RuntimeError, match="complex"):
        transform(lambda z: z.abs().sum())(torch.zeros(2, dtype=torch.complex64))
    with pytest.raises(ValueError, match="chunk_size"):
        transform(_net, chunk_size=0)
    with pytest.raises(RuntimeError, match="only Tensors"):
        transform(lambda x: 1.0)(X)

"""func.jacobian, which chooses, and func.linear_transpose."""

import numpy
import pytest

import pullback as torch
from pullback.core.trees.pytree import tree_leaves
from pullback.func import grad, jacfwd, jacobian, linear_transpose, linearize, vjp, vmap

F64 = torch.float64


def _random(*shape):
    return torch.tensor(numpy.random.default_rng(0).standard_normal(shape))


def _assert_close(a, b):
    for one, other in zip(tree_leaves(a), tree_leaves(b), strict=True):
        assert one.shape == other.shape
        numpy.testing.assert_allclose(
            one.detach().numpy(), other.detach().numpy(), rtol=1e-9, atol=1e-12
        )


MATRIX = _random(200, 200)


@pytest.mark.parametrize(
    ("function", "size", "mode"),
    [
        (torch.sin, 3, "forward"),
        (lambda x: x.sum() ** 2, 5, "reverse"),
        (lambda x: x[:2] * x[2], 5, "reverse"),
        (lambda x: torch.outer(x, x), 4, "forward"),
        (lambda x: (x[1:] - x[:-1]) ** 2, 200, "coloured"),
        (lambda x: x.sum() * x, 100, "forward"),
        (lambda x: MATRIX @ x, 200, "forward"),
        (lambda x: {"a": x.sin(), "b": (x.sum(),)}, 80, "forward"),
    ],
)
def test_the_choice_is_by_shape_and_zeros_and_the_result_always_the_same(function, size, mode):
    x = _random(size)
    choice = jacobian(function).explain(x)
    assert choice.mode == mode
    assert str(choice).startswith(f"{mode}: {size} input elements")
    _assert_close(jacobian(function)(x), jacfwd(function)(x))


def test_several_arguments():
    x, y = _random(3), _random(2)

    def function(x, y):
        return torch.outer(x, y) ** 2

    _assert_close(jacobian(function, (0, 1))(x, y), jacfwd(function, (0, 1))(x, y))
    _assert_close(jacobian(function, 1)(x, y), jacfwd(function, 1)(x, y))


def test_under_vmap_grad_and_compile():
    xs = _random(4, 3)
    _assert_close(vmap(jacobian(torch.sin))(xs), vmap(jacfwd(torch.sin))(xs))

    def size(transform):
        return lambda x: (transform(lambda y: y.sin() * y.sum())(x) ** 2).sum()

    _assert_close(grad(size(jacobian))(xs[0]), grad(size(jacfwd))(xs[0]))
    large = _random(100)
    chain = lambda y: y[1:] * y[:-1] ** 2  # noqa: E731 (given twice)
    _assert_close(
        grad(lambda x: (jacobian(chain)(x) ** 2).sum())(large),
        grad(lambda x: (jacfwd(chain)(x) ** 2).sum())(large),
    )
    compiled = torch.compile(jacobian(torch.tanh))
    for x in xs:
        _assert_close(compiled(x), jacfwd(torch.tanh)(x))


def test_holomorphic_functions_have_complex_jacobians():
    z = torch.tensor([1 + 2j, 0.5 - 1j])
    made = jacobian(lambda z: z**2 * z.sum(), holomorphic=True)(z)
    wanted = torch.diag(2 * z * z.sum()) + (z**2)[:, None]
    assert torch.allclose(made, wanted)
    with pytest.raises(RuntimeError, match="not holomorphic"):
        jacobian(lambda z: z * z.conj(), holomorphic=True)(z)
    with pytest.raises(RuntimeError, match="holomorphic=True"):
        jacobian(lambda z: z * 2)(z)
    with pytest.raises(RuntimeError, match="one is real"):
        jacobian(lambda x: x * 2, holomorphic=True)(z.real)


def test_complex_results_of_real_inputs():
    x = _random(3)
    made = jacobian(lambda x: torch.exp(1j * x))(x)
    assert torch.allclose(made, torch.diag(1j * torch.exp(1j * x)))


def test_transpose_of_a_matrix():
    a, c = _random(3, 4), _random(3)
    transposed = linear_transpose(lambda x: a @ x, torch.zeros(4, dtype=F64))
    _assert_close(transposed(c), (a.T @ c,))
    _assert_close(transposed(c * 2), (a.T @ c * 2,))


def test_transpose_of_a_linearisation_is_the_vjp_and_reuses_it():
    runs = []

    def function(x, y):
        runs.append(1)
        return {"sine": (x * y).sin(), "sum": x.sum()}

    x, y, c = _random(3), _random(3) + 1, _random(3)
    _, push = linearize(function, x, y)
    transposed = linear_transpose(push, x, y)
    cotangents = {"sine": c, "sum": torch.tensor(2.0, dtype=F64)}
    got = [transposed(cotangents), transposed(cotangents)]
    assert len(runs) == 1
    _assert_close(got[0], vjp(function, x, y)[1](cotangents))
    _assert_close(got[1], got[0])


def test_transpose_under_vmap_and_of_complex_functions():
    a = _random(3, 4)
    transposed = linear_transpose(lambda x: a @ x, torch.zeros(4, dtype=F64))
    rows = _random(5, 3)
    _assert_close(vmap(transposed)(rows), (rows @ a,))
    turned = linear_transpose(lambda z: 1j * z, torch.zeros(2, dtype=torch.complex128))
    made = turned(torch.tensor([1.0, 2.0], dtype=torch.complex128))[0]
    assert made.tolist() == [-1j, -2j]  # as vjp: the adjoint


@pytest.mark.parametrize("function", [lambda x: x + 1, lambda x: x * x, lambda x: x.abs()])
def test_what_is_not_linear_is_refused(function):
    with pytest.raises(RuntimeError, match="not linear"):
        linear_transpose(function, torch.zeros(3, dtype=F64))


def test_wrong_cotangents_are_explained():
    transposed = linear_transpose(lambda x: x[1:], torch.zeros(3))
    with pytest.raises(RuntimeError, match=r"\[\(2,\)\]"):
        transposed(torch.zeros(3))

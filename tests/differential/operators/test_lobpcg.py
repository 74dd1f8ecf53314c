"""A few eigenpairs by iteration: torch's values, and derivatives that hold."""

import numpy as np
import pytest

import pullback

torch = pytest.importorskip("torch")


def symmetric(*shape, seed=0):
    made = np.random.default_rng(seed).normal(size=shape)
    return made + np.swapaxes(made, -1, -2)


def up_to_sign(a, b):
    return np.minimum(abs(a - b).max(-2), abs(a + b).max(-2)).max()


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("shape", [(9, 9), (2, 12, 12)])
@pytest.mark.parametrize("method", [None, "basic", "ortho"])
def test_eigenpairs_are_torchs(shape, largest, method):
    a = symmetric(*shape)
    ours = pullback.lobpcg(pullback.tensor(a), 2, largest=largest, method=method)
    exact, vectors = np.linalg.eigh(a)
    chosen = slice(None, -3, -1) if largest else slice(0, 2)
    np.testing.assert_allclose(ours[0].numpy(), exact[..., chosen], rtol=1e-9)
    assert up_to_sign(ours[1].numpy(), vectors[..., chosen]) < 1e-6
    theirs = torch.lobpcg(torch.tensor(a), 2, largest=largest, niter=-1)
    np.testing.assert_allclose(ours[0].numpy(), theirs[0].numpy(), rtol=1e-6)


def test_generalised_problem_and_start():
    a, b = symmetric(9, 9), np.eye(9) * 2 + symmetric(9, 9, seed=1) / 20
    start = np.random.default_rng(3).normal(size=(9, 2))
    args = [pullback.tensor(one) for one in (a, b, start)]
    values, vectors = pullback.lobpcg(args[0], B=args[1], X=args[2])
    v = vectors.numpy()
    np.testing.assert_allclose(a @ v, b @ v * values.numpy(), atol=1e-6)
    np.testing.assert_allclose(v.T @ b @ v, np.eye(2), atol=1e-9)


def aligned(a, b=None):
    start = pullback.tensor(np.random.default_rng(3).normal(size=(9, 2)))
    values, vectors = pullback.lobpcg(a, B=b, X=start, tol=1e-11)
    return values, vectors * vectors[:1].sign().detach()


def test_derivatives_of_all_orders_hold():
    a = pullback.tensor(symmetric(9, 9), requires_grad=True)
    assert pullback.autograd.gradcheck(aligned, (a,))
    assert pullback.autograd.gradgradcheck(aligned, (a,), atol=1e-4)


def test_derivatives_of_the_generalised_problem_hold():
    a = pullback.tensor(symmetric(9, 9), requires_grad=True)
    b = pullback.tensor(np.eye(9) * 2 + symmetric(9, 9, seed=1) / 20, requires_grad=True)
    assert pullback.autograd.gradcheck(lambda a, b: aligned(a, (b + b.mT) / 2), (a, b))


def test_gradients_are_torchs():
    grads = []
    for library in (pullback, torch):
        a = library.tensor(symmetric(9, 9), requires_grad=True)
        values, vectors = library.lobpcg(a, 2, tol=1e-10)
        (values.sum() + (vectors**2)[0].sum()).backward()
        grads.append(a.grad.numpy())
    np.testing.assert_allclose(*grads, atol=1e-5)


@pytest.mark.parametrize(
    "call",
    [lambda t: t.lobpcg(t.eye(5), k=2), lambda t: t.lobpcg(t.ones(2, 3))],
)
def test_refusals_have_torchs_types(call):
    kinds = []
    for library in (pullback, torch):
        with pytest.raises((ValueError, AssertionError)) as caught:
            call(library)
        kinds.append(caught.type)
    assert kinds[0] is kinds[1]

"""The fast paths of transforms against the slow ones: the pass, and how values enter."""

import pytest

import pullback as torch
from pullback.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from pullback.transforms import pushing, reverse

POINT = torch.tensor([0.3, -0.7, 1.1], dtype=torch.float64)
BATCH = torch.stack([POINT, 2 * POINT, POINT - 1])


def scalar(x):
    y = x.sin() * x
    return (y * y.exp()).sum() + y.view(3, 1).amax()


def vector(x):
    return torch.stack([x[0] * x[1], x.exp().sum(), x[2] ** 3])


PROGRAMS = {
    "grad": lambda: grad(scalar)(POINT),
    "grad of grad": lambda: grad(lambda x: grad(scalar)(x).sum())(POINT),
    "vmap of grad": lambda: vmap(grad(scalar))(BATCH),
    "vmap along another dim": lambda: vmap(grad(scalar), in_dims=1, out_dims=1)(BATCH.T.clone()),
    "vmap of vmap of grad": lambda: vmap(vmap(grad(scalar)))(torch.stack([BATCH, BATCH + 1])),
    "grad of vmap": lambda: grad(lambda x: vmap(scalar)(x).sum())(BATCH),
    "an unused input": lambda: grad(lambda x, y: x.sum(), argnums=(0, 1))(POINT, POINT),
    "jacrev": lambda: jacrev(vector)(POINT),
    "jacfwd": lambda: jacfwd(vector)(POINT),
    "jacrev of jacrev": lambda: jacrev(jacrev(vector))(POINT),
    "jacfwd of jacfwd": lambda: jacfwd(jacfwd(vector))(POINT),
    "hessian": lambda: hessian(scalar)(POINT),
    "vmap of hessian": lambda: vmap(hessian(scalar))(BATCH),
    "jvp of grad": lambda: jvp(grad(scalar), (POINT,), (POINT,))[1],
    "grad of jvp": lambda: grad(lambda x: jvp(scalar, (x,), (x * 2,))[1])(POINT),
    "vjp by rows": lambda: vmap(vjp(vector, POINT)[1])(torch.eye(3, dtype=torch.float64))[0],
    "in no_grad": lambda: torch.no_grad()(lambda: grad(scalar)(POINT))(),
    "a closed-over leaf": lambda: torch.autograd.grad(
        (grad(lambda x: (x * LEAF).sin().sum())(POINT) * POINT).sum(), LEAF
    )[0],
}
LEAF = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)


def leaves(made):
    return list(made) if isinstance(made, tuple) else [made]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_quick_pass_gives_what_the_general_one_gives(name, monkeypatch):
    quick = leaves(PROGRAMS[name]())
    monkeypatch.setattr(reverse, "quick_pass", lambda *args, **kwargs: None)
    for a, b in zip(quick, leaves(PROGRAMS[name]()), strict=True):
        assert a.requires_grad == b.requires_grad
        assert a.shape == b.shape
        assert torch.allclose(a, b, rtol=1e-13, atol=0)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_dual_made_at_once_is_that_of_the_general_way(name, monkeypatch):
    quick = leaves(PROGRAMS[name]())
    monkeypatch.setattr(pushing, "_plain_dual", lambda *args: None)
    for a, b in zip(quick, leaves(PROGRAMS[name]()), strict=True):
        assert torch.equal(a, b)


def test_a_dual_shares_memory_and_version_with_its_value():
    x, t = torch.ones(3), torch.ones(3)

    def f(v):
        v.mul_(2)
        return v * v

    value, tangent = jvp(f, (x,), (t,))
    assert x.tolist() == [2, 2, 2]
    assert x._version == 1
    assert (value.tolist(), tangent.tolist()) == ([4, 4, 4], [8, 8, 8])


def test_hooks_on_the_way_see_the_gradients_of_a_quick_pass():
    seen = []

    def f(x):
        y = x * 2
        y.register_hook(lambda g: seen.append(g) or g * 10)
        return (y * y).sum()

    assert grad(f)(POINT).tolist() == pytest.approx((80 * POINT).tolist())
    assert len(seen) == 1


def test_nothing_is_left_behind_by_an_error_in_a_pass():
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        grad(lambda x: Fails.apply(x).sum())(POINT)
    assert torch.is_grad_enabled()
    assert torch.equal(grad(lambda x: x.sum())(POINT), torch.ones(3, dtype=torch.float64))

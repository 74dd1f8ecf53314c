"""Every pair of transforms, against the explicit formula on a small model; custom Functions."""

import itertools

import pytest

import pullback as torch
from pullback.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

tensor = torch.tensor
WEIGHT = tensor([[1.0, -0.5], [0.3, 2.0]], dtype=torch.float64)
POINT = tensor([0.4, -0.3], dtype=torch.float64)
BATCH = tensor([[0.4, -0.3], [1.0, 0.2], [0.0, 0.7]], dtype=torch.float64)
DIRECTION = tensor([1.0, -2.0], dtype=torch.float64)


def model(v):
    return (WEIGHT @ v).tanh() * v


def same(a, b):
    return a.shape == b.shape and bool(torch.isclose(a, b).all())


# Each takes a function of vectors to another one.
STEPS = {
    "grad": lambda f: grad(lambda v: f(v).pow(2).sum()),
    "vjp": lambda f: lambda v: vjp(f, v)[1](torch.ones_like(f(v)))[0],
    "jvp": lambda f: lambda v: jvp(f, (v,), (DIRECTION,))[1],
    "jacrev": lambda f: lambda v: jacrev(f)(v).sum(0).reshape(-1)[:2],
    "jacfwd": lambda f: lambda v: jacfwd(f)(v).sum(0).reshape(-1)[:2],
}

PAIRS = list(itertools.product(STEPS, STEPS))


def jacobian(f, v, step=1e-6):
    units = step * torch.eye(2, dtype=torch.float64)
    return torch.stack([(f(v + unit) - f(v - unit)) / (2 * step) for unit in units], -1)


EXPLICIT = {
    "grad": lambda f: lambda v: 2 * jacobian(f, v).T @ f(v),
    "vjp": lambda f: lambda v: jacobian(f, v).T @ torch.ones(2, dtype=torch.float64),
    "jvp": lambda f: lambda v: jacobian(f, v) @ DIRECTION,
    "jacrev": lambda f: lambda v: jacobian(f, v).sum(0),
    "jacfwd": lambda f: lambda v: jacobian(f, v).sum(0),
}


@pytest.mark.parametrize(("outer", "inner"), PAIRS)
def test_two_derivatives_agree_with_finite_differences(outer, inner):
    """T-150"""
    got = STEPS[outer](STEPS[inner](model))(POINT)
    assert bool(torch.isclose(got, EXPLICIT[outer](STEPS[inner](model))(POINT), rtol=1e-5).all())


@pytest.mark.parametrize(("outer", "inner"), PAIRS)
def test_map_of_two_derivatives_equals_a_loop(outer, inner):
    """T-149"""
    f = STEPS[outer](STEPS[inner](model))
    assert same(vmap(f)(BATCH), torch.stack([f(row) for row in BATCH]))


@pytest.mark.parametrize(("outer", "inner"), PAIRS)
def test_map_between_two_derivatives(outer, inner):
    """T-39, T-150"""

    def mapped(v):
        return vmap(STEPS[inner](model))(torch.stack([v, 2 * v])).sum(0)

    def looped(v):
        return STEPS[inner](model)(v) + STEPS[inner](model)(2 * v)

    assert same(STEPS[outer](mapped)(POINT), STEPS[outer](looped)(POINT))


@pytest.mark.parametrize("inner", STEPS)
def test_maps_inside_maps_of_derivatives(inner):
    """T-39"""
    f = STEPS[inner](model)
    double = torch.stack([BATCH, BATCH + 1])
    expected = torch.stack([torch.stack([f(row) for row in one]) for one in double])
    assert same(vmap(vmap(f))(double), expected)
    inside_out = vmap(vmap(f), in_dims=1, out_dims=1)(double)
    assert same(inside_out, expected)


def test_map_over_cotangents_and_tangents_alone():
    """T-55"""
    units = torch.eye(2, dtype=torch.float64)
    pull = vjp(model, POINT)[1]
    assert same(vmap(lambda u: pull(u)[0])(units), jacrev(model)(POINT))
    pushed = vmap(lambda u: jvp(model, (POINT,), (u,))[1])(units)
    assert same(pushed.T, jacfwd(model)(POINT))


def test_batched_gradients_of_autograd():
    """T-109"""
    leaf = POINT.clone().requires_grad_()
    units = torch.eye(2, dtype=torch.float64)
    (rows,) = torch.autograd.grad(model(leaf), leaf, units, is_grads_batched=True)
    assert same(rows, jacrev(model)(POINT))
    with pytest.raises(RuntimeError, match="batch"):
        torch.autograd.grad(model(leaf), leaf, units[0], is_grads_batched=True)


def test_third_derivatives():
    """T-39"""
    third = grad(lambda s: grad(grad(lambda t: t.sin()))(s))(tensor(0.3))
    assert torch.isclose(third, -tensor(0.3).cos())
    assert same(vmap(grad(grad(grad(torch.sin))))(BATCH[:, 0]), -BATCH[:, 0].cos())


# Custom Functions ---------------------------------------------------------------------------------


class Cube(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(v):
        return v * v * v

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx, g):
        (v,) = ctx.saved_tensors
        return 3 * v * v * g

    @staticmethod
    def jvp(ctx, t):
        (v,) = ctx.saved_tensors
        return 3 * v * v * t


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(v, scale):
        return v * scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.scale = inputs[1]

    @staticmethod
    def backward(ctx, g):
        return g * ctx.scale, None

    @staticmethod
    def vmap(info, in_dims, v, scale):
        assert info.batch_size == 3
        assert info.randomness == "error"
        return Scaled.apply(v, scale), in_dims[0]


def test_function_with_a_generated_rule_is_mapped_and_differentiated():
    """T-96, T-97"""
    assert same(vmap(Cube.apply)(BATCH), BATCH**3)
    assert same(vmap(grad(lambda v: Cube.apply(v).sum()))(BATCH), 3 * BATCH**2)
    assert same(jacfwd(Cube.apply)(POINT), torch.diag(3 * POINT**2))
    assert same(jacrev(Cube.apply)(POINT), torch.diag(3 * POINT**2))


def test_function_with_a_rule_of_its_own_is_mapped():
    """T-98"""
    assert same(vmap(lambda v: Scaled.apply(v, 2.0), in_dims=1, out_dims=1)(BATCH.T), 2 * BATCH.T)
    assert same(vmap(grad(lambda v: Scaled.apply(v, 2.0).sum()))(BATCH), torch.full_like(BATCH, 2))


def test_hessian_through_a_function():
    """T-96, T-101"""
    expected = torch.diag(6 * POINT)
    assert same(jacrev(grad(lambda v: Cube.apply(v).sum()))(POINT), expected)
    assert same(hessian(lambda v: Cube.apply(v).sum())(POINT), expected)


class Times(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(v, w, scale=1.0):
        return v * w * scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], inputs[1])
        ctx.scale = inputs[2]

    @staticmethod
    def backward(ctx, g):
        v, w = ctx.saved_tensors
        return g * w * ctx.scale, g * v * ctx.scale, None


@pytest.mark.parametrize("shared", [DIRECTION, DIRECTION[:1]])
def test_gradient_of_a_shared_argument_is_summed_over_the_batch(shared):
    """T-99"""
    by_map = grad(lambda w: vmap(lambda v: Times.apply(v, w, 2.0))(BATCH).sum())(shared)
    by_loop = grad(lambda w: sum(Times.apply(v, w, 2.0).sum() for v in BATCH))(shared)
    assert same(by_map, by_loop)


def test_function_takes_the_keywords_of_its_forward():
    """T-102"""
    assert same(Times.apply(POINT, DIRECTION, scale=2.0), 2 * POINT * DIRECTION)
    with pytest.raises(TypeError, match="other"):
        Times.apply(POINT, DIRECTION, other=2.0)


def test_a_gradient_inside_jvp_is_differentiable_by_the_direction():
    """Issue 16: only the tangent leads outside, and the inner pass must be recorded for it."""
    point = torch.tensor([0.2, 0.65])
    inner = torch.func.grad(lambda v: (v.sin() * v.sum()).sum())

    def along(direction):
        return torch.func.jvp(inner, (point,), (direction,))[1]

    second = torch.func.jacfwd(along)(point)
    assert torch.allclose(torch.func.jacrev(along)(point), second)
    assert second.abs().sum() > 1
    leaf = point.clone().requires_grad_()
    (outside,) = torch.autograd.grad(along(leaf).sum(), leaf)
    assert torch.allclose(outside, second.sum(0))


# .data --------------------------------------------------------------------------------------------


def along(f):
    return lambda x: jvp(f, (x,), (torch.ones_like(x),))[1]


@pytest.mark.parametrize("steps", list(itertools.product([grad, along], repeat=2)))
def test_data_is_constant_for_the_derivative_in_which_the_tensor_was_made_and_no_other(steps):
    inner, outer = steps
    x = tensor(1.5, dtype=torch.float64)

    def nested(f):
        return outer(inner(f))(x).item()

    # 2x of x.data * 2x, once more differentiated; x * x is a constant in the first step alone.
    assert nested(lambda x: x.data * x**2) == pytest.approx(4 * 1.5)
    assert nested(lambda x: (x * x).data * x**3) == pytest.approx(12 * 1.5**3)
    assert nested(lambda x: x.detach() * x**2) == pytest.approx(2 * 1.5)
    # What the inner function only found is the outer one's.
    found = outer(lambda x: inner(lambda y: x.data * y**2)(x * 1))(x).item()
    assert found == pytest.approx(2 * 1.5)
    made = outer(lambda x: inner(lambda y: (x * y).data * y**2)(x * 1))(x).item()
    assert made == pytest.approx(6 * 1.5**2)


def test_data_keeps_the_history_outside_of_the_transforms():
    weight = tensor(2.0, requires_grad=True)
    slope = grad(lambda y: (weight * y).data * y)(tensor(1.5))
    slope.backward()
    assert (slope.item(), weight.grad.item()) == (3.0, 1.5)
    assert not grad(lambda y: weight.data * y)(tensor(1.5)).requires_grad


def test_writes_through_data_are_refused_where_an_outer_derivative_would_have_to_see_them():
    def wrote(x):
        y = x * 1
        y.data.mul_(3)
        return y * x

    assert grad(wrote)(tensor(1.5)).item() == 6
    with pytest.raises(RuntimeError, match=r"modified in place.*nested function transforms"):
        grad(grad(wrote))(tensor(1.5))

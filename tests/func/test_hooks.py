"""Hooks, versions and custom Functions inside transforms act on the level that they belong to."""

import pytest

import pullback as torch
from pullback.func import grad, hessian, jacrev, jvp, vmap

tensor = torch.tensor
x = tensor([1.0, 2.0])
hooks = torch.autograd.graph.saved_tensors_hooks


def same(a, b):
    return a.shape == b.shape and bool(torch.isclose(a, b).all())


def cubes(v):
    return (v * v * v).sum()


def test_saved_tensor_hooks_around_and_inside_transforms():
    """T-63"""
    packed = []

    def pack(value):
        packed.append(tuple(value.shape))
        return value * 1

    with hooks(pack, lambda value: value):
        assert same(grad(cubes)(x), 3 * x**2)
    assert packed

    def inside(v):
        with hooks(pack, lambda value: value * 1):
            return cubes(v)

    packed.clear()
    assert same(grad(inside)(x), 3 * x**2)
    assert same(jacrev(inside)(x), 3 * x**2)
    assert same(grad(lambda v: grad(inside)(v).sum())(x), 6 * x)
    assert packed


def test_what_hooks_packed_keeps_its_tangent():
    """T-63, T-65: forward over reverse through packed values."""

    def f(v):
        with hooks(lambda value: value.clone(), lambda value: value):
            return cubes(v) + v.exp().sum()

    assert same(hessian(f)(x), torch.diag(6 * x + x.exp()))


def doubled_with_hook(v):
    y = v * 2
    y.register_hook(lambda g: g * 10)
    return (y * y).sum()


def test_tensor_hook_acts_on_the_gradient_of_its_level():
    """T-64"""
    assert same(grad(doubled_with_hook)(x), 80 * x)
    assert same(grad(lambda v: grad(doubled_with_hook)(v).sum())(x), tensor([80.0, 80.0]))
    assert same(jvp(grad(doubled_with_hook), (x,), (x,))[1], 80 * x)
    leaf = x.clone().requires_grad_()
    (outside,) = torch.autograd.grad(grad(doubled_with_hook)(leaf).sum(), leaf)
    assert same(outside, tensor([80.0, 80.0]))


def test_hook_of_an_outer_level_acts_on_the_outer_gradient():
    """T-64"""

    def outer(v):
        z = v * 3
        z.register_hook(lambda g: g * 100)
        return grad(lambda w: (w * w * z).sum())(v).sum()

    assert same(grad(outer)(x), 606 * x)


def test_hook_on_an_example_sees_its_gradient():
    """T-64"""
    shapes = []

    def f(v):
        y = v * 2
        y.register_hook(lambda g: (shapes.append(tuple(g.shape)), g * g.sum())[1])
        return (y * y).sum()

    batch = torch.stack([x, 3 * x])
    expected = torch.stack([grad(f)(row) for row in batch])
    assert same(vmap(grad(f))(batch), expected)
    assert same(vmap(grad(f), in_dims=1, out_dims=1)(batch.T), expected.T)
    assert set(shapes) == {(2,)}


def test_input_hook_acts_on_the_result():
    """T-64"""

    def f(v):
        v.register_hook(lambda g: g * 10)
        return (v * v).sum()

    assert same(grad(f)(x), 20 * x)


def test_value_changed_after_it_was_saved_is_an_error_inside_too():
    """T-93"""

    def f(v):
        y = v.exp()
        z = y * y
        y.add_(1)
        return z.sum()

    for transform in (lambda: grad(f)(x), lambda: vmap(grad(f))(torch.stack([x, x]))):
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            transform()


def test_views_share_memory_inside():
    """T-93"""

    def f(v):
        whole = torch.zeros(3)
        part = whole[1:]
        part.copy_(v)
        whole.mul_(2)
        return (part * part).sum()

    assert same(grad(f)(x), 8 * x)
    assert same(jvp(f, (x,), (x,))[1], tensor(40.0))


class DoublesInPlace(torch.autograd.Function):
    @staticmethod
    def forward(v):
        return v.mul_(2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(inputs[0])

    @staticmethod
    def backward(ctx, g):
        return g * 2

    @staticmethod
    def jvp(ctx, t):
        return t.mul_(2)


def test_dirty_input_is_returned_as_the_callers_object():
    """T-100"""
    is_same = []

    def f(v):
        y = v * 1
        z = DoublesInPlace.apply(y)
        is_same.append(z is y)
        return (z * z).sum()

    assert same(grad(f)(x), 8 * x)
    assert same(jvp(f, (x,), (x,))[1], tensor(40.0))
    assert same(grad(lambda v: grad(f)(v).sum())(x), tensor([8.0, 8.0]))
    assert is_same == [True] * 3


NEEDS = []


class TwoResults(torch.autograd.Function):
    @staticmethod
    def forward(v, w):
        return v * w, v.round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, g, nothing):
        NEEDS.append(ctx.needs_input_grad)
        assert nothing is None
        v, w = ctx.saved_tensors
        return g * w, g * v


def test_marks_of_a_function_act_on_each_level():
    """T-100"""
    NEEDS.clear()
    assert same(grad(lambda v: TwoResults.apply(v, x)[0].sum())(x), x)
    assert same(grad(lambda v: TwoResults.apply(v, v)[1].sum())(x), torch.zeros(2))
    assert NEEDS == [(True, False)]


def test_function_with_ctx_in_forward_is_refused():
    """T-95"""

    class Combined(torch.autograd.Function):
        @staticmethod
        def forward(ctx, v):
            return v * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    calls = {
        "grad": lambda: grad(lambda v: Combined.apply(v).sum())(x),
        "jvp": lambda: jvp(Combined.apply, (x,), (x,)),
        "vmap": lambda: vmap(Combined.apply)(x),
    }
    for call in calls.values():
        with pytest.raises(RuntimeError, match="setup_context"):
            call()


def test_batch_norm_with_running_statistics_cannot_be_mapped():
    """T-155"""
    batch = torch.arange(24.0).reshape(2, 4, 3)
    mean, variance = torch.zeros(3), torch.ones(3)
    norm = torch.nn.functional.batch_norm
    with pytest.raises(RuntimeError, match="share"):
        vmap(lambda v: norm(v, mean, variance, training=True))(batch)
    assert same(mean, torch.zeros(3))
    assert same(
        vmap(lambda v: norm(v, None, None, training=True))(batch),
        torch.stack([norm(v, None, None, training=True) for v in batch]),
    )
    own = torch.zeros(2, 3)
    vmap(lambda v, m, s: norm(v, m, s, training=True))(batch, own, torch.ones(2, 3))
    assert same(own, 0.1 * batch.mean(1))

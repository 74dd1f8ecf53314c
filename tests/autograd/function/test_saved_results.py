"""Second derivatives through a result that a Function saved, however that result came about."""

import pytest

import pullback as torch
from pullback.autograd import forward_ad


class Fresh(torch.autograd.Function):
    """The product, which backward gets from the result."""

    generate_vmap_rule = False
    of_view = False

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[1], output)
        ctx.save_for_forward(inputs[1], output)

    @staticmethod
    def backward(ctx, g):
        y, out = ctx.saved_tensors
        return g * y, g * out / y

    @staticmethod
    def jvp(ctx, d_x, d_y):
        y, out = ctx.saved_tensors
        return d_x * y + d_y * out / y


class Written(Fresh):
    """The product in the memory of the first factor."""

    @staticmethod
    def forward(x, y):
        return x.mul_(y)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(inputs[0])
        Fresh.setup_context(ctx, inputs, output)

    @staticmethod
    def jvp(ctx, d_x, d_y):
        y, out = ctx.saved_tensors
        return d_x.mul_(y).add_(d_y * out / y)


class ViewWritten(Written):
    """The same, of a part of a tensor."""

    of_view = True


class WithContext(Written):
    """The same with ctx in forward."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        x.mul_(y)
        ctx.save_for_backward(y, x)
        ctx.save_for_forward(y, x)
        return x

    setup_context = torch.autograd.Function.setup_context


POINT = torch.tensor([0.5, 1.2], dtype=torch.float64)
DIRECTION = torch.tensor([1.0, -0.3], dtype=torch.float64)


def quartic(function, constant=False):
    """Four times the fourth power, or (with a factor that nobody differentiates) a square."""

    def of(p):
        x = torch.ones_like(p) if constant else p * 1
        x = torch.cat([x, x])[:2] if function.of_view else x
        return (function.apply(x, p * 2) ** 2).sum()

    return of


def by_duals(f):
    with forward_ad.dual_level():
        x = forward_ad.make_dual(POINT.clone().requires_grad_(), DIRECTION)
        (g,) = torch.autograd.grad(f(x), x, create_graph=True)
        return forward_ad.unpack_dual(g).tangent.detach().clone()


WAYS = {
    "dual numbers": by_duals,
    "jvp of grad": lambda f: torch.func.jvp(torch.func.grad(f), (POINT,), (DIRECTION,))[1],
    "grad of grad": lambda f: torch.func.vjp(torch.func.grad(f), POINT)[1](DIRECTION)[0],
    "jvp of jvp": lambda f: torch.func.grad(
        lambda d: torch.func.jvp(
            lambda z: torch.func.jvp(f, (z,), (d,))[1], (POINT,), (DIRECTION,)
        )[1]
    )(torch.zeros_like(POINT)),
}


CASES = [(way, function) for way in WAYS for function in (Fresh, Written, ViewWritten)]
CASES.append(("dual numbers", WithContext))  # which function transforms cannot run


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(("way", "function"), CASES)
def test_second_derivatives_agree_however_the_saved_result_came_about(way, function, constant):
    expected = (8 if constant else 48 * POINT**2) * DIRECTION
    torch.testing.assert_close(WAYS[way](quartic(function, constant)), expected)

"""func.jet: Taylor mode, and how it lives with the other transforms."""

import gc
import math

import numpy
import pytest

import pullback as torch
from pullback.func import grad, hessian_diagonal, jacfwd, jet, jvp, laplacian, vmap

F64 = torch.float64


def _tensor(*values):
    return torch.tensor(values, dtype=F64)


def _line(x, v, order):
    return ((v, *(torch.zeros_like(v) for _ in range(order - 1))),)


def _nested(function, x, v, order):
    made = []
    for _ in range(order):
        function = lambda t, inner=function: jvp(inner, (t,), (v,))[1]  # noqa: E731 (a chain)
        made.append(function(x))
    return made


def _assert_close(a, b):
    numpy.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12)


X, V = _tensor(0.3, 0.7), _tensor(1.0, -0.5)


def test_tenth_derivative_of_sine_is_known():
    x = torch.tensor(0.4, dtype=F64)
    one = torch.ones_like(x)
    output, terms = jet(torch.sin, (x,), _line(x, one, 10))
    for order, term in enumerate([output, *terms]):
        assert math.isclose(float(term), math.sin(0.4 + order * math.pi / 2), abs_tol=1e-12)


def test_series_compose_as_functions_do():
    """The result of one jet is the path of the next."""
    series = ((V, V * 2, V * 3),)
    output, terms = jet(torch.sin, (X,), series)
    _, wanted = jet(lambda x: torch.exp(torch.sin(x)), (X,), series)
    _, got = jet(torch.exp, (output,), (terms,))
    for a, b in zip(got, wanted, strict=True):
        _assert_close(a, b)


def test_several_arguments_and_structures():
    def function(pair, y):
        return {"product": pair[0] * pair[1], "power": (pair[0] ** 2 * y.sum(),)}

    series = (((V, V), (V * 2, V)), (V, X))
    output, terms = jet(function, ((X, X + 1), V), series)
    assert tuple(output) == ("product", "power")
    _assert_close(terms["product"][0], V * (X + 1) + X * V)
    _assert_close(terms["product"][1], 2 * V * (X + 1) + 2 * V * V + X * V)
    assert len(terms["power"][0]) == 2


def test_writes_in_place_and_views_carry_series():
    def written(x):
        y = x.clone()
        y[0].mul_(x[1])
        y[1:] = x[:1] ** 2
        y += y.flip(0)
        return y

    def plain(x):
        y = torch.stack([x[0] * x[1], x[0] ** 2])
        return y + y.flip(0)

    for a, b in zip(
        jet(written, (X,), _line(X, V, 4))[1], jet(plain, (X,), _line(X, V, 4))[1], strict=True
    ):
        _assert_close(a, b)


def test_output_that_does_not_depend_has_zeros():
    output, terms = jet(lambda x: torch.ones(2), (X,), _line(X, V, 2))
    assert [one.tolist() for one in terms] == [[0, 0], [0, 0]]
    assert output.tolist() == [1, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_dtypes_are_kept(dtype):
    x = torch.tensor([0.5, 0.25]).to(dtype)
    output, terms = jet(lambda x: x * x.exp(), (x,), ((x, x, x),))
    assert {one.dtype for one in (output, *terms)} == {dtype}


def test_jet_of_jet_is_the_higher_derivative():
    def inner(x):
        return jet(torch.tanh, (x,), _line(x, V, 2))[1][1]

    _, terms = jet(inner, (X,), _line(X, V, 2))
    wanted = _nested(torch.tanh, X, V, 4)
    _assert_close(terms[0], wanted[2])
    _assert_close(terms[1], wanted[3])


def test_jet_of_a_gradient_and_gradient_of_a_jet():
    def energy(x):
        return (x.sin() * x.exp()).sum()

    _, terms = jet(grad(energy), (X,), _line(X, V, 3))
    for a, b in zip(terms, _nested(grad(energy), X, V, 3), strict=True):
        _assert_close(a, b)

    def third(x):
        return jet(energy, (x,), _line(x, V, 3))[1][2]

    _assert_close(grad(third)(X), _nested(grad(energy), X, V, 3)[2])


def test_gradient_by_the_direction():
    def second(v):
        return jet(lambda x: (x**3).sum(), (X,), _line(X, v, 2))[1][1]

    _assert_close(grad(second)(V), 12 * X * V)


def test_under_vmap_values_directions_or_both_are_mapped():
    xs = torch.stack([X, X + 1, X * 2])
    vs = torch.stack([V, -V, V * 3])

    def fourth(x, v):
        return jet(lambda y: torch.softmax(y, 0) * y.exp(), (x,), _line(x, v, 4))[1][3]

    for dims in [(0, 0), (0, None), (None, 0)]:
        a, b = xs if dims[0] == 0 else X, vs if dims[1] == 0 else V
        got = vmap(fourth, in_dims=dims)(a, b)
        rows = [
            fourth(xs[i] if dims[0] == 0 else X, vs[i] if dims[1] == 0 else V) for i in range(3)
        ]
        _assert_close(got, torch.stack(rows))


def test_vmap_inside_the_function():
    def function(x):
        return vmap(lambda row: (row * row.sin()).sum())(torch.outer(x, x))

    for a, b in zip(
        jet(function, (X,), _line(X, V, 3))[1], _nested(function, X, V, 3), strict=True
    ):
        _assert_close(a, b)


def test_inside_jacfwd():
    def second(x):
        return jet(lambda y: y.exp() * y.sum(), (x,), _line(x, V, 2))[1][1]

    _assert_close(jacfwd(second)(X), torch.func.jacrev(second)(X))


def test_compiled():
    def third(x):
        return jet(lambda y: torch.tanh(y) * y, (x,), _line(x, V, 3))[1][2]

    compiled = torch.compile(third)
    for point in (X, X + 1, X * 2):
        _assert_close(compiled(point), third(point))


def test_module_as_the_function():
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
    ).double()
    for a, b in zip(jet(net, (X,), _line(X, V, 3))[1], _nested(net, X, V, 3), strict=True):
        _assert_close(a, b)


def test_cost_grows_by_order_not_by_doubling():
    """Counted in operator calls on values: nested jvp runs the function 2 ** order times."""
    runs = []

    def function(x):
        runs.append(1)
        return torch.exp(x)

    jet(function, (X,), _line(X, V, 8))
    assert len(runs) == 1


class _Square(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.x = inputs[0]

    @staticmethod
    def jvp(ctx, dx):
        return 2 * ctx.x * dx


class _Exp(torch.autograd.Function):
    """Saves its result; a number beside the tensor."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, rate):
        return torch.exp(rate * x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.rate = inputs[1]
        ctx.save_for_forward(output)
        ctx.save_for_backward(output)

    @staticmethod
    def jvp(ctx, dx, _):
        (y,) = ctx.saved_tensors
        return ctx.rate * dx * y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return ctx.rate * g * y, None


class _Polar(torch.autograd.Function):
    """Two arguments, two results, and one that has no gradient."""

    @staticmethod
    def forward(r, phi):
        return r * torch.cos(phi), r * torch.sin(phi), r > 0

    @staticmethod
    def setup_context(ctx, inputs, outputs):
        ctx.save_for_forward(*inputs, *outputs[:2])
        ctx.mark_non_differentiable(outputs[2])

    @staticmethod
    def jvp(ctx, dr, dphi):
        _, phi, x, y = ctx.saved_tensors
        return dr * torch.cos(phi) - y * dphi, dr * torch.sin(phi) + x * dphi, None


class _Noise(torch.autograd.Function):
    """Draws at random in forward."""

    @staticmethod
    def forward(x):
        return x * x, torch.rand_like(x)

    @staticmethod
    def setup_context(ctx, inputs, outputs):
        ctx.save_for_forward(inputs[0])
        ctx.mark_non_differentiable(outputs[1])

    @staticmethod
    def jvp(ctx, dx):
        return 2 * ctx.saved_tensors[0] * dx, None


def _polar(function):
    def called(x):
        a, b, *_ = function(x[0].sin() + 2, x[1] * x[0])
        return a * b.exp()

    return called


CUSTOM = {
    "attribute": (_Square.apply, lambda x: x * x),
    "output": (lambda x: _Exp.apply(x.sin(), 0.7), lambda x: torch.exp(0.7 * x.sin())),
    "one inside another": (
        lambda x: _Exp.apply(_Square.apply(_Exp.apply(x, 2.0)), 0.1).cos(),
        lambda x: torch.exp(0.1 * torch.exp(4.0 * x)).cos(),
    ),
    "several": (
        _polar(_Polar.apply),
        _polar(lambda r, phi: (r * torch.cos(phi), r * torch.sin(phi))),
    ),
    "random": (lambda x: _Noise.apply(x.exp())[0], lambda x: torch.exp(2 * x)),
}


@pytest.mark.parametrize("name", CUSTOM)
def test_custom_functions_take_part_by_their_jvp(name):
    """As the same with operators, and as nested jvp of the Function itself."""
    custom, plain = CUSTOM[name]
    series = ((V, V * 2, V * 0.5, -V, V * 3),)
    output, terms = jet(custom, (X,), series)
    wanted, others = jet(plain, (X,), series)
    for got, other in zip((output, *terms), (wanted, *others), strict=True):
        _assert_close(got, other)
    _, along = jet(custom, (X,), _line(X, V, 3))
    for got, other in zip(along, _nested(custom, X, V, 3), strict=True):
        _assert_close(got, other)


def test_custom_functions_in_jet_under_other_transforms():
    def along(function):
        return lambda x: jet(lambda y: function(y, 0.7), (x,), _line(x, torch.ones_like(x), 3))[1]

    def plain(x, rate):
        return torch.exp(rate * x)

    for transform in (
        lambda f: vmap(f),
        lambda f: grad(lambda x: f(x)[2].sum()),
        lambda f: lambda x: jvp(f, (x,), (V,)),
        lambda f: jacfwd(lambda x: f(x)[1]),
    ):
        got, wanted = (transform(along(one))(X) for one in (_Exp.apply, plain))
        for a, b in zip(*map(_leaves, (got, wanted)), strict=True):
            _assert_close(a, b)
    batch = torch.stack([X, V])
    for function in (_Exp.apply, plain):
        made = jet(lambda x, f=function: vmap(lambda y: f(y, 0.7))(x), (batch,), ((batch,) * 3,))
        _assert_close(made[1][2], jet(lambda x: plain(x, 0.7), (batch,), ((batch,) * 3,))[1][2])
    _assert_close(
        hessian_diagonal(lambda x: _Exp.apply(x, 0.7).sum())(X), 0.49 * torch.exp(0.7 * X)
    )


def _leaves(tree):
    return [tree] if isinstance(tree, torch.Tensor) else [b for a in tree for b in _leaves(a)]


class _Same(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def jvp(ctx, dx):
        return dx.view_as(dx)


class _Opaque(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass


def test_custom_functions_that_have_no_series_are_named():
    with pytest.raises(NotImplementedError, match="_Same returns an argument"):
        jet(_Same.apply, (X,), _line(X, V, 2))
    with pytest.raises(NotImplementedError, match="_Opaque has no jvp"):
        jet(_Opaque.apply, (X,), _line(X, V, 2))
    with pytest.raises(NotImplementedError, match=r"_Square .*laplacian"):
        laplacian(lambda x: _Square.apply(x).sum())(X)


@pytest.mark.parametrize(
    ("primals", "series", "says"),
    [
        (X, ((V,),), "primals must be a tuple"),
        ((X,), V, "series must be a tuple"),
        ((X,), ((V,), (V,)), "for each of the 1 primals"),
        ((X,), ((),), "at least one"),
        ((X, X), ((V,), (V, V)), "equally many"),
        ((X,), ((_tensor(1.0),),), "shape"),
        ((), (), "at least one Tensor"),
    ],
)
def test_wrong_arguments_are_explained(primals, series, says):
    with pytest.raises(RuntimeError, match=says):
        jet(lambda *x: x[0], primals, series)


def test_function_that_returns_no_tensor():
    with pytest.raises(RuntimeError, match="only Tensors"):
        jet(lambda x: 1.0, (X,), ((V,),))


def test_complex_tangent_of_an_operator_with_a_negative_dim():
    """jvp passed the option on as given where numbers were complex."""
    x = torch.tensor(numpy.arange(12).reshape(2, 3, 2) * (1 + 0.5j))
    v = x.flip(0) * 1j

    def function(x):
        return torch.renorm(x, 2, -1, 0.5)

    step = 1e-6
    wanted = (function(x + step * v) - function(x - step * v)) / (2 * step)
    numpy.testing.assert_allclose(
        jvp(function, (x,), (v,))[1].numpy(), wanted.numpy(), rtol=1e-6, atol=1e-8
    )


def test_no_cycles_are_left():
    def function(x):
        return torch.softmax(x, 0) * x.exp()

    works = [
        lambda: jet(function, (X,), _line(X, V, 3)),
        lambda: laplacian(function)(X),
        lambda: hessian_diagonal(function)(X),
        lambda: grad(lambda x: jet(function, (x,), _line(x, V, 2))[1][1].sum())(X),
    ]
    for work in works:
        work()
    gc.collect()
    gc.disable()
    try:
        for work in works:
            work()
            assert gc.collect() == 0
    finally:
        gc.enable()


def test_third_derivative_of_a_determinant_is_that_of_the_cubic():
    """Torch 2.13's nested jvp of det is wrong from order 2 on, so the polynomial is the oracle."""
    x = torch.tensor([[0.6, 0.3, 0.2], [0.2, 0.7, 0.7], [0.6, 0.6, 0.5]], dtype=F64)
    v = torch.tensor([[-0.4, 0.2, -0.1], [0.1, 0.3, 0.2], [0.5, -0.3, 0.1]], dtype=F64)
    times = numpy.linspace(-1, 1, 9)
    heights = [numpy.linalg.det(x.numpy() + t * v.numpy()) for t in times]
    cubic = numpy.polyfit(times, heights, 3)[::-1]
    _, terms = jet(torch.linalg.det, (x,), _line(x, v, 4))
    wanted = [cubic[1], 2 * cubic[2], 6 * cubic[3], 0.0]
    numpy.testing.assert_allclose([float(one) for one in terms], wanted, atol=1e-10)

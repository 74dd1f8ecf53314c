"""autograd.functional: structure of results, strictness, histories, errors."""

import pytest

import pullback as torch
from pullback.autograd import functional
from pullback.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp

tensor = torch.tensor
x, y = tensor([1.0, 2.0]), tensor([3.0, 4.0])
ALL = [vjp, jvp, jacobian, hessian, vhp, hvp]


def cubes(v):
    return (v**3).sum()


def product(a, b):
    return (a**2 * b).sum()


def same(a, b):
    return a.shape == b.shape and bool(torch.isclose(a, b).all())


def test_products_with_the_jacobian():
    """T-22, T-26"""
    output, row = vjp(lambda a, b: (a * b, b.sum()), (x, y), (y, tensor(1.0)))
    assert isinstance(output, tuple)
    assert same(row[0], y * y)
    assert same(row[1], x * y + 1)
    output, column = jvp(lambda a, b: (a * b, b.sum()), (x, y), (y, x))
    assert same(column[0], y * y + x * x)
    assert same(column[1], x.sum())


def test_structure_of_jacobians_follows_inputs_and_outputs():
    """T-25"""
    assert same(jacobian(torch.exp, x), torch.diag(x.exp()))
    assert isinstance(jacobian(torch.exp, (x,)), tuple)
    blocks = jacobian(lambda a, b: (a * b, a.sum()), (x, y))
    assert same(blocks[0][1], torch.diag(x))
    assert same(blocks[1][0], torch.ones(2))
    assert same(blocks[1][1], torch.zeros(2))
    assert jacobian(lambda a: a.reshape(1, 2), x).shape == (1, 2, 2)


@pytest.mark.parametrize(
    "options", [{}, {"vectorize": True}, {"strategy": "forward-mode", "vectorize": True}]
)
def test_ways_to_a_jacobian_agree(options):
    """T-32, T-33"""
    blocks = jacobian(lambda a, b: (a.outer(b).tanh(), a.sum()), (x, y), **options)
    plain = jacobian(lambda a, b: (a.outer(b).tanh(), a.sum()), (x, y))
    assert isinstance(blocks, tuple)
    for got, wanted in zip(blocks, plain, strict=True):
        assert isinstance(got, tuple)
        assert all(same(a, b) for a, b in zip(got, wanted, strict=True))


@pytest.mark.parametrize(
    "options",
    [{}, {"vectorize": True}, {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}],
)
def test_ways_to_a_hessian_agree(options):
    """T-32, T-34"""
    assert same(hessian(cubes, x, **options), torch.diag(6 * x))
    blocks = hessian(product, (x, y), **options)
    assert same(blocks[0][0], torch.diag(2 * y))
    assert same(blocks[1][0], torch.diag(2 * x))
    assert same(blocks[1][1], torch.zeros(2, 2))
    assert not blocks[0][0].requires_grad


def test_products_with_the_hessian():
    """T-26, T-35"""
    for function in (vhp, hvp):
        value, made = function(cubes, x, y)
        assert value.item() == 9
        assert same(made, 6 * x * y)
        _, pair = function(product, (x, y), (x, y))
        assert same(pair[0], 2 * y * x + 2 * x * y)


def test_captured_tensor_is_a_constant():
    """T-24"""
    leaf = x.clone().requires_grad_()
    assert same(vjp(lambda v: (v * leaf).sum(), leaf)[1], x)


def test_results_have_a_history_only_if_asked_for():
    """T-28"""
    leaf = x.clone().requires_grad_()
    assert not jacobian(cubes, leaf).requires_grad
    made = jacobian(cubes, leaf, create_graph=True)
    assert same(torch.autograd.grad(made.sum(), leaf)[0], 6 * x)
    with torch.no_grad():
        assert jacobian(cubes, leaf, create_graph=True).requires_grad
        assert not vjp(lambda v: v * 2, leaf, y)[0].requires_grad
    assert vjp(lambda v: v * 2, x, y, create_graph=True)[0].requires_grad


@pytest.mark.parametrize("function", ALL)
def test_lists_are_refused(function):
    """T-23"""
    with pytest.raises(TypeError, match=function.__name__):
        function(cubes, [x])
    with pytest.raises(TypeError, match="int"):
        function(cubes, (x, 3))


def test_vectors_must_fit():
    """T-27"""
    with pytest.raises(RuntimeError, match="left away"):
        vjp(lambda v: v * 2, x)
    with pytest.raises(RuntimeError, match="shape"):
        jvp(cubes, x, tensor([1.0]))
    with pytest.raises(RuntimeError, match="2 tensors"):
        vhp(cubes, x, (x, y))
    assert same(vjp(cubes, x)[1], 3 * x**2)


def test_second_order_wants_one_number():
    """T-29"""
    for function in (hessian, vhp, hvp):
        with pytest.raises(RuntimeError, match="tuple"):
            function(lambda v: (v.sum(),), x)
        with pytest.raises(RuntimeError, match="single element"):
            function(lambda v: v, x)
    assert hessian(lambda v: v.sum().reshape(1, 1) ** 2, x).shape == (2, 2)


def test_independence_gives_zeros_or_with_strict_an_error():
    """T-30, T-31"""
    assert same(jacobian(lambda v: y, x), torch.zeros(2, 2))
    assert same(hessian(lambda v: v.sum(), x), torch.zeros(2, 2))
    strict = [
        lambda: jacobian(lambda v: y, x, strict=True),
        lambda: vjp(lambda a, b: a * 2, (x, y), y, strict=True),
        lambda: vjp(lambda v: v * 2, x, y, create_graph=True, strict=True),
        lambda: hessian(lambda v: v.sum(), x, strict=True),
        lambda: vhp(lambda v: v.sum(), x, y, strict=True),
        lambda: hvp(lambda v: v.sum(), x, y, strict=True),
    ]
    for call in strict:
        with pytest.raises(RuntimeError, match="strict"):
            call()


def test_options_that_exclude_each_other():
    """T-32, T-33"""
    with pytest.raises(RuntimeError, match="vectorize"):
        jacobian(cubes, x, strict=True, vectorize=True)
    with pytest.raises(NotImplementedError, match="vectorize"):
        jacobian(cubes, x, strategy="forward-mode")
    with pytest.raises(NotImplementedError, match="create_graph"):
        jacobian(cubes, x, create_graph=True, strategy="forward-mode", vectorize=True)
    with pytest.raises(AssertionError, match="sideways"):
        jacobian(cubes, x, strategy="sideways")


def test_empty_blocks_have_their_shape():
    """T-36"""
    assert jacobian(lambda v: v[:0], x).shape == (0, 2)
    assert jacobian(lambda v: v * 2, torch.ones(0)).shape == (0, 0)


def test_integers_cannot_require_gradients():
    """T-36"""
    with pytest.raises(RuntimeError):
        vjp(lambda v: v * 1.0, tensor([1, 2]), y)


class Skewed(torch.autograd.Function):
    """Its backward is not the derivative of its forward."""

    @staticmethod
    def forward(x):
        return x.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].roll(1)


def hooked_skewly(x):
    y = x * 1
    y.register_hook(lambda g: g * x.roll(1))
    return y.sum()


def hooked_skewly_at_the_input(x):
    x.register_hook(lambda g: g * x.roll(1))
    return (x * 1).sum()


@pytest.mark.parametrize("function", [Skewed.apply, hooked_skewly, hooked_skewly_at_the_input])
def test_the_sides_of_a_product_differ_where_the_hessian_is_not_symmetric(function):
    x, v = torch.ones(3), torch.tensor([1.0, 2.0, 3.0])
    torch.testing.assert_close(functional.hvp(function, x, v)[1], v.roll(1))
    torch.testing.assert_close(functional.vhp(function, x, v)[1], v.roll(-1))


def test_a_product_with_a_symmetric_hessian_takes_a_pass_less(monkeypatch):
    passes = []
    own = functional.grad

    def counted(*args, **kwargs):
        passes.append(kwargs["create_graph"])
        return own(*args, **kwargs)

    monkeypatch.setattr(functional, "grad", counted)

    def function(x):
        return (x.exp() * x.roll(1)).sum()

    x, v = torch.arange(3.0), torch.tensor([1.0, 2.0, 3.0])
    product = functional.hvp(function, x, v)[1]
    assert passes == [True, False]
    matrix = functional.hessian(function, x)
    torch.testing.assert_close(product, matrix @ v)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_results_on_a_wrapper_class_are_of_that_class(create_graph, strict):
    """The first cotangent was made of the wrapper's array, which has none"""

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            made = torch.Tensor._make_wrapper_subclass(cls, inner.size(), dtype=inner.dtype)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            def opened(one):
                return one.inner if isinstance(one, cls) else one

            def closed(one):
                return cls(one) if isinstance(one, torch.Tensor) else one

            pytree = torch.utils._pytree
            args, kwargs = pytree.tree_map(opened, (args, kwargs or {}))
            return pytree.tree_map(closed, func(*args, **kwargs))

    def square(x):
        return (x * x * x).sum()

    point, direction = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 1.0])
    options = {"create_graph": create_graph, "strict": strict}
    calls = [
        lambda kind: vjp(square, kind(point), **options),
        lambda kind: vhp(square, kind(point), kind(direction), **options),
        lambda kind: hvp(square, kind(point), kind(direction), **options),
        lambda kind: (hessian(square, kind(point), **options),),
    ]
    for call in calls:
        for made, expected in zip(call(Wrapper), call(torch.clone), strict=True):
            assert type(made) is Wrapper
            inner = made.inner
            assert torch.equal(inner.detach(), expected.detach())

"""Nestings of transforms over captured and mapped arguments, all to depth three, against torch."""

import itertools

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
]

VALUES = numpy.linspace(0.2, 1.1, 3)
MAPPED = numpy.linspace(-0.5, 0.9, 6).reshape(2, 3)


def transforms(lib):
    """Each takes a function of a vector to another one; `c` is captured, `m` is mapped."""
    f, c, m = lib.func, lib.tensor(VALUES), lib.tensor(MAPPED)
    return {
        "grad": lambda g: f.grad(lambda x: g(x).sum()),
        "vjp": lambda g: lambda x: f.vjp(g, x)[1](c)[0],
        "jvp": lambda g: lambda x: f.jvp(g, (x,), (c,))[1],
        "jvp at a captured point": lambda g: lambda v: f.jvp(g, (c,), (v,))[1],
        "vjp at a captured point": lambda g: lambda v: f.vjp(g, c)[1](v)[0],
        "jacrev": lambda g: lambda x: f.jacrev(g)(x).sum(0),
        "jacfwd": lambda g: lambda x: f.jacfwd(g)(x).sum(0),
        "hessian": lambda g: lambda x: f.hessian(lambda y: g(y).sum())(x).sum(0),
        "vmap": lambda g: lambda x: f.vmap(lambda r: g(r * x))(m).sum(0),
        "vmap of one": lambda g: lambda x: f.vmap(g)(x * m).sum(0),
    }


def result(lib, names):
    known = transforms(lib)
    function = lambda x: x.sin() * x.sum()  # noqa: E731 (one line, read where it is used)
    for name in reversed(names):
        function = known[name](function)
    return function(lib.tensor(VALUES)).numpy(force=True)  # torch knows zeros without memory


NAMES = list(transforms(pullback))
DEPTH_2 = list(itertools.product(NAMES, repeat=2))
DEPTH_3 = list(itertools.product(NAMES, repeat=3))
SOME_OF_DEPTH_4 = list(itertools.product(NAMES, repeat=4))[::97]


@pytest.mark.parametrize("names", DEPTH_2, ids=" / ".join)
def test_nested_transforms_agree_with_torch(names):
    numpy.testing.assert_allclose(result(pullback, names), result(torch, names), rtol=1e-9)


@pytest.mark.parametrize("outermost", NAMES)
def test_all_nestings_of_depth_three_and_some_of_four_agree_with_torch(outermost):
    """Issue 16: a hundred chains and more in each case, so that their names are in the message."""
    for names in (*DEPTH_3, *SOME_OF_DEPTH_4):
        if names[0] == outermost:
            numpy.testing.assert_allclose(
                result(pullback, names),
                result(torch, names),
                rtol=1e-8,
                atol=1e-9,
                err_msg=" / ".join(names),
            )


@pytest.mark.parametrize("inner", ["grad", "jacrev"])
def test_a_mapped_tangent_of_a_captured_point(inner):
    def run(lib):
        x = lib.tensor(VALUES)
        derivative = getattr(lib.func, inner)(lambda p: p.sin().sum())
        return lib.func.vmap(lambda v: lib.func.jvp(derivative, (x,), (v,))[1])(lib.eye(3).double())

    numpy.testing.assert_allclose(run(pullback).numpy(), run(torch).numpy())


def test_a_gauss_newton_product_under_vmap():
    def run(lib):
        f, w = lib.func, lib.tensor(VALUES)
        model = lambda w: lib.stack([w.sin(), w * w]).reshape(-1)  # noqa: E731 (one line, read where it is used)
        loss = lambda z: (z**3).sum()  # noqa: E731 (one line, read where it is used)

        def product(v):
            z, tangent = f.jvp(model, (w,), (v,))
            hv = f.jvp(f.grad(loss), (z,), (tangent,))[1]
            return f.vjp(model, w)[1](hv)[0]

        return f.vmap(product)(lib.eye(3).double())

    numpy.testing.assert_allclose(run(pullback).numpy(), run(torch).numpy())


INPLACE = ["cos_", "sin_", "log_", "square_", "abs_", "exp_", "tanh_", "sqrt_"]


@pytest.mark.parametrize("name", INPLACE)
@pytest.mark.parametrize("part", [False, True])
def test_in_place_operators_inside_vmap_of_grad(name, part):
    def run(lib):
        def f(x):
            y = x * 1.5
            getattr(y[0:1] if part else y, name)()
            return (y * x).sum()

        x = lib.tensor(numpy.linspace(0.3, 1.2, 6).reshape(2, 3))
        return lib.func.vmap(lib.func.grad(f))(x)

    numpy.testing.assert_allclose(run(pullback).numpy(), run(torch).numpy())


@pytest.mark.parametrize("name", ["mul_", "div_", "pow_", "clamp_", "atan2_"])
def test_in_place_operators_with_a_second_operand_inside_vmap(name):
    def run(lib):
        def f(x, o):
            y = x * 1.5
            getattr(y, name)(0.5) if name == "clamp_" else getattr(y, name)(o)
            return (y * y).sum()

        x = lib.tensor(numpy.linspace(0.3, 1.2, 6).reshape(2, 3))
        return lib.func.vmap(lib.func.grad(f, argnums=(0, 1)))(x, x + 0.25)

    for a, b in zip(run(pullback), run(torch), strict=True):
        numpy.testing.assert_allclose(a.numpy(), b.numpy())


def test_a_written_view_inside_vmap_of_vjp():
    def run(lib):
        def f(x):
            y = (x * x).transpose(0, 1)
            y[0:1].sin_()
            return y[1:2].cos_()

        ones = lib.ones(2, 1, 2)
        return lib.func.vmap(lambda a, g: lib.func.vjp(f, a)[1](g)[0])(lib.ones(2, 2, 2), ones)

    numpy.testing.assert_allclose(run(pullback).numpy(), run(torch).numpy(), rtol=1e-6)

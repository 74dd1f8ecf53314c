"""Reverse over forward mode of functions that write in place: histories keep what was there."""

import numpy
import pytest

import pullback as torch
from pullback.core.tensor import Tensor
from pullback.func import grad, hessian, jacfwd, jacrev, jet, jvp, vmap
from pullback.testing.samples import SAMPLES, resolve, samples_for


def _cases(name):
    """A sample's point, its operator, and the same operator in place on a copy."""
    function, written = resolve(torch, name), getattr(torch.Tensor, f"{name}_", None)
    for sample in samples_for(name):
        point, args, kwargs = sample.input, sample.args, sample.kwargs
        if not isinstance(point, Tensor) or not sample.smooth or sample.layout != "contiguous":
            continue
        if not point.requires_grad or not 0 < point.numel() <= 60:
            continue
        given = [one.detach() if isinstance(one, Tensor) else one for one in args]
        result = function(point.detach(), *given, **kwargs)
        if isinstance(result, Tensor) and result.shape == point.shape:
            yield (
                point.detach(),
                lambda x, given=given, kwargs=kwargs: function(x * x, *given, **kwargs),
                lambda x, given=given, kwargs=kwargs: written(x * x, *given, **kwargs),
            )


def _slope(function, point):
    direction = torch.tensor(numpy.random.default_rng(0).standard_normal(point.shape))

    def along(x):
        return jvp(function, (x,), (direction,))[1].pow(2).sum()

    return grad(along)(point)


NAMES = [n for n in SAMPLES if "." not in n and hasattr(torch.Tensor, f"{n}_")]
DRAWN = {"bernoulli", "dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"}


@pytest.mark.parametrize("name", [n for n in NAMES if n not in DRAWN])
@pytest.mark.filterwarnings("ignore")
def test_a_derivative_of_a_derivative_goes_through_writes(name):
    for point, plain, written in _cases(name):
        try:
            wanted = _slope(plain, point)
        except (RuntimeError, NotImplementedError):
            continue  # has no second derivative
        made = _slope(written, point)
        assert torch.allclose(made, wanted, rtol=1e-9, atol=1e-12, equal_nan=True)


def test_series_are_differentiated_through_writes_to_parts():
    def wrote(x):
        y = torch.zeros(6, dtype=x.dtype) * x.sum()
        y[1:5] = x**2
        y[2] *= x[0]
        y[3:].mul_(x[:3]).sin_()
        return y.cumsum(0)

    def apart(x):
        squares = x**2
        last = (torch.cat([squares[2:], x.new_zeros(1)]) * x[:3]).sin()
        return torch.cat([x.new_zeros(1), squares[:1], squares[1:2] * x[0], last]).cumsum(0)

    point = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)

    def third(function, x):
        still = torch.zeros_like(x)
        return jet(function, (x,), ((x.cos(), still, still),))[1][2].sum()

    made, wanted = (grad(lambda x, f=f: third(f, x))(point) for f in (wrote, apart))
    assert torch.allclose(made, wanted)
    points = torch.stack([point, 2 * point])
    assert torch.allclose(vmap(grad(lambda x: third(wrote, x)))(points)[0], wanted)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in DRAWN])
@pytest.mark.filterwarnings("ignore")
def test_a_hessian_of_a_function_that_writes_is_that_of_one_that_does_not(name):
    """What was overwritten had no tangent in the graph, and a part of the product was lost."""
    for point, plain, written in _cases(name):
        direction = torch.tensor(numpy.random.default_rng(0).standard_normal(point.shape))

        def product(function, point=point, direction=direction):
            slope = grad(lambda x: function(x).pow(2).sum())
            return jvp(slope, (point,), (direction,))[1]

        try:
            wanted = product(plain)
        except (RuntimeError, NotImplementedError):
            continue  # has no second derivative
        assert torch.allclose(product(written), wanted, rtol=1e-9, atol=1e-12, equal_nan=True)


def _turned(x):
    y = x * x + 1
    y.view(2, 2).mul_(x.view(2, 2)).transpose_(0, 1).sin_()
    return (y * x).sum()


def _grown(x):
    return (x * x).unsqueeze_(0).mul_(x).squeeze_(0).exp_().sum()


def _saved_in_a_part(x):
    y = x * x
    y[0] *= x[3]
    y[1:].tanh_()
    return (y * y).sum()


APART = {
    _turned: lambda x: ((((x * x + 1) * x).view(2, 2).t().sin().t().reshape(4)) * x).sum(),
    _grown: lambda x: (x**3).exp().sum(),
    _saved_in_a_part: lambda x: torch.cat([x[:1] ** 2 * x[3:], (x[1:] ** 2).tanh()]).pow(2).sum(),
}


@pytest.mark.parametrize(("wrote", "apart"), APART.items())
def test_all_hessians_of_functions_that_reshape_and_write_agree(wrote, apart):
    point = torch.tensor([0.5, 1.2, 0.8, 0.3], dtype=torch.float64)
    wanted = jacrev(jacrev(apart))(point)
    for outer in (jacfwd, jacrev):
        for inner in (jacfwd, jacrev):
            assert torch.allclose(outer(inner(wrote))(point), wanted)
    assert torch.allclose(vmap(hessian(wrote))(torch.stack([point, 2 * point]))[0], wanted)


def test_saved_tensor_hooks_see_the_tangents_of_what_was_written():
    point = torch.tensor([0.5, 1.2], dtype=torch.float64)

    def slope(x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            inside = x.clone().requires_grad_()
            return torch.autograd.grad((inside * 1).exp_().sum(), inside, create_graph=True)[0]

    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(point, torch.ones_like(point))
        tangent = torch.autograd.forward_ad.unpack_dual(slope(dual)).tangent
    assert torch.allclose(tangent, point.exp())


def test_memory_is_not_exchanged_under_a_tangent():
    def exchanged(x):
        y = x * 2
        return y.set_(torch.ones(2))

    with pytest.raises(RuntimeError, match="set_: forward mode"):
        jvp(exchanged, (torch.ones(2),), (torch.ones(2),))


# Complex numbers ----------------------------------------------------------------------------------


def _real_part(x):
    y = torch.zeros(2, dtype=torch.complex128)
    y.real.copy_(x * x)
    y.imag.copy_(x.sin())
    return (y * y * y).imag.sum()


def _conjugate(x):
    y = torch.complex(x, x * 2)
    y.conj().mul_(torch.complex(x, x))
    return (y * y).real.sum()


def _negated(x):
    y = torch.complex(x, x * 2)
    y.conj().imag.mul_(x * x)
    return (y * y * y).real.sum()


def _turned_over(x):
    y = torch.complex(x, x * 2).reshape(1, 2)
    y.mH.mul_(torch.complex(x, x).reshape(2, 1))
    return (y * y * y).real.sum()


OUT_OF_PLACE = {
    _real_part: lambda x: (torch.complex(x * x, x.sin()) ** 3).imag.sum(),
    _conjugate: lambda x: ((torch.complex(x, x * 2) * torch.complex(x, -x)) ** 2).real.sum(),
    _negated: lambda x: (torch.complex(x, 2 * x**3) ** 3).real.sum(),
    _turned_over: lambda x: ((torch.complex(x, x * 2) * torch.complex(x, -x)) ** 3).real.sum(),
}


@pytest.mark.parametrize(("wrote", "apart"), OUT_OF_PLACE.items())
def test_writes_to_parts_and_conjugates_have_tangents(wrote, apart):
    """The tangent of a base that had none was real, as that of its written part."""
    point = torch.tensor([0.5, -1.5], dtype=torch.float64)
    steps = {"forward": jacfwd, "reverse": jacrev}
    for outer in steps.values():
        assert torch.allclose(outer(wrote)(point), grad(apart)(point))
        for inner in steps.values():
            assert torch.allclose(outer(inner(wrote))(point), jacrev(jacrev(apart))(point))


def test_a_complex_view_of_real_numbers_that_is_written_gives_its_base_a_real_tangent():
    def wrote(x):
        y = torch.zeros(3, 2, dtype=torch.float64)
        torch.view_as_complex(y)[1:].copy_(torch.complex(x, x * x))
        return (y**3).sum()

    point = torch.tensor([0.5, -1.5], dtype=torch.float64)
    assert torch.allclose(jacfwd(wrote)(point), 3 * point**2 + 6 * point**5)


# Views made before a write ------------------------------------------------------------------------


def _seen_through_a_view(x):
    base = torch.zeros(2, dtype=x.dtype)
    part = base[:]
    base.add_(x)
    return (part * part * part).sum()


def _seen_through_another_view(x):
    base = x * 1
    rows = base.reshape(1, 2)
    rows.t().mul_(x.reshape(2, 1))
    return (rows * rows * rows).sum()


SEEN = {
    _seen_through_a_view: lambda x: (x**3).sum(),
    _seen_through_another_view: lambda x: (x**6).sum(),
}


@pytest.mark.parametrize(("wrote", "apart"), SEEN.items())
def test_views_made_before_a_write_have_the_tangents_of_each_example(wrote, apart):
    """Those of the first direction were taken for all."""
    point = torch.tensor([0.5, -1.5], dtype=torch.float64)
    wanted = jacrev(jacrev(apart))(point)
    assert torch.allclose(jacfwd(wrote)(point), jacrev(apart)(point))
    for outer in (jacfwd, jacrev):
        for inner in (jacfwd, jacrev):
            assert torch.allclose(outer(inner(wrote))(point), wanted)


def test_views_follow_a_base_that_gets_tangents_of_many_examples_by_a_write():
    point, ones = torch.tensor([0.5, -1.5]), torch.ones(2)

    def wrote(x, w):
        base = w * 1
        part = base[:1]
        before = part.sin()  # its tangent is the same in all examples so far
        base.add_(x)
        return part * 1 + 0 * before

    made = vmap(lambda t: jvp(wrote, (point, point), (t, ones))[1])(torch.eye(2))
    assert made.tolist() == [[2], [1]]

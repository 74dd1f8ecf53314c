"""Reverse over forward mode of functions that write in place: histories keep what was there."""

import numpy
import pytest

import pullback as torch
from pullback.core.tensor import Tensor
from pullback.func import grad, jet, jvp, vmap
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

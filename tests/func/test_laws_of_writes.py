"""A law: a function that writes in place has the derivatives of one that does not.

Every in-place method, written to a tensor itself, to a base that is read through a view made before
the write, through such a view, to a part, and to a constant that was filled, under the transforms
and under pairs of them. Forward modes get one direction, and several at once, since a tangent is
then a batch of which the tensor knows nothing.
"""

from functools import partial

import numpy
import pytest

import pullback as torch
from pullback.core.tensor import Tensor
from pullback.func import grad, hessian, jvp, vmap
from pullback.testing.samples import SAMPLES, resolve, samples_for

DRAWN = {"bernoulli", "dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"}
NAMES = [n for n in SAMPLES if "." not in n and hasattr(torch.Tensor, f"{n}_") and n not in DRAWN]


def _written_itself(write, x):
    return write(x * x)


def _read_through_a_view(write, x):
    base = x * x
    part = base.view_as(base)
    write(base)
    return part * 1


def _written_through_a_view(write, x):
    base = x * x
    write(base.view_as(base))
    return base * 1


def _a_part_of_more(write, x):
    base = torch.stack([x * x, x])
    part = base[0]
    write(base[0])
    return part * 1


def _filled_first(write, x):
    base = torch.zeros_like(x)
    part = base.view_as(base)
    write(base.copy_(x * x))
    return part * 1


WAYS = (
    _written_itself,
    _read_through_a_view,
    _written_through_a_view,
    _a_part_of_more,
    _filled_first,
)


def _summed(function):
    return lambda x: function(x).pow(2).sum()


def _along(function, direction):
    return lambda x: jvp(function, (x,), (direction,))[1]


TRANSFORMS = {
    "grad": lambda f, x, d: grad(_summed(f))(x),
    "jvp": lambda f, x, d: vmap(lambda one: _along(f, one)(x))(d),
    "vmap(grad)": lambda f, x, d: vmap(grad(_summed(f)))(torch.stack([x, x])),
    "jvp(jvp)": lambda f, x, d: vmap(lambda one: _along(_along(f, d[0]), one)(x))(d),
    "jvp(vmap(jvp))": lambda f, x, d: _along(
        lambda x: vmap(lambda one: _along(f, one)(x))(d), d[1]
    )(x),
    "jvp(grad)": lambda f, x, d: vmap(lambda one: _along(grad(_summed(f)), one)(x))(d),
    "grad(jvp)": lambda f, x, d: vmap(lambda one: grad(_summed(_along(f, one)))(x))(d),
    "grad(grad)": lambda f, x, d: grad(_summed(grad(_summed(f))))(x),
    # Without vmap around them writes go another way.
    "jvp of one": lambda f, x, d: _along(f, d[0])(x),
    "jvp(grad) of one": lambda f, x, d: _along(grad(_summed(f)), d[0])(x),
    "hessian": lambda f, x, d: hessian(_summed(f))(x),
}


def _cases(name):
    """The operator on the squares of a point, and its writing form; two small samples each."""
    function, written = resolve(torch, name), getattr(torch.Tensor, f"{name}_")
    found = 0
    for sample in samples_for(name):
        point, args, kwargs = sample.input, sample.args, sample.kwargs
        if not isinstance(point, Tensor) or not sample.smooth or sample.layout != "contiguous":
            continue
        if not point.requires_grad or not 1 < point.numel() <= 30 or found == 2:
            continue
        given = [one.detach() if isinstance(one, Tensor) else one for one in args]
        result = function(point.detach(), *given, **kwargs)
        if not isinstance(result, Tensor) or result.dtype is not point.dtype:
            continue
        if result.shape == point.shape:
            found += 1
            yield (
                point.detach(),
                lambda x, given=given, kwargs=kwargs: function(x * x, *given, **kwargs),
                lambda x, given=given, kwargs=kwargs: written(x, *given, **kwargs),
            )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_a_function_that_writes_has_the_derivatives_of_one_that_does_not(name):
    for point, plain, write in _cases(name):
        drawn = numpy.random.default_rng(0).standard_normal((2, *point.shape))
        directions = torch.tensor(drawn, dtype=point.dtype)
        for called, transform in TRANSFORMS.items():
            try:
                wanted = transform(plain, point, directions)
            except (RuntimeError, NotImplementedError):
                continue  # has no such derivative
            for way in WAYS:
                if way is _filled_first and called == "vmap(grad)":
                    continue  # all examples would share the zeros
                made = transform(partial(way, write), point, directions)
                close = torch.allclose(made, wanted, rtol=1e-9, atol=1e-12, equal_nan=True)
                assert close, (called, way.__name__)

"""Norms of inputs whose sizes are all equal: an axis must not be guessed by its size."""

import numpy
import pytest

import pullback
from tests.differential.compared import compare

torch = pytest.importorskip("torch")

NORMS = {
    "layer": lambda F, x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
    "rms": lambda F, x, w, b: F.rms_norm(x, x.shape[-1:], w) + b,
    "group": lambda F, x, w, b: F.group_norm(x, x.shape[1] // 2, w, b),
    "batch": lambda F, x, w, b: F.batch_norm(x, None, None, w, b, training=True),
    "instance": lambda F, x, w, b: F.instance_norm(x, weight=w, bias=b),
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("shape", [(4, 4, 4), (2, 12, 12), (2, 40, 40), (4, 4, 4, 4)])
def test_both_derivatives_are_those_of_torch(name, shape):
    random = numpy.random.default_rng(0)
    arrays = [random.standard_normal(one) for one in (shape, shape[-1:], shape[-1:])]
    compare(
        lambda *given: NORMS[name](pullback.nn.functional, *given),
        lambda *given: NORMS[name](torch.nn.functional, *given),
        arrays,
    )

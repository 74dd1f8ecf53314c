"""What has no dimensions: the engine hands it on as scalars of NumPy, which have kernels too."""

import numpy as np
import pytest

import pullback as torch
from pullback.operators.attach.every import load_all
from pullback.operators.declare import OPERATORS
from pullback.operators.formula.steps import Steps

ADJOINTS = {
    "_tanh_backward": (),
    "_sigmoid_backward": (),
    "_relu_backward": (),
    "_silu_kernel_backward": (),
    "_hardswish_backward": (),
    "_leaky_relu_backward": (0.1,),
    "_gelu_backward": ("tanh",),
}


@pytest.mark.parametrize("name", ADJOINTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("as_scalar", [(True, True), (True, False), (False, True)])
def test_scalars_give_what_arrays_without_dimensions_give(name, dtype, as_scalar):
    load_all()
    forward, options = OPERATORS[name].forward, ADJOINTS[name]
    values = [dtype(0.3), dtype(0.7)]
    arrays = [np.asarray(one) for one in values]
    given = [a if is_one else b for a, b, is_one in zip(values, arrays, as_scalar, strict=True)]
    wanted = forward(np, *arrays, *options)
    for _ in range(2):  # written at the first call
        made = forward(np, *given, *options)
        assert made.dtype == dtype
        assert made == wanted


def test_a_pass_over_scalars_derives_nothing_anew(monkeypatch):
    x = torch.tensor(0.3, requires_grad=True)
    x.tanh().sigmoid().backward()

    def refuse(*args, **kwargs):
        raise AssertionError("computed step by step")

    monkeypatch.setattr(Steps, "__call__", refuse)
    x.tanh().sigmoid().backward()
    assert x.grad.shape == ()

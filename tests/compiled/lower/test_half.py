"""Half precision in machine code: in single, rounded after each operator, as eager does it."""

from __future__ import annotations

import numpy
import pytest

import pullback as torch
from pullback.compiled.backends import is_available

pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.skipif(not is_available(), reason="machine code needs llvmlite")
functional = torch.nn.functional
DTYPES = [torch.float16, torch.bfloat16]

# Results that eager's kernels round as the instructions do.
EXACT = {
    "arithmetic": lambda x, w: (x * w[:1] + x) / (w[1:2] + 7) - x,
    "numbers": lambda x, w: (x * 0.1 + 1) / 3 - 2.7,
    "there and back": lambda x, w: x.float().to(x.dtype) * 2,
    "rounded": lambda x, w: (x.float() * 1.1).to(x.dtype),
    "whole": lambda x, w: (x * 9).long(),
    "compared": lambda x, w: (x > w[0]) & (x < 1),
    "chosen": lambda x, w: torch.where(x > 0, x, w[0]),
    "masked": lambda x, w: x.masked_fill(x > 1, -2.0),
    "truth": lambda x, w: (x > 0).to(x.dtype) * x,
    "bytes": lambda x, w: (x > 0).to(torch.uint8).to(x.dtype) - x,
    "double": lambda x, w: x.double() * 2,
    "limits": lambda x, w: x.clamp(-0.5, 0.7) + torch.maximum(x, w[0]),
    "moved": lambda x, w: torch.cat([x.t(), w])[:, :5] * 2,
    "roots": lambda x, w: x.abs().sqrt(),
}
# Within a unit of the last place.
CLOSE = {
    "exp": lambda x, w: x.exp(),
    "gelu": lambda x, w: functional.gelu(x),
    "silu": lambda x, w: functional.silu(x) * x,
    "softmax": lambda x, w: x.softmax(1),
    "log_softmax": lambda x, w: x.log_softmax(1),
    "sum": lambda x, w: x.sum(1),
    "mean": lambda x, w: x.mean(0),
    "product": lambda x, w: x @ w,
    "linear": lambda x, w: functional.linear(x, w, w[0]),
    "layer_norm": lambda x, w: functional.layer_norm(x, (x.shape[1],)),
}


def _numbers(*shape, dtype, seed=0):
    made = numpy.random.default_rng(seed).standard_normal(shape).astype("f4") * 1.5
    return torch.tensor(made).to(dtype)


def _run(function, x, w, program):
    made = program(x, w)
    if not made.is_floating_point():
        return made, None
    leaf = x.clone().requires_grad_()
    y = program(leaf, w).float()
    (y * torch.linspace(-1, 2, y.numel()).reshape(y.shape)).sum().backward()
    assert leaf.grad.dtype is x.dtype
    return made, leaf.grad


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [*EXACT, *CLOSE])
def test_values_and_gradients_are_those_of_eager(name, dtype):
    function = {**EXACT, **CLOSE}[name]
    x, w = _numbers(24, 32, dtype=dtype), _numbers(32, 32, dtype=dtype, seed=1)
    compiled = torch.compile(function, options={"never_slower": False})
    if name == "moved":
        w = _numbers(7, 24, dtype=dtype)
    theirs, ours = (_run(function, x, w, one) for one in (function, compiled))
    unit = 2.0**-10 if dtype is torch.float16 else 2.0**-7
    for one, other in zip(ours, theirs, strict=True):
        if other is None:
            continue
        assert one.dtype is other.dtype
        a, b = one.double().numpy(), other.double().numpy()
        if name in EXACT and one is ours[0]:
            numpy.testing.assert_array_equal(a, b)
        numpy.testing.assert_allclose(a, b, rtol=unit, atol=unit * numpy.abs(b).max())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_number_is_rounded_as_numpy_rounds(dtype):
    """Between two halves, just beside the middle, below the smallest, above the largest, NaN."""
    bits = numpy.arange(2**16, dtype="u2")
    halves = bits.view(dtype.numpy).astype("f4")
    halves = halves[numpy.isfinite(halves)]
    halves.sort()
    middle = ((halves[1:].astype("f8") + halves[:-1]) / 2).astype("f4")
    more = numpy.array([numpy.nan, -numpy.nan, numpy.inf, -numpy.inf, 1e-45, 3.4e38, -3.4e38, 7e4])
    numbers = [halves, middle, numpy.nextafter(middle, numpy.float32(numpy.inf)),
               numpy.nextafter(middle, numpy.float32(-numpy.inf)), more.astype("f4")]  # fmt: skip
    x = torch.tensor(numpy.concatenate(numbers))

    def function(x):
        return x.to(dtype).clone()

    compiled = torch.compile(function, options={"never_slower": False})
    ours, theirs = compiled(x).float().numpy(), function(x).float().numpy()
    numpy.testing.assert_array_equal(ours, theirs)
    back = torch.compile(lambda x: x.float() * 1, options={"never_slower": False})
    every = torch.tensor(bits.view("i2")).view(dtype)
    numpy.testing.assert_array_equal(back(every).numpy(), every.float().numpy())


def test_chains_are_native():
    compiled = torch.compile(lambda x: ((x * 2 + 1).tanh() * x).softmax(1).sum(1))
    compiled(_numbers(24, 32, dtype=torch.bfloat16))
    (program,) = compiled.entries[0].programs()
    assert "kernel" not in program.how.values()

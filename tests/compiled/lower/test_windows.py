"""Pooling, repeated points, running sums and extremes with their places, in machine code."""

from __future__ import annotations

import numpy
import pytest

import pullback as torch
from pullback.compiled.backends import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="machine code needs llvmlite")
functional = torch.nn.functional


def _compiled(function):
    return torch.compile(function, options={"never_slower": False})


def _kernels(compiled):
    """Names of calls that stayed eager kernels."""
    found = set()
    for entry in compiled.entries:
        for program in entry.programs():
            found |= {name for name, way in program.how.items() if way == "kernel"}
    return found


def _numbers(*shape, dtype="f4"):
    return torch.tensor(numpy.random.default_rng(2).standard_normal(shape).astype(dtype))


NATIVE = {
    "max_pool2d": (lambda x: functional.max_pool2d(x, 2) * 2, (2, 3, 8, 6)),
    "max_pool2d overlapping": (lambda x: functional.max_pool2d(x, 3, 2) + 1, (2, 3, 9, 7)),
    "max_pool1d": (lambda x: functional.max_pool1d(x, 2) * 2, (2, 3, 8)),
    "avg_pool2d": (lambda x: functional.avg_pool2d(x, 2) * 2, (2, 3, 8, 6)),
    "avg_pool1d": (lambda x: functional.avg_pool1d(x, 3) * 2, (2, 3, 9)),
    "adaptive_avg_pool2d": (lambda x: functional.adaptive_avg_pool2d(x, 4).exp(), (2, 3, 8, 8)),
    "adaptive_max_pool2d": (lambda x: functional.adaptive_max_pool2d(x, 4).exp(), (2, 3, 8, 8)),
    "nearest": (lambda x: functional.interpolate(x, scale_factor=2).tanh(), (2, 3, 4, 5)),
    "nearest line": (lambda x: functional.interpolate(x, scale_factor=3) * 2, (2, 3, 4)),
    "nearest uneven": (lambda x: functional.interpolate(x, size=(8, 5)) * 2, (2, 3, 4, 5)),
    "cumsum": (lambda x: x.cumsum(1) * 2, (4, 50)),
    "cumsum of columns": (lambda x: x.cumsum(0) * 2, (40, 5)),
    "cumsum of the middle": (lambda x: x.exp().cumsum(1), (3, 7, 2)),
    "max along": (lambda x: x.max(1).values * 2, (6, 40)),
    "min along": (lambda x: x.min(0).values * 2, (6, 7)),
    "max": (lambda x: x.max() + x.min(), (6, 7)),
}
KERNELS = {  # padded windows, and what else has no words
    "padded": (lambda x: functional.max_pool2d(x, 3, 2, 1) * 2, (2, 3, 8, 8)),
    "dilated": (lambda x: functional.max_pool2d(x, 2, 1, dilation=2) * 2, (2, 3, 8, 8)),
    "padded average": (lambda x: functional.avg_pool2d(x, 3, 2, 1) * 2, (2, 3, 8, 8)),
    "bilinear": (lambda x: functional.interpolate(x, size=8, mode="bilinear"), (1, 2, 4, 4)),
    "nearest to fewer": (lambda x: functional.interpolate(x, size=(3, 2)) * 2, (2, 3, 4, 5)),
}  # fmt: skip


@pytest.mark.parametrize("name", [*NATIVE, *KERNELS])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_values_and_gradients_are_those_of_eager(name, dtype):
    function, shape = {**NATIVE, **KERNELS}[name]
    close = 2e-6 if dtype == "f4" else 1e-12
    compiled, found = _compiled(function), []
    for one in (function, compiled):
        x = _numbers(*shape, dtype=dtype)
        plain = one(x)
        x = x.requires_grad_()
        y = one(x)
        (y * torch.arange(float(y.numel())).reshape(y.shape).to(y.dtype)).sum().backward()
        found.append((plain.numpy(), y.detach().numpy(), x.grad.numpy()))
    for ours, theirs in zip(found[1], found[0], strict=True):
        largest = numpy.abs(theirs).max()
        numpy.testing.assert_allclose(ours, theirs, rtol=close, atol=close * largest)


@pytest.mark.parametrize("name", NATIVE)
def test_they_are_no_eager_kernels(name):
    function, shape = NATIVE[name]
    compiled = _compiled(function)
    compiled(_numbers(*shape))
    assert _kernels(compiled) == set()


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize("shape", [(5, 37), (4, 3), (64,), (3, 4, 5)])
def test_places_of_extremes_are_the_first(shape, dtype):
    rng = numpy.random.default_rng(5)
    x = torch.tensor(rng.integers(-3, 4, shape).astype(dtype))

    def function(x):
        made = [x.argmax(), x.argmin()]
        for dim in range(x.ndim):
            made += [x.argmax(dim), x.argmin(dim, keepdim=True), *x.max(dim), *x.min(dim)]
        return made

    for one, other in zip(_compiled(function)(x), function(x), strict=True):
        assert one.dtype is other.dtype
        assert torch.equal(one, other)


@pytest.mark.parametrize("places", [(3,), (0, 5), (6,), (2, 3, 4)])
def test_the_first_nan_is_the_extreme(places):
    x = torch.tensor([1.0, 5.0, float("inf"), 2.0, -float("inf"), 5.0, 0.0])
    for place in places:
        x[place] = float("nan")
    x = torch.stack([x, torch.zeros(7), x.flip(0)])

    def function(x):
        return (x.argmax(1), x.argmin(1), x.argmax(), *x.max(1), *x.min(1), x.max(), x.min())

    for one, other in zip(_compiled(function)(x), function(x), strict=True):
        numpy.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.float32])
def test_truth_of_all_and_any(dtype):
    x = torch.tensor([[0, 1, 2], [0, 0, 0], [3, 1, 1]]).to(dtype)

    def function(x):
        return x.any(), x.all(), x.any(1), x.all(0, keepdim=True), x.all((0, 1))

    for one, other in zip(_compiled(function)(x), function(x), strict=True):
        assert one.dtype is other.dtype
        assert torch.equal(one, other)
    if dtype is torch.float32:
        nan = torch.tensor([float("nan"), 0.0, -0.0])
        assert _compiled(lambda x: (x.any(), x.all()))(nan)[0].item() is True


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.int64])
def test_running_sums_of_integers_are_long(dtype):
    x = torch.tensor([[1, 0, 3, 255], [1, 1, 0, 7]]).to(dtype)

    def function(x):
        return x.cumsum(1), x.cumsum(0), x.cumsum(1, dtype=torch.float64)

    for one, other in zip(_compiled(function)(x), function(x), strict=True):
        assert one.dtype is other.dtype
        assert torch.equal(one, other)


def test_long_running_sums_keep_their_digits():
    x = torch.full((1, 100_000), 0.1)
    made = _compiled(lambda x: x.cumsum(1) * 1.5)(x)
    exact = numpy.cumsum(x.numpy().astype("f8"), 1) * 1.5
    assert numpy.abs(made.numpy() / exact - 1).max() < 2e-7


def test_sizes_that_vary_keep_the_kernel_of_windows():
    def function(x):
        return functional.max_pool2d(x, 2).sum((1, 2, 3))

    compiled = torch.compile(function, dynamic=True, options={"never_slower": False})
    for n in (2, 3, 5, 9):
        x = _numbers(n, 2, 6, 6)
        assert torch.allclose(compiled(x), function(x))

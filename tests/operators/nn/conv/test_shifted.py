"""Convolutions on rows of images: what windows by themselves give, whatever the padding."""

from functools import partial

import numpy
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import pullback as torch
from pullback.operators.arrays import windows as windows_of_arrays
from pullback.operators.arrays.gemm import adder
from pullback.operators.arrays.windows import counts, padded, whole_size, windows
from pullback.operators.nn.conv import quick, shifted
from pullback.operators.nn.conv.shifted import Rows, correlated_rows, weight_of_rows

if adder(numpy.dtype("d")) is None:
    pytest.skip("NumPy's BLAS is not found here", allow_module_level=True)

sides = st.tuples(st.integers(0, 4), st.integers(0, 4))


@example(3, 8, (3, 3), ((1, 1), (1, 1)), (1, 1))
@example(50, 2, (2, 2), ((0, 0), (4, 3)), (1, 1))  # more places than the padded line is long
@example(2, 5, (1, 3), ((2, 0), (0, 3)), (1, 2))  # padding behind alone
@example(50, 3, (3, 1), ((0, 3), (0, 0)), (2, 1))
@given(
    channels=st.sampled_from([1, 2, 48]),
    size=st.integers(1, 8),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 4)),
    padding=st.tuples(sides, sides),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 3)),
)
def test_rows_give_result_and_gradient_of_plain_windows(channels, size, kernel, padding, dilation):
    shape, filters = (3, channels, size, size + 1), (5, channels, *kernel)
    number = counts(whole_size(shape[2:], padding), kernel, (1, 1), dilation)
    assume(min(number) > 0)
    random = numpy.random.default_rng(size)
    x, weight = random.standard_normal(shape), random.standard_normal(filters)
    g, bias = random.standard_normal((3, 5, *number)), random.standard_normal(5)
    rows = Rows(shape, filters, padding, dilation, number)
    seen = windows(padded(numpy, x, padding), kernel, number, (1, 1), dilation)
    expected = numpy.einsum("ncijyx,ocij->noyx", seen, weight) + bias[:, None, None]
    made = correlated_rows(numpy, rows, x, weight, bias)
    numpy.testing.assert_allclose(made, expected, atol=1e-11)
    of_weight = numpy.einsum("ncijyx,noyx->ocij", seen, g)
    numpy.testing.assert_allclose(weight_of_rows(numpy, rows, g, x), of_weight, atol=1e-11)


@pytest.mark.parametrize("block", [1, 700, 1 << 18])
def test_parts_of_images_give_what_all_give(monkeypatch, block):
    monkeypatch.setattr(windows_of_arrays, "BLOCK", block)
    random = numpy.random.default_rng(1)
    x, weight = random.standard_normal((3, 4, 6, 5, 7)), random.standard_normal((6, 4, 3, 2, 3))
    padding, number = ((1, 1), (1, 0), (2, 1)), (6, 5, 8)
    rows = Rows(x.shape, weight.shape, padding, (1, 1, 1), number)
    seen = windows(padded(numpy, x, padding), (3, 2, 3), number, (1, 1, 1), (1, 1, 1))
    expected = numpy.einsum("ncijkzyx,ocijk->nozyx", seen, weight)
    made = correlated_rows(numpy, rows, x, weight, None)
    numpy.testing.assert_allclose(made, expected, atol=1e-11)
    of_weight = numpy.einsum("ncijkzyx,nozyx->ocijk", seen, made)
    numpy.testing.assert_allclose(weight_of_rows(numpy, rows, made, x), of_weight, atol=1e-9)


@pytest.mark.parametrize("shape", [(16, 8, 8), (64, 10, 6)])
def test_layers_come_this_way_with_gradients_of_gradients(monkeypatch, shape):
    monkeypatch.setattr(shifted, "_MANY", 0)
    shifted._known.cache_clear()
    generator = torch.Generator().manual_seed(0)
    x = torch.rand((2, *shape), dtype=torch.float64, generator=generator, requires_grad=True)
    weight = torch.rand((3, shape[0], 3, 3), dtype=torch.float64, generator=generator)
    weight.requires_grad_()
    seen = []
    way = shifted.correlated_rows
    monkeypatch.setattr(quick, "correlated_rows", lambda *args: seen.append(1) or way(*args))
    conv = partial(torch.nn.functional.conv2d, padding=1)
    with torch.backends.native.flags(enabled=False):
        assert torch.autograd.gradcheck(conv, (x, weight), fast_mode=True)
        assert torch.autograd.gradgradcheck(conv, (x, weight), fast_mode=True)
    assert seen
    shifted._known.cache_clear()

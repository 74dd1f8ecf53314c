"""Pooling: values against plain loops over windows, ties, missing numbers, indices, errors."""

import math

import numpy
import pytest

import pullback as torch
from pullback.operators.nn.pool import average as pool_average
from pullback.operators.nn.pool import kernels as pool_max_kernels
from pullback.operators.nn.pool import maximum as pool_maximum
from pullback.operators.nn.pool.average import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool2d,
)
from pullback.operators.nn.pool.fractional import fractional_max_pool2d, max_unpool1d, max_unpool2d
from pullback.operators.nn.pool.maximum import (
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from pullback.operators.nn.pool.places import put_places
from pullback.testing.kernel_sizes import only_kernels


def line(*values):
    return torch.tensor([list(values)], dtype=torch.float64)


def gradient_of_sum(function, x):
    x = x.clone().requires_grad_()
    function(x).sum().backward()
    return x.grad


def test_tie_goes_to_the_first_of_the_window():
    x = torch.ones(1, 2, 4)
    assert gradient_of_sum(lambda x: max_pool2d(x, 2), x).tolist() == [[[1, 0, 1, 0], [0, 0, 0, 0]]]


def test_overlapping_windows_add_their_gradients():
    x = line(1, 3, 2, 0)
    assert gradient_of_sum(lambda x: max_pool1d(x, 2, 1), x).tolist() == [[0, 2, 1, 0]]


def test_infinite_gradient_reaches_the_maximum_alone():
    x = line(1, 3).requires_grad_()
    (g,) = torch.autograd.grad(max_pool1d(x, 2), x, line(math.inf))
    assert g.tolist() == [[0, math.inf]]


def test_last_nan_of_a_window_counts_as_its_maximum():
    x = line(math.nan, 5, math.nan, 1).requires_grad_()
    out, indices = max_pool1d(x, 4, return_indices=True)
    assert math.isnan(out.item())
    assert indices.tolist() == [[2]]
    out.backward()
    assert x.grad.tolist() == [[0, 0, 1, 0]]


def test_padding_is_never_the_maximum():
    x = torch.full((1, 2, 2), -math.inf)
    out, indices = max_pool2d(x, 2, padding=1, return_indices=True)
    assert out.tolist() == [[[-math.inf] * 2] * 2]
    assert indices.tolist() == [[[0, 1], [2, 3]]]
    assert gradient_of_sum(lambda x: max_pool2d(x, 2, padding=1), x).tolist() == [[[1, 1], [1, 1]]]


@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"ceil_mode": True}], ids=str)
def test_indices_are_where_the_maxima_are(options):
    x = torch.from_numpy(numpy.random.default_rng(0).permutation(2 * 7 * 8).reshape(2, 7, 8))
    out, indices = max_pool2d(x, 3, return_indices=True, **options)
    assert indices.dtype is torch.int64
    assert torch.equal(x.flatten(1).gather(1, indices.flatten(1)), out.flatten(1))


def test_ceil_mode_adds_the_window_that_starts_inside():
    assert max_pool1d(line(1, 2, 3), 2, ceil_mode=True).tolist() == [[2, 3]]
    assert max_pool1d(line(1, 2, 3, 4), 1, 3, ceil_mode=True).tolist() == [[1, 4]]
    assert avg_pool1d(line(1, 2, 3), 2, ceil_mode=True).tolist() == [[1.5, 3]]


def test_adaptive_windows_overlap_where_sizes_do_not_divide():
    x = line(1, 2, 3, 4, 5)
    numpy.testing.assert_allclose(adaptive_avg_pool1d(x, 2).numpy(), [[2, 4]])
    assert adaptive_max_pool1d(x, 2, return_indices=True)[1].tolist() == [[2, 4]]
    assert adaptive_avg_pool1d(x, 10).tolist() == [[1, 1, 2, 2, 3, 3, 4, 4, 5, 5]]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 9])
def test_adaptive_pools_are_those_of_their_bounds(size):
    x = numpy.random.default_rng(1).normal(size=(2, 6, 4))
    bounds = [[(i * n // size, -(-(i + 1) * n // size)) for i in range(size)] for n in x.shape[1:]]
    parts = [[x[:, a:b, c:d] for c, d in bounds[1]] for a, b in bounds[0]]
    for function, reduce in ((adaptive_avg_pool2d, numpy.mean), (adaptive_max_pool2d, numpy.max)):
        expected = numpy.stack(
            [numpy.stack([reduce(p, (1, 2)) for p in row], -1) for row in parts], 1
        )
        numpy.testing.assert_allclose(function(torch.from_numpy(x), size).numpy(), expected)


def test_infinity_stays_in_its_window():
    x = line(1, 2, math.inf, 4, 5)
    assert adaptive_avg_pool1d(x, 3).tolist() == [[1.5, math.inf, 4.5]]


def test_padding_counts_if_asked_to():
    x = torch.ones(1, 2, 2)
    assert avg_pool2d(x, 2, padding=1).tolist() == [[[0.25] * 2] * 2]
    assert avg_pool2d(x, 2, padding=1, count_include_pad=False).tolist() == [[[1.0] * 2] * 2]
    assert avg_pool2d(x, 2, divisor_override=3).item() == pytest.approx(4 / 3)


def test_power_average_of_two_is_the_root_of_squares():
    assert lp_pool2d(torch.tensor([[[3.0, 4.0]]]), 2, (1, 2)).item() == pytest.approx(5)


def test_unpooling_puts_maxima_back():
    x = torch.arange(16.0).reshape(1, 4, 4).requires_grad_()
    out, indices = max_pool2d(x, 2, return_indices=True)
    back = max_unpool2d(out, indices, 2)
    assert torch.equal(back, torch.where(torch.isin(x, out), x, torch.zeros(())))
    back.sum().backward()
    assert x.grad.sum() == 4


def test_fractional_windows_lie_inside_and_random_ones_differ():
    x = torch.rand(1, 1, 20, 20)
    out, indices = fractional_max_pool2d(x, 2, 9, return_indices=True)
    assert torch.equal(x.flatten(2).gather(2, indices.flatten(2)), out.flatten(2))
    assert any(
        not torch.equal(indices, fractional_max_pool2d(x, 2, 9, return_indices=True)[1])
        for _ in range(5)
    )


def test_gradient_of_pooling_half_precision_keeps_its_dtype():
    x = torch.arange(8, dtype=torch.float16).reshape(1, 8)
    assert gradient_of_sum(lambda x: max_pool1d(x, 2), x).tolist() == [[0, 1] * 4]
    assert gradient_of_sum(lambda x: avg_pool1d(x, 2), x).dtype is torch.float16


def test_pooling_does_not_share_memory_with_its_input():
    x = torch.ones(1, 2, 2)
    for function in (
        lambda x: max_pool2d(x, 1),
        lambda x: avg_pool2d(x, 1),
        lambda x: adaptive_avg_pool2d(x, 2),
        lambda x: adaptive_max_pool2d(x, 2),
    ):
        function(x).zero_()
    assert torch.equal(x, torch.ones(1, 2, 2))


# Few windows are looked up all at once; many are compared, point by point.
WINDOWS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": (2, 3), "stride": 1, "dilation": 2},
    {"kernel_size": (1, 3), "padding": (0, 1), "ceil_mode": True, "stride": 2},
]


def maxima_and_gradient(x, **options):
    x = x.clone().requires_grad_()
    maxima, places = max_pool2d(x, return_indices=True, **options)
    (g,) = torch.autograd.grad(maxima, x, torch.arange(1.0, maxima.numel() + 1).reshape_as(maxima))
    return [t.detach().numpy() for t in (maxima, places, g)]


@pytest.mark.parametrize("value", [None, math.nan, -math.inf], ids=str)
@pytest.mark.parametrize("options", WINDOWS, ids=str)
def test_few_and_many_windows_have_the_same_maxima(monkeypatch, options, value):
    x = torch.from_numpy(numpy.random.default_rng(0).integers(0, 4, (2, 3, 7, 6)) * 1.0).float()
    if value is not None:
        x[0, :, :4, :4] = value
        x[1, 1, 3, 3] = value
    few = maxima_and_gradient(x, **options)
    monkeypatch.setattr(pool_max_kernels, "_few", lambda *_: None)
    for one, other in zip(few, maxima_and_gradient(x, **options), strict=True):
        numpy.testing.assert_array_equal(one, other)


def test_large_windows_have_the_same_maxima(monkeypatch):
    x = torch.from_numpy(numpy.random.default_rng(0).normal(size=(2, 40, 30))).float()
    options = {"kernel_size": (20, 15), "stride": 7}
    looked_up = maxima_and_gradient(x, **options)
    monkeypatch.setattr(pool_max_kernels, "_table", lambda *_: None)  # point by point
    for one, other in zip(looked_up, maxima_and_gradient(x, **options), strict=True):
        numpy.testing.assert_array_equal(one, other)


def test_what_is_not_recorded_has_the_same_maxima_and_tangents():
    x, way = torch.rand(2, 3, 6, 6), torch.rand(2, 3, 6, 6)
    with torch.no_grad():
        bare = max_pool2d(x, 2, return_indices=False)
        _, bare_tangent = torch.func.jvp(lambda x: max_pool2d(x, 2), (x,), (way,))
    maxima, places = max_pool2d(x, 2, return_indices=True)
    assert torch.equal(bare, maxima)
    assert torch.equal(bare_tangent, way.flatten(2).gather(2, places.flatten(2)).view_as(maxima))


def test_window_that_sees_padding_only_has_no_maximum():
    x = torch.ones(1, 1, 1)
    assert max_pool1d(x, 2, padding=1, dilation=2).tolist() == [[[-math.inf]]]


def test_average_shares_are_assigned_to_few_and_many_windows_alike(monkeypatch):
    x = torch.rand(2, 5, 7)
    few = gradient_of_sum(lambda x: avg_pool2d(x, 2, ceil_mode=True) ** 2, x)
    monkeypatch.setattr(pool_average, "_FEW", 0)
    assert torch.equal(few, gradient_of_sum(lambda x: avg_pool2d(x, 2, ceil_mode=True) ** 2, x))


X = torch.ones(2, 4, 8, 8)
INT = torch.zeros(2, 4, 8, 8, dtype=torch.int64)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: max_pool2d(X[0, 0], 2), RuntimeError, "3 or 4 dimensions"),
        (lambda: max_pool2d(X, 0), RuntimeError, "kernel_size"),
        (lambda: max_pool2d(X, 2.5), TypeError, "kernel_size"),
        (lambda: max_pool2d(X, 2, 0), RuntimeError, "stride"),
        (lambda: max_pool2d(X, 2, padding=2), RuntimeError, "padding"),
        (lambda: max_pool2d(X, 9), RuntimeError, "no window"),
        (lambda: max_pool2d(X[:, :, :0], 2), RuntimeError, "empty"),
        (lambda: max_pool2d(X.bool(), 2), NotImplementedError, "bool"),
        (lambda: max_pool3d(X, (2, 2)), RuntimeError, "kernel_size"),
        (lambda: avg_pool2d(X, 2, divisor_override=0), RuntimeError, "divisor_override"),
        (lambda: avg_pool3d(X[0, 0], 2), RuntimeError, "4 or 5 dimensions"),
        (lambda: avg_pool3d(X, (5, 2, 2), padding=1), RuntimeError, "larger than input"),
        (lambda: adaptive_avg_pool2d(X, -1), RuntimeError, "output_size"),
        (lambda: adaptive_avg_pool2d(INT, 2), NotImplementedError, "int64"),
        (lambda: fractional_max_pool2d(X, 2), ValueError, "output_size"),
        (lambda: fractional_max_pool2d(X, 2, 8), RuntimeError, "do not fit"),
        (lambda: fractional_max_pool2d(X, 2, (2,)), RuntimeError, "output_size must be an int or"),
        (lambda: max_unpool2d(X, X, 2), RuntimeError, "int64"),
        (lambda: max_unpool2d(X, INT + 1000, 2), RuntimeError, "1000"),
        (lambda: max_unpool2d(X, INT[:, :1], 2), RuntimeError, "indices"),
        (lambda: max_unpool1d(X[0], INT[0], 2, output_size=[9]), ValueError, "output_size"),
    ],
)
def test_errors_name_what_is_wrong(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_what_was_checked_once_is_no_excuse_for_floats():
    x = torch.ones(1, 1, 4, 4)
    functional = torch.nn.functional
    assert functional.max_pool2d(x, 2).shape == functional.max_pool2d(x, [2, 2]).shape
    for kernel in (2.0, (2.0, 2.0)):
        with pytest.raises(TypeError):
            functional.max_pool2d(x, kernel)
    weight = torch.ones(1, 1, 2, 2)
    assert functional.conv2d(x, weight, stride=2).shape == (1, 1, 2, 2)
    with pytest.raises(TypeError):
        functional.conv2d(x, weight, stride=2.0)


def test_lp_pool_has_no_root_of_degree_nothing():
    with pytest.raises(ZeroDivisionError, match="lp_pool2d: norm_type is 0"):
        lp_pool2d(torch.ones(1, 2, 2), 0, 2)


def test_lp_pool_of_infinite_degree_is_the_largest_or_smallest_absolute_value():
    lp_pool1d = torch.nn.functional.lp_pool1d
    x = torch.tensor([[[1.0, -5.0, 2.0, 3.0, -7.0]]], requires_grad=True)
    pooled = lp_pool1d(x, math.inf, 2, ceil_mode=True)
    assert pooled.tolist() == [[[5, 3, 7]]]
    assert lp_pool1d(x, -math.inf, 2).tolist() == [[[1, 2]]]
    pooled.sum().backward()
    assert x.grad.tolist() == [[[0, -1, 0, 1, -1]]]


@pytest.mark.parametrize("shape", [(3, 2, 4, 6), (40, 9, 16, 14)])
@pytest.mark.parametrize("options", [{}, {"stride": 3}, {"stride": 1}, {"padding": 1}], ids=str)
def test_gradients_of_maxima_are_set_or_added_up_at_their_places(shape, options):
    data = numpy.random.default_rng(0).permutation(numpy.prod(shape)).reshape(shape)
    x = torch.tensor(data, dtype=torch.float32, requires_grad=True)
    out, places = torch.nn.functional.max_pool2d(x, 2, return_indices=True, **options)
    g = torch.arange(out.numel(), dtype=torch.float32).reshape(out.shape)
    expected = numpy.zeros((shape[0] * shape[1], shape[2] * shape[3]))
    rows = numpy.arange(len(expected))[:, None]
    numpy.add.at(expected, (rows, places.numpy().reshape(len(expected), -1)), g.numpy().reshape(
        len(expected), -1))  # fmt: skip
    (found,) = torch.autograd.grad(out, x, g)
    numpy.testing.assert_array_equal(found.numpy().reshape(expected.shape), expected)


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_few_windows_give_what_many_do(value, last, dtype):
    x = torch.tensor(numpy.random.default_rng(0).standard_normal((2, 3, 6, 6)), dtype=dtype)
    x[0, 1, 2, 3] = value
    if last:
        x = x.contiguous(memory_format=torch.channels_last)
    pools = [
        lambda x: max_pool2d(x, 2),
        lambda x: max_pool2d(x, 2, return_indices=True)[0],
        lambda x: max_pool2d(x, 3, 2, 1),
        lambda x: avg_pool2d(x, 2),
        lambda x: avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        lambda x: avg_pool2d(x, 2, divisor_override=3),
    ]

    def results():
        made = [pool(x.requires_grad_(False)) for pool in pools]
        assert all(one.is_contiguous(memory_format=torch.channels_last) == last for one in made)
        return made + [gradient_of_sum(pool, x) for pool in pools]

    few = results()
    pooling = *pool_maximum._PLACED, pool_maximum._bare_max_pool, *pool_average._ALL
    with only_kernels(lambda one: False, *pooling, pool_average._spread_average, put_places):
        meant = results()
    for one, other in zip(few, meant, strict=True):
        torch.testing.assert_close(one, other, equal_nan=True)

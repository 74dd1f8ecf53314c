"""The error function: digits, in both precisions and at the ends."""

import math

import numpy
import pytest

from pullback.operators.arrays.blocks import BLOCK
from pullback.operators.arrays.erf import erf, erfc


@pytest.fixture(autouse=True, params=["with SciPy", "without"])
def scipy_or_not(request, monkeypatch):
    if request.param == "without":
        monkeypatch.setattr("pullback.operators.arrays.scipy_special._imported", lambda name: None)


exact_erf = numpy.vectorize(math.erf, otypes=[numpy.float64])
exact_erfc = numpy.vectorize(math.erfc, otypes=[numpy.float64])


@pytest.fixture
def points():
    random = numpy.random.default_rng(0)
    return numpy.concatenate([random.standard_normal(20_000) * 2, random.uniform(-27, 27, 2000)])


def test_erf_has_all_digits_of_a_double(points):
    numpy.testing.assert_allclose(erf(numpy, points), exact_erf(points), rtol=1e-15)


def test_erfc_has_all_digits_where_it_is_small(points):
    numpy.testing.assert_allclose(erfc(numpy, points), exact_erfc(points), rtol=2e-15, atol=1e-307)


def test_erf_of_single_precision_is_single_and_close(points):
    single = points.astype(numpy.float32)
    result = erf(numpy, single)
    assert result.dtype == numpy.float32
    numpy.testing.assert_allclose(result, exact_erf(single), rtol=5e-7)


@pytest.mark.parametrize("dtype", [numpy.float16, numpy.float32, numpy.float64])
def test_ends_and_zeros_are_exact(dtype):
    x = numpy.array([0.0, -0.0, math.inf, -math.inf, math.nan], dtype)
    result = erf(numpy, x)
    assert result.dtype == dtype
    numpy.testing.assert_array_equal(result, [0, 0, 1, -1, math.nan])
    assert numpy.signbit(result).tolist()[:2] == [False, True]
    numpy.testing.assert_array_equal(erfc(numpy, x), [1, 1, 0, 2, math.nan])


def test_no_result_is_beyond_one():
    x = numpy.linspace(-5, 5, 100_001, dtype=numpy.float32)
    assert abs(erf(numpy, x)).max() == 1


@pytest.mark.parametrize("shape", [(), (0,), (3, 4), (BLOCK + 1,), (2, BLOCK)])
def test_shapes_and_blocks_do_not_show(shape):
    x = numpy.asarray(numpy.random.default_rng(1).standard_normal(shape))
    result = erf(numpy, x)
    assert result.shape == shape
    numpy.testing.assert_allclose(result.reshape(-1), [math.erf(v) for v in x.reshape(-1)])


def test_order_in_memory_does_not_matter():
    x = numpy.random.default_rng(2).standard_normal((30, 40))
    numpy.testing.assert_array_equal(erf(numpy, x.T), erf(numpy, x).T)

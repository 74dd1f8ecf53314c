"""Products that BLAS adds to what is there."""

import numpy
import pytest

from pullback.operators.arrays.gemm import adder, step_of
from pullback.operators.arrays.strides import address


@pytest.mark.parametrize("char", "fd")
def test_products_of_parts_of_matrices_are_added(char):
    add = adder(numpy.dtype(char))
    if add is None:
        pytest.skip("NumPy's BLAS is not found here")
    random = numpy.random.default_rng(0)
    a, b, c = (random.standard_normal(shape).astype(char) for shape in ((5, 9), (8, 11), (6, 13)))
    expected = c.copy()
    expected[1:5, 2:9] += a[:4, 3:6] @ b[2:5, 1:8]
    add(4, 7, 3, address(a[:, 3:]), 9, address(b[2:, 1:]), 11, address(c[1:, 2:]), 13)
    numpy.testing.assert_allclose(c, expected, rtol=1e-5)


@pytest.mark.parametrize("char", "eFDil")
def test_other_dtypes_have_no_adder(char):
    assert adder(numpy.dtype(char)) is None


@pytest.mark.parametrize("length", [0, 1, 95, 2312, 100_000])
@pytest.mark.parametrize("others", [0, 1, 1536, 9000, 10**7])
def test_parts_cover_the_length_and_are_none_too_short(length, others):
    step = step_of(length, others)
    assert step >= 1
    assert step == max(length, 1) or (96 <= step < length and step * others <= 10**6)

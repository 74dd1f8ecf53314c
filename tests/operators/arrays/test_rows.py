"""Sums along rows, by BLAS and by products with small matrices."""

import numpy
import pytest

from pullback.operators.arrays import rows, sums


def randn(*shape, dtype="f"):
    return numpy.random.default_rng(0).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize(("shape", "dim"), [((5,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 3, 4), 1)])
def test_spread_puts_the_sum_of_a_row_in_all_its_places(shape, dim, dtype):
    x = randn(*shape, dtype=dtype)
    expected = numpy.broadcast_to(x.sum(dim, keepdims=True), shape)
    for squares, scale in ((rows.SUMS, 1), (rows.MEANS, shape[dim])):
        made = rows.spread(numpy, squares[x.shape[dim], x.dtype.char], x, dim)
        assert made.dtype == dtype
        numpy.testing.assert_allclose(made * scale, expected, rtol=1e-5, atol=1e-6)


def test_shared_vectors_cannot_be_written_to_by_mistake():
    for shared in (sums.ones(numpy, 3, numpy.dtype("f")), rows.SUMS[2, "f"]):
        with pytest.raises(ValueError, match="read-only"):
            shared[...] = 0

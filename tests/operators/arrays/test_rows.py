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


@pytest.mark.parametrize("size", [1, 64, 4096, 4097, 8192, 10_001])
def test_totals_are_sums_of_rows_and_of_products(size):
    a, b = randn(3, size), randn(3, size)[::-1]
    exact_a, exact_b = a.astype("d"), b.astype("d")
    numpy.testing.assert_allclose(sums.totals(numpy, a), exact_a.sum(1), rtol=1e-4, atol=1e-4)
    expected = (exact_a * exact_b).sum(1)
    numpy.testing.assert_allclose(sums.totals(numpy, a, b), expected, rtol=1e-4, atol=1e-3)


def test_long_rows_lose_no_more_digits_than_short_ones():
    x = numpy.full((1, 1 << 22), 0.1, "f")
    assert sums.totals(numpy, x)[0] == pytest.approx((1 << 22) * float(x[0, 0]), rel=5e-6)


def test_shared_vectors_cannot_be_written_to_by_mistake():
    for shared in (sums.ones(numpy, 3, numpy.dtype("f")), rows.SUMS[2, "f"]):
        with pytest.raises(ValueError, match="read-only"):
            shared[...] = 0


@pytest.mark.parametrize("shape", [(128, 1024), (32, 4096), (100, 999), (8, 16384), (5, 20000)])
def test_totals_of_large_blocks(shape):
    rng = numpy.random.default_rng(0)
    a, b = (rng.standard_normal(shape, "f") for _ in range(2))
    expected = (a.astype("d") * b).sum(1)
    numpy.testing.assert_allclose(sums.totals(numpy, a, b), expected, rtol=1e-4, atol=1e-3)
    numpy.testing.assert_allclose(sums.totals(numpy, a), a.sum(1, "d"), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("shape", [(128, 1024), (32, 4096), (8, 16384), (600, 300)])
def test_products_of_large_blocks_let_other_threads_run(shape):
    made = []

    class Noting:
        """NumPy, which keeps the interpreter to itself where it gives 500 products or less."""

        def __getattr__(self, name):
            return getattr(numpy, name)

        def vecdot(self, a, b):
            made.append(numpy.vecdot(a, b))
            return made[-1]

    block = numpy.ones(shape, "f")
    assert sums.totals(Noting(), block, block).tolist() == [shape[1]] * shape[0]
    assert made[0].size > 500

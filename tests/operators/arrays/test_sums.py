"""Sums of rows, of columns, and over any dims of arrays in any layout."""

import numpy
import pytest

import pullback as torch
from pullback.operators.arrays import sums


def randn(*shape, dtype="f"):
    return numpy.random.default_rng(0).standard_normal(shape).astype(dtype)


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


LAYOUTS = {
    "in order": lambda x: x,
    "transposed": lambda x: x.transpose(2, 0, 1),
    "reversed": lambda x: x[::-1, :, ::-1],
    "strided": lambda x: x[::2, 1::3],
    "repeated": lambda x: numpy.broadcast_to(x[:, :1], x.shape),
    "repeated all over": lambda x: numpy.broadcast_to(x[:1, :1, :1], x.shape),
}


@pytest.mark.parametrize("dtype", ["f", "d", "F", "D", "e"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "shape", [(3, 70, 2), (130, 5, 67), (2, 2, 1500), (4100, 1, 3), (64, 64, 64)]
)
def test_totals_are_sums_over_any_dims_in_any_layout(shape, layout, dtype):
    x = numpy.random.default_rng(0).integers(-4, 5, shape)
    x = LAYOUTS[layout](((x + 1j * x[::-1]) if dtype in "FD" else x).astype(dtype))
    for dim in (None, (0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (-1, 0), (0, 1, 2)):
        for keepdim in (False, True):
            wanted = x.astype("D" if dtype in "FD" else "d").sum(dim, keepdims=keepdim)
            with numpy.errstate(over="ignore"):  # of half precision
                got = sums.total(numpy, x, dim, keepdim)
                assert got.shape == wanted.shape
                assert got.dtype == x.dtype
                assert not numpy.may_share_memory(got, x)
                numpy.testing.assert_array_equal(got, wanted.astype(dtype))


@pytest.mark.parametrize("rows", [5, 64, 65, 200, 1000, 1009, 5000])
@pytest.mark.parametrize("columns", [0, 1, 3, 64, 200])
def test_columns_are_added_with_and_without_weights(rows, columns):
    rng = numpy.random.default_rng(0)
    x, w = rng.integers(-9, 9, (rows, columns)).astype("f"), rng.integers(1, 5, rows).astype("f")
    numpy.testing.assert_array_equal(sums.column_totals(numpy, x), x.sum(0))
    numpy.testing.assert_array_equal(sums.column_totals(numpy, x, w), (x * w[:, None]).sum(0))
    wide = numpy.repeat(x, 2, 1)[:, ::2]
    numpy.testing.assert_array_equal(sums.column_totals(numpy, wide), x.sum(0))


@pytest.mark.parametrize("size", [0, 1, 1024, 1025, 1031, 250_000, 262_144, 300_007])
def test_vectors_are_added_and_multiplied(size):
    x = numpy.random.default_rng(0).integers(-3, 4, size).astype("f")
    assert sums.flat_total(numpy, x) == x.sum()
    assert sums.flat_total(numpy, x, x) == (x * x).sum()
    assert sums.flat_total(numpy, numpy.repeat(x, 2)[::2]) == x.sum()


def _of_nothing(n):
    """Programs in which rows, columns or matrices are many and have no elements."""
    F = torch.nn.functional  # noqa: N806 (as programs call it)
    made = lambda *shape: torch.ones(*shape, requires_grad=True)  # noqa: E731
    classes = torch.zeros(0, dtype=torch.int64)
    return {
        "norm": lambda: torch.norm(made(0, n), 2, 1),
        "norm of columns": lambda: torch.norm(made(n, 0), 2, 0),
        "norm between": lambda: torch.norm(made(2, n, 0), 2, 1),
        "sum": lambda: made(0, n).sum(1),
        "sum of columns": lambda: made(n, 0).sum(0),
        "sum between": lambda: made(0, n, 3).sum(1),
        "sum between nothing": lambda: made(3, n, 0).sum(1),
        "mean": lambda: made(0, n).mean(1),
        "logsumexp": lambda: made(0, n).logsumexp(1),
        "softmax": lambda: made(0, n).softmax(1),
        "layer_norm": lambda: F.layer_norm(made(0, n), (n,)),
        "cross_entropy": lambda: F.cross_entropy(made(0, n), classes, reduction="sum"),
        "pairwise_distance": lambda: F.pairwise_distance(made(0, n), made(0, n)),
        "broadcast": lambda: made(n, 0) + made(1, 0),
        "broadcast rows": lambda: made(n, 0, 3) * made(3),
        "solve_triangular": lambda: torch.linalg.solve_triangular(
            made(n, 0, 0), made(n, 0, 2), upper=True
        ),
        "cumsum": lambda: made(0, n).cumsum(1),
        "sort": lambda: made(0, n).sort(1)[0],
        "index_add": lambda: made(n, 0).index_add(0, torch.arange(n), made(n, 0)),
    }


@pytest.mark.parametrize("name", _of_nothing(1))
@pytest.mark.parametrize("n", [70, 1500, 5003])
def test_sums_of_nothing_are_zeros_however_long_its_rows_are(name, n):
    """A length of -1 says nothing where there are no elements; cross_entropy of no rows raised."""
    made = _of_nothing(n)[name]()
    assert not made.any()
    made.sum().backward()

"""Products of sparse matrices, by SciPy and in NumPy alone."""

import numpy
import pytest

from pullback.core.layout import sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from pullback.operators.sparse import kernels
from pullback.operators.sparse.array import values_at
from pullback.operators.sparse.layouts import pattern_in, places_of_dense

DTYPES = ["f8", "f4", "f2", "c16", "i8"]


@pytest.fixture(params=[True, False], ids=["scipy", "numpy"])
def with_or_without_scipy(request, monkeypatch):
    if request.param:
        pytest.importorskip("scipy")
    else:
        monkeypatch.setattr(kernels, "_scipy", lambda: None)


def sparse(draw, shape, layout, dtype="f8"):
    dense = numpy.floor(draw.uniform(-4, 5, shape)) * (draw.uniform(size=shape) < 0.4)
    dense = dense.astype(dtype)
    block = (2, 1) if layout is sparse_bsr else None
    pattern = pattern_in(layout, places_of_dense(dense, 2), shape, 0, block)
    return dense, pattern, values_at(dense, pattern)


@pytest.mark.usefixtures("with_or_without_scipy")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", [sparse_coo, sparse_csr, sparse_csc, sparse_bsr])
def test_products_with_dense_matrices(layout, dtype):
    draw = numpy.random.default_rng(0)
    dense, pattern, values = sparse(draw, (6, 5), layout, dtype)
    other = numpy.floor(draw.uniform(-3, 4, (5, 3))).astype(dtype)
    made = kernels.product(values, other, pattern)
    assert made.dtype == dtype
    numpy.testing.assert_array_equal(made, dense @ other)
    flipped = kernels.product(values, dense[:, :2], pattern.matrix.transposed)
    numpy.testing.assert_array_equal(flipped, dense.T @ dense[:, :2])


@pytest.mark.usefixtures("with_or_without_scipy")
@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_sparse_matrices_at_places(dtype):
    draw = numpy.random.default_rng(1)
    a, left, x = sparse(draw, (5, 6), sparse_coo, dtype)
    b, right, y = sparse(draw, (6, 4), sparse_csr, dtype)
    places, known = kernels.product_places(x, y, left, right)
    assert {tuple(place) for place in numpy.argwhere(a @ b)} <= {*map(tuple, places.T.tolist())}
    onto = pattern_in(sparse_csc, places, (5, 4), 0)
    made = kernels.product_at(x, y, left, right, onto)
    assert made.dtype == dtype
    numpy.testing.assert_array_equal(made, values_at(a @ b, onto))
    if known is not None:
        in_order = pattern_in(sparse_csr, places, (5, 4), 0)
        numpy.testing.assert_array_equal(known, values_at(a @ b, in_order))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dots_at_places(dtype):
    draw = numpy.random.default_rng(2)
    _, pattern, _ = sparse(draw, (4, 5), sparse_coo)
    left = numpy.floor(draw.uniform(-3, 4, (4, 3))).astype(dtype)
    right = numpy.floor(draw.uniform(-3, 4, (5, 3))).astype(dtype)
    made = kernels.rowwise_dots(left, right, pattern)
    numpy.testing.assert_array_equal(made, values_at(left @ right.T, pattern))


@pytest.mark.usefixtures("with_or_without_scipy")
def test_many_columns_go_in_blocks(monkeypatch):
    monkeypatch.setattr(kernels, "_BLOCK", 8)
    draw = numpy.random.default_rng(3)
    dense, pattern, values = sparse(draw, (7, 5), sparse_csr)
    other = draw.uniform(size=(5, 9))
    numpy.testing.assert_allclose(kernels.product(values, other, pattern), dense @ other)
    made = kernels.rowwise_dots(dense @ other, other, pattern)
    numpy.testing.assert_allclose(made, values_at(dense @ other @ other.T, pattern))


@pytest.mark.usefixtures("with_or_without_scipy")
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3, 3)])
def test_nothing_specified(shape):
    pattern = pattern_in(sparse_csr, numpy.zeros((2, 0), int), shape, 0)
    made = kernels.product(numpy.zeros(0), numpy.ones((shape[1], 2)), pattern)
    numpy.testing.assert_array_equal(made, numpy.zeros((shape[0], 2)))
    none = numpy.zeros(0)
    places, _ = kernels.product_places(none, none, pattern, pattern.transposed)
    assert places.shape == (2, 0)

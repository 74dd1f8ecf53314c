"""Adding slices where an index says: by a product with SciPy's help, and without it."""

import numpy as np
import pytest

from pullback.operators.arrays import scatter as scatter_kernels
from pullback.operators.arrays.scatter import (
    add_at,
    few_places,
    read_along,
    reduce_along,
    write_along,
)

SHAPES = [((40, 7), 0), ((5, 40), 1), ((3, 30, 4), 1), ((3, 4, 30), 2), ((30, 2, 3), 0)]


def drawn(rng, shape, dtype):
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


@pytest.fixture(params=["scipy", "numpy"])
def large(request, monkeypatch):
    """Everything counts as large, with SciPy and as if it were not there."""
    monkeypatch.setattr(scatter_kernels, "_MANY", 1)
    if request.param == "numpy":
        monkeypatch.setattr(scatter_kernels, "_sparse", lambda: None)
    else:
        pytest.importorskip("scipy.sparse")


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "i8", "f2"])
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
@pytest.mark.parametrize("count", [16, 25, 200])
def test_slices_that_share_a_place_add_up(shape, dim, count, dtype):
    rng = np.random.default_rng(count)
    index = rng.integers(0, shape[dim], count)
    values = drawn(rng, (*shape[:dim], count, *shape[dim + 1 :]), dtype)
    out = drawn(rng, shape, dtype)
    expected = out.astype("c16")
    np.add.at(expected, (slice(None),) * dim + (index,), values)
    add_at(np, out, (index,), (dim,), values)
    bound = 0.1 if dtype == "f2" else 1e-4
    np.testing.assert_allclose(out.astype("c16"), expected, rtol=bound, atol=bound)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("dtype", ["f4", "c8"])
def test_an_infinity_stays_at_its_place(dtype):
    values = np.ones((16, 3), dtype)
    values[4, 1] = np.inf
    out = np.zeros((5, 3), dtype)
    add_at(np, out, (np.arange(16) % 5,), (0,), values)
    assert np.isinf(out[4, 1])
    assert np.isfinite(np.delete(out.reshape(-1), 13)).all()


@pytest.mark.usefixtures("large")
def test_values_in_another_order_of_memory_add_up_too():
    rng = np.random.default_rng(0)
    index, values = rng.integers(0, 9, 20), np.asfortranarray(rng.standard_normal((4, 20, 3)))
    out, expected = np.zeros((4, 9, 3)), np.zeros((4, 9, 3))
    add_at(np, out, (index,), (1,), values)
    np.add.at(expected, (slice(None), index), values)
    np.testing.assert_allclose(out, expected)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["i4", "i8"])
@pytest.mark.parametrize("rows", [3, 900])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_elements_along_a_dimension_are_those_of_numpys_own_functions(dim, rows, kind, order):
    rng = np.random.default_rng(dim)
    shape = (rows, 4, 5)
    whole = np.array(rng.standard_normal(shape), order=order)
    index = np.argsort(rng.random(shape), dim).astype(kind)  # no place twice
    taken = np.take_along_axis(whole, index, dim)
    np.testing.assert_array_equal(read_along(np, whole, dim, index), taken)
    out = np.array(np.zeros(shape), order=order)
    write_along(np, out, dim, index, taken)
    np.testing.assert_array_equal(out, whole)
    reduce_along(np, np.add, out, dim, index, taken)
    np.testing.assert_array_equal(out, 2 * whole)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("inner", [(), (1,), (5,), (2, 3)])
def test_many_rows_into_few_add_up_by_a_product(monkeypatch, dtype, inner):
    rng = np.random.default_rng(0)
    index = rng.integers(-7, 7, 300)
    values, out = drawn(rng, (300, *inner), dtype), drawn(rng, (7, *inner), dtype)
    expected = out.copy()
    np.add.at(expected, index, values)
    taken = []
    by_ones = scatter_kernels._add_by_rows_of_ones

    def noted(*given):
        taken.append(by_ones(*given))
        return taken[-1]

    monkeypatch.setattr(scatter_kernels, "_add_by_rows_of_ones", noted)
    add_at(np, out, (index,), (0,), values)
    assert taken == ([True] if inner else [])
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan, 1e30])
def test_what_zeros_would_spread_stays_at_its_place(odd):
    values = np.ones((40, 3), "f4")
    values[4, 1] = odd
    out = np.zeros((5, 3), "f4")
    with np.errstate(all="ignore"):  # as operators have it
        add_at(np, out, (np.arange(40) % 5,), (0,), values)
    expected = np.full((5, 3), 8, "f4")
    expected[4, 1] = np.float32(odd) + np.float32(7)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(("shape", "dim"), [((6,), 0), ((2, 5), 1), ((5, 2), 0), ((2, 3, 4), 1)])
@pytest.mark.parametrize("smaller", [0, 1])
def test_places_of_few_elements_are_where_reading_finds_them(shape, dim, smaller):
    rng = np.random.default_rng(0)
    input = rng.standard_normal(shape)
    index = rng.integers(0, shape[dim], [max(n - smaller, 1) for n in shape])
    places = few_places("gather", np, input, dim, index)
    own = tuple(slice(n) if d != dim else slice(None) for d, n in enumerate(index.shape))
    np.testing.assert_array_equal(input.ravel()[places], np.take_along_axis(input[own], index, dim))


@pytest.mark.parametrize("wrong", [-6, -1, 5, 2**40, -(2**63)])
def test_places_outside_of_their_dimension_are_refused(wrong):
    index = np.array([[0, 1], [wrong, 2]])
    with pytest.raises(RuntimeError, match=f"index {wrong} is out of bounds"):
        few_places("gather", np, np.zeros((2, 5)), 1, index)


def test_what_is_not_usual_has_its_places_looked_at_elsewhere():
    index, input = np.zeros((2, 3), "i8"), np.zeros((2, 3))
    assert few_places("gather", np, input, 1, index) is not None
    assert few_places("gather", np, input.T, 1, index.T) is None
    assert few_places("gather", np, input, 1, index.astype("i4")) is None
    assert few_places("gather", np, input, 1, index[:0]) is None
    assert few_places("gather", np, input, 1, np.zeros((3, 3), "i8")) is None
    assert few_places("gather", np, input, 1, index[0]) is None
    assert few_places("gather", np, np.zeros(()), 0, np.zeros((), "i8")) is None
    assert few_places("gather", np, np.zeros((32, 32)), 1, np.zeros((32, 32), "i8")) is None

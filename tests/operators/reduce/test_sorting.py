"""Sorting and searching: stable orders of every dtype at every size, ranks row by row."""

import math

import numpy
import pytest

import pullback as torch
from pullback.operators.arrays.sorting import order_along, ranks

nan = math.nan

DTYPES = "float16 float32 float64 int8 uint8 int16 int32 uint32 int64 bool"


@pytest.mark.parametrize("dtype", DTYPES.split())
@pytest.mark.parametrize("shape", [(9,), (60, 70), (3, 40, 50)])
@pytest.mark.parametrize("descending", [False, True])
def test_order_is_stable_in_every_dtype_and_size(dtype, shape, descending):
    rng = numpy.random.default_rng(0)
    data = (rng.standard_normal(shape) * 4).round()
    data = (abs(data) if dtype.startswith("u") else data).astype(dtype)
    if dtype.startswith("float"):
        data.flat[3], data.flat[5], data.flat[7] = nan, -nan, -0.0
    for dim in range(len(shape)):
        # Sorting by (value, place) is stable by construction; NaN is the largest.
        key = numpy.nan_to_num(data.astype(numpy.float64), nan=1e9)
        expected = numpy.argsort(-key if descending else key, dim, kind="stable")
        got = order_along(numpy, data, dim, descending=descending)
        numpy.testing.assert_array_equal(got, expected)


def test_sort_returns_values_indices_and_sends_gradients_back():
    x = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    values, indices = x.sort(descending=True)
    assert values.tolist() == [3, 2, 1]
    assert indices.tolist() == [0, 2, 1]
    (g,) = torch.autograd.grad(values, x, torch.tensor([1.0, 10.0, 100.0]))
    assert g.tolist() == [1, 100, 10]


def test_nodes_of_sort_tell_whether_stability_was_asked_for():
    x = torch.ones(3, requires_grad=True)
    assert x.sort().values.grad_fn.name() == "SortBackward0"
    assert x.sort(stable=True).values.grad_fn.name() == "SortBackward1"


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_topk_finds_what_sorting_finds(largest, dim):
    x = torch.from_numpy(numpy.random.default_rng(0).standard_normal((50, 60)))
    values, indices = x.topk(7, dim, largest)
    expected = x.sort(dim, descending=largest)
    numpy.testing.assert_array_equal(values, expected.values.narrow(dim, 0, 7))
    numpy.testing.assert_array_equal(indices, expected.indices.narrow(dim, 0, 7))


def test_topk_of_a_tied_line_names_each_element_once():
    indices = torch.ones(100).topk(40).indices
    assert len(indices.unique()) == 40


@pytest.mark.parametrize("shape", [(6, 7), (40, 90), (3, 30, 40)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_ranks_with_ties_and_nan_agree_with_sorting(shape, dtype):
    data = numpy.random.default_rng(0).integers(-9, 9, shape).astype(dtype)
    if dtype != "int32":
        data.reshape(-1)[::11] = nan
    x = torch.from_numpy(data)
    for dim in range(x.ndim):
        expected = numpy.sort(data, dim)
        size = shape[dim]
        for k in (1, size // 2, size):
            values, indices = x.kthvalue(k, dim, keepdim=True)
            numpy.testing.assert_array_equal(values, expected.take([k - 1], dim))
            numpy.testing.assert_array_equal(x.gather(dim, indices), values)
            for largest, part in ((False, slice(k)), (True, slice(None, -k - 1, -1))):
                values, indices = x.topk(k, dim, largest)
                key = (*(slice(None),) * dim, part)
                numpy.testing.assert_array_equal(values, expected[key])
                numpy.testing.assert_array_equal(x.gather(dim, indices), values)


@pytest.mark.parametrize("size", [10, 3000])
def test_medians_of_small_and_large_lines_are_the_lower_middle(size):
    data = numpy.random.default_rng(0).standard_normal((3, size)).astype("float32")
    x = torch.from_numpy(data)
    expected = numpy.sort(data, 1)[:, (size - 1) // 2]
    values, indices = x.median(1)
    numpy.testing.assert_array_equal(values, expected)
    numpy.testing.assert_array_equal(data[range(3), indices.numpy()], expected)
    assert x.median().item() == numpy.sort(data, None)[(3 * size - 1) // 2]


@pytest.mark.parametrize("k", [1, 4, 9])
def test_kthvalue_is_the_kth_smallest(k):
    x = torch.from_numpy(numpy.random.default_rng(0).standard_normal((5, 9)))
    values, indices = x.kthvalue(k)
    numpy.testing.assert_array_equal(values, x.sort().values[:, k - 1])
    numpy.testing.assert_array_equal(values, x.gather(1, indices.unsqueeze(1)).squeeze(1))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("shape", [(4, 5), (2, 30, 40)])
def test_rows_are_searched_each_in_its_own_sequence(side, shape):
    rng = numpy.random.default_rng(0)
    sequence = numpy.sort(rng.integers(0, 9, shape))
    values = rng.integers(-1, 10, (*shape[:-1], 7))
    got = ranks(numpy, sequence, values, side)
    for row in numpy.ndindex(shape[:-1]):
        expected = numpy.searchsorted(sequence[row], values[row], side)
        numpy.testing.assert_array_equal(got[row], expected)


def test_bucketize_counts_from_the_left_unless_told():
    edges = torch.tensor([1.0, 3.0])
    assert torch.bucketize(torch.tensor([1.0, 2.0]), edges).tolist() == [0, 1]
    assert torch.bucketize(torch.tensor([1.0, 2.0]), edges, right=True).tolist() == [1, 1]
    assert torch.bucketize(2, edges, out_int32=True).dtype is torch.int32


def test_isin_takes_a_number_on_either_side():
    x = torch.tensor([1, 2, 3])
    assert torch.isin(x, 2).tolist() == [False, True, False]
    assert torch.isin(2, x).item() is True
    assert torch.isin(x, torch.tensor([1, 3]), invert=True).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda x: x.topk(4), RuntimeError, "topk: k is 4, but dim 0"),
        (lambda x: x.kthvalue(0), RuntimeError, "kthvalue: k is 0"),
        (lambda x: x.topk("a"), TypeError, "topk.*`k` must be int"),
        (lambda x: x.sort(0, 1), TypeError, "sort.*`descending` must be bool"),
        (lambda x: x.unique(0), TypeError, "unique.*`sorted` must be bool"),
        (lambda x: (x + 1j).sort(), RuntimeError, "sort: not defined for torch.complex64"),
        (lambda x: x.bool().topk(1), RuntimeError, "topk: not defined for torch.bool"),
        (lambda x: torch.searchsorted(x, x, side="up"), RuntimeError, "side is 'up'"),
        (lambda x: torch.searchsorted(x[None], 1.0), RuntimeError, "searchsorted"),
        (lambda x: torch.bucketize(x, x[None]), RuntimeError, "boundaries must be 1-d"),
        (lambda x: torch.isin(1, 2), TypeError, "must be a Tensor"),
    ],
)
def test_what_cannot_be_ordered_is_refused_with_the_reason(call, error, said):
    with pytest.raises(error, match=said):
        call(torch.ones(3))


def test_unique_finds_elements_slices_and_runs():
    x = torch.tensor([[3, 1], [3, 1], [1, 2]])
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True, dim=0)
    assert values.tolist() == [[1, 2], [3, 1]]
    assert inverse.tolist() == [1, 1, 0]
    assert counts.tolist() == [1, 2]
    assert torch.tensor([3, 3, 1, 3]).unique_consecutive().tolist() == [3, 1, 3]
    assert torch.tensor([nan, nan]).unique().shape == (2,)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int8", "bool"])
@pytest.mark.parametrize("shape", [(0,), (1,), (7, 9), (50, 60)])
def test_unique_answers_as_numpy_does(dtype, shape):
    data = numpy.random.default_rng(0).integers(0, 20, shape).astype(dtype)
    if dtype.startswith("float") and data.size > 9:
        data.reshape(-1)[::13] = nan
    expected = numpy.unique(data, return_inverse=True, return_counts=True, equal_nan=False)
    values, inverse, counts = torch.from_numpy(data).unique(True, True, True)
    numpy.testing.assert_array_equal(values, expected[0])
    numpy.testing.assert_array_equal(counts, expected[2])
    numpy.testing.assert_array_equal(values.numpy()[inverse.numpy()], data)
    numpy.testing.assert_array_equal(torch.from_numpy(data).unique(), expected[0])


def test_unique_has_a_node_that_refuses():
    x = torch.tensor([[1.0, 1.0]], requires_grad=True)
    found = x.unique(), x.unique(dim=0), x.unique_consecutive()
    names = "Unique2Backward0 UniqueDimBackward0 UniqueConsecutiveBackward0"
    assert [one.grad_fn.name() for one in found] == names.split()
    with pytest.raises(NotImplementedError):
        found[0].sum().backward()


@pytest.mark.parametrize("size", [1, 10, 64, 65, 3000])
def test_median_of_all_is_the_lower_middle_one_unless_there_is_a_nan(size):
    data = numpy.random.default_rng(0).standard_normal(size).astype("float32")
    assert float(torch.median(torch.from_numpy(data))) == numpy.sort(data)[(size - 1) // 2]
    data[size // 2] = nan
    assert math.isnan(torch.median(torch.from_numpy(data)))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("right", [False, True])
def test_values_beside_a_nan_are_found_where_single_precision_finds_them(dtype, right):
    """The place of a NaN was where the search for the next value began."""
    pytest.importorskip("ml_dtypes")
    kind = getattr(torch, dtype)
    sequence = torch.tensor([0.0, 1.0, 2.0]).to(kind)
    values = torch.tensor([nan, 1.25, 2.5, -1.0, nan, 0.5, 1.0]).to(kind)
    wide = sequence.float(), values.float()
    expected = torch.searchsorted(*wide, right=right)
    assert torch.equal(torch.searchsorted(sequence, values, right=right), expected)
    assert torch.equal(torch.bucketize(values, sequence, right=right), expected)
    side = "right" if right else "left"
    assert torch.equal(torch.searchsorted(sequence, values, side=side), expected)
    rows = sequence.expand(2, 3).contiguous(), values.expand(2, 7).contiguous()
    assert torch.equal(torch.searchsorted(*rows, right=right), expected.expand(2, 7))

"""Reductions: accuracy, conventions at ties and zeros, what goes back, named results, refusals."""

import math
import pickle

import numpy
import pytest

import pullback as torch
from pullback.core.trees.pytree import tree_flatten, tree_unflatten
from pullback.operators.arrays.sums import total
from pullback.operators.reduce.sums import unreduce

inf, nan = math.inf, math.nan


def leaf(*values, dtype=torch.float64):
    return torch.tensor(list(values), dtype=dtype, requires_grad=True)


def grads(function, *inputs):
    """Gradients of the sum; equal in the plain and in the recorded pass."""
    plain = torch.autograd.grad(function(*inputs).sum(), inputs)
    recorded = torch.autograd.grad(function(*inputs).sum(), inputs, create_graph=True)
    for one, other in zip(plain, recorded, strict=True):
        numpy.testing.assert_allclose(one.numpy(), other.detach().numpy(), rtol=1e-12)
    return plain[0].tolist()


# Accuracy -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(200_000, 3), (5000, 64), (3, 40_000, 2), (100_003, 1)])
def test_sums_of_many_rows_do_not_lose_digits(shape):
    data = numpy.random.default_rng(0).random(shape, dtype=numpy.float32)
    dim = len(shape) - 2
    exact = data.sum(dim, dtype=numpy.float64)
    got = torch.from_numpy(data).sum(dim).numpy()
    assert got.dtype == numpy.float32
    numpy.testing.assert_allclose(got, exact, rtol=3e-6)


def test_folded_sums_keep_their_shape_with_and_without_the_dim():
    x = torch.ones(7, 6000, 3)
    assert x.sum(1).shape == (7, 3)
    assert x.sum(1, keepdim=True).shape == (7, 1, 3)
    assert x.sum((0, 1)).tolist() == [42000.0] * 3


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_half_precision_is_added_up_in_single(dim):
    x = torch.ones(4096, 2, dtype=torch.float16)
    assert torch.sum(x, dim).dtype is torch.float16
    assert torch.sum(x, dim).max().item() in (8192.0, 4096.0, 2.0)
    assert torch.mean(x, dim).max().item() == 1.0


@pytest.mark.parametrize("reduce", [torch.sum, torch.nansum, torch.mean], ids=lambda f: f.__name__)
@pytest.mark.parametrize("size", [3, 3000, 40_000])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("lies", ["in rows", "in columns", "with gaps"])
def test_a_sum_over_a_dim_of_one_element_has_memory_of_its_own(reduce, size, keepdim, lies):
    """Of many elements it was the input's, which writes to the sum then changed."""
    x = {
        "in rows": lambda: torch.ones(size, 1),
        "in columns": lambda: torch.ones(1, size).t(),
        "with gaps": lambda: torch.ones(2 * size, 2)[::2, :1],
    }[lies]()
    made = reduce(x, dim=1, keepdim=keepdim)
    assert made.is_contiguous()
    made += 1
    assert torch.equal(x, torch.ones(size, 1))


def test_the_mean_of_more_elements_than_float16_can_count_has_a_gradient():
    x = torch.ones(100_000, dtype=torch.float16, requires_grad=True)
    x.mean().backward()
    assert x.grad[0].item() == pytest.approx(1e-5, rel=1e-2)


@pytest.mark.parametrize("shape", [(3, 5), (1, 1024), (1025, 2), (2, 1025), (0, 4), (4, 0), (7,)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_small_sums_are_the_same_by_every_way_through_the_kernel(shape, dtype):
    x = torch.from_numpy(numpy.random.default_rng(0).integers(-99, 99, shape).astype(dtype))
    for layout in (x, x.t().contiguous().t() if x.ndim == 2 else x, torch.cat([x, x])[::2]):
        for dim in (None, *range(x.ndim), -1):
            got = torch.sum(layout, dim)
            numpy.testing.assert_array_equal(got.numpy(), layout.numpy().sum(dim))
            assert got.dtype is x.dtype


def test_small_integers_add_and_multiply_in_int64():
    x = torch.full((300,), 100, dtype=torch.int8)
    assert x.sum().item() == 30000
    assert torch.tensor([100, 100], dtype=torch.uint8).prod().item() == 10000


def test_the_norm_of_huge_and_tiny_elements_does_not_leave_the_range():
    for size in (1e30, 1e-30):
        x = torch.tensor([3 * size, 4 * size], requires_grad=True)
        numpy.testing.assert_allclose(x.norm().item(), 5 * size, rtol=1e-6)
        numpy.testing.assert_allclose(grads(torch.norm, x), [0.6, 0.8], rtol=1e-6)


# Gradients ----------------------------------------------------------------------------------------


def test_products_with_zeros_have_derivatives_of_every_order():
    x = leaf(0.0, 2.0, 0.0, 3.0)
    (first,) = torch.autograd.grad(x.prod(), x, create_graph=True)
    assert first.tolist() == [0, 0, 0, 0]
    second = torch.stack([torch.autograd.grad(g, x, create_graph=True)[0] for g in first])
    expected = numpy.zeros((4, 4))
    expected[0, 2] = expected[2, 0] = 6
    assert second.tolist() == expected.tolist()
    (third,) = torch.autograd.grad(second[0, 2], x)
    assert third.tolist() == [0, 3, 0, 2]


@pytest.mark.parametrize("op", ["amax", "max"])
def test_values_alone_share_the_gradient_among_ties(op):
    assert grads(getattr(torch, op), leaf(1.0, 3.0, 3.0)) == [0, 0.5, 0.5]


def test_values_with_an_index_send_the_gradient_there():
    assert grads(lambda x: x.max(0).values, leaf(1.0, 3.0, 3.0)) == [0, 1, 0]
    assert grads(lambda x: x.min(0).values, leaf(1.0, 1.0, 3.0)) == [1, 0, 0]


def test_nan_gets_the_gradient_of_max():
    assert grads(torch.max, leaf(1.0, nan, nan)) == [0, 0.5, 0.5]
    assert math.isnan(torch.max(leaf(1.0, nan)).item())


def test_norm_and_its_derivatives_are_zero_at_zero():
    x = leaf(0.0, 0.0)
    (g,) = torch.autograd.grad(x.norm(), x, create_graph=True)
    assert g.tolist() == [0, 0]
    assert torch.autograd.grad(g.sum(), x)[0].tolist() == [0, 0]


def test_logsumexp_of_huge_elements_is_finite_and_so_is_its_gradient():
    x = leaf(1000.0, 1000.0, -inf)
    numpy.testing.assert_allclose(x.logsumexp(0).item(), 1000 + math.log(2))
    numpy.testing.assert_allclose(grads(lambda x: x.logsumexp(0), x), [0.5, 0.5, 0])


def test_a_sum_in_complex_numbers_of_real_ones_has_a_real_gradient():
    x = leaf(1.0, 2.0)
    (g,) = torch.autograd.grad(
        x.sum(dtype=torch.complex128), x, torch.tensor(2 + 3j).to(torch.complex128)
    )
    assert g.dtype is torch.float64
    assert g.tolist() == [2, 2]


def test_a_sum_in_integers_has_no_gradient():
    assert not leaf(1.5, 2.0).sum(dtype=torch.int64).requires_grad


# Putting a gradient back --------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [None, (), 0, -1, (0, 2), (1,)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_unreduce_undoes_the_shape_of_a_sum_for_arrays_and_tensors(dim, keepdim):
    x = torch.ones(2, 3, 4)
    g = torch.sum(x, dim, keepdim)
    assert unreduce(g, (2, 3, 4), dim, keepdim).shape == (2, 3, 4)
    assert unreduce(g.numpy(), (2, 3, 4), dim, keepdim).shape == (2, 3, 4)


def test_gradients_from_a_large_sum_and_elsewhere_add_up():
    x = torch.ones(200, 200, requires_grad=True)
    y = x * 2
    ((y * y).sum() + y.sum() * 3).backward()
    assert x.grad.unique().tolist() == [14.0]


def test_a_large_sum_gives_its_gradient_as_a_view_and_a_leaf_memory_of_its_own():
    x = torch.ones(300, 300, requires_grad=True)
    g = torch.tensor(2.0)
    (lent,) = torch.autograd.grad(x.sum(), x, g)
    assert lent.stride() == (0, 0)
    with pytest.raises(RuntimeError, match="share one memory location"):
        lent.add_(1)
    x.sum(1).backward(torch.arange(300.0))
    assert x.grad.is_contiguous()
    x.grad.add_(1)
    assert x.grad[:, 7].tolist() == [i + 1.0 for i in range(300)]


def test_kernels_take_dims_as_rules_pass_them():
    x = numpy.ones((2, 3, 4))
    for dim, shape in ((0, (3, 4)), (-1, (2, 3)), ((-1, 0), (3,)), ((), ()), (None, ())):
        assert numpy.shape(total(numpy, x, dim, False)) == shape


# Named results ------------------------------------------------------------------------------------


def test_max_along_a_dim_gives_named_values_and_indices():
    result = torch.tensor([[1.0, 4.0], [3.0, 2.0]]).max(1)
    values, indices = result
    assert result.values is values
    assert result.indices is indices
    assert repr(result) == (
        "torch.return_types.max(\nvalues=tensor([4., 3.]),\nindices=tensor([1, 0]))"
    )
    assert isinstance(result, tuple)


def test_named_results_can_be_pickled_and_taken_apart():
    result = torch.tensor([1.0, 4.0]).max(0)
    again = pickle.loads(pickle.dumps(result))
    assert type(again) is type(result)
    assert again.indices.item() == 1
    leaves, structure = tree_flatten(result)
    assert tree_unflatten(leaves, structure).values.item() == 4.0
    with pytest.raises(TypeError, match="takes 2 values"):
        type(result)([1])


def test_out_receives_both_results():
    out = (torch.empty(2), torch.empty(2, dtype=torch.int64))
    result = torch.max(torch.tensor([[1.0, 4.0], [3.0, 2.0]]), 1, out=out)
    assert result.values is out[0]
    assert out[1].tolist() == [1, 0]


# Overloads and refusals ---------------------------------------------------------------------------


def test_max_of_two_tensors_is_maximum():
    a, b = torch.tensor([1.0, 4.0]), torch.tensor([2.0, 3.0])
    assert torch.max(a, b).tolist() == a.max(b).tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda x: x.sum(0, 1), TypeError, r"tuple, like dim=\(0, 1\)"),
        (lambda x: x.sum(2), IndexError, "sum: dim 2"),
        (lambda x: x.sum((0, -2)), RuntimeError, "sum: dim 0 appears more than once"),
        (lambda x: x.max(keepdim=True), TypeError, "max"),
        (lambda x: x[:0].max(), RuntimeError, "max: the input of shape"),
        (lambda x: x[:0].max(0), IndexError, "max: dim 0 of shape"),
        (lambda x: x.long().mean(), RuntimeError, "mean: .*torch.int64"),
        (lambda x: x.long().norm(), RuntimeError, "torch.int64"),
        (lambda x: x.norm("nuclear"), RuntimeError, "'nuclear'"),
        (lambda x: x.sum_to_size(4), RuntimeError, "sum_to_size"),
        (lambda x: x.sum(keepdim=True), TypeError, "sum"),
        (lambda x: x.prod(None), TypeError, "prod"),
        (lambda x: x.amax(0, 1), TypeError, r"amax.*tuple, like dim=\(0, 1\)"),
        (lambda x: x.any(0, 1), TypeError, r"any.*tuple"),
        (lambda x: x.double().norm(dtype=torch.float32), RuntimeError, "no narrower"),
        (lambda x: torch.dist(x, 1.0), TypeError, "dist.*Tensor"),
        (lambda x: torch.dist(x.numpy(), x), TypeError, "dist.*`input` must be a Tensor"),
        (lambda x: torch.renorm(x, 0, 0, 1), RuntimeError, "renorm"),
    ],
)
def test_what_cannot_be_reduced_is_refused_with_the_reason(call, error, said):
    with pytest.raises(error, match=said):
        call(torch.ones(2, 3))


def test_all_and_any_over_no_dims_keep_every_element():
    assert torch.tensor([[0.0, 2.0]]).all(()).tolist() == [[False, True]]


def test_renorm_in_place_keeps_the_gradient_right():
    x = leaf(3.0, 4.0).reshape(1, 2)
    y = x * 1
    y.renorm_(2, 0, 1.0)
    (g,) = torch.autograd.grad(y[0, 0], x)
    numpy.testing.assert_allclose(g.tolist(), [[16 / 125, -12 / 125]], rtol=1e-6)


def test_numpys_names_of_dim_and_keepdim_are_understood():
    x = torch.tensor([[1.0, 4.0], [3.0, 2.0]])
    assert x.sum(axis=0).tolist() == x.sum(0).tolist()
    assert x.mean(axis=1, keepdims=True).shape == (2, 1)
    assert x.max(axis=1).indices.tolist() == [1, 0]
    assert x.std(axis=0).tolist() == x.std(0).tolist()


@pytest.mark.parametrize("shape", [(70, 1000), (3, 40, 700), (200_003,), (1000, 70)])
def test_large_sums_are_right_to_single_precision(shape):
    values = numpy.random.default_rng(0).standard_normal(shape).astype(numpy.float32)
    x = torch.tensor(values)
    for dim in (None, -1, tuple(range(len(shape)))[-2:], 0):
        expected = values.astype(float).sum(dim)
        found = x.sum() if dim is None else x.sum(dim)
        numpy.testing.assert_allclose(found.numpy(), expected, atol=2e-3)
    assert torch.full((70, 1000), float("inf")).sum().isinf()


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_large_products_have_gradients_with_and_without_zeros(zeros):
    values = numpy.exp(numpy.random.default_rng(0).standard_normal((500, 101)) / 10)
    values[:, :zeros] = 0
    x = torch.tensor(values, requires_grad=True)
    x.prod(1).sum().backward()
    others = numpy.stack([numpy.delete(values, i, 1).prod(1) for i in range(101)], 1)
    numpy.testing.assert_allclose(x.grad.numpy(), others, rtol=1e-9)


def test_products_near_the_limits_have_the_gradients_of_their_factors():
    x = leaf(1e-30, 1e-30, 1e5, dtype=torch.float32)
    numpy.testing.assert_allclose(grads(lambda x: x.prod() * 1e20, x), [1e-5, 1e-5, 0], rtol=1e-5)
    y = leaf(2.0, -3.0, 4.0)
    assert grads(lambda y: y.prod(0), y) == [-12, 8, -6]
    assert grads(lambda y: y.prod(), y) == [-12, 8, -6]


def test_sum_and_its_like_tell_none_from_no_dim_by_their_nodes():
    x = leaf(1.0, 2.0)
    names = [y.grad_fn.name() for y in (x.sum(), x.sum(None), x.mean(), x.mean(None), x.prod())]
    assert names == [
        *("SumBackward0", "SumBackward1", "MeanBackward0", "MeanBackward1", "ProdBackward0")
    ]


@pytest.mark.parametrize("count", [0, 1, 32, 33])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_product_has_the_dtype_and_value_of_its_factors_however_many(count, dtype):
    data = numpy.random.default_rng(0).uniform(0.5, 1.5, count)
    x = torch.tensor(data, dtype=dtype)
    found = torch.prod(x)
    assert found.dtype is dtype
    assert found.shape == ()
    assert float(found) == pytest.approx(x.double().numpy().prod(), rel=1e-5)


def test_true_elements_are_counted_in_int64():
    x = torch.tensor([[True, False], [True, True]])
    assert x.sum().dtype is torch.int64
    assert (int(x.sum()), x.sum(0).tolist()) == (3, [2, 1])


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (70, 80)])
def test_extreme_of_rows_is_what_its_index_points_at_and_nan_wins(name, shape):
    data = numpy.random.default_rng(0).standard_normal(shape).astype("float32")
    data[..., 2] = numpy.where(numpy.arange(data[..., 2].size) % 2 == 0, nan, data[..., 2])
    x = torch.from_numpy(data)
    values, indices = getattr(torch, name)(x, -1)
    picked = numpy.take_along_axis(data, indices.numpy()[..., None], -1)[..., 0]
    numpy.testing.assert_array_equal(values.numpy(), picked)
    numpy.testing.assert_array_equal(values.numpy(), getattr(data, name)(-1))
    assert math.isnan(getattr(torch, name)(x))


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dims", [(0, 2, 3), (0, 3), (1, 3), (-1, 0), (2, 0), (0, 2)])
def test_large_sums_over_dims_apart_are_those_of_wider_numbers(dims, keepdim):
    x = numpy.random.default_rng(0).standard_normal((9, 11, 8, 80)).astype("f")
    expected = x.astype("d").sum(dims, keepdims=keepdim)
    found = torch.tensor(x).sum(dims, keepdim=keepdim).numpy()
    assert found.shape == expected.shape
    numpy.testing.assert_allclose(found, expected, rtol=0, atol=2e-4)


@pytest.mark.parametrize("given", [2, "a", None, [1.0, 2.0]])
def test_a_product_in_another_dtype_is_of_tensors_alone(given):
    with pytest.raises(TypeError, match="prod"):
        torch.prod(given, dtype=torch.float32)

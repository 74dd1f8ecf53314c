"""Laws that hold for every shape, dimension, dtype and memory layout hypothesis can think of."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pullback
from tests import strategies


def tensor(array, *, requires_grad=False):
    return pullback.from_numpy(array).requires_grad_(requires_grad)


def drawn(data, shape, *, requires_grad=True):
    """A tensor of a shape (or a strategy for one), in some memory layout."""
    array = data.draw(strategies.arrays(shape))
    return tensor(data.draw(strategies.laid_out(array)), requires_grad=requires_grad)


@pytest.mark.parametrize("name", ["add", "mul", "sub", "maximum", "where", "addcmul"])
@given(data=st.data())
def test_gradients_have_the_shapes_of_their_inputs_however_they_broadcast(name, data):
    count = 3 if name == "addcmul" else 2
    shapes, together = data.draw(strategies.broadcastable(count))
    inputs = [drawn(data, shape) for shape in shapes]
    condition = [tensor(numpy.ones((), bool))] if name == "where" else []
    out = getattr(pullback, name)(*condition, *inputs)
    assert out.shape == together
    out.sum().backward()
    assert all(x.grad.shape == x.shape for x in inputs)


@given(data=st.data())
def test_broadcast_input_gets_the_sum_of_its_uses(data):
    shape = data.draw(strategies.shapes(low=1))
    x = drawn(data, strategies.shrunk(shape))
    g = data.draw(strategies.arrays(shape))
    pullback.broadcast_to(x, shape).backward(tensor(g))
    numpy.testing.assert_allclose(x.grad.numpy().sum(), g.sum(), atol=1e-9)


@pytest.mark.parametrize("name", ["sum", "amax", "amin", "all", "any"])
@given(data=st.data())
def test_reductions_agree_with_numpy_over_any_dimensions(name, data):
    extreme = name in ("amax", "amin")
    x = drawn(data, strategies.shapes(low=1 if extreme else 0), requires_grad=False)
    dim, keepdim = data.draw(strategies.reductions(x.ndim)), data.draw(st.booleans())
    everything = dim is None or dim == () or x.ndim == 0
    if everything and not extreme:
        result, keepdim = getattr(pullback, name)(x), False
    else:
        result = getattr(pullback, name)(x, () if dim is None else dim, keepdim=keepdim)
    axis = None if everything else dim
    expected = getattr(numpy, name)(x.numpy(), axis=axis, keepdims=keepdim)
    assert result.shape == numpy.shape(expected)
    numpy.testing.assert_allclose(result.numpy(), expected, atol=1e-9)


@given(data=st.data())
def test_permuting_there_and_back_changes_nothing(data):
    x = drawn(data, strategies.shapes())
    order = data.draw(st.permutations(range(x.ndim)))
    back = x.permute(order).permute(tuple(numpy.argsort(order).tolist()))
    numpy.testing.assert_array_equal(back.detach().numpy(), x.detach().numpy())
    g = data.draw(strategies.arrays(tuple(x.shape)))
    back.backward(tensor(g))
    numpy.testing.assert_array_equal(x.grad.numpy(), g)


@given(data=st.data())
def test_splitting_and_joining_changes_nothing(data):
    x = drawn(data, strategies.shapes(min_dims=1, low=1))
    dim = data.draw(strategies.dims(x.ndim))
    joined = pullback.cat(x.split(data.draw(st.integers(1, x.shape[dim])), dim), dim)
    numpy.testing.assert_array_equal(joined.detach().numpy(), x.detach().numpy())
    g = data.draw(strategies.arrays(tuple(x.shape)))
    joined.backward(tensor(g))
    numpy.testing.assert_array_equal(x.grad.numpy(), g)


@given(data=st.data())
def test_addition_gives_the_dtype_that_result_type_foretells(data):
    few_dims = strategies.shapes(max_dims=1)
    x, y = (tensor(data.draw(strategies.arrays(few_dims, strategies.dtypes()))) for _ in range(2))
    try:
        numpy.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        with pytest.raises(RuntimeError, match="broadcast"):
            pullback.add(x, y)
    else:
        assert pullback.add(x, y).dtype is pullback.result_type(x, y)


@given(array=strategies.arrays(strategies.shapes(), elements=strategies.awkward_numbers()))
def test_sums_and_signs_keep_infinities_and_nan(array):
    x = tensor(array)
    numpy.testing.assert_array_equal((x + x).numpy(), array + array)
    numpy.testing.assert_array_equal((-x).numpy(), -array)

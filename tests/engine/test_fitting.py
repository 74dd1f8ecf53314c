"""Gradients fit where they go: arrays and tensors alike, or refused with the same words."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pullback as torch
from pullback.core.view import NOWHERE
from pullback.engine.fitting import fitted, fitted_all, fitted_tensor
from tests import strategies

DTYPES = ["float32", "float64", "complex64", "complex128"]


class Place:
    """An edge: what gradients must look like there."""

    _seq = -1

    def __init__(self, shape, dtype):
        self._g_shape, self._g_dtype = shape, numpy.dtype(dtype)


def node():
    return (torch.ones(1, requires_grad=True) * 2).grad_fn


def outcome(fit, *args):
    try:
        made = fit(*args)
    except RuntimeError as error:
        return str(error)
    array = getattr(made, "_array", made)
    return array.shape, array.dtype, array.tolist()


@given(
    shape=strategies.shapes(max_dims=4),
    target=strategies.shapes(max_dims=3),
    made=st.sampled_from(DTYPES),
    wanted=st.sampled_from(DTYPES),
)
def test_arrays_and_tensors_are_fitted_alike(shape, target, made, wanted):
    g = numpy.arange(numpy.prod(shape, dtype=int)).reshape(shape).astype(made)
    place = Place(target, wanted)
    expected = outcome(fitted, g, place, node(), 0)
    assert outcome(fitted_tensor, torch.from_numpy(g.copy()), place, node(), 0) == expected
    if not isinstance(expected, str):
        assert expected[:2] == (target, place._g_dtype)


@given(found=strategies.broadcastable(count=1))
def test_what_broadcasting_stretched_is_summed(found):
    (small,), whole = found
    made = fitted(numpy.ones(whole), Place(small, "float64"), node(), 0)
    repeats = numpy.prod(whole, dtype=int) // max(1, numpy.prod(small, dtype=int))
    assert made.tolist() == numpy.full(small, float(repeats)).tolist()


@pytest.mark.parametrize("fit", [fitted, fitted_tensor])
def test_results_that_lead_nowhere_are_left_out(fit):
    g = numpy.ones(2) if fit is fitted else torch.ones(2, dtype=torch.float64)
    place = Place((), "float64")
    made = fitted_all((g, g, None, g), (place, NOWHERE, place, None), node(), fit)
    assert [None if one is None else float(one) for one in made] == [2, None, None, None]


def test_leaves_of_a_gradient_dtype_of_their_own_get_that():
    x = torch.ones(2, requires_grad=True)
    x.grad_dtype = torch.float64
    edge = torch.autograd.graph.get_gradient_edge(x).node
    assert fitted(numpy.ones(2, "float64"), edge, node(), 0).dtype == numpy.float64
    assert fitted(numpy.ones(2, "float16"), edge, node(), 0).dtype == numpy.float64
    x.grad_dtype = None
    assert fitted(numpy.ones(2, "float16"), edge, node(), 0).dtype == numpy.float16

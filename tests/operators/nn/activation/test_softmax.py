"""Softmax: rows that sum to one, no overflow, blocks that do not show."""

import math

import numpy
import pytest

import pullback as torch
from pullback.autograd.gradcheck import gradcheck, gradgradcheck
from pullback.operators.arrays.blocks import BLOCK

inf, nan = math.inf, math.nan


def randn(*shape, seed=0, dtype=torch.float64):
    values = numpy.random.default_rng(seed).standard_normal(shape)
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def reference(x, dim):
    e = numpy.exp(x - x.max(dim, keepdims=True))
    return e / e.sum(dim, keepdims=True)


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("scale", [1, 100])
def test_softmax_is_exponentials_over_their_sum(dim, scale):
    x = randn(3, 4, 5).detach() * scale
    numpy.testing.assert_allclose(
        torch.softmax(x, dim).numpy(), reference(x.numpy(), dim), rtol=1e-12, atol=1e-300
    )


@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 2), (3,), ()])
def test_derivatives_of_both_orders_hold(function, shape):
    x = randn(*shape)
    for dim in range(max(len(shape), 1)):
        assert gradcheck(lambda t, d=dim: function(t, d), (x,))
        assert gradgradcheck(lambda t, d=dim: function(t, d), (x,))


@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
def test_large_and_infinite_scores_do_not_overflow(function):
    x = torch.tensor([[1e30, 0.0], [-1e30, -1e30], [-inf, 1.0], [-inf, -inf], [nan, 1.0]])
    probabilities = function(x, 1)
    probabilities = probabilities if function is torch.softmax else probabilities.exp()
    expected = [[1, 0], [0.5, 0.5], [0, 1], [nan, nan], [nan, nan]]
    numpy.testing.assert_allclose(probabilities.numpy(), expected, rtol=1e-6)


def test_log_softmax_keeps_digits_where_the_probability_is_close_to_one():
    x = torch.tensor([30.0, 20.0])
    expected = -math.log1p(math.exp(-10))
    assert torch.log_softmax(x, 0)[0].item() == pytest.approx(expected, abs=2e-7)


@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
@pytest.mark.parametrize("dim", [0, 1])
def test_blocks_do_not_show(function, dim):
    x = randn(70, BLOCK // 60)
    whole = function(x, dim)
    weights = randn(*x.shape, seed=1).detach()
    (gradient,) = torch.autograd.grad(whole, x, weights)
    part = x.detach()[:3] if dim == 1 else x.detach()[:, :3]
    part = part.clone().requires_grad_()
    alone = function(part, dim)
    take = (slice(3), slice(None)) if dim == 1 else (slice(None), slice(3))
    (of_part,) = torch.autograd.grad(alone, part, weights[take])
    numpy.testing.assert_allclose(whole.detach()[take].numpy(), alone.detach().numpy(), rtol=1e-12)
    numpy.testing.assert_allclose(gradient[take].numpy(), of_part.numpy(), rtol=1e-9, atol=1e-12)


def test_dtype_is_applied_first_and_gradients_come_back_in_the_inputs():
    x = randn(2, 3, dtype=torch.float32)
    y = torch.softmax(x, 1, dtype=torch.float64)
    assert y.dtype is torch.float64
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert gradient.dtype is torch.float32
    assert torch.softmax(torch.tensor([1, 1]), 0, dtype=torch.float32).tolist() == [0.5, 0.5]


def test_half_precision_stays_half():
    x = torch.tensor([1.0, 2.0], dtype=torch.float16)
    assert torch.softmax(x, 0).dtype is torch.float16


def test_nothing_along_the_dimension_gives_nothing():
    assert torch.softmax(torch.ones(2, 0), 1).shape == (2, 0)
    assert torch.log_softmax(torch.ones(0, 2), 1).shape == (0, 2)


def test_integers_and_wrong_dimensions_are_refused():
    with pytest.raises(NotImplementedError, match="int64"):
        torch.softmax(torch.tensor([1, 2]), 0)
    with pytest.raises(IndexError, match="dim 2"):
        torch.softmax(torch.ones(2, 2), 2)
    with pytest.raises(TypeError):
        torch.softmax(torch.ones(2))


def test_functional_softmax_guesses_the_dimension_and_warns():
    x = torch.ones(2, 3)
    with pytest.warns(UserWarning, match="pass dim"):
        guessed = torch.nn.functional.softmax(x)
    assert torch.equal(guessed, torch.softmax(x, 1))


@pytest.mark.parametrize("shift", [0.0, -9.0, -60.0, -200.0, 39.0, 90.0])
@pytest.mark.parametrize("dtype", [numpy.float32, numpy.float64])
def test_hidden_scores_get_nothing_and_cost_the_others_no_digit(dtype, shift):
    """Rows with -inf among them, some far below the others, and one that sees nothing."""
    rng = numpy.random.default_rng(0)
    scores = (3 * rng.standard_normal((80, 40)) + shift).astype(dtype)
    scores[rng.random(scores.shape) < 0.4] = -numpy.inf
    scores[:, 0] = dtype(shift)
    for blind in (False, True):
        if blind:
            scores[7] = -numpy.inf
        made = torch.softmax(torch.tensor(scores), 1)._array
        with numpy.errstate(invalid="ignore"):  # of the row that sees nothing
            wide = numpy.exp(scores.astype("g") - scores.max(1, keepdims=True).astype("g"))
            wide /= wide.sum(1, keepdims=True)
        tolerance = 20 * numpy.finfo(dtype).eps
        numpy.testing.assert_allclose(made, wide.astype(dtype), rtol=tolerance)
        assert (made[scores == -numpy.inf] == 0).sum() >= (scores[:7] == -numpy.inf).sum()


def test_weights_far_below_the_largest_keep_their_digits():
    scores = numpy.full((100, 20), -60.0, numpy.float32)
    scores[:, 3] = -5.0
    scores[:, 4] = -numpy.inf
    made = torch.softmax(torch.tensor(scores), 1)._array
    numpy.testing.assert_allclose(made[:, 0], numpy.exp(-55.0), rtol=1e-5)

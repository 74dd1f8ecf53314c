"""Masked reductions are reductions of the selected elements alone."""

import math

import numpy
import pytest

import pullback as torch
from pullback import masked
from pullback.autograd import gradcheck

REDUCTIONS = {
    "sum": numpy.sum,
    "prod": numpy.prod,
    "mean": numpy.mean,
    "amax": numpy.max,
    "amin": numpy.min,
    "var": lambda x: numpy.var(x, ddof=1),
    "std": lambda x: numpy.std(x, ddof=1),
    "norm": numpy.linalg.norm,
    "logsumexp": lambda x: numpy.log(numpy.exp(x).sum()),
    "median": lambda x: numpy.sort(x)[(len(x) - 1) // 2],
}


def drawn(*shape, seed=0):
    return torch.from_numpy(numpy.random.default_rng(seed).normal(size=shape))


def mask_like(x, seed=1):
    """At least two elements of each row, never all."""
    chosen = numpy.random.default_rng(seed).random(x.shape) > 0.5
    chosen[..., :2], chosen[..., -1] = True, False
    return torch.from_numpy(chosen)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction_is_that_of_the_selected_elements(name):
    x = drawn(4, 6)
    mask = mask_like(x)
    result = getattr(masked, name)(x, dim=1, mask=mask)
    expected = [
        REDUCTIONS[name](row[chosen]) for row, chosen in zip(x.numpy(), mask.numpy(), strict=True)
    ]
    numpy.testing.assert_allclose(result.numpy(), expected)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_gradient_is_zero_where_nothing_is_selected(name):
    x = drawn(3, 5).requires_grad_()
    mask = mask_like(x)

    def call(x):
        return getattr(masked, name)(x, dim=1, mask=mask)

    assert gradcheck(call, x)
    call(x).sum().backward()
    assert not x.grad[~mask].any()


def test_reduction_of_nothing_is_the_value_that_does_not_matter():
    x, nothing = drawn(2, 3), torch.zeros(2, 3, dtype=torch.bool)
    expected = {"sum": 0, "prod": 1, "amax": -math.inf, "amin": math.inf, "norm": 0}
    for name, value in expected.items():
        assert getattr(masked, name)(x, mask=nothing).item() == value
    for name in ("mean", "var", "std"):
        assert math.isnan(getattr(masked, name)(x, mask=nothing).item())
    assert masked.logsumexp(x, mask=nothing).item() == -math.inf


def test_running_sums_and_products_pass_over_what_is_left_out():
    x = torch.tensor([1.0, 2.0, 3.0])
    mask = torch.tensor([True, False, True])
    assert masked.cumsum(x, 0, mask=mask).tolist() == [1, 1, 4]
    assert masked.cumprod(x, 0, mask=mask).tolist() == [1, 1, 3]


def test_softmax_gives_nothing_to_what_is_left_out():
    x = drawn(4, 5)
    mask = mask_like(x)
    for name in ("softmax", "softmin"):
        result = getattr(masked, name)(x, 1, mask=mask)
        assert not result[~mask].any()
        numpy.testing.assert_allclose(result.sum(1).numpy(), numpy.ones(4))
    assert torch.isinf(masked.log_softmax(x, 1, mask=mask)[~mask]).all()


def test_mask_broadcasts_to_the_input():
    x = drawn(3, 4)
    row = torch.tensor([True, False, True, True])
    whole = row.expand(3, 4)
    assert torch.equal(masked.sum(x, 1, mask=row), masked.sum(x, 1, mask=whole))


def test_places_are_found_among_the_selected():
    x = torch.tensor([3.0, 1.0, 2.0])
    mask = torch.tensor([False, True, True])
    assert masked.argmax(x, mask=mask).item() == 2
    assert masked.argmin(x, 0, mask=mask).item() == 1


def test_logaddexp_leaves_out_an_operand():
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    result = masked.logaddexp(x, y, input_mask=torch.tensor([False, True]))
    assert result[0].item() == 3.0
    assert result[1].item() == pytest.approx(numpy.logaddexp(2, 4))


def test_what_is_not_zero_in_a_mask_selects():
    x, mask = drawn(2, 3), torch.tensor([[2, 0, 1], [0, 0, -1]])
    for kind in (torch.int64, torch.uint8, torch.float32, torch.complex64):
        assert torch.equal(masked.sum(x, 1, mask=mask.to(kind)), masked.sum(x, 1, mask=mask != 0))


def test_running_sums_keep_the_dtype_and_take_the_first_of_several_dimensions():
    x = torch.tensor([[1, 2], [3, 4]], dtype=torch.uint8)
    assert masked.cumsum(x, 1).dtype is torch.uint8
    assert masked.cumprod(x, None).tolist() == [[1, 2], [3, 8]]
    assert masked.cumsum(x, (1, 0)).tolist() == [[1, 3], [3, 7]]


def test_bad_masks_are_refused():
    x = drawn(2, 3)
    with pytest.raises(IndexError, match="dimensions"):
        masked.sum(x, mask=torch.ones(1, 2, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="int64"):
        masked.mean(torch.ones(2, dtype=torch.int64))

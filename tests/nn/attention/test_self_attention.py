"""Attention of a sequence to itself: one product for all projections, the same as with three."""

import pytest

import pullback as torch


@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"bias": False}])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("average", [True, False])
def test_one_product_gives_what_three_give(options, need_weights, average):
    torch.manual_seed(0)
    attention = torch.nn.MultiheadAttention(8, 2, dtype=torch.float64, **options)
    x = torch.randn(3, 4, 8, dtype=torch.float64, requires_grad=True)
    asked = {"need_weights": need_weights, "average_attn_weights": average}

    def results(*given):
        out, weights = attention(*given, **asked)
        loss = (out**3).sum() + (0 if weights is None else (weights**2).sum())
        return out, weights, torch.autograd.grad(loss, [x, *attention.parameters()])

    out, weights, gradients = results(x, x, x)
    wanted, wanted_weights, wanted_gradients = results(x, x, x + 0)  # other tensors: three products
    torch.testing.assert_close(out, wanted)
    assert (weights is None) == (wanted_weights is None)
    if weights is not None:
        torch.testing.assert_close(weights, wanted_weights)
    for one, other in zip(gradients, wanted_gradients, strict=True):
        torch.testing.assert_close(one, other)

"""Sums of gradients: their values are tested with the passes, here what else they keep."""

import pullback as torch


def test_a_sum_with_the_zeros_of_a_step_keeps_the_format(both_passes):
    """The zeros come in the order of the gradient; in another, they would decide the sum's."""
    x = torch.randn(2, 4, 3, 3).to(memory_format=torch.channels_last).requires_grad_()
    y = torch.sign(x) * x
    (g,) = torch.autograd.grad(y, x, torch.ones_like(y))
    assert g.is_contiguous(memory_format=torch.channels_last)

"""`retain_grad` in a pass over a batch of gradients; torch leaves a tensor that cannot be read."""

import pullback as torch


def test_all_examples_are_retained():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.retain_grad()
    z = y * torch.tensor([3.0, 4.0])
    torch.autograd.grad(z, x, torch.eye(2), is_grads_batched=True, retain_graph=True)
    assert y.grad.tolist() == [[3, 0], [0, 4]]
    torch.autograd.grad(z, x, torch.eye(2), is_grads_batched=True)
    assert y.grad.tolist() == [[6, 0], [0, 8]]

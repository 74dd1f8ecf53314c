"""Copies of tensors whose conjugation is put off; the rest of their methods is in test_deferred."""

import copy

import pullback as torch


def test_a_deep_copy_keeps_the_gradient():
    x = torch.tensor([1 + 2j]).conj().requires_grad_()
    (x * x.conj()).real.sum().backward()
    made = copy.deepcopy(x)
    assert made.is_leaf
    assert made.tolist() == x.tolist()
    assert made.grad.tolist() == x.grad.tolist()
    assert made.grad is not x.grad

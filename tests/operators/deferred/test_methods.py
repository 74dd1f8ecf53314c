"""Copies of tensors whose conjugation is put off; the rest of their methods is in test_deferred."""

import copy

import pytest

import pullback as torch


def test_a_deep_copy_keeps_the_gradient():
    x = torch.tensor([1 + 2j]).conj().requires_grad_()
    (x * x.conj()).real.sum().backward()
    made = copy.deepcopy(x)
    assert made.is_leaf
    assert made.tolist() == x.tolist()
    assert made.grad.tolist() == x.grad.tolist()
    assert made.grad is not x.grad


@pytest.mark.parametrize(
    "make", [lambda x: x.conj(), lambda x: x.conj().imag, lambda x: x.conj().imag.conj()]
)
@pytest.mark.parametrize("requires_grad", [True, False])
def test_what_is_put_off_is_done_for_arrays_when_forced(make, requires_grad):
    x = make(torch.tensor([1 + 2j, 3 - 1j], requires_grad=requires_grad))
    assert x.numpy(force=True).tolist() == x.detach().tolist()
    with pytest.raises(RuntimeError):
        x.numpy()

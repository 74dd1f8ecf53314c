"""Activations made of straight pieces."""

import pytest

import pullback as torch

F = torch.nn.functional


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_limit_of_hardshrink_is_a_number_of_the_inputs_dtype(dtype):
    x = torch.tensor([0.3, 0.1, -0.3], dtype=dtype, requires_grad=True)
    out = F.hardshrink(x, 0.3)
    assert out.tolist() == [0.0, 0.0, 0.0]
    (g,) = torch.autograd.grad(out.sum(), x)
    assert g.tolist() == [0.0, 0.0, 0.0]
    assert F.hardshrink(x, 0.1)[0].item() == x[0].item()

"""Powers: values at the edges, and derivatives by the exponent."""

import pytest

import pullback as torch


def test_a_negative_number_has_a_derivative_by_a_complex_exponent():
    """It was NaN."""
    exponent = torch.tensor([0.5 + 0.3j], requires_grad=True)
    (by_number,) = torch.autograd.grad((-1) ** exponent, exponent, torch.ones_like(exponent))
    base = torch.tensor([-1.0 + 0j])
    (by_tensor,) = torch.autograd.grad(base**exponent, exponent, torch.ones_like(exponent))
    assert torch.allclose(by_number, by_tensor)
    real = torch.tensor([0.5], requires_grad=True)
    assert torch.autograd.grad((-1) ** real, real)[0].isnan()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_reciprocal_roots_of_half_precision_are_rounded_once(dtype):
    x = torch.linspace(0.1, 3, 64).to(dtype)
    assert torch.equal(x.rsqrt(), x.float().rsqrt().to(dtype))

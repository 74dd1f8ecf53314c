"""Powers: values at the edges, and derivatives by the exponent."""

import pullback as torch


def test_a_negative_number_has_a_derivative_by_a_complex_exponent():
    """R-7: it was NaN."""
    exponent = torch.tensor([0.5 + 0.3j], requires_grad=True)
    (by_number,) = torch.autograd.grad((-1) ** exponent, exponent, torch.ones_like(exponent))
    base = torch.tensor([-1.0 + 0j])
    (by_tensor,) = torch.autograd.grad(base**exponent, exponent, torch.ones_like(exponent))
    assert torch.allclose(by_number, by_tensor)
    real = torch.tensor([0.5], requires_grad=True)
    assert torch.autograd.grad((-1) ** real, real)[0].isnan()

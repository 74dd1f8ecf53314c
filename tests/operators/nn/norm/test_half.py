"""Norms in half precision with parameters in single."""

import pullback as torch

F = torch.nn.functional


def test_gradients_of_single_weights_are_not_rounded_to_half():
    torch.manual_seed(0)
    x = torch.randn(16, 4, 8, 8).bfloat16()
    found = []
    for input in (x, x.float()):
        weight = torch.arange(1.0, 5.0).requires_grad_()
        bias = torch.zeros(4, requires_grad=True)
        out = F.group_norm(input, 2, weight, bias)
        found.append(torch.autograd.grad(out, (weight, bias), torch.ones_like(out)))
    for half, single in zip(*found, strict=True):
        assert half.dtype == torch.float32
        assert torch.allclose(half, single, rtol=1e-6)


def test_gradients_of_half_weights_are_half():
    weight = torch.ones(4).bfloat16().requires_grad_()
    out = F.group_norm(torch.randn(2, 4, 3).bfloat16(), 2, weight)
    (g,) = torch.autograd.grad(out, weight, torch.ones_like(out), create_graph=True)
    assert g.dtype == torch.bfloat16

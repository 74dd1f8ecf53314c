"""entmax: sparse alternatives to softmax, exact and by bisection, and their losses."""

import torch
from entmax import (
    Entmax15Loss,
    EntmaxBisectLoss,
    SparsemaxLoss,
    budget_bisect,
    entmax15,
    entmax_bisect,
    normmax_bisect,
    sparsemax,
    sparsemax_bisect,
)

torch.manual_seed(0)
x = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
for function in (sparsemax, entmax15, sparsemax_bisect):
    p = function(x, dim=-1)
    (grad,) = torch.autograd.grad((p * torch.arange(6.0)).sum(), x)
    print(function.__name__, [f"{one:.4f}" for one in p[0].tolist()], f"{grad.norm().item():.5f}")
print(torch.autograd.gradcheck(lambda v: entmax15(v, dim=1), x, eps=1e-5))

alpha = torch.tensor(1.33, dtype=torch.float64, requires_grad=True)
p = entmax_bisect(x, alpha)
grads = torch.autograd.grad(p.square().sum(), (x, alpha))
print(f"{p.sum().item():.4f} {grads[0].norm().item():.5f} {grads[1].item():.5f}")
print(
    f"{normmax_bisect(x, alpha=2).max().item():.4f} {budget_bisect(x, budget=2).sum().item():.4f}"
)

target = torch.tensor([0, 5, 2])
for loss in (SparsemaxLoss(), Entmax15Loss(), EntmaxBisectLoss(alpha=1.7)):
    value = loss(x, target)
    (grad,) = torch.autograd.grad(value, x)
    print(type(loss).__name__, f"{value.item():.5f} {grad.abs().sum().item():.5f}")

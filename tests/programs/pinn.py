"""A physics-informed network: u'' = -pi^2 sin(pi x) with u(0) = u(1) = 0, by L-BFGS."""

import math

import torch
from torch import nn

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)

model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
inside = torch.linspace(0, 1, 40).reshape(-1, 1).requires_grad_()
edges = torch.tensor([[0.0], [1.0]])
optimizer = torch.optim.LBFGS(
    model.parameters(), lr=1.0, max_iter=10, history_size=20, line_search_fn="strong_wolfe"
)


def residual(x):
    u = model(x)
    (du,) = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)
    (ddu,) = torch.autograd.grad(du, x, torch.ones_like(du), create_graph=True)
    return ddu + math.pi**2 * torch.sin(math.pi * x)


def closure():
    optimizer.zero_grad()
    loss = residual(inside).square().mean() + 10 * model(edges).square().mean()
    loss.backward()
    return loss


try:
    for step in range(5):
        loss = optimizer.step(closure)
        print(f"step {step} loss {loss.item():.6f}")
    exact = torch.sin(math.pi * inside)
    print(f"error {(model(inside) - exact).abs().max().item():.4f}")
finally:
    torch.set_default_dtype(torch.float32)

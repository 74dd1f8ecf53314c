"""Model-agnostic meta-learning on sines: gradients through inner steps of gradient descent."""

import math

import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)


def task():
    amplitude = 0.5 + 2 * torch.rand(())
    phase = math.pi * torch.rand(())
    x = 10 * torch.rand(20, 1) - 5
    return x, amplitude * torch.sin(x + phase)


model = nn.Sequential(nn.Linear(1, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)


def adapted(params, x, y, steps=2, lr=0.02):
    for _ in range(steps):
        loss = criterion(functional_call(model, params, (x,)), y)
        grads = torch.autograd.grad(loss, tuple(params.values()), create_graph=True)
        params = {n: p - lr * g for (n, p), g in zip(params.items(), grads, strict=True)}
    return params


held_out = [task() for _ in range(8)]


def meta_loss(tasks):
    total = 0.0
    for x, y in tasks:
        params = adapted(dict(model.named_parameters()), x[:10], y[:10])
        total = total + criterion(functional_call(model, params, (x[10:],)), y[10:])
    return total / len(tasks)


print(f"before loss {meta_loss(held_out).item():.5f}")
for step in range(24):
    optimizer.zero_grad()
    loss = meta_loss([task() for _ in range(4)])
    loss.backward()
    optimizer.step()
    if step % 8 == 7:
        print(f"step {step} tasks {loss.item():.5f} held out loss {meta_loss(held_out).item():.5f}")

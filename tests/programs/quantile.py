"""Quantile regression: the pinball loss for three levels, as a Function and as formulas."""

import torch
from torch import nn

torch.manual_seed(0)
LEVELS = torch.tensor([0.1, 0.5, 0.9])


class Pinball(torch.autograd.Function):
    @staticmethod
    def forward(error, levels):
        return torch.maximum(levels * error, (levels - 1) * error)

    @staticmethod
    def setup_context(ctx, inputs, output):
        error, levels = inputs
        ctx.save_for_backward(error, levels)

    @staticmethod
    def backward(ctx, grad):
        error, levels = ctx.saved_tensors
        return grad * torch.where(error > 0, levels, levels - 1), None


class Monotone(nn.Module):
    """The lowest quantile and positive steps up from it, so that quantiles never cross."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, 24), nn.Mish(), nn.Linear(24, 3))

    def forward(self, x):
        low, *steps = self.body(x).split(1, dim=-1)
        return torch.cumsum(torch.cat([low, *map(nn.functional.softplus, steps)], -1), -1)


x = torch.rand(200, 1) * 3
y = torch.sin(x) + (0.1 + 0.2 * x) * torch.randn(200, 1)
model = Monotone()
optimizer = torch.optim.RAdam(model.parameters(), lr=2e-2)
for step in range(40):
    optimizer.zero_grad()
    loss = Pinball.apply(y - model(x), LEVELS).mean()
    loss.backward()
    optimizer.step()
    if step % 10 == 0 or step == 39:
        print(f"step {step} loss {loss.item():.5f}")

with torch.no_grad():
    below = (y < model(x)).float().mean(0)
print("share below", " ".join(f"{one:.2f}" for one in below.tolist()))
print("sample quantiles", " ".join(f"{q:.3f}" for q in torch.quantile(y, LEVELS).tolist()))

"""A Gaussian process: marginal likelihood through a Cholesky factor, in double precision."""

import math

import torch
from torch import nn

torch.manual_seed(0)


class GP(nn.Module):
    def __init__(self):
        super().__init__()
        for name in ("length", "scale", "noise"):
            self.register_parameter(name, nn.Parameter(torch.zeros((), dtype=torch.float64)))

    def kernel(self, a, b):
        squares = torch.cdist(a, b).square()
        return self.scale.exp() * torch.exp(-0.5 * squares / self.length.exp().square())

    def factor(self, x):
        noise = nn.functional.softplus(self.noise) + 1e-4
        return torch.linalg.cholesky(self.kernel(x, x) + noise * torch.eye(len(x)).to(x))

    def loss(self, x, y):
        lower = self.factor(x)
        alpha = torch.cholesky_solve(y[:, None], lower)[:, 0]
        half = torch.diagonal(lower).log().sum()
        return (0.5 * y @ alpha + half) / len(x) + 0.5 * math.log(2 * math.pi)

    @torch.no_grad()
    def predict(self, x, y, new):
        lower, across = self.factor(x), self.kernel(x, new)
        mean = across.T @ torch.cholesky_solve(y[:, None], lower)
        half = torch.linalg.solve_triangular(lower, across, upper=False)
        return mean[:, 0], self.kernel(new, new).diagonal() - half.square().sum(0)


x = torch.rand(40, 1, dtype=torch.float64) * 6
y = torch.sin(2 * x[:, 0]) + 0.1 * torch.randn(40, dtype=torch.float64)
model = GP()
optimizer = torch.optim.Rprop(model.parameters(), lr=0.1)
for step in range(25):
    optimizer.zero_grad()
    loss = model.loss(x, y)
    loss.backward()
    optimizer.step()
    if step % 6 == 0:
        print(f"step {step} loss {loss.item():.6f} length {model.length.exp().item():.4f}")

mean, variance = model.predict(x, y, torch.linspace(0.5, 5.5, 5, dtype=torch.float64)[:, None])
print("mean", " ".join(f"{one:.3f}" for one in mean.tolist()))
print("deviation", " ".join(f"{one:.3f}" for one in variance.sqrt().tolist()))
print(f"likelihood {torch.autograd.functional.hessian(lambda v: model.loss(x, v), y).trace():.4f}")

"""A deep equilibrium layer: a fixed point found without a graph, differentiated implicitly."""

import torch
from torch import nn

torch.manual_seed(0)


def fixed_point(f, z, tolerance=1e-6, limit=60):
    for _ in range(limit):
        following = f(z)
        if torch.linalg.vector_norm(following - z) < tolerance * (1 + z.norm()):
            return following
        z = following
    return z


class Equilibrium(nn.Module):
    """z = tanh(W z + U x); backward solves g = g_out + J^T g the same way, in a hook."""

    def __init__(self, inputs, width):
        super().__init__()
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(inputs, width)
        with torch.no_grad():
            self.inner.weight.mul_(0.5 / torch.linalg.matrix_norm(self.inner.weight, 2))

    def forward(self, x):
        def f(z):
            return torch.tanh(self.inner(z) + self.outer(x))

        with torch.no_grad():
            z = fixed_point(f, x.new_zeros(len(x), self.inner.in_features))
        z = f(z)
        if z.requires_grad:
            start = z.detach().clone().requires_grad_()
            again = f(start)

            def solve(grad):
                return fixed_point(
                    lambda g: torch.autograd.grad(again, start, g, retain_graph=True)[0] + grad,
                    grad,
                )

            z.register_hook(solve)
        return z


x = torch.randn(64, 3)
y = torch.sin(x[:, :1]) * x[:, 1:2] + 0.5 * x[:, 2:]
model = nn.Sequential(Equilibrium(3, 16), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
for step in range(20):
    optimizer.zero_grad()
    loss = nn.functional.huber_loss(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 5 == 0 or step == 19:
        print(f"step {step} loss {loss.item():.5f}")

double = Equilibrium(3, 4).double()
point = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
print("gradcheck", torch.autograd.gradcheck(double, point, atol=1e-4, check_undefined_grad=False))

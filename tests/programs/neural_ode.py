"""A neural ODE: Runge-Kutta steps through a network, gradients by the adjoint method."""

from itertools import pairwise

import torch
from torch import nn
from torch.autograd import Function

torch.manual_seed(0)


def rk4(f, t, y, h):
    k1 = f(t, y)
    k2 = f(t + h / 2, y + h / 2 * k1)
    k3 = f(t + h / 2, y + h / 2 * k2)
    k4 = f(t + h, y + h * k3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 24), nn.Tanh(), nn.Linear(24, 2))

    def forward(self, t, y):
        return self.net(torch.cat([y, t.expand(y.shape[0], 1)], 1))


class Adjoint(Function):
    """Solves forward without a graph, and backward for state and gradient together."""

    @staticmethod
    def forward(ctx, field, start, times, *parameters):
        states = [start]
        with torch.no_grad():
            for t0, t1 in pairwise(times):
                states.append(rk4(field, t0, states[-1], t1 - t0))
        out = torch.stack(states)
        ctx.field = field
        ctx.save_for_backward(out, times)
        return out

    @staticmethod
    def backward(ctx, grads):
        states, times = ctx.saved_tensors
        parameters = tuple(ctx.field.parameters())
        adjoint = grads[-1]
        sums = [torch.zeros_like(p) for p in parameters]
        for i in range(len(times) - 1, 0, -1):
            with torch.enable_grad():
                y = states[i - 1].detach().requires_grad_()
                end = rk4(ctx.field, times[i - 1], y, times[i] - times[i - 1])
                found = torch.autograd.grad(end, (y, *parameters), adjoint)
            adjoint = found[0] + grads[i - 1]
            for total, one in zip(sums, found[1:], strict=True):
                total += one
        return None, adjoint, None, *sums


times = torch.linspace(0, 2, 11)
start = torch.randn(16, 2)
rotation = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
truth = torch.stack([start @ torch.linalg.matrix_exp(rotation * t).T for t in times])

field = Field()
optimizer = torch.optim.Adam(field.parameters(), lr=2e-2)
for step in range(15):
    optimizer.zero_grad()
    path = Adjoint.apply(field, start, times, *field.parameters())
    loss = (path - truth).square().mean()
    loss.backward()
    optimizer.step()
    if step % 3 == 0 or step == 14:
        print(f"step {step} loss {loss.item():.5f}")

direct = [start.clone().requires_grad_()]
for t0, t1 in pairwise(times):
    direct.append(rk4(field, t0, direct[-1], t1 - t0))
plain = torch.autograd.grad((torch.stack(direct) - truth).square().mean(), direct[0])[0]
again = start.clone().requires_grad_()
path = Adjoint.apply(field, again, times, *field.parameters())
(adjoint,) = torch.autograd.grad((path - truth).square().mean(), again)
print("adjoint agrees", torch.allclose(plain, adjoint, rtol=1e-4, atol=1e-6))

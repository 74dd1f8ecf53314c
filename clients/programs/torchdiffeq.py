"""torchdiffeq: fixed and adaptive solvers, the adjoint method, events; a neural ODE is fitted."""

import torch
from torch import nn
from torchdiffeq import odeint, odeint_adjoint, odeint_event

torch.manual_seed(0)
rotation = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
start, times = torch.tensor([[2.0, 0.0]]), torch.linspace(0, 2, 8)


class True_(nn.Module):
    def forward(self, t, y):
        return y**3 @ rotation.T


for method in (
    "dopri5",
    "dopri8",
    "bosh3",
    "rk4",
    "euler",
    "midpoint",
    "explicit_adams",
    "scipy_solver",
):
    options = {"solver": "RK45"} if method == "scipy_solver" else None
    with torch.no_grad():
        found = odeint(True_(), start, times, method=method, options=options)
    print(method, [f"{one:.3f}" for one in found[-1, 0].tolist()])


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 20), nn.Tanh(), nn.Linear(20, 2))

    def forward(self, t, y):
        return self.net(y**3)


truth = odeint(True_(), start, times)
for solver in (odeint, odeint_adjoint):
    torch.manual_seed(1)
    field = Field()
    optimizer = torch.optim.RMSprop(field.parameters(), lr=1e-2)
    for _ in range(4):
        optimizer.zero_grad()
        loss = (solver(field, start, times, rtol=1e-5, atol=1e-6) - truth).abs().mean()
        loss.backward()
        optimizer.step()
        print(f"{solver.__name__} loss {loss.item():.4f}")

gravity = torch.tensor([9.8], requires_grad=True)
height = torch.tensor([10.0], requires_grad=True)
time, states = odeint_event(
    lambda t, y: (y[1], -gravity), (height, torch.zeros(1)), torch.tensor(0.0),
    event_fn=lambda t, y: y[0], odeint_interface=odeint_adjoint, adjoint_params=(gravity,),
)  # fmt: skip
time.backward()
print(f"falls {time.item():.4f} {height.grad.item():.4f} {gravity.grad.item():.4f}")
print(f"speed {states[1][-1].item():.3f}")

"""torchsde: stochastic differential equations, Brownian paths, gradients through the solver."""

import torch
import torchsde
from torch import nn

torch.manual_seed(0)


class SDE(nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self, noise_type="diagonal", sde_type="ito"):
        super().__init__()
        self.noise_type, self.sde_type = noise_type, sde_type
        self.drift = nn.Linear(3, 3)
        self.diffusion = nn.Linear(3, 3 if noise_type == "diagonal" else 6)

    def f(self, t, y):
        return torch.tanh(self.drift(y))

    def g(self, t, y):
        out = torch.sigmoid(self.diffusion(y)) * 0.3
        return out if self.noise_type == "diagonal" else out.view(-1, 3, 2)


times = torch.linspace(0, 1, 5)
start = torch.full((4, 3), 0.1)
for noise, kind, method in [
    ("diagonal", "ito", "euler"),
    ("diagonal", "ito", "milstein"),
    ("diagonal", "ito", "srk"),
    ("diagonal", "stratonovich", "midpoint"),
    ("general", "stratonovich", "heun"),
]:
    sde = SDE(noise, kind)
    size = (4, 3) if noise == "diagonal" else (4, 2)
    bm = torchsde.BrownianInterval(0.0, 1.0, size, entropy=7, levy_area_approximation="space-time")
    path = torchsde.sdeint(sde, start, times, bm=bm, method=method, dt=0.1)
    loss = path[-1].square().sum()
    loss.backward()
    print(noise, kind, method, f"{loss.item():.4f} {sde.drift.weight.grad.norm().item():.4f}")

sde = SDE("diagonal", "stratonovich")
bm = torchsde.BrownianInterval(0.0, 1.0, (4, 3), entropy=3)
path = torchsde.sdeint_adjoint(sde, start, times, bm=bm, method="reversible_heun", dt=0.1,
                               adjoint_method="adjoint_reversible_heun")  # fmt: skip
path.square().mean().backward()
print(f"adjoint {path.mean().item():.4f} {sde.drift.weight.grad.norm().item():.4f}")
bm = torchsde.BrownianTree(0.0, torch.zeros(2, 2), entropy=5)
print(tuple(bm(0.2, 0.7).shape))

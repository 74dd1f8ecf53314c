"""A normalising flow: affine couplings as transforms of a distribution, fitted by likelihood."""

import torch
from torch import nn
from torch.distributions import MultivariateNormal, TransformedDistribution, constraints
from torch.distributions.transforms import Transform

torch.manual_seed(0)


class Coupling(Transform):
    """Moves one half of the coordinates, by amounts that the other half tells."""

    domain = constraints.real_vector
    codomain = constraints.real_vector
    bijective = True

    def __init__(self, net, swap):
        super().__init__()
        self.net, self.swap = net, swap

    def _parts(self, x):
        a, b = x.chunk(2, -1)
        return (b, a) if self.swap else (a, b)

    def _join(self, a, b):
        return torch.cat([b, a] if self.swap else [a, b], -1)

    def _call(self, x):
        a, b = self._parts(x)
        shift, scale = self.net(a).chunk(2, -1)
        return self._join(a, b * torch.tanh(scale).exp() + shift)

    def _inverse(self, y):
        a, b = self._parts(y)
        shift, scale = self.net(a).chunk(2, -1)
        return self._join(a, (b - shift) * torch.exp(-torch.tanh(scale)))

    def log_abs_det_jacobian(self, x, y):
        return torch.tanh(self.net(self._parts(x)[0]).chunk(2, -1)[1]).sum(-1)


nets = nn.ModuleList(nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 2)) for _ in range(4))
base = MultivariateNormal(torch.zeros(2), torch.eye(2))
flow = TransformedDistribution(base, [Coupling(net, i % 2 == 1) for i, net in enumerate(nets)])
first = torch.randn(256)
data = torch.stack([first, first**2 - 1 + 0.3 * torch.randn(256)], 1)

optimizer = torch.optim.NAdam(nets.parameters(), lr=1e-2)
for step in range(40):
    optimizer.zero_grad()
    loss = -flow.log_prob(data).mean()
    loss.backward()
    optimizer.step()
    if step % 10 == 0 or step == 39:
        print(f"step {step} loss {loss.item():.5f}")

drawn = flow.rsample((100,))
density = flow.log_prob(drawn).mean()
print("drawn", tuple(drawn.shape), f"log density {density.item():.3f}")

"""A generative adversarial network on a ring of points, with spectral norm and two optimizers."""

import math

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

torch.manual_seed(0)


def real(count):
    angle = 2 * math.pi * torch.rand(count)
    return torch.stack([angle.cos(), angle.sin()], 1) * 2 + 1 + 0.05 * torch.randn(count, 2)


generator = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2))
critic = nn.Sequential(
    spectral_norm(nn.Linear(2, 32)), nn.LeakyReLU(0.2), spectral_norm(nn.Linear(32, 1))
)
for layer in generator:
    if isinstance(layer, nn.Linear):
        nn.init.xavier_normal_(layer.weight)
        nn.init.zeros_(layer.bias)
criterion = nn.BCEWithLogitsLoss()
optimizer_g = torch.optim.Adam(generator.parameters(), lr=5e-3, betas=(0.5, 0.999))
optimizer_d = torch.optim.Adam(critic.parameters(), lr=5e-3, betas=(0.5, 0.999))
ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)
probe = torch.randn(256, 4)


def distance():
    """How far mean and spread of what is generated are from the ring's."""
    with torch.no_grad():
        fake = generator(probe)
    mean = (fake.mean(0) - 1).norm().item()
    return mean + (fake.var(0) - 2).abs().mean().item()


for step in range(31):
    fake = generator(torch.randn(64, 4))
    optimizer_d.zero_grad()
    loss_d = criterion(critic(real(64)), ones) + criterion(critic(fake.detach()), zeros)
    loss_d.backward()
    optimizer_d.step()

    optimizer_g.zero_grad()
    loss_g = criterion(critic(fake), ones)
    loss_g.backward()
    optimizer_g.step()
    if step % 6 == 0:
        print(f"step {step} d {loss_d.item():.4f} g {loss_g.item():.4f} loss {distance():.4f}")

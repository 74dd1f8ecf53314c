"""Contrastive learning: two noisy views of each example, the NT-Xent loss, a cosine schedule."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

torch.manual_seed(0)
centres = torch.randn(6, 10)
kind = torch.arange(96) % 6
data = centres[kind] + 0.3 * torch.randn(96, 10)


def view(x):
    keep = torch.rand_like(x) > 0.2
    return x * keep + 0.1 * torch.randn_like(x)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.SiLU())
        self.projection = nn.Linear(32, 8)

    def forward(self, x):
        return F.normalize(self.projection(self.body(x)), dim=-1)


def nt_xent(a, b, temperature=0.5):
    both = torch.cat([a, b])
    similar = (both @ both.T / temperature).fill_diagonal_(float("-inf"))
    count = len(a)
    partner = torch.arange(2 * count).roll(count)
    return F.cross_entropy(similar, partner)


model = Encoder()
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.4, total_steps=25)
for step in range(25):
    optimizer.zero_grad()
    loss = nt_xent(model(view(data)), model(view(data)))
    loss.backward()
    optimizer.step()
    scheduler.step()
    average.update_parameters(model)
    if step % 6 == 0:
        print(f"step {step} loss {loss.item():.5f}")

average.eval()
with torch.no_grad():
    found = average(data)
    similar = (found @ found.T).fill_diagonal_(-1)
    near = kind[similar.argmax(1)]
print(f"neighbours of the same kind {(near == kind).float().mean().item():.2f}")

"""Checkpoint and resume: model, optimizer, scheduler and random state saved, loaded, continued."""

import io
import os
import tempfile

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
data = torch.randn(128, 5)
target = torch.stack([data.prod(1), data.sum(1).sin()], 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(5, 32), nn.ELU(), nn.Dropout(0.1), nn.Linear(32, 32))
        self.outer = nn.Linear(32, 2)

    def forward(self, x):
        return self.outer(checkpoint(self.inner, x, use_reentrant=False))


def build():
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    return model, optimizer, scheduler


def run(parts, epochs):
    model, optimizer, scheduler = parts
    losses = []
    for _ in epochs:
        for batch in torch.randperm(128).split(32):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(data[batch]), target[batch])
            loss.backward()
            optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses


def save(parts, epoch, path):
    model, optimizer, scheduler = parts
    torch.save(
        {
            "epoch": epoch,
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "rng": torch.get_rng_state(),
        },
        path,
    )


parts = build()
for loss in run(parts, range(3)):
    print(f"loss {loss:.6f}")
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "checkpoint.pt")
    save(parts, 3, path)
    straight = run(parts, range(3, 6))
    loaded = torch.load(path, weights_only=True)
    resumed = build()
    for part, name in zip(resumed, ("model", "optimizer", "scheduler"), strict=True):
        print(name, part.load_state_dict(loaded[name]))
    torch.set_rng_state(loaded["rng"])
    again = run(resumed, range(loaded["epoch"], 6))
for loss in again:
    print(f"resumed loss {loss:.6f}")
print("as if never stopped", straight == again)

buffer = io.BytesIO()
torch.save(resumed[0], buffer)
buffer.seek(0)
whole = torch.load(buffer, weights_only=False)
resumed[0].eval()
whole.eval()
print("whole model", torch.equal(whole(data), resumed[0](data)), type(whole).__name__)

"""Knowledge distillation: a student learns from a frozen teacher's softened answers."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
data = torch.randn(256, 6)
labels = (data[:, :3].sum(1) * data[:, 3] > 0).long() + (data[:, 4] > 0.8).long()


def train(model, loss_of, epochs, lr):
    optimizer = torch.optim.Adamax(model.parameters(), lr=lr)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    for epoch in range(epochs):
        total = 0.0
        for batch in torch.randperm(256).split(64):
            optimizer.zero_grad()
            loss = loss_of(model(data[batch]), batch)
            loss.backward()
            optimizer.step()
            total += loss.item() / 4
        scheduler.step(total)
        yield epoch, total


def accuracy(model):
    with torch.no_grad():
        return (model(data).argmax(1) == labels).float().mean().item()


teacher = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 3))
for epoch, total in train(teacher, lambda s, b: F.cross_entropy(s, labels[b]), 6, 2e-2):
    print(f"teacher epoch {epoch} loss {total:.5f}")
teacher.eval().requires_grad_(False)
print(f"teacher accuracy {accuracy(teacher):.3f}")

student = nn.Sequential(nn.Linear(6, 16), nn.Hardswish(), nn.Linear(16, 3))
softness = 2.0


def distil(scores, batch):
    soft = F.kl_div(
        F.log_softmax(scores / softness, 1),
        F.log_softmax(teacher(data[batch]) / softness, 1),
        reduction="batchmean",
        log_target=True,
    )
    return 0.7 * softness**2 * soft + 0.3 * F.cross_entropy(scores, labels[batch])


for epoch, total in train(student, distil, 8, 3e-2):
    print(f"student epoch {epoch} loss {total:.5f}")
print(f"student accuracy {accuracy(student):.3f}")
print("teacher kept", all(p.grad is None or not p.requires_grad for p in teacher.parameters()))

"""A multilayer perceptron on two moons: TensorDataset, DataLoader, Adam, cross entropy."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)


def two_moons(count):
    angle = torch.rand(count) * torch.pi
    label = torch.arange(count) % 2
    x = torch.where(label == 0, angle.cos(), 1 - angle.cos())
    y = torch.where(label == 0, angle.sin(), 0.5 - angle.sin())
    return torch.stack([x, y], dim=1) + 0.1 * torch.randn(count, 2), label


dataset = TensorDataset(*two_moons(400))
train, test = random_split(dataset, [320, 80])
loader = DataLoader(train, batch_size=32, shuffle=True)
model = nn.Sequential(
    nn.Linear(2, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 2)
)
criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-4)

for epoch in range(6):
    model.train()
    total = 0.0
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(inputs)
    print(f"epoch {epoch} loss {total / len(train):.5f}")

model.eval()
with torch.no_grad():
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(test, batch_size=40))
print(f"accuracy {right / len(test):.2f}")

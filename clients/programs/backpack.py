"""backpack-for-pytorch: first- and second-order quantities beside the gradient."""

import torch
from backpack import backpack, extend, extensions
from torch import nn

torch.manual_seed(0)
model = extend(
    nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(27, 8), nn.Sigmoid(), nn.Linear(8, 4),
    )
)  # fmt: skip
criterion = extend(nn.CrossEntropyLoss())
x, y = torch.randn(6, 1, 6, 6), torch.randint(0, 4, (6,))
wanted = [
    extensions.BatchGrad(),
    extensions.BatchL2Grad(),
    extensions.SumGradSquared(),
    extensions.Variance(),
    extensions.DiagGGNExact(),
    extensions.DiagGGNMC(mc_samples=2),
    extensions.BatchDiagGGNExact(),
    extensions.KFAC(mc_samples=2),
    extensions.KFLR(),
    extensions.KFRA(),
    extensions.DiagHessian(),
    extensions.SqrtGGNExact(),
]
for extension in wanted:
    small = isinstance(extension, extensions.KFRA | extensions.DiagHessian)
    net = (
        extend(nn.Sequential(nn.Flatten(), nn.Linear(36, 5), nn.Tanh(), nn.Linear(5, 4)))
        if small
        else model
    )
    loss = criterion(net(x), y)
    with backpack(extension):
        loss.backward()
    for name, p in net.named_parameters():
        value = getattr(p, extension.savefield)
        parts = value if isinstance(value, list | tuple) else [value]
        print(extension.savefield, name, [tuple(one.shape) for one in parts],
              [f"{one.float().norm().item():.4f}" for one in parts])  # fmt: skip
    net.zero_grad()

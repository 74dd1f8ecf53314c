"""schedulefree: optimizers without schedules, switched between training and evaluation."""

import schedulefree
import torch

torch.manual_seed(0)
x, y = torch.randn(64, 4), torch.randn(64, 1)
for name, options in {
    "SGDScheduleFree": {"lr": 0.1},
    "AdamWScheduleFree": {"lr": 0.01, "warmup_steps": 3, "weight_decay": 0.01},
    "RAdamScheduleFree": {"lr": 0.01},
    "SGDScheduleFreeClosure": {"lr": 0.1},
    "AdamWScheduleFreeClosure": {"lr": 0.01},
    "ScheduleFreeWrapper": {},
}.items():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    kind = getattr(schedulefree, name)
    if name == "ScheduleFreeWrapper":
        optimizer = kind(torch.optim.SGD(model.parameters(), lr=0.05), momentum=0.9)
    else:
        optimizer = kind(model.parameters(), **options)
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(6):
        if "Closure" in name:
            loss = optimizer.step(closure)
        else:
            optimizer.train()
            loss = closure()
            optimizer.step()
        losses.append(f"{loss.item():.5f}")
    if "Closure" not in name:
        optimizer.eval()
    with torch.no_grad():
        print(name, losses, f"{torch.nn.functional.mse_loss(model(x), y).item():.5f}")

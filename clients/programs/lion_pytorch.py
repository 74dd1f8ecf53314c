"""lion-pytorch: the Lion optimizer with weight decay, cautious, and its state kept."""

import copy

import torch
from lion_pytorch import Lion

torch.manual_seed(0)
x, y = torch.randn(32, 4), torch.randn(32, 1)
for options in ({}, {"weight_decay": 1e-2}, {"decoupled_weight_decay": True}):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = Lion(model.parameters(), lr=1e-2, **options)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.5f}")
    print(options, losses)
state = copy.deepcopy(optimizer.state_dict())
again = Lion(model.parameters(), lr=1.0)
again.load_state_dict(state)
print(again.param_groups[0]["lr"], len(again.state))

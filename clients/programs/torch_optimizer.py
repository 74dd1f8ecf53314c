"""torch-optimizer: its optimizers on one small problem."""

import torch
import torch_optimizer

torch.manual_seed(0)
x, y = torch.randn(32, 4), torch.randn(32, 1)
for name in (
    *(
        "A2GradExp",
        "A2GradInc",
        "A2GradUni",
        "AccSGD",
        "AdaBelief",
        "AdaBound",
        "AdaMod",
        "Adafactor",
    ),
    *("Adahessian", "AdamP", "AggMo", "Apollo", "DiffGrad", "LARS", "Lamb", "MADGRAD", "NovoGrad"),
    *("PID", "QHAdam", "QHM", "RAdam", "Ranger", "RangerQH", "RangerVA", "SGDP", "SGDW", "SWATS"),
    *("Shampoo", "Yogi"),
):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    kind = getattr(torch_optimizer, name)
    options = {"lr": 1e-2}
    if name in ("A2GradExp", "A2GradInc", "A2GradUni"):
        options = {}
    if name == "QHM":
        options["momentum"] = 0.9
    optimizer = kind(model.parameters(), **options)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward(create_graph=name == "Adahessian")
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    print(name, losses)
    again = kind(model.parameters(), **options)
    again.load_state_dict(optimizer.state_dict())
    model.zero_grad()
ahead = torch_optimizer.Lookahead(torch_optimizer.Yogi(model.parameters(), lr=0.1), k=2, alpha=0.5)
for _ in range(4):
    ahead.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    ahead.step()
print(f"Lookahead {loss.item():.4f}")

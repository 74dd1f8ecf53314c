"""higher: a training loop unrolled through optimizers, differentiated as a whole."""

import higher
import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(20, 3), torch.randn(20, 1)
for make in (
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    lambda p: torch.optim.Adam(p, lr=0.05),
    lambda p: torch.optim.RMSprop(p, lr=0.05),
    lambda p: torch.optim.Adagrad(p, lr=0.05),
):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = make(model.parameters())
    with higher.innerloop_ctx(model, optimizer, copy_initial_weights=False) as (fast, inner):
        for _ in range(3):
            inner.step(nn.functional.mse_loss(fast(x), y))
        loss = nn.functional.mse_loss(fast(x), y)
        loss.backward()
    norms = [f"{p.grad.norm().item():.4f}" for p in model.parameters()]
    print(type(optimizer).__name__, f"{loss.item():.4f}", norms)

rate = torch.tensor(0.1, requires_grad=True)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with higher.innerloop_ctx(model, optimizer, override={"lr": [rate]}) as (fast, inner):
    for _ in range(2):
        inner.step(nn.functional.mse_loss(fast(x), y))
    (grad,) = torch.autograd.grad(nn.functional.mse_loss(fast(x), y), rate)
print(f"rate {grad.item():.5f}")
lstm = higher.monkeypatch(nn.LSTM(3, 4))
out, _ = lstm(x[:, None])
print(f"{out.sum().item():.4f}", len(lstm.fast_params), len(list(lstm.parameters(time=0))))

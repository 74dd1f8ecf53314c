"""Ten networks trained at once: stack_module_state, functional_call, vmap over grad."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

torch.manual_seed(0)
MEMBERS = 10


def network():
    return nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1))


models = [network() for _ in range(MEMBERS)]
params, buffers = stack_module_state(models)
base = copy.deepcopy(models[0]).to("meta")

x = torch.rand(50, 1) * 4 - 2
y = torch.sin(2 * x) + 0.1 * torch.randn(50, 1)
draws = torch.randint(0, 50, (MEMBERS, 50))  # each member learns from its own bootstrap sample


def loss(params, buffers, x, y):
    return F.mse_loss(functional_call(base, (params, buffers), (x,)), y)


step_of_all = vmap(grad_and_value(loss), in_dims=(0, 0, 0, 0))
for step in range(60):
    grads, losses = step_of_all(params, buffers, x[draws], y[draws])
    with torch.no_grad():
        params = {name: p - 0.1 * grads[name] for name, p in params.items()}
    if step % 15 == 0 or step == 59:
        print(f"step {step} loss {losses.mean().item():.5f} spread {losses.std().item():.5f}")

grid = torch.linspace(-3, 3, 7).unsqueeze(1)
answers = vmap(lambda p, b: functional_call(base, (p, b), (grid,)))(params, buffers)
print("deviation", " ".join(f"{one:.3f}" for one in answers.std(0).flatten().tolist()))

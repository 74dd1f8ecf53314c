"""Peak memory of training 24 layers: `memory.py RANKS` prints megabytes for each rank.

What counts is what the system has given the process, so that pages that were given back do not.
"""

import sys

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.fsdp import fully_shard

LAYERS, WIDTH = 24, 768


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + self.inner(x).tanh()


def resident(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) / 1024


def train():
    layers = []
    for _ in range(LAYERS):
        layer = Layer()
        layers.append(fully_shard(layer) if dist.is_initialized() else layer)
    model = torch.nn.Sequential(*layers)
    if dist.is_initialized():
        fully_shard(model)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(2, WIDTH)).square().mean().backward()
        optimizer.step()


ranks = int(sys.argv[1])
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak from now on
before = resident("VmRSS")
if ranks == 1:
    train()
else:
    dist.threads.run(train, ranks)
print((resident("VmHWM") - before) / ranks)

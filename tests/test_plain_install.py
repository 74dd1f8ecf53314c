"""With NumPy alone: what extras bring has no name then, so nobody may import it by one."""

import subprocess
import sys

PROGRAM = """
import sys
for name in ("ml_dtypes", "llvmlite", "scipy"):
    sys.modules[name] = None  # as if it were not installed
import pullback as torch
from pullback.operators.attach.every import load_all
load_all()
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Linear(4, 2))
loss = torch.nn.functional.kl_div(net(torch.ones(5, 3)).log_softmax(-1), torch.ones(5, 2) / 2,
                                  reduction="batchmean")
loss.backward()
torch.optim.AdamW(net.parameters()).step()
print("trained")
"""


def test_every_family_loads_and_a_net_trains_with_numpy_alone():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "trained\n"

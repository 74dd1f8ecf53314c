"""A program that asks for no device imports no array library for it."""

import subprocess
import sys

PROGRAM = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("cupy", "cupyx"):
            raise AssertionError(f"{name} was imported")

sys.meta_path.insert(0, Refused())
import pullback as torch

model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten())
optimizer = torch.optim.Adam(model.parameters())
model(torch.randn(2, 1, 5, 5)).square().mean().backward()
optimizer.step()
assert not [name for name in sys.modules if name.partition(".")[0] in ("cupy", "cupyx")]
assert "pullback.operators.cuda.library" not in sys.modules
"""


def test_a_program_on_the_host_never_imports_cupy():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)

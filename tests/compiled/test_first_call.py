"""What the first call of a process does not do."""

import subprocess
import sys

_FIRST = """
import sys
import pullback as torch

step = torch.compile(lambda x: (torch.relu(x) * torch.sigmoid(x)).sum(), backend="python")
x = torch.randn(4, requires_grad=True)
step(x).backward()
assert "scipy" not in sys.modules
"""


def test_it_imports_no_scipy():
    run = subprocess.run(
        [sys.executable, "-c", _FIRST], capture_output=True, text=True, check=False
    )
    assert not run.returncode, run.stderr

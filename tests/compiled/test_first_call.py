"""What the first call of a process does not do."""

import subprocess
import sys

import pytest

from pullback.compiled.llvm.machine import is_available

_FIRST = """
import sys
import pullback as torch

step = torch.compile(lambda x: (torch.relu(x) * torch.sigmoid(x)).sum(), backend="python")
x = torch.randn(4, requires_grad=True)
step(x).backward()
assert "scipy" not in sys.modules
"""

_GELU = """
import sys
import pullback as torch

step = torch.compile(lambda x: (torch.nn.functional.gelu(x) * torch.erf(x)).sum(), backend="llvm")
x = torch.randn(4, requires_grad=True)
step(x).backward()
assert "scipy" not in sys.modules
"""
native = pytest.mark.skipif(not is_available(), reason="needs llvmlite")


@pytest.mark.parametrize("program", [_FIRST, pytest.param(_GELU, marks=native)])
def test_it_imports_no_scipy(program):
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert not run.returncode, run.stderr

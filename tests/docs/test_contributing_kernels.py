"""The kernel, lowering and device kernel of CONTRIBUTING.md, entered as they stand there."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def code_of(heading):
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return block


DECLARED = """
from __future__ import annotations
import numpy
import pullback as torch
from pullback.compiled.lower.rules import *
from pullback.compiled.lower.rules import dims_of
from pullback.operators.arrays.sums import total
from pullback.operators.conditions import *
from pullback.operators.cuda.kernel_overrides import replace
from pullback.operators.declare import Array, Dims, Namespace, kernel, primitive
from pullback.operators.reduce.sums import sum, unreduce
from tests.cuda import stand_in

@primitive(
    input=lambda g, input, input_shape, dim, keepdim: (
        unreduce(g, input_shape, dim, keepdim) * input * 2.0
    ),
    jvp=lambda d_input, input, dim, keepdim: sum(d_input * input, dim, keepdim) * 2.0,
)
def total_energy(xp: Namespace, input: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    return total(xp, xp.square(input), dim, keepdim)
"""
USED = {
    "A kernel": """
x = torch.arange(4.0, requires_grad=True)
with torch.backends.kernels_used() as used:
    y = total_energy(x)
assert [one.kernel for one in used] == ["short_by_dot"], used
y.backward()
assert y.item() == 14 and x.grad.tolist() == [0, 2, 4, 6]
assert "input.dot(input)" in torch.compiled.show.shown("total_energy")
""",
    "A lowering": """
assert "lowered by" in torch.compiled.show._lowering(total_energy.op)
f = torch.compile(lambda x: total_energy(x, 1))
x = torch.arange(6.0).reshape(2, 3)
assert f(x).tolist() == [5, 50]
""",
    "A device kernel": """
import sys
from pullback.operators.cuda import found
sys.modules.update(stand_in.MODULES)
found.use(stand_in.module, stand_in.cupyx, 1)
assert total_energy(torch.arange(4.0, device="cuda")).cpu().item() == 14
(entry,) = total_energy.op.kernels
assert entry.on == "cuda" and entry.function is _energy_on_device
""",
}


@pytest.mark.parametrize("heading", USED)
def test_the_page_says_it_right(tmp_path, heading):
    script = tmp_path / "program.py"
    parts = [DECLARED, code_of(heading), "import pullback.compiled.show", USED[heading]]
    script.write_text("\n".join(parts), encoding="utf-8")
    command = [sys.executable, "-W", "error", str(script)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)}, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr

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


WITHOUT = """
import sys
for name in ("ml_dtypes", "llvmlite", "scipy"):
    sys.modules[name] = None
"""


def without_extras(program, *arguments):
    run = [sys.executable, "-c", WITHOUT + program, *arguments]
    return subprocess.run(run, capture_output=True, text=True, check=False)


def test_a_dtype_that_needs_a_package_says_so_and_no_other_is_suggested():
    done = without_extras("import pullback as torch\ntorch.ones(3, dtype=torch.bfloat16)")
    assert "bfloat16 needs the package ml_dtypes" in done.stderr
    assert "Did you mean" not in done.stderr


def test_check_names_the_package_that_a_dtype_needs(tmp_path):
    script = tmp_path / "half.py"
    script.write_text("import torch\nx = torch.ones(3, dtype=torch.bfloat16)\n")
    done = without_extras(
        "from pullback_command import main\nmain(sys.argv[1:])", "check", str(script)
    )
    assert "needs the package ml_dtypes" in done.stdout, done.stderr
    assert "not here yet" not in done.stdout
    assert "will not run as it is" in done.stdout


def test_importing_pullback_does_not_import_what_bfloat16_needs():
    program = "import sys, pullback\nprint('ml_dtypes' in sys.modules, pullback.bfloat16)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "False torch.bfloat16\n", done.stderr

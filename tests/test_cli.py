"""The command line runs scripts written for torch and shows what is built."""

from __future__ import annotations

import subprocess
import sys

from pullback import cli


def test_run_makes_import_torch_find_pullback(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "import sys\n"
        "import torch\n"
        "import torch.nn.functional as F\n"
        "from torch.autograd import Function\n"
        "x = torch.ones(2, requires_grad=True)\n"
        "F.relu(x * 3).sum().backward()\n"
        "print(torch.__name__, x.grad.tolist(), sys.argv[1:])\n"
    )
    command = [sys.executable, "-m", "pullback.cli", "run", str(script), "--lr", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "torch [3.0, 3.0] ['--lr', '1']\n"


def test_show_prints_declaration_and_written_source(capsys):
    assert cli.main(["show", "mul"]) == 0
    shown = capsys.readouterr().out
    assert "def mul(xp: Namespace, input: Array, other: Array)" in shown
    assert "node._edges = (n0, n1, )" in shown


def test_show_suggests_names_that_are_near(capsys):
    assert cli.main(["show", "no_such"]) == 1
    assert cli.main(["show", "sigmoi"]) == 1
    assert "sigmoid" in capsys.readouterr().err


def test_modules_of_torch_are_the_modules_of_pullback(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch.autograd.forward_ad as forward_ad\n"
        "import torch.utils._pytree, pullback\n"
        "assert forward_ad is pullback.autograd.forward_ad\n"
        "assert forward_ad.__spec__.name == 'pullback.autograd.forward_ad'\n"
        "try:\n    import torch.no_such_module\n"
        "except ModuleNotFoundError as error:\n    print(error)\n"
    )
    command = [sys.executable, "-m", "pullback", "run", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "No module named 'torch.no_such_module'\n"


def test_a_script_finds_the_modules_beside_it(tmp_path):
    (tmp_path / "beside_it.py").write_text("import torch\nvalue = torch.ones(2).sum().item()\n")
    (tmp_path / "script.py").write_text("import beside_it\nprint(beside_it.value)\n")
    ran = subprocess.run(
        [sys.executable, "-m", "pullback", "run", str(tmp_path / "script.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "2.0\n"

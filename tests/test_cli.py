"""The command line runs scripts written for torch and shows what is built."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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


def test_examples_are_copied_into_a_new_folder_and_never_over_an_old_one(tmp_path, capsys):
    folder = tmp_path / "programs"
    assert cli.main(["examples", str(folder)]) == 0
    assert "pinn.py  Solve a differential equation" in capsys.readouterr().out
    copied = {one.name: one.read_bytes() for one in folder.iterdir()}
    source = Path(__file__).parents[1] / "examples"
    assert copied == {one.name: one.read_bytes() for one in source.glob("*.py")}
    (folder / "pinn.py").write_text("mine")
    assert cli.main(["examples", str(folder)]) == 1
    assert "exists" in capsys.readouterr().err
    assert (folder / "pinn.py").read_text() == "mine"


def test_show_prints_declaration_and_written_source(capsys):
    assert cli.main(["show", "mul"]) == 0
    shown = capsys.readouterr().out
    assert "def mul(xp: Namespace, input: Array, other: Array)" in shown
    assert "node._edges, node._cold = (n0, n1, ), None" in shown


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


# Ends without a traceback -------------------------------------------------------------------------


def test_the_version(capsys):
    from pullback.installed import version

    with pytest.raises(SystemExit) as raised:
        cli.main(["--version"])
    assert raised.value.code == 0
    assert capsys.readouterr().out == f"pullback {version()}\n"


@pytest.mark.parametrize("command", ["run", "graph", "watch"])
def test_a_missing_script_is_told(command, capsys):
    assert cli.main([command, "no_such_script.py"]) == 2
    told = capsys.readouterr().err
    assert told == f"pullback {command}: there is no file 'no_such_script.py'.\n"


@pytest.mark.parametrize(("command", "name"), [("graph", "graph.png"), ("watch", "run.svg")])
def test_a_wrong_ending_is_told_before_the_script_runs(command, name, tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text("raise SystemExit(9)", "utf-8")
    assert cli.main([command, "-o", name, str(script)]) == 2
    assert name in capsys.readouterr().err


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m pullback show mul | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stdout.startswith("# mul: elementwise")
    assert done.stderr == ""


def test_watch_notes_a_training_script_that_knows_nothing_of_it(tmp_path, capsys):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "from torch import nn\n"
        "model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))\n"
        "optimizer = torch.optim.Adam(model.parameters(), lr=0.01)\n"
        "for _ in range(30):\n"
        "    optimizer.zero_grad()\n"
        "    loss = model(torch.ones(5, 3)).pow(2).mean()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n",
        "utf-8",
    )
    page = tmp_path / "run.html"
    assert cli.main(["watch", "-o", str(page), str(script)]) == 0
    assert "30 steps of 4 parameters" in capsys.readouterr().out
    text = page.read_text("utf-8")
    assert "0.weight" in text
    assert "30 steps" in text
    empty = tmp_path / "empty.py"
    empty.write_text("pass", "utf-8")
    assert cli.main(["watch", "-o", str(page), str(empty)]) == 1

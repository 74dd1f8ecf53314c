"""`pullback check` says what is missing, and its exit status says whether a program should run."""

import importlib.util

import pytest

from pullback import cli
from pullback.checking import running

TRAINING = """
import torch
torch.manual_seed(0)
layer = torch.nn.Linear(2, 1)
x = torch.ones(3, 2)
for step in range(2):
    loss = layer(x).square().mean()
    print("step", step, "loss", loss.item())
"""


def checked(tmp_path, capsys, text, *options):
    file = tmp_path / "program.py"
    file.write_text(text)
    status = cli.main(["check", *options, str(file)])
    return status, capsys.readouterr().out


def test_a_program_whose_names_are_all_here(tmp_path, capsys):
    status, said = checked(tmp_path, capsys, TRAINING, "--all")
    assert status == 0
    assert "here    torch.nn.Linear" in said
    assert said.endswith("verdict: runs here, as far as names can tell.\n")


def test_a_missing_name_comes_with_its_line_and_reason(tmp_path, capsys):
    status, said = checked(tmp_path, capsys, "import torch\ntorch.onnx.export")
    assert status == 1
    assert "missing torch.onnx.export" in said
    assert "program.py:2" in said
    assert "no other runtime" in said
    assert "will not run as it is: 1 name is missing" in said


def test_an_argument_that_is_not_taken_is_told(tmp_path, capsys):
    status, said = checked(tmp_path, capsys, "import torch\ntorch.optim.SGD([], colour='red')")
    assert status == 1
    assert "takes no colour=" in said


def test_what_is_tried_first_does_not_count(tmp_path, capsys):
    text = "import torch\ntry:\n  import torch.utils.mobile_optimizer\nexcept ImportError: pass"
    status, said = checked(tmp_path, capsys, text)
    assert status == 0
    assert "(tried first)" in said


def test_a_file_that_cannot_be_read(tmp_path, capsys):
    assert checked(tmp_path, capsys, "def (")[0] == 2
    assert cli.main(["check", "no/such/file.py"]) == 2
    assert "no file, folder or package" in capsys.readouterr().err


def test_an_installed_package_is_found_by_name(capsys):
    assert cli.main(["check", "json"]) == 0
    assert "uses nothing of torch" in capsys.readouterr().out


def test_run_compares_losses_with_torch_where_it_is_installed(tmp_path, capsys):
    status, said = checked(tmp_path, capsys, TRAINING, "--run")
    assert status == 0
    assert "run: ends well on pullback" in said
    both = importlib.util.find_spec("torch") is not None
    assert ("4 printed numbers agree" if both else "nothing to compare with") in said


def test_run_says_how_a_program_fails(tmp_path, capsys):
    status, said = checked(tmp_path, capsys, "raise ValueError('of the program')", "--run")
    assert status == 1
    assert "fails on pullback: ValueError: of the program" in said


@pytest.mark.parametrize(
    ("ours", "theirs", "agree"),
    [
        ("loss 1.0", "loss 1.0000001", True),
        ("loss 1.0\ntook 3 s", "loss 1.0\ntook 9 s", True),
        ("loss 1.0", "loss 1.1", False),
        ("loss nan", "loss nan", True),
        ("loss nan", "loss 1.0", False),
        ("loss 1.0", "loss 1.0\nloss 2.0", False),
        ("1 2", "1 2", True),
        ("", "", True),
    ],
)
def test_printed_numbers_agree_within_a_thousandth(ours, theirs, agree):
    assert running.compare(ours, theirs).agrees is agree

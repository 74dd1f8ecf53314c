"""Uncaught errors end at the user's line; frames of the package are hidden unless asked for."""

import os
import subprocess
import sys
import traceback

import pytest

import pullback as torch
from pullback.core.explain.printed import hint, lines_of

SCRIPT = """\
import pullback as torch
from pullback import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x):
        return self.body(x)


Model()(torch.ones(1, 4))
"""


def run(path, text, *command, **environment):
    path.write_text(text, "utf-8")
    command = command or (sys.executable, str(path))
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60
    )
    return done.returncode, done.stderr


def test_the_traceback_ends_at_the_users_line(tmp_path):
    status, told = run(tmp_path / "script.py", SCRIPT)
    assert status == 1
    files = [line for line in told.splitlines() if line.startswith("  File")]
    assert len(files) == 2
    assert all("script.py" in line for line in files)
    assert "line 11, in forward" in files[-1]
    assert "in the module body.2: Linear(8, 2)" in told
    assert "PULLBACK_TRACEBACK=full" in told


def test_everything_is_shown_on_request(tmp_path):
    _, told = run(tmp_path / "script.py", SCRIPT, PULLBACK_TRACEBACK="full")
    assert "nn/base/calling.py" in told
    assert "hidden" not in told


def test_pullback_run_adds_no_frames(tmp_path):
    script = tmp_path / "script.py"
    text = "import torch\n\ntorch.ones(2) @ torch.ones(3)\n"
    status, told = run(script, text, sys.executable, "-m", "pullback", "run", str(script))
    assert status == 1
    assert [line for line in told.splitlines() if line.startswith("  File")] == [
        f'  File "{script}", line 3, in <module>'
    ]


def test_errors_in_threads_and_their_causes_are_shortened_too(tmp_path):
    text = """\
import threading
import pullback as torch

def work():
    try:
        torch.ones(2).view(3)
    except RuntimeError as error:
        raise ValueError("the user's own") from error

thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
    status, told = run(tmp_path / "script.py", text)
    assert status == 0
    assert "Exception in thread" in told
    assert "the user's own" in told
    assert "view: shape '[3]'" in told
    assert "/pullback/" not in told


def test_a_hook_of_the_users_stays(tmp_path):
    text = """\
import sys
sys.excepthook = lambda kind, error, trace: print("mine", file=sys.stderr)
import pullback as torch
torch.ones(2).view(3)
"""
    assert run(tmp_path / "script.py", text)[1] == "mine\n"


def test_the_exception_keeps_all_frames():
    with pytest.raises(RuntimeError) as raised:
        torch.nn.Linear(2, 3)(torch.ones(4))
    frames = traceback.extract_tb(raised.value.__traceback__)
    assert any("/pullback/" in frame.filename for frame in frames)
    shown = "".join(lines_of(raised.value, raised.value.__traceback__))
    assert "/pullback/nn" not in shown


@pytest.mark.parametrize(
    ("call", "meant", "signature"),
    [
        (lambda x: torch.sum(x, dims=0), "'dim'", "sum(input, dim=None"),
        (lambda x: x.mean(axs=0), "'axis'", "mean(input"),
        (lambda x: torch.nn.functional.relu(x, inplac=True), "'inplace'", "relu(input"),
        (lambda x: torch.nn.Linear(2, 3, bais=True), "'bias'", "Linear(in_features, out_features"),
        (lambda x: torch.mul(x, othr=2), "'other'", "mul(input, other"),
        (lambda x: torch.softmax(x, dmi=0), "'dim'", "softmax(input"),
        (lambda x: torch.optim.SGD([x], learning_rate=1), "'lr'", "SGD(params, lr"),
        (lambda x: torch.optim.SGD([x], xyz=1), "", "SGD(params, lr"),
    ],
)
def test_an_unknown_argument_is_told_with_the_signature(call, meant, signature):
    with pytest.raises(TypeError) as raised:
        call(torch.ones(2, 2))
    told = hint(raised.value)
    assert f"did you mean {meant}?" in told if meant else "did you mean" not in told
    assert signature in told
    assert told in "".join(lines_of(raised.value, None))


def test_a_message_that_has_the_signature_gets_the_name_that_was_meant():
    with pytest.raises(TypeError, match="stride=None") as raised:
        torch.nn.MaxPool2d(2, strid=3)
    assert hint(raised.value) == "did you mean 'stride'?"
    with pytest.raises(TypeError) as raised:
        torch.nn.MaxPool2d(2, zzzz=3)
    assert hint(raised.value) == ""


def test_other_errors_get_no_hint():
    assert hint(TypeError("mul() got an unexpected keyword")) == ""
    assert hint(TypeError("theirs() got an unexpected keyword argument 'x'")) == ""
    assert hint(ValueError("sum() got an unexpected keyword argument 'x'")) == ""


def test_suggestions_of_python_itself_are_kept(tmp_path):
    text = "import pullback as torch\nlearning_rate = 1\nprint(learning_rat)\n"
    assert "Did you mean: 'learning_rate'?" in run(tmp_path / "script.py", text)[1]
    text = "import pullback as torch\ntorch.ones(2).reshap()\n"  # near to one name alone
    assert "Did you mean: 'reshape'?" in run(tmp_path / "script.py", text)[1]


def test_arguments_of_recurrent_layers_are_told_under_the_class_that_was_written():
    for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
        with pytest.raises(TypeError, match=rf"^{kind.__name__}\.__init__\(\)") as caught:
            kind(3, 4, layers=2)
        told = hint(caught.value)
        assert told.startswith("did you mean 'num_layers'?")
        assert f"{kind.__name__}(input_size, hidden_size, num_layers=1" in told


def test_names_that_other_libraries_have_for_an_argument_are_known():
    with pytest.raises(TypeError) as caught:
        torch.softmax(torch.ones(2), axes=0)
    assert "did you mean 'dim'?" in hint(caught.value)


def test_short_names_are_guessed_too():
    with pytest.raises(AttributeError) as caught:
        torch.optim.SDG
    assert "Did you mean: 'SGD'?" in "".join(lines_of(caught.value, caught.value.__traceback__))

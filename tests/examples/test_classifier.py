"""The demo does what the README promises of it, and says so when it does not."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the demo draws with matplotlib: pullback[demo]")
pytest.importorskip("tqdm", reason="the demo shows its progress with tqdm: pullback[demo]")

SCRIPT = Path(__file__).parents[2] / "examples" / "classifier.py"
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def classifier():
    spec = importlib.util.spec_from_file_location("classifier", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_demo_reaches_its_goal_and_draws_a_picture(classifier, tmp_path, capsys):
    assert classifier.main(["--out", str(tmp_path / "made")]) == 0
    assert (tmp_path / "made" / "classifier.png").read_bytes().startswith(PNG_SIGNATURE)
    assert "(goal: 97%)" in capsys.readouterr().out


def test_demo_fails_when_the_network_is_not_trained_enough(classifier, tmp_path):
    assert classifier.main(["--epochs", "1", "--out", str(tmp_path)]) == 1
    assert (tmp_path / "classifier.png").exists()


def test_demo_shows_its_progress_with_the_loss(classifier, tmp_path, capsys):
    classifier.main(["--epochs", "2", "--out", str(tmp_path)])
    assert "loss=" in capsys.readouterr().err


def test_demo_differs_from_a_torch_program_in_one_import_only():
    lines = [line for line in SCRIPT.read_text().splitlines() if "pullback" in line]
    assert lines == ["import pullback as torch"]

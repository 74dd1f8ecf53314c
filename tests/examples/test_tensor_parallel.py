"""The example trains in parts, and says so when its losses are not those of one process."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "tensor_parallel.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("tensor_parallel", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("ranks", [3, 4])
def test_losses_are_those_of_one_process(example, capsys, ranks):
    assert example.main(["--threads", str(ranks)]) == 0
    assert f"{ranks} ranks: loss" in capsys.readouterr().out


def test_it_fails_where_they_are_too_far_apart(example, monkeypatch):
    monkeypatch.setattr(example, "CLOSE", -1.0)
    assert example.main(["--threads", "2"]) == 1

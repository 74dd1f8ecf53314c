"""The example trains on several ranks, and says so when they do not agree with one process."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "ddp.py"


@pytest.fixture(scope="module")
def ddp():
    spec = importlib.util.spec_from_file_location("ddp", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_four_ranks_end_where_one_process_does(ddp, capsys):
    assert ddp.main(["--threads", "4"]) == 0
    assert "4 ranks with equal bits" in capsys.readouterr().out


def test_it_fails_where_they_are_too_far_apart(ddp, monkeypatch):
    monkeypatch.setattr(ddp, "CLOSE", -1.0)
    assert ddp.main(["--threads", "2"]) == 1

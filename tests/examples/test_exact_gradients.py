"""The example in four kinds of numbers says that they agree."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_kinds_of_numbers_agree(capsys):
    mpmath = pytest.importorskip("mpmath")
    pytest.importorskip("sympy")
    path = ROOT / "examples" / "exact_gradients.py"
    spec = importlib.util.spec_from_file_location("exact_gradients", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    before = mpmath.mp.dps
    try:
        assert module.main(["--digits", "30"]) == 0
    finally:
        mpmath.mp.dps = before
    assert "-72500048055000/1119650623183937" in capsys.readouterr().out

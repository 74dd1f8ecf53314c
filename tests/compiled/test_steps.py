"""Compiled training steps do what eager ones do, whatever they do besides."""

import pytest

import pullback as torch
from tests.compiled.steps import STEPS

COUNT = 6


def seen(name, run):
    torch.manual_seed(0)
    step = run(STEPS[name]())
    torch.manual_seed(1)
    results = [step() for _ in range(COUNT)]
    return [one.item() for made in results for one in (made if type(made) is tuple else (made,))]


@pytest.mark.filterwarnings("ignore:Anomaly detection slows")
@pytest.mark.filterwarnings("ignore:.*run eagerly")
@pytest.mark.parametrize("name", STEPS)
def test_a_compiled_step_trains_as_an_eager_one(name):
    expected = seen(name, lambda step: step)
    assert len(set(expected)) > 1
    assert seen(name, torch.compile) == pytest.approx(expected, rel=1e-5, abs=1e-6)

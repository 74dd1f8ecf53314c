"""Whole models on a device: losses of training steps are the host's."""

import pytest

import pullback as torch
from tests.cuda.models import MODELS, REFUSED, STEPS, TRAINED, losses, precision


@pytest.mark.parametrize("name", TRAINED)
def test_losses_are_those_of_the_host(library, name):
    expected = losses(MODELS[name](torch, "cpu"), STEPS)
    assert losses(MODELS[name](torch, "cuda"), STEPS) == pytest.approx(
        expected, rel=precision(name)
    )


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_device_lacks_is_refused(library, name):
    with pytest.raises(RuntimeError, match=REFUSED[name]):
        losses(MODELS[name](torch, "cuda"), 1)

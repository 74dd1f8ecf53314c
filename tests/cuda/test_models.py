"""Whole models on a device: losses of training steps are the host's; captured, and compiled."""

import pytest

import pullback as torch
from tests.cuda.conftest import needs_device
from tests.cuda.models import MODELS, NOT_CAPTURED, REFUSED, precision

STEPS = 10
TRAINED = [name for name in MODELS if name not in REFUSED]


def losses(step, count):
    return [float(step()) for _ in range(count)]


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


@needs_device
@pytest.mark.parametrize("name", [name for name in TRAINED if name not in NOT_CAPTURED])
def test_a_captured_step_trains_as_the_host_does(device, name):
    expected = losses(MODELS[name](torch, "cpu"), STEPS)
    step = MODELS[name](torch, "cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        found = losses(step, 3)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    while len(found) < STEPS:
        graph.replay()
        found.append(float(loss))
    torch.cuda.streams._end()
    assert found == pytest.approx(expected, rel=precision(name))


@needs_device
@pytest.mark.parametrize("name", TRAINED)
def test_a_compiled_step_trains_as_the_host_does(device, name):
    expected = losses(MODELS[name](torch, "cpu"), STEPS)
    compiled = torch.compile(MODELS[name](torch, "cuda"))
    assert losses(compiled, STEPS) == pytest.approx(expected, rel=precision(name))

"""Whole models on a device, their steps captured as graphs and compiled: losses are the host's."""

import pytest

import pullback as torch
from tests.cuda.conftest import needs_device
from tests.cuda.models import MODELS, NOT_CAPTURED, STEPS, TRAINED, losses, precision

pytestmark = needs_device


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


@pytest.mark.parametrize("name", TRAINED)
def test_a_compiled_step_trains_as_the_host_does(device, name):
    expected = losses(MODELS[name](torch, "cpu"), STEPS)
    compiled = torch.compile(MODELS[name](torch, "cuda"))
    assert losses(compiled, STEPS) == pytest.approx(expected, rel=precision(name))

"""Graphs run without data, and every node tells what it gives."""

from pullback._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import pullback as torch
from pullback import fx
from pullback.fx.passes.fake_tensor_prop import FakeTensorProp


def test_every_node_has_what_it_gives_without_data():
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    traced = fx.symbolic_trace(net)
    out = FakeTensorProp(traced).propagate(torch.ones(5, 3))
    assert isinstance(out, FakeTensor)
    assert {node.name: tuple(node.meta["val"].shape) for node in traced.graph.nodes} == {
        node.name: (5, 3) if node.op == "placeholder" else (5, 4) for node in traced.graph.nodes
    }


def test_inputs_that_are_fake_are_taken_as_they_are():
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    x = mode.from_tensor(torch.ones(2))
    traced = fx.symbolic_trace(lambda x: x * 2)
    assert FakeTensorProp(traced, mode).propagate_dont_convert_inputs(x).fake_mode is mode

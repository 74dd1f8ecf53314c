"""Shapes and dtypes of every node."""

import pytest

import pullback as torch
from pullback import fx, nn
from pullback.fx.passes.graph_drawer import FxGraphDrawer
from pullback.fx.passes.shape_prop import ShapeProp


def test_every_tensor_is_noted():
    model = fx.symbolic_trace(nn.Sequential(nn.Linear(3, 2), nn.ReLU()))
    ShapeProp(model).propagate(torch.ones(4, 3))
    shapes = [tuple(node.meta["tensor_meta"].shape) for node in model.graph.nodes]
    assert shapes == [(4, 3), (4, 2), (4, 2), (4, 2)]
    meta = model.graph.output_node().meta["tensor_meta"]
    assert (meta.dtype, meta.requires_grad, meta.stride) == (torch.float32, True, (2, 1))


def test_results_with_several_tensors_keep_their_nesting():
    model = fx.symbolic_trace(lambda x: (x.sum(), [x, 2]))
    ShapeProp(model).propagate(torch.ones(4, 3))
    first, (second, number) = model.graph.output_node().meta["tensor_meta"]
    assert (tuple(first.shape), tuple(second.shape), number) == ((), (4, 3), 2)


def test_drawings_are_refused_with_what_to_do():
    with pytest.raises(NotImplementedError, match="print_readable"):
        FxGraphDrawer(None, "graph")

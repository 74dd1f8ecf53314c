"""autograd.graph: the face of nodes, edges, versions, logging and switches."""

import gc
import logging
import weakref

import pytest

import pullback as torch
from pullback.core.hooks import RemovableHandle
from tests.leaves import leaf

graph = torch.autograd.graph
SURFACE = [
    "saved_tensors_hooks",
    "save_on_cpu",
    "disable_saved_tensors_hooks",
    "register_multi_grad_hook",
    "allow_mutation_on_saved_tensors",
    "Node",
    "GradientEdge",
    "get_gradient_edge",
    "increment_version",
    "set_warn_on_accumulate_grad_stream_mismatch",
    "set_override_stale_capture_stream",
    "region_activation_memory_budget",
]
ABSTRACT = [
    "name",
    "next_functions",
    "metadata",
    "_input_metadata",
    "_register_hook_dict",
    "register_hook",
    "register_prehook",
    "_sequence_nr",
]


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


# Nodes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SURFACE)
def test_the_module_has_torchs_names(name):
    """G-1."""
    assert name in graph.__all__
    assert callable(getattr(graph, name))


def test_node_is_abstract():
    """G-2."""
    assert graph.Node.__abstractmethods__ == set(ABSTRACT)
    with pytest.raises(TypeError):
        graph.Node()


@pytest.mark.parametrize("left_out", ABSTRACT)
def test_a_subclass_of_node_must_define_everything(left_out):
    """G-2."""
    body = {name: lambda self: None for name in ABSTRACT}
    assert type("Whole", (graph.Node,), body)() is not None
    del body[left_out]
    with pytest.raises(TypeError, match=left_out):
        type("Partial", (graph.Node,), body)()


def test_nodes_of_every_kind_are_recognised():
    """G-3, G-4."""
    x = leaf()
    y = x * 2
    own = type("Own", (graph.Node,), {})
    for node in (y.grad_fn, y.grad_fn.next_functions[0][0], Twice.apply(x).grad_fn):
        assert isinstance(node, graph.Node)
        assert issubclass(type(node), graph.Node)
        assert not isinstance(node, own)
        assert not issubclass(type(node), own)
    assert not isinstance(Twice, graph.Node)
    assert not issubclass(Twice, graph.Node)
    for other in (x, object(), 3, None):
        assert not isinstance(other, graph.Node)


def test_node_classes_are_found_by_name():
    """G-5."""
    x = leaf()
    functions = torch._C._functions
    assert functions.MulBackward0 is type((x * x).grad_fn)
    assert functions.AccumulateGrad is type((x * x).grad_fn.next_functions[0][0])
    assert issubclass(functions.LinalgQrBackward0, graph.Node)
    with pytest.raises(AttributeError, match="NoSuchBackward0"):
        functions.NoSuchBackward0


# Edges and versions ------------------------------------------------------------------------------


def test_edges_are_named_tuples():
    """G-6."""
    y = leaf() * 2
    edge = graph.get_gradient_edge(y)
    assert edge == graph.get_gradient_edge(y)
    assert hash(edge) == hash(graph.get_gradient_edge(y))
    node, number, token = edge
    assert (node, number, token) == (edge.node, edge.output_nr, edge.ownership_token)
    assert graph.GradientEdge(node, 0) == (node, 0, None)
    with pytest.raises(AttributeError):
        edge.node = None


def test_edge_of_a_leaf_is_its_accumulator():
    """G-7."""
    x = leaf()
    with torch.no_grad():
        edge = graph.get_gradient_edge(x)
    assert edge.node.variable is x
    assert edge.output_nr == 0
    assert (x * 2).grad_fn.next_functions[0][0] is edge.node
    parts = (x * 1).unbind()
    assert graph.get_gradient_edge(parts[1])[:2] == (parts[1].grad_fn, 1)
    with pytest.raises(RuntimeError, match="requires grad"):
        graph.get_gradient_edge(torch.ones(1))


@pytest.mark.parametrize("function", [Twice.apply, lambda x: x * x])
def test_an_edge_keeps_the_graph_below_it(function):
    """G-8."""
    x = leaf()
    y = function(x)
    edge, gone = graph.get_gradient_edge(y), weakref.ref(y)
    del y
    gc.collect()
    assert gone() is None
    (g,) = torch.autograd.grad(edge, x, torch.ones(2))
    assert g.tolist() == [2.0, 2.0] if function is Twice.apply else [2.0, 4.0]


def test_edge_and_tensor_are_equivalent_inputs():
    """G-9."""
    x = leaf()
    y = x * 3
    loss = (y * y).sum()
    by_tensor = torch.autograd.grad(loss, y, retain_graph=True)
    by_edge = torch.autograd.grad(loss, graph.get_gradient_edge(y), retain_graph=True)
    assert by_tensor[0].tolist() == by_edge[0].tolist()


def test_an_edge_names_the_value_before_a_write():
    """G-9."""
    y = leaf() * 3
    before = graph.get_gradient_edge(y)
    y.mul_(10)
    after = graph.get_gradient_edge(y)
    assert after != before
    assert [g.tolist() for g in torch.autograd.grad(y.sum(), [before, after])] == [
        [10.0, 10.0],
        [1.0, 1.0],
    ]


def test_versions_can_be_counted_up():
    """G-10."""
    base = torch.zeros(4)
    view = base[:2]
    graph.increment_version(view)
    assert (base._version, view._version) == (1, 1)
    other = torch.zeros(1)
    graph.increment_version([base, other, base])
    assert (view._version, other._version) == (3, 1)
    graph.increment_version(t for t in [other])
    assert other._version == 2
    with torch.inference_mode():
        graph.increment_version([torch.zeros(1)])


@pytest.mark.parametrize("wrong", [3, None, [torch.zeros(1), 3], ["a"]])
def test_only_tensors_have_versions(wrong):
    """G-10."""
    with pytest.raises(RuntimeError, match="tensor"):
        graph.increment_version(wrong)


# Logging and switches ----------------------------------------------------------------------------


def test_logging_hooks_tell_of_each_node_once(caplog):
    """G-62."""
    x = leaf()
    y = x * 2
    loss = (y + y).sum()
    unregister = graph._register_logging_hooks_on_whole_graph([loss, graph.get_gradient_edge(y)])
    with caplog.at_level(logging.DEBUG, logger="pullback.autograd.graph"):
        loss.backward(retain_graph=True)
        lines = [r.getMessage() for r in caplog.records if r.name == "pullback.autograd.graph"]
        nodes = ("SumBackward0", "AddBackward0", "MulBackward0", "AccumulateGrad")
        # The engine's own log, which the same level switches on, tells of each node too.
        assert [sum(node in line for line in lines) for node in nodes] == [2, 2, 2, 2]
        assert any("torch.float32[2]" in line for line in lines)
        caplog.clear()
        unregister()
        unregister()
        loss.backward()
        assert len(caplog.records) == 4


def test_logging_hooks_make_no_cycle():
    """G-62."""
    loss = leaf().sum()
    gone = weakref.ref(loss.grad_fn)
    gc.disable()
    try:
        graph._register_logging_hooks_on_whole_graph([loss])
        del loss
        assert gone() is None
    finally:
        gc.enable()


def test_process_wide_switches():
    """G-63, G-64."""
    for switch in (
        graph.set_warn_on_accumulate_grad_stream_mismatch,
        graph.set_override_stale_capture_stream,
    ):
        assert switch(True) is None
        assert switch(False) is None
    graph.set_warn_on_accumulate_grad_stream_mismatch(True)


@pytest.mark.parametrize(
    ("budget", "kind"), [(0.5, RuntimeError), ("a", TypeError), (-0.1, ValueError), (2, ValueError)]
)
def test_memory_budget_is_for_compiled_regions(budget, kind):
    """G-64."""
    with pytest.raises(kind, match="budget"):
        graph.region_activation_memory_budget(budget)


def test_handles_of_nodes_are_the_common_ones():
    """G-39."""
    assert isinstance((leaf() * 2).grad_fn.register_hook(print), RemovableHandle)

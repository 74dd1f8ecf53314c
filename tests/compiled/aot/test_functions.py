"""`aot_function` and relatives: graphs for compilers of the user's, attached to autograd."""

import pytest
from pullback._functorch.aot_autograd import (
    aot_export_joint_simple,
    aot_function,
    aot_module,
    aot_module_simplified,
    make_boxed_compiler,
    nop,
    print_compile,
)
from pullback._functorch.partitioners import (
    default_partition,
    min_cut_rematerialization_partition,
)

import pullback as torch
from pullback import nn
from pullback.compiled.capture.reasons import CannotCapture

PARTITIONERS = [default_partition, min_cut_rematerialization_partition]


class Compiler:
    """Keeps the graphs that it is given, and runs them as they are."""

    def __init__(self):
        self.graphs, self.examples = [], []

    def __call__(self, graph_module, example_inputs):
        graph_module.graph.lint()
        self.graphs.append(graph_module)
        self.examples.append(example_inputs)
        return graph_module

    def names(self, number, op="placeholder"):
        return [node.name for node in self.graphs[number].graph.nodes if node.op == op]


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(4, 5, requires_grad=True)


def same(ours, eager):
    assert len(ours) == len(eager)
    for a, b in zip(ours, eager, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("partition", PARTITIONERS)
def test_results_and_gradients_are_eagers_bit_for_bit(x, partition):
    """K-37, K-38, K-56"""
    w = torch.randn(5, 3, requires_grad=True)

    def f(x, w):
        y = (x @ w).sin().exp()
        return {"y": y, "z": [x.sum(1), 3]}

    g = aot_function(f, nop, partition_fn=partition)
    results = []
    for one in (f, g, g):
        made = one(x, w)
        loss = (made["y"] * made["y"]).sum() + made["z"][0].sum()
        results.append([made["y"], made["z"][0], *torch.autograd.grad(loss, [x, w])])
        assert made["z"][1] == 3
    same(results[1], results[0])
    same(results[2], results[0])


def test_graphs_have_their_names_and_orders(x):
    """K-39: updated inputs, results, saved values; backward takes saved values, then tangents."""
    forward, backward = Compiler(), Compiler()
    buffer = torch.zeros(5)

    def f(x, buffer):
        buffer.add_(1)
        return x.exp() * buffer

    g = aot_function(f, forward, backward)
    g(x, buffer).sum().backward()
    assert forward.names(0) == ["primals_1", "primals_2"]
    (outputs,) = forward.graphs[0].graph.output_node().args
    updated, result, *saved = [node.name for node in outputs]
    assert updated.startswith("add")
    assert result.startswith("mul")
    assert backward.names(0) == [*saved, "tangents_1"]
    assert [tuple(one.shape) for one in backward.examples[0]][-1] == (4, 5)
    assert buffer.eq(1).all()
    (gradients,) = backward.graphs[0].graph.output_node().args
    assert gradients[1] is None  # the buffer needs none


def test_targets_are_overloads_and_the_code_runs(x):
    """K-66"""
    compiler = Compiler()
    aot_function(lambda x: (x.sin() * 2).sum(), compiler)(x).backward()
    nodes = [n for one in compiler.graphs for n in one.graph.nodes if n.op == "call_function"]
    assert all(type(node.target) is type(torch.ops.aten.sin.default) for node in nodes)
    assert "torch.ops.aten.sin.default" in compiler.graphs[0].code
    assert all(node.meta["val"].shape == (4, 5) for node in nodes if node.name == "sin")
    assert all("test_functions.py" in node.meta["stack_trace"] for node in nodes)


def test_without_gradients_there_is_one_inference_graph(x):
    """K-38"""
    forward, inference = Compiler(), Compiler()
    g = aot_function(lambda x: x * 2, forward, inference_compiler=inference)
    assert not g(x.detach()).requires_grad
    with torch.no_grad():
        assert not g(x).requires_grad
    assert len(inference.graphs) == 2
    assert not forward.graphs


def test_it_is_one_node_like_any_other(x):
    """K-40: hooks, retained and freed graphs, eager operators around it."""
    g = aot_function(lambda x: x.exp() * x, nop)
    seen = []
    y = g(x * 2)
    y.register_hook(lambda grad: seen.append(grad) or None)
    loss = (y * y).sum()
    loss.backward(retain_graph=True)
    first = x.grad.clone()
    x.grad = None
    loss.backward()
    assert torch.equal(x.grad, first)
    assert len(seen) == 2
    with pytest.raises(RuntimeError, match=r"second time|freed"):
        loss.backward()


def test_values_are_never_baked_in(x):
    """K-42"""

    def f(x):
        return x * 2 if x.sum() > 0 else x

    with pytest.raises(CannotCapture, match=r"test_functions\.py"):
        aot_function(f, nop)(x)


def test_closures_are_inputs_read_afresh(x):
    """K-43"""
    scale = torch.tensor(2.0, requires_grad=True)
    compiler = Compiler()
    g = aot_function(lambda x: x * scale, compiler)
    assert torch.equal(g(x), x * 2)
    with torch.no_grad():
        scale.fill_(3.0)
    made = g(x)
    assert torch.equal(made, x * 3)
    made.sum().backward()
    assert torch.equal(scale.grad, x.sum())
    assert compiler.names(0) == ["primals_1", "primals_2"]


def test_a_call_that_does_not_fit_is_traced_anew(x):
    """K-44"""
    g = aot_function(lambda x, n: x * n, nop)
    for n in (2, 3):
        assert torch.equal(g(x, n), x * n)
    assert g(x.double(), 2).dtype is torch.float64
    for rows in (2, 3, 7):
        one = torch.ones(rows, 5, requires_grad=True)
        g(one, 2).sum().backward()
        assert one.grad.eq(2).all()


def test_gradients_of_gradients(x):
    """K-45"""
    g = aot_function(lambda x: x**3, nop)
    (first,) = torch.autograd.grad(g(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second, 6 * x)


def test_a_written_input_is_kept_as_it_was(x):
    """K-49, and recomputation from an input that is written after the forward."""

    def f(x, state):
        y = x * state.exp().sin()
        state.mul_(2)
        return y

    for partition in PARTITIONERS:
        g = aot_function(f, nop, partition_fn=partition)
        state, ours = torch.ones(5), torch.ones(5)
        wanted = torch.autograd.grad(f(x, state).sum(), x)
        same(torch.autograd.grad(g(x, ours).sum(), x), wanted)
        assert torch.equal(state, ours)


def test_a_module_has_its_parameters_first():
    """K-37"""
    torch.manual_seed(0)
    mod = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh())
    forward, backward = Compiler(), Compiler()
    made = aot_module(mod, forward, backward)
    x = torch.randn(6, 3)
    wanted = torch.autograd.grad(mod(x).sum(), list(mod.parameters()))
    got = torch.autograd.grad(made(x).sum(), list(mod.parameters()))
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b)
    # two of the linear layer, two and three buffers of the norm, then the argument
    assert tuple(forward.examples[0][-1].shape) == (6, 3)
    assert len(forward.examples[0]) == 8
    assert list(made.parameters()) == list(mod.parameters())
    assert int(mod[1].num_batches_tracked) == 2


def test_a_simplified_module_is_compiled_at_once():
    compiler = Compiler()
    mod = nn.Linear(2, 1)
    x = torch.ones(3, 2)
    f = aot_module_simplified(mod, (x,), compiler)
    assert len(compiler.graphs) == 2
    f(x).sum().backward()
    assert mod.weight.grad.eq(3).all()
    assert len(compiler.graphs) == 2


def test_boxed_functions_take_a_list(x, capsys):
    seen = []

    def compiler(graph_module, example_inputs):
        def run(*args):
            seen.append(len(args))
            return graph_module(*args)

        return run

    g = aot_function(lambda x: x.exp(), make_boxed_compiler(compiler), print_compile)
    g(x).sum().backward()
    assert torch.equal(x.grad, x.exp())
    assert seen == [1]
    assert "def forward" in capsys.readouterr().out


def test_decompositions_replace_operators(x):
    compiler = Compiler()
    table = {torch.ops.aten.exp.default: lambda x: x.sinh() + x.cosh()}
    g = aot_function(lambda x: x.exp() * 2, compiler, decompositions=table)
    (grad,) = torch.autograd.grad(g(x).sum(), x)
    torch.testing.assert_close(grad, x.exp() * 2)
    called = [str(node.target) for node in compiler.graphs[0].graph.nodes]
    assert not any("aten.exp" in one for one in called)
    assert any("sinh" in one for one in called)


def test_what_is_no_function_is_refused(x):
    with pytest.raises(TypeError, match="is a function, not int"):
        aot_function(lambda x: x, 3)
    with pytest.raises(RuntimeError, match="has to return"):
        aot_function(lambda x: x * 2, lambda graph, inputs: 3)(x)


# Export ------------------------------------------------------------------------------------------


def test_a_joint_graph_alone(x):
    """K-46"""
    joint = aot_export_joint_simple(lambda x: (x.sin(),), (x,), trace_joint=True)
    names = [node.name for node in joint.graph.nodes if node.op == "placeholder"]
    assert names == ["primals_1", "tangents_1"]
    sin, grad = joint(x.detach(), torch.ones(4, 5))
    assert torch.equal(sin, x.sin())
    assert torch.equal(grad, x.cos())
    plain = aot_export_joint_simple(lambda x: (x.sin(),), (x.detach(),), trace_joint=False)
    assert torch.equal(plain(x)[0], x.sin())


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: (x.add_(1),), "writes to argument 0"),
        (lambda x: (x,), "Result 0 is argument 0"),
        (lambda x: (x * 2, x.view(-1)), "Result 1 looks at the memory of argument 0"),
    ],
)
def test_what_needs_more_than_a_graph_is_refused(function, says):
    """K-46"""
    with pytest.raises(RuntimeError, match=says):
        aot_export_joint_simple(function, (torch.ones(2, 2),), trace_joint=False)


def test_a_graph_without_backward_leaves_gradients_out(x):
    """K-46"""
    graph = aot_export_joint_simple(lambda x: (x * 2,), (x,), trace_joint=False)
    assert len(graph.graph.find_nodes(op="placeholder")) == 1
    assert torch.equal(graph(x.detach())[0], x.detach() * 2)
    with pytest.raises(RuntimeError, match="no result depends"):
        aot_export_joint_simple(lambda x: (x * 2,), (x.detach(),), trace_joint=True)

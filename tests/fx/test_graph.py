"""Graphs and nodes: making, moving, replacing, erasing, checking, writing out."""

import operator

import pytest

import pullback as torch
from pullback import fx, nn
from pullback.fx.node import map_aggregate, map_arg


@pytest.fixture
def graph():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.relu, (x,))
    graph.output(graph.call_method("add", (y, x), {"alpha": 2}))
    return graph


def names(graph):
    return [node.name for node in graph.nodes]


def test_nodes_know_their_users_and_inputs(graph):
    x, relu, add, output = graph.nodes
    assert list(x.users) == [relu, add]
    assert add.all_input_nodes == [relu, x]
    assert output is graph.output_node()
    assert len(graph.nodes) == 4
    assert [n.name for n in reversed(graph.nodes)] == ["output", "add", "relu", "x"]


def test_assigned_arguments_change_the_users(graph):
    x, relu, add, _ = graph.nodes
    add.args = (x, [x, {"k": slice(relu, None)}])
    assert list(relu.users) == [add]
    add.kwargs = {}
    add.update_arg(1, 3)
    add.insert_arg(1, 2)
    add.update_kwarg("alpha", relu)
    assert (add.args, add.kwargs) == ((x, 2, 3), {"alpha": relu})
    add.update_kwarg("alpha", 1)
    assert not relu.users


def test_arguments_cannot_be_changed_in_place(graph):
    add = graph.find_nodes(op="call_method", target="add")[0]
    add.args = (add.args[0], [1, 2])
    for change in (
        lambda: add.args[1].append(3),
        lambda: add.kwargs.update(alpha=3),
        lambda: operator.setitem(add.args[1], 0, 3),
        lambda: add.kwargs.pop("alpha"),
    ):
        with pytest.raises(TypeError, match="copy"):
            change()


def test_nodes_go_where_they_are_put(graph):
    x, relu, add, _ = graph.nodes
    with graph.inserting_before(relu):
        graph.call_method("sin", (x,))
        graph.call_method("cos", (x,))
    with graph.inserting_after(relu):
        graph.call_method("tan", (x,))
        graph.call_method("exp", (x,))
    with graph.inserting_before():
        graph.placeholder("first")
    assert names(graph) == ["first", "x", "sin", "cos", "relu", "tan", "exp", "add", "output"]
    relu.append(x)
    add.prepend(relu)
    assert names(graph)[1:3] == ["sin", "cos"]
    assert x < relu < add
    assert add >= relu
    with pytest.raises(RuntimeError, match="before"):
        graph.lint()


def test_node_in_use_cannot_be_erased(graph):
    """K-65"""
    x, relu, add, _ = graph.nodes
    with pytest.raises(RuntimeError, match="still used by add"):
        graph.erase_node(relu)
    assert relu.replace_all_uses_with(x) == [add]
    graph.erase_node(relu)
    assert names(graph) == ["x", "add", "output"]
    graph.lint()


def test_uses_are_replaced_where_the_callback_agrees(graph):
    x, relu, add, _ = graph.nodes
    assert x.replace_all_uses_with(relu, lambda user: user is add) == [add]
    assert list(x.users) == [relu]


def test_nodes_may_be_erased_while_one_goes_through_them(graph):
    _, relu, add, _ = graph.nodes
    graph.output_node().args = (None,)
    for node in reversed(graph.nodes):
        if node in (relu, add):
            graph.erase_node(node)
    assert names(graph) == ["x", "output"]


def test_dead_code_goes_but_effects_stay():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch.sin, (graph.call_function(torch.cos, (x,)),))
    graph.call_method("add_", (x, 1))
    graph.call_function(operator.setitem, (x, 0, 1))
    graph.call_function(torch.rand, (2,))
    graph.output(x)
    assert graph.eliminate_dead_code()
    assert names(graph) == ["x", "add_", "setitem", "rand", "output"]
    assert not graph.eliminate_dead_code()


def test_function_said_to_have_effects_stays():
    @fx.has_side_effect
    def note(x):
        return x

    graph = fx.Graph()
    graph.call_function(note, (graph.placeholder("x"),))
    graph.output(None)
    graph.eliminate_dead_code()
    assert names(graph) == ["x", "note", "output"]


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda g: g.create_node("call", "x"), AssertionError),
        (lambda g: g.call_function("relu"), ValueError),
        (lambda g: g.create_node("call_method", "x", [1]), AssertionError),
        (lambda g: g.find_nodes(op="call_function"), AssertionError),
        (lambda g: g.inserting_before(fx.Graph().placeholder("y")), AssertionError),
    ],
)
def test_what_makes_no_node_is_refused(graph, make, kind):
    with pytest.raises(kind):
        make(graph)


def test_lint_finds_targets_that_are_missing():
    model = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
    del model._modules["0"]
    with pytest.raises(RuntimeError, match="0"):
        model.graph.lint()


def test_copy_of_a_graph_is_apart(graph):
    other = fx.Graph()
    made = other.graph_copy(graph, {}, return_output_node=True)
    assert made[0].graph is other
    assert names(other) == ["x", "relu", "add"]


def test_table_lists_the_nodes(graph, capsys):
    graph.print_tabular()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["opcode", "name", "target", "args", "kwargs"]
    assert lines[2].startswith("placeholder")


def test_lines_of_the_code_may_be_transformed(graph):
    module = fx.GraphModule(nn.Module(), graph)

    def louder(before):
        assert before is None
        return lambda lines: ["self.called = True\n", *lines]

    with graph.on_generate_code(louder):
        module.recompile()
    module(torch.ones(1))
    assert module.called
    module.recompile()
    assert "called" not in module.code


def test_own_codegen_writes_inputs_and_outputs(graph):
    class Listed(fx.CodeGen):
        def gen_fn_def(self, free_vars, maybe_return_annotation, **options):
            return f"def forward(self, given):\n    {', '.join(free_vars)}, = given"

        def process_inputs(self, given):
            return given

    graph.set_codegen(Listed())
    module = fx.GraphModule(nn.Module(), graph)
    assert module([torch.ones(1)]).item() == 3
    assert fx.Interpreter(module).run([torch.ones(1)]).item() == 3


def test_mapping_keeps_the_nesting():
    nested = (1, [2, {"a": slice(3, None)}])
    assert map_aggregate(nested, lambda x: x and x + 1) == (2, [3, {"a": slice(4, None)}])
    node = fx.Graph().placeholder("x")
    assert map_arg((node, 1), lambda n: n.name) == ("x", 1)


def test_arguments_are_normalised_by_name():
    model = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
    node = model.graph.find_nodes(op="call_module")[0]
    pair = node.normalized_arguments(model, normalize_to_only_use_kwargs=True)
    assert list(pair.kwargs) == ["input"]

"""Graph modules: what they take over, how they are copied, pickled and changed."""

import copy
import gc
import pickle
import traceback

import pytest

import pullback as torch
from pullback import fx, nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        nn.init.ones_(self.body[0].weight)
        self.unused = nn.Linear(1, 1)
        self.scale = nn.Parameter(torch.full((2,), 2.0))
        self.register_buffer("shift", torch.ones(2), persistent=False)

    def forward(self, x):
        return self.body(x) * self.scale + self.shift


@pytest.fixture
def traced():
    return fx.symbolic_trace(Net())


X = torch.ones(1, 2)


def test_only_what_the_graph_names_is_taken_over(traced):
    assert sorted(traced.state_dict()) == ["body.0.bias", "body.0.weight", "scale"]
    assert type(traced).__name__ == "Net"
    assert isinstance(traced, fx.GraphModule)
    assert traced.graph.owning_module is traced


def test_parameters_are_shared_and_trained():
    model = Net()
    traced = fx.symbolic_trace(model)
    assert traced.scale is model.scale
    traced(X).sum().backward()
    assert model.scale.grad is not None


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_compute_the_same_and_are_apart(traced, copied):
    other = copied(traced)
    assert torch.equal(other(X), traced(X))
    assert other.code == traced.code
    assert other.graph is not traced.graph
    assert other.graph.owning_module is other
    with torch.no_grad():
        other.scale.zero_()
    assert not torch.equal(other(X), traced(X))


def test_pickle_keeps_nested_arguments():
    def program(x, d):
        return torch.cat([d["a"], x], dim=0)[0:1]

    traced = fx.symbolic_trace(program, concrete_args={"d": {"a": fx.PH}})
    other = pickle.loads(pickle.dumps(traced))
    assert torch.equal(other(X, {"a": 2 * X}), 2 * X)


def test_graph_modules_are_saved_and_loaded(traced, tmp_path):
    torch.save(traced, tmp_path / "traced")
    loaded = torch.load(tmp_path / "traced", weights_only=False)
    assert torch.equal(loaded(X), traced(X))


def test_submodules_are_added_and_deleted(traced):
    assert traced.add_submodule("extra.inner", nn.ReLU())
    assert not traced.add_submodule("scale.inner", nn.ReLU())
    assert traced.delete_submodule("extra.inner")
    assert not traced.delete_submodule("extra.inner")
    traced.delete_all_unused_submodules()
    assert [name for name, _ in traced.named_modules()] == ["", "body", "body.0", "body.1"]


def test_root_may_be_a_dict_of_targets():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_module("layers.relu", (x,)))
    module = fx.GraphModule({"layers.relu": nn.ReLU()}, graph)
    assert module(-X).sum() == 0
    with pytest.raises(RuntimeError, match=r"layers\.relu"):
        fx.GraphModule({}, graph)


def test_tracebacks_show_the_written_line(traced):
    try:
        traced(torch.ones(3))
    except RuntimeError:
        text = traceback.format_exc()
    assert 'body_0 = getattr(self.body, "0")(x)' in text


def test_changed_graph_counts_after_recompile(traced):
    relu = next(n for n in traced.graph.nodes if n.target == "body.1")
    relu.replace_all_uses_with(relu.args[0])
    traced.graph.erase_node(relu)
    before = traced.code
    written = traced.recompile()
    assert written.src == traced.code != before
    assert "body_1" not in traced.code


def test_hooks_see_nodes_come_and_go(traced):
    seen = []
    traced._register_create_node_hook(lambda node: seen.append(("+", node.name)))
    traced._register_erase_node_hook(lambda node: seen.append(("-", node.name)))
    with traced.graph.inserting_before(traced.graph.output_node()):
        node = traced.graph.call_method("sin", (next(iter(traced.graph.nodes)),))
    traced.graph.erase_node(node)
    assert seen == [("+", "sin"), ("-", "sin")]


def test_readable_text_is_a_class(traced, capsys):
    text = traced.print_readable()
    assert text.startswith("class Net(torch.nn.Module):\n    def forward(self, x):")
    assert capsys.readouterr().out.startswith(text)
    assert "class" not in str(traced)


def test_folder_is_refused_with_what_to_do(traced, tmp_path):
    with pytest.raises(NotImplementedError, match=r"torch\.save"):
        traced.to_folder(tmp_path)


def test_traced_modules_are_freed():
    def made():
        return len([one for one in gc.get_objects() if type(one) is fx.Graph])

    gc.collect()
    before = made()
    for _ in range(3):
        fx.symbolic_trace(Net())(X)
    gc.collect()
    assert made() == before


def test_arguments_that_no_text_stands_for_are_globals_of_the_code():
    class Silent:
        def __init__(self, factor):
            self.factor = factor

    def scaled(x, *by):
        for one in by:
            x = x * one.factor
        return x

    graph = fx.Graph()
    x = graph.placeholder("x")
    pair = (Silent(2), Silent(3))
    graph.output(graph.call_function(scaled, (x, *pair, pair[0])))
    made = fx.GraphModule(torch.nn.Module(), graph)
    assert made(torch.ones(1)).item() == 12
    assert copy.deepcopy(made)(torch.ones(1)).item() == 12

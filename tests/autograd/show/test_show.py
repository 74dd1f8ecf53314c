"""Pictures of the graph: what is described, and the files."""

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest

import pullback as torch
from pullback import cli
from pullback.autograd.graph import show
from pullback.core.home import home_of
from pullback.nn import Parameter


class Half(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 0.5

    @staticmethod
    def backward(ctx, g):
        return g * 0.5


def small():
    weight = Parameter(torch.ones(3, 4))
    x = torch.ones(2, 3, requires_grad=True)
    hidden = (x @ weight).tanh()
    hidden.mul_(2)
    hidden = Half.apply(hidden)
    loss = hidden.view(8)[1:].sum()
    return loss, weight, x


def by_name(page):
    return {node.label or node.name: node for node in page.graph.nodes}


def data_of(page):
    text = page.html()
    inner = re.search(r'<script type="application/json" id="graph">(.*?)</script>', text, re.S)
    return json.loads(inner.group(1))


def test_each_node_has_its_kind():
    loss, weight, x = small()
    assert weight.requires_grad
    assert x.requires_grad
    kinds = {name: node.kind for name, node in by_name(show(loss)).items()}
    assert kinds == {
        "MmBackward0": "operator",
        "TanhBackward0": "operator",
        "MulBackward0": "in-place",
        "HalfBackward": "function",
        "ViewBackward0": "view",
        "SliceBackward0": "view",
        "SumBackward0": "operator",
        "weight": "parameter",
        "x": "leaf",
    }


def test_each_node_has_shapes_dtypes_saved_bytes_and_the_users_line():
    loss, *_ = small()
    node = by_name(show(loss))["MmBackward0"]
    assert [str(one) for one in node.outputs] == ["float32 [2, 4]"]
    assert sorted(one.bytes for one in node.saved) == [24, 48]
    assert node.bytes == 72
    assert node.place.file == __file__
    assert node.place.text == "hidden = (x @ weight).tanh()"
    assert node.expression == "x @ weight"


def test_edges_lead_to_the_nodes_that_get_the_gradients():
    a, b = torch.ones(4, requires_grad=True), torch.ones(2, requires_grad=True)
    first, second = a.split(2)
    page = show((second * b + first.detach()).sum())
    nodes = page.graph.nodes
    named = {node.label or node.name: index for index, node in enumerate(nodes)}
    mul = nodes[named["MulBackward0"]]
    assert mul.edges == [(named["SplitBackward0"], 1), (named["b"], 0)]
    assert nodes[named["AddBackward0"]].edges == [(named["MulBackward0"], 0), None]
    assert nodes[named["SumBackward0"]].root
    assert len(page) == len(nodes) == 6


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y.add_(1),
        lambda y: y.__iadd__(1),
        lambda y: torch.nn.functional.relu(y, inplace=True),
        lambda y: y.__setitem__(0, 3.0),
    ],
)
def test_writes_in_place_are_told_apart(write):
    y = torch.ones(3, requires_grad=True) * 2
    write(y)
    kinds = [node.kind for node in show(y.sum()).graph.nodes]
    assert kinds.count("in-place") == (0 if "__iadd__" in write.__code__.co_names else 1)


def test_an_augmented_assignment_is_a_write():
    y = torch.ones(3, requires_grad=True) * 2
    y += 1
    assert by_name(show(y))["AddBackward0"].kind == "in-place"


def test_leaves_are_called_as_the_users_variables_and_params_have_the_last_word():
    class Module:
        def __init__(self):
            self.weight = Parameter(torch.ones(2))

        def named_parameters(self):
            return [("weight", self.weight)]

    model = Module()
    pairs = [(torch.ones(2, requires_grad=True),)]
    table = {"bias": torch.ones(2, requires_grad=True)}
    loss = (model.weight * pairs[0][0] + table["bias"]).sum()
    labels = {node.label for node in show(loss).graph.nodes}
    assert {"model.weight", "pairs[0][0]", "table['bias']"} <= labels
    labels = {node.label for node in show(loss, params={"w": model.weight}).graph.nodes}
    assert "w" in labels
    labels = {node.label for node in show(loss, params=model).graph.nodes}
    assert "weight" in labels


def test_freed_values_and_hooks_are_shown():
    x = torch.ones(3, requires_grad=True)
    y = (x * x).sum()
    y.grad_fn.register_hook(lambda *_: None)
    x.register_hook(lambda g: g)
    y.backward()
    nodes = by_name(show(y))
    assert nodes["MulBackward0"].freed
    assert nodes["MulBackward0"].saved == []
    assert nodes["SumBackward0"].hooks == 1
    assert nodes["x"].hooks == 1


def test_a_profiled_backward_leaves_time_and_memory():
    x = torch.ones(1000, requires_grad=True)
    y = x.exp().sum()
    assert by_name(show(y))["ExpBackward0"].time is None
    with torch.autograd.profiler.profile(profile_memory=True):
        y.backward()
    nodes = by_name(show(y))
    assert nodes["ExpBackward0"].time > 0
    assert nodes["ExpBackward0"].memory == 4000
    assert nodes["x"].time > 0
    data = data_of(show(y))
    assert data["profiled"]
    assert data["time"] == sum(node.time for node in nodes.values())


def test_a_page_keeps_nothing_of_the_graph_alive():
    import weakref

    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    node, page = weakref.ref(y.grad_fn), show(y)
    del y
    assert node() is None
    assert "ExpBackward0" in page.html()


def test_the_page_stands_alone():
    loss, *_ = small()
    text = show(loss).html()
    assert not re.search(r'(src|href)="(?!data:)', text)
    assert "@import" not in text
    assert "Permission is hereby granted" in text  # the layout library's licence
    assert "%" not in re.sub(r"(?s)<(style|script).*?</\1>", "", text)


def test_text_of_the_program_cannot_end_the_script():
    y = torch.ones(1, requires_grad=True) * 2  # </script><b>
    page = show(y, title="<i>&")
    assert "</script><b>" not in page.html()
    assert "<title>&lt;i&gt;&amp;</title>" in page.html()
    assert data_of(page)["places"][0][3].endswith("# </script><b>")


def test_jupyter_gets_a_frame_from_pages_and_from_nodes():
    loss, *_ = small()
    for shown in (show(loss)._repr_html_(), loss.grad_fn._repr_html_()):
        assert shown.startswith("<iframe srcdoc=")
        frame = ElementTree.fromstring(shown)
        assert "MmBackward0" in frame.attrib["srcdoc"]


def test_the_svg_has_a_box_for_each_node_and_a_path_for_each_edge():
    loss, weight, x = small()
    page = show(loss, params={"weight": weight, "x": x})
    drawn = ElementTree.fromstring(page.svg())
    space = "{http://www.w3.org/2000/svg}"
    boxes = drawn.findall(f"{space}g")
    assert len(boxes) == len(page)
    assert len(drawn.findall(f"{space}path")) == sum(
        edge is not None for node in page.graph.nodes for edge in node.edges
    )
    assert {box.find(f"{space}text").text for box in boxes} >= {"MmBackward0", "weight", "x"}


def test_dot_quotes_what_needs_it():
    page = show(torch.ones(1, requires_grad=True) * 2, params=[('a "b" \\', None)])
    page.graph.nodes[-1].label = 'a "b" \\'
    text = page.dot()
    assert text.startswith("digraph")
    assert r'"a \"b\" \\\nfloat32 [1]"' in text
    assert "n0 -> n1;" in text


@pytest.mark.parametrize(
    ("name", "start"),
    [("g.html", "<!doctype"), ("g.svg", "<svg"), ("g.dot", "digraph"), ("g.GV", "digraph")],
)
def test_a_files_name_says_what_is_written(tmp_path, name, start):
    loss, *_ = small()
    show(loss, path=tmp_path / name)
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)


def test_what_cannot_be_drawn_is_refused(tmp_path):
    with pytest.raises(RuntimeError, match="does not require grad"):
        show(torch.ones(2))
    with pytest.raises(TypeError, match="int"):
        show(3)
    with pytest.raises(TypeError, match="needs a tensor"):
        show()
    page = show(torch.ones(1, requires_grad=True))
    with pytest.raises(ValueError, match=r"\.html"):
        page.save(tmp_path / "g.png")
    with pytest.raises(ValueError, match="theme"):
        page.html(theme="blue")


def test_nodes_edges_and_several_roots_can_be_drawn():
    x = torch.ones(2, requires_grad=True)
    y, z = x.exp(), x.sin()
    edge = torch.autograd.graph.get_gradient_edge(z)
    page = show(y.grad_fn, edge)
    assert sum(node.root for node in page.graph.nodes) == 2
    assert len(page) == 3
    assert repr(page).startswith("<backward graph: 3 nodes (2 operator, 1 leaf)")


def test_what_leads_nowhere_is_left_out():
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        unseen = x.view(3, 1)
    with pytest.raises(RuntimeError, match="no graph"):
        show(unseen)
    page = show((unseen * x.view(3, 1)).sum())
    assert [node.name for node in page.graph.nodes if node.kind == "view"] == ["ViewBackward0"]


def test_graphs_inside_transforms_can_be_drawn():
    x, pages = torch.ones(3, requires_grad=True), []

    def loss(a):
        value = (a * x).sum()
        pages.append(show(value))
        return value

    torch.func.grad(loss)(torch.ones(3))
    torch.func.vmap(loss)(torch.ones(2, 3))
    assert [page.graph.nodes[-1].label for page in pages] == ["x", "x"]


def test_values_that_hooks_packed_are_counted():
    x = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), torch.from_numpy):
        y = x.exp()
    assert by_name(show(y))["ExpBackward0"].bytes == 12


def test_a_second_derivative_can_be_drawn():
    x = torch.ones(3, requires_grad=True)
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    assert "PowBackward0" in by_name(show(g.sum()))


def test_a_page_opens_in_the_browser(monkeypatch):
    import os
    import webbrowser

    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    path = show(torch.ones(1, requires_grad=True) * 2).open()
    assert opened == [f"file://{path}"]
    os.remove(path)


# The command line ---------------------------------------------------------------------------------

PROGRAM = """
import torch
w = torch.ones(3, requires_grad=True)
for step in range(3):
    loss = (w * step).sum() if step < 2 else (w * step).exp().sum()
    loss.backward()
other = (w + 1).sum()
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    import sys

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pullback"])
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path / "program.py"


def test_graph_draws_the_last_backward_with_what_it_had_saved(script, capsys):
    assert cli.main(["graph", "--profile", "program.py"]) == 0
    assert "graph.html: <program.py: 4 nodes" in capsys.readouterr().out
    text = (script.parent / "graph.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="graph">(.*?)</script>', text, re.S).group(1))
    nodes = {node["label"] or node["name"]: node for node in data["nodes"]}
    assert nodes.keys() == {"MulBackward0", "ExpBackward0", "SumBackward0", "w"}
    assert nodes["ExpBackward0"]["bytes"] == 12
    assert nodes["ExpBackward0"]["time"] > 0
    assert home_of(torch.autograd.backward) == "pullback.engine.backward"


def test_graph_draws_a_variable(script):
    assert cli.main(["graph", "--of", "other", "-o", "out.svg", "program.py"]) == 0
    assert "AddBackward0" in (script.parent / "out.svg").read_text(encoding="utf-8")


def test_graph_says_what_it_cannot_find(script, capsys):
    assert cli.main(["graph", "--of", "missing", "program.py"]) == 1
    assert "no global variable 'missing'; it has loss, other" in capsys.readouterr().err
    script.write_text("import torch\nx = torch.ones(1)\n")
    assert cli.main(["graph", "program.py"]) == 1
    assert "--of" in capsys.readouterr().err
    assert cli.main(["graph", "--of", "x", "program.py"]) == 1
    assert "does not require grad" in capsys.readouterr().err


def test_names_of_the_user_s_reach_the_page_as_data_alone():
    name = "<!--<script>&\u2028]]>"
    w = torch.ones(2, requires_grad=True)
    page = show((w * 2).sum(), params={name: w})
    assert name not in page.html()
    assert "\\u003c!--\\u003cscript\\u003e\\u0026\\u2028" in page.html()
    assert name in str(data_of(page)["nodes"]).replace("\\u2028", "\u2028")
    ElementTree.fromstring(page.svg())

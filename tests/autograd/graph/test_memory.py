"""`memory_map` counts what a graph keeps, each block of memory once."""

import gc
import tracemalloc

import pytest

import pullback as torch
from pullback.autograd.graph import memory_map


def test_each_block_is_counted_once():
    x = torch.ones(1000, requires_grad=True)
    y = x * x
    z = y.view(10, 100).exp() * y.view(10, 100)
    kept = torch.autograd.graph.memory_map(z.sum())
    assert kept.total == 4000 * 3  # x, y and the exponential
    assert kept.entries[0].bytes == 4000
    assert "MulBackward0" in repr(kept)
    assert "test_memory.py:" in repr(kept)
    assert kept._repr_html_().startswith("<table>")


def test_maps_can_be_subtracted():
    x = torch.ones(100, requires_grad=True)
    small, large = x.exp(), x.exp().exp()
    graph = torch.autograd.graph
    assert len(graph.memory_map(small) - graph.memory_map(small)) == 0
    more = graph.memory_map(large) - graph.memory_map(small)
    assert more.total == 400


def test_writes_to_views_and_functions_are_seen():
    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x.detach() + 1)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    x = torch.ones(1000, requires_grad=True)
    y = Keep.apply(x)
    y[:500].mul_(torch.ones(500))
    names = {entry.name for entry in torch.autograd.graph.memory_map(y)}
    assert {"saved_tensors", "other", "variable"} <= names


def test_total_agrees_with_what_is_really_freed():
    x = torch.ones(100_000, requires_grad=True)
    gc.collect()
    tracemalloc.start()
    try:
        y = x
        for _ in range(10):
            y = (y * 1.01).exp().log1p()
        loss = y.sum()
        del y
        said = torch.autograd.graph.memory_map(loss).total - x.numel() * 4
        before = tracemalloc.get_traced_memory()[0]
        del loss
        freed = before - tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert abs(said - freed) < 0.05 * freed


def test_freed_graph_keeps_only_the_leaves():
    x = torch.ones(1000, requires_grad=True)
    loss = (x * x).exp().sum()
    loss.backward()
    assert {entry.name for entry in torch.autograd.graph.memory_map(loss)} == {"variable"}


def test_what_a_function_puts_on_its_ctx_is_seen():
    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mask = x.detach() > 0
            ctx.pair = (x.detach() + 1, "text")
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    x = torch.ones(1000, requires_grad=True)
    kept = {entry.name: entry.bytes for entry in torch.autograd.graph.memory_map(Keep.apply(x))}
    assert kept == {"mask": 1000, "pair": 4000, "variable": 4000}


def test_total_agrees_for_views_writes_functions_and_packed_values():
    """Within 5 % of what is freed when the graph goes."""

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    def program(x):
        y = Square.apply(x * 2)
        rows = y.view(100, -1)
        rows[10:50].mul_(rows[50:90].exp())
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            y = y.sin()
        parts = y.view(4, -1).unbind()
        return torch.stack([part.tanh() * part for part in parts]).logsumexp(0).sum()

    x = torch.linspace(0, 1, 400_000).requires_grad_()
    program(x)  # what is made once, by first calls, is made here
    gc.collect()
    tracemalloc.start()
    try:
        loss = program(x)
        said = torch.autograd.graph.memory_map(loss).total - x.numel() * 4
        before = tracemalloc.get_traced_memory()[0]
        del loss
        freed = before - tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert abs(said - freed) < 0.05 * freed


def test_two_steps_can_be_compared_by_line():
    x = torch.ones(100, requires_grad=True)

    def step(more):
        y = x.exp()
        if more:
            y = (y * y).sin()  # y itself is kept already, by exp
        return y.sum()

    graph = torch.autograd.graph
    difference = graph.memory_map(step(True)) - graph.memory_map(step(False))
    assert {entry.node for entry in difference} == {"SinBackward0"}
    assert "SinBackward0" in difference._repr_html_()
    assert "<caption>" in difference._repr_html_()
    assert repr(difference).splitlines()[-1].startswith("total ")


def test_names_of_modules_and_parameters():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 9), torch.nn.Tanh(), torch.nn.Linear(9, 2))
    found = memory_map(model(torch.ones(8, 4)).sum(), params=model)
    assert {e.parameter for e in found if e.parameter} == {
        "0.weight",
        "2.weight",
        "0.bias",
        "2.bias",
    }
    kept = next(e for e in found if e.node == "TanhBackward0")
    assert (kept.bytes, kept.module) == (8 * 9 * 4, "")
    with torch.autograd.graph.name_modules(model):
        loss = model(torch.ones(8, 4)).sum()
    found = memory_map(loss, params=model)
    assert next(e for e in found if e.node == "TanhBackward0").module == "1: Tanh()"
    assert found.by_module["1: Tanh()"] == 8 * 9 * 4
    assert found.by_module["0: Linear(4, 9)"] == (4 * 9 + 9 + 8 * 4) * 4
    assert sum(found.by_module.values()) == found.total
    assert "0.weight" in repr(found)
    sizes = [e.bytes for e in found]
    assert sizes == sorted(sizes, reverse=True)


def test_a_model_without_parts_is_the_module_of_what_its_parameters_are_used_in():
    layer = torch.nn.Linear(8, 4)
    kept = memory_map((layer(torch.ones(2, 8)).relu() * 2).sum(), params=layer)
    modules = {(entry.node.rpartition(":")[2], entry.name): entry.module for entry in kept}
    assert modules["AddmmBackward0", "input"] == "Linear(8, 4)"
    assert modules["AccumulateGrad", "variable"] == "Linear(8, 4)"
    assert modules["ReluBackward0", "out"] == ""


def test_a_tile_names_its_node_once():
    x = torch.ones(50, requires_grad=True)
    kept = memory_map(x.exp().sum())
    for entry in kept:
        words = " ".join([entry.label, *entry.told()])
        assert words.count(entry.node.rpartition(":")[2]) == 1
        assert "200 B, float32[50]" in words


def test_the_treemap_covers_its_area_in_proportion(tmp_path):
    import re

    model = torch.nn.Linear(40, 9)
    found = memory_map(model(torch.ones(8, 40)).tanh().sum(), params=model)
    text = found.page().html()
    drawn = re.findall(r'<g><rect x="[\d.]+" y="[\d.]+" width="([\d.]+)" height="([\d.]+)"', text)
    areas = [(float(w) + 1.5) * (float(h) + 1.5) for w, h in drawn]
    assert len(areas) == len(found)
    for area, entry in zip(areas, found, strict=True):
        assert area / sum(areas) == pytest.approx(entry.bytes / found.total, abs=2e-3)
    assert found.save(tmp_path / "map.html").endswith("map.html")

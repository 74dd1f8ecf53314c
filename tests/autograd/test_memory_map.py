"""`memory_map` counts what a graph keeps, each block of memory once."""

import gc
import tracemalloc

import pullback as torch


def test_each_block_is_counted_once():
    x = torch.ones(1000, requires_grad=True)
    y = x * x
    z = y.view(10, 100).exp() * y.view(10, 100)
    kept = torch.autograd.graph.memory_map(z.sum())
    assert kept.total == 4000 * 3  # x, y and the exponential
    assert kept.entries[0].bytes == 4000
    assert "MulBackward0" in repr(kept)
    assert "test_memory_map.py:" in repr(kept)
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

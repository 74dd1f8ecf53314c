"""plan() shows the order of a pass before it runs, and every pass keeps to it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import pullback as torch
from pullback import _C
from pullback.autograd import Function
from pullback.autograd.graph import hooks, plan
from pullback.engine import node_observers
from pullback.engine import request as entry
from pullback.engine.threads import side_by_side
from tests.leaves import double_leaf as leaf


class Scaled(Function):
    """Writes down in which order it runs."""

    @staticmethod
    def forward(ctx, x):
        return x * 1.1

    @staticmethod
    def backward(ctx, g):
        return g * 1.1


def random_graph(seed):
    """A graph of odd numbers, whose sums differ in their last bits if added in another order."""
    numbers = random.Random(seed)
    leaves = [leaf(0.1 + k, 0.7 - k) for k in range(3)]
    pool = list(leaves)
    for _ in range(16):
        a, b = numbers.choice(pool), numbers.choice(pool)
        kind = numbers.randrange(7)
        if kind == 0:
            made = a * b
        elif kind == 1:
            made = a + b * 0.3
        elif kind == 2:
            made = a * a + a / 3 + b
        elif kind == 3:
            made = torch.stack(list((a * 1).unbind(0))[::-1])
        elif kind == 4:
            made = a.clone()
            made[0] = b[1]
        elif kind == 5:
            made = Scaled.apply(a)
        else:
            made = (a * 1).mul_(b).sin()
        pool.append(made)
    return leaves, sum(pool[-5:], start=leaves[0] * 0).sum(), pool


class Onlooker:
    """Sees every node, as a profiler does."""

    def start(self, node):
        return node

    def ran(self, token, gradients, results):
        return token

    def finish(self, node, token):
        pass


def set_up(way, monkeypatch):
    monkeypatch.setattr(entry, "always_ordered", way == "ordered")
    monkeypatch.setattr(node_observers, "observer", Onlooker() if way == "watched" else None)
    monkeypatch.setattr(side_by_side, "threads", 3 if way == "threads" else 1)


def run(way, loss, leaves):
    if way == "recorded":
        grads = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
        return [None if g is None else g.detach().numpy().tobytes() for g in grads]
    loss.backward()
    return [None if one.grad is None else one.grad.numpy().tobytes() for one in leaves]


def watched(loss):
    """Logs each node of a graph as it runs."""
    log = []
    for step in plan(loss):
        if step.does == "run":
            step.node.register_prehook(lambda g, node=step.node: log.append(node))
    return log


WAYS = ["plain", "recorded", "ordered", "watched", "threads"]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("way", WAYS)
def test_every_pass_runs_as_planned(way, seed, monkeypatch):
    """E-63, E-67"""
    set_up(way, monkeypatch)
    leaves, loss, _ = random_graph(seed)
    order = [step.node for step in plan(loss) if step.does == "run"]
    log = watched(loss)
    run(way, loss, leaves)
    assert log == order


@pytest.mark.parametrize("seed", range(40))
def test_every_pass_adds_in_the_same_order(seed, monkeypatch):
    """E-67, E-76: not one bit differs."""
    results = []
    for way in WAYS:
        set_up(way, monkeypatch)
        leaves, loss, _ = random_graph(seed)
        results.append(run(way, loss, leaves))
    assert all(result == results[0] for result in results)


def test_leaves_come_as_soon_as_they_are_complete():
    x, w = leaf(1.0), leaf(2.0)
    a = x.exp()
    order = plan((a * w).sum())
    assert [(step.name, step.does) for step in order] == [
        ("SumBackward0", "run"),
        ("MulBackward0", "run"),
        ("AccumulateGrad", "accumulate"),
        ("ExpBackward0", "run"),
        ("AccumulateGrad", "accumulate"),
    ]
    assert order[2].node.variable is w
    assert order[1].origin.source.startswith("order = plan(")


def test_it_is_the_order_that_the_pass_itself_tells():
    """E-68"""
    _, loss, _ = random_graph(3)
    told = []
    loss.register_hook(lambda g: told.append(_C._current_graph_task_execution_order()))
    with torch.autograd.set_multithreading_enabled(False):
        loss.backward(retain_graph=True)
    assert told == [[step.node for step in plan(loss)]]


def test_nothing_runs_and_nothing_is_freed():
    x = leaf(1.0)
    y = x.exp()
    y.register_hook(lambda g: pytest.fail("ran"))
    assert len(plan(y)) == 2
    assert x.grad is None
    assert y.grad_fn._saved_result is not None


def test_inputs_prune_it_as_they_prune_the_pass():
    """E-69, E-70"""
    x, w = leaf(1.0), leaf(2.0)
    a = x.exp()
    b = a * w
    assert [step.does for step in plan(b, inputs=[a])] == ["run", "run"]
    assert [step.does for step in plan(b, inputs=[a], accumulate=False)] == ["run", "capture"]
    assert [step.does for step in plan(b, inputs=w)] == ["run", "accumulate"]
    assert len(plan(b, inputs=leaf(1.0))) == 0
    with pytest.raises(RuntimeError, match="inputs"):
        plan(b, inputs=[])
    with pytest.raises(RuntimeError, match="does not require grad"):
        plan(torch.ones(1))


def test_it_prints_as_a_table():
    x = torch.ones(2, 3, requires_grad=True)
    order = plan((x * 2).sum())
    first, header, *rows = repr(order).splitlines()
    assert first == "backward pass: 2 nodes, 1 leaves"
    assert header.split()[:3] == ["step", "node", "gradient"]
    assert rows[1].split()[:5] == ["2", "MulBackward0", "float32[2,", "3]", "run"]
    assert "order = plan((x * 2).sum())" in rows[1]
    assert "<td>MulBackward0</td>" in order._repr_html_()


def logging_hooks(loss, pool, leaves):
    """Hooks of every kind, each writing its name."""
    log = []

    def hook(name):
        def write(*_):
            log.append(name)

        write.__qualname__ = name
        return write

    for index, tensor in enumerate(pool):
        if tensor.is_leaf:
            continue
        tensor.register_hook(hook(f"tensor {index}"))
        tensor.grad_fn.register_hook(hook(f"post {index}"))
        tensor.grad_fn.register_prehook(hook(f"pre {index}"))
    for index, one in enumerate(leaves):
        one.register_post_accumulate_grad_hook(hook(f"done {index}"))
        one.register_hook(hook(f"leaf {index}"))
    return log


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("on_leaves", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_listed_hooks_are_called_in_their_order(way, on_leaves, seed, monkeypatch):
    """E-99"""
    set_up(way, monkeypatch)
    leaves, loss, pool = random_graph(seed)
    log = logging_hooks(loss, pool, leaves if on_leaves else [])
    accumulate = way != "recorded"
    listed = hooks(loss, inputs=None if accumulate else leaves, accumulate=accumulate)
    expected = [one.function.__qualname__ for one in listed]
    run(way, loss, leaves)
    assert log == expected


@pytest.mark.parametrize("way", ["plain", "ordered", "watched", "threads"])
def test_unpack_hooks_are_called_in_the_listed_order(way, monkeypatch):
    set_up(way, monkeypatch)
    log = []

    def unpack(t):
        log.append(_C._current_autograd_node())
        return t

    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        _, loss, _ = random_graph(5)
    listed = [one.node for one in hooks(loss) if one.kind == "unpack hook"]
    loss.backward()
    assert log == listed
    assert len(log) > 10


def test_hooks_know_who_registered_them():
    x = leaf(1.0)
    y = x * 2
    y.register_hook(print)  # this line
    y.retain_grad()
    x.register_post_accumulate_grad_hook(print)  # and this
    listed = list(hooks(y))
    assert [one.kind for one in listed] == ["tensor hook", "retain_grad", "post-accumulate hook"]
    assert listed[0].registered.source == "y.register_hook(print)  # this line"
    assert listed[2].registered.source.endswith("# and this")
    assert listed[0].registered.function == "test_hooks_know_who_registered_them"


def test_a_hook_registered_by_the_library_shows_the_users_line():
    x, y = leaf(1.0), leaf(2.0)
    torch.autograd.graph.register_multi_grad_hook((x, y), lambda grads: None)  # here
    listed = hooks(x * y)
    assert {one.registered.source.rpartition("# ")[2] for one in listed} == {"here"}


def test_removed_hooks_are_not_listed_and_their_lines_forgotten():
    x = leaf(1.0)
    y = x * 2
    for _ in range(100):
        y.register_hook(print).remove()
    assert len(hooks(y)) == 0
    assert len(y.grad_fn._tensor_hooks(0).places) < 20


def test_the_list_prints_as_a_table():
    x = leaf(1.0)
    y = x * 2
    y.register_hook(test_the_list_prints_as_a_table)
    title, _, row = repr(hooks(y)).splitlines()
    assert title == "1 hooks will be called"
    assert row.split()[:4] == ["1", "MulBackward0", "tensor", "hook"]
    assert "test_order.py" in row
    assert "<td>tensor hook</td>" in hooks(y)._repr_html_()


def test_the_program_in_the_docs_runs():
    page = Path(__file__).parents[3] / "docs" / "engine-order.md"
    program = page.read_text().partition("```python\n")[2].partition("```")[0]
    exec(compile(program, str(page), "exec"), {})

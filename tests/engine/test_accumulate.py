"""Sums of gradients: their values are tested with the passes, here what else they keep."""

from contextlib import nullcontext

import numpy
import pytest

import pullback as torch
from pullback.core import node
from pullback.engine import accumulate
from pullback.utils._python_dispatch import TorchDispatchMode


def test_a_sum_with_the_zeros_of_a_step_keeps_the_format(both_passes):
    """The zeros come in the order of the gradient; in another, they would decide the sum's."""
    x = torch.randn(2, 4, 3, 3).to(memory_format=torch.channels_last).requires_grad_()
    y = torch.sign(x) * x
    (g,) = torch.autograd.grad(y, x, torch.ones_like(y))
    assert g.is_contiguous(memory_format=torch.channels_last)


LONG = {
    "broadcast": lambda x, w: (x + w).sum(),
    "linear bias": lambda x, w: torch.nn.functional.linear(x, x[:1], w).sum(),
    "layer norm bias": lambda x, w: torch.nn.functional.layer_norm(x, (1,), None, w).sum(),
    "index": lambda x, w: w[torch.zeros(len(x), dtype=torch.int64)].sum(),
    "gather": lambda x, w: w.gather(0, torch.zeros(len(x), dtype=torch.int64)).sum(),
    "embedding": lambda x, w: torch.nn.functional.embedding(
        torch.zeros(len(x), dtype=torch.int64), w[:, None]
    ).sum(),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", LONG)
def test_gradients_of_half_precision_are_summed_in_single(dtype, name):
    """3,000 ones: in half precision their sum would stop at 2,048, or at 256."""
    kind = getattr(torch, dtype)
    x, w = torch.ones(3000, 1, dtype=kind), torch.zeros(1, dtype=kind, requires_grad=True)
    LONG[name](x, w).backward()
    assert w.grad.dtype is kind
    assert w.grad.item() == pytest.approx(3000, rel=0.005)


def test_sparse_gradients_are_added_in_place_as_dense_ones_are(both_passes):
    rows = torch.tensor([0, 2, 2])
    for sparse in (True, False):
        w = torch.ones(3, 2, requires_grad=True)
        torch.nn.functional.embedding(rows, w, sparse=sparse).sum().backward()
        first, version = w.grad, w.grad._version
        torch.nn.functional.embedding(rows[:2], w, sparse=sparse).sum().backward()
        assert w.grad is first
        assert w.grad._version == version + 1
        assert w.grad.to_dense().tolist() == [[2, 2], [0, 0], [3, 3]]


class Shown(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **kwargs or {})


LEAVES = {
    "rows": lambda: torch.ones(2, 3),
    "columns": lambda: torch.ones(3, 2).t(),
    "every second": lambda: torch.ones(2, 6)[:, ::2],
    "channels last": lambda: torch.ones(2, 3, 2, 2).to(memory_format=torch.channels_last),
}
GRADIENTS = {
    "row-major": lambda x: x.detach().contiguous(memory_format=torch.contiguous_format) * 3,
    "turned": lambda x: (torch.ones(x.shape[::-1]) * 3).permute(*range(x.ndim - 1, -1, -1)),
    "everywhere": lambda x: torch.full((), 3.0).expand(x.shape),
    "the leaf's": lambda x: torch.empty_like(x).fill_(3),
}


@pytest.mark.parametrize("g", GRADIENTS)
@pytest.mark.parametrize("leaf", LEAVES)
def test_a_mode_that_is_shown_every_step_changes_nothing_of_grad(both_passes, leaf, g):
    found = []
    for context in (nullcontext(), Shown()):
        x = LEAVES[leaf]().requires_grad_()
        given = GRADIENTS[g](x)
        with context:
            (x * 1).backward(given)
        first, strides = x.grad, x.grad.stride()
        assert x.grad is not given
        with context:
            x.backward(given)
            (x * 2).backward(given)
        assert x.grad is first
        assert given.detach().unique().tolist() == [3]
        found.append((strides, x.grad.tolist()))
    assert found[0] == found[1]
    assert set(numpy.ravel(found[0][1])) == {12}


@pytest.mark.parametrize("shown", [False, True])
def test_what_somebody_else_holds_is_not_a_leafs_grad(both_passes, shown):
    """Two leaves, the caller's gradient and what a hook kept: one in the memory of none other."""
    x, y = (torch.ones(3, requires_grad=True) for _ in range(2))
    kept, given = [], torch.full((3,), 5.0)
    z = x + y
    z.register_hook(kept.append)
    x.register_hook(kept.append)
    with Shown() if shown else nullcontext():
        z.backward(given)
    x.grad.zero_()
    assert [one.tolist() for one in (y.grad, given, *kept)] == [[5, 5, 5]] * 4
    y.grad.zero_()
    assert [one.tolist() for one in (given, *kept)] == [[5, 5, 5]] * 3


class Lock:
    def __init__(self):
        self.taken = 0

    def __enter__(self):
        self.taken += 1

    def __exit__(self, *error):
        pass


@pytest.mark.filterwarnings("ignore:backward.create_graph=True. stores gradients")
@pytest.mark.parametrize("create_graph", [False, True])
def test_all_who_add_to_a_leaf_take_its_one_lock(monkeypatch, create_graph):
    """Two of which each has its own would lose one of two gradients."""
    monkeypatch.setattr(node, "LOCKS", locks := [Lock() for _ in range(node.LOCK_COUNT)])
    monkeypatch.setattr(accumulate, "LOCKS", locks)
    for leaf in [torch.ones(1, requires_grad=True) for _ in range(6)]:
        its = torch.autograd.graph.get_gradient_edge(leaf).node.lock
        before = its.taken, sum(one.taken for one in locks)
        for _ in range(2):
            (leaf * 2).sum().backward(create_graph=create_graph)
        leaf.grad = None  # no cycle
        after = its.taken, sum(one.taken for one in locks)
        assert after[0] - before[0] == after[1] - before[1] >= 2

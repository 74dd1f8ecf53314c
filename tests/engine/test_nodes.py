"""Nodes as Python sees them, and what their making promises (rows E-41 to E-61)."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import threading
import weakref

import pytest

import pullback as torch
from pullback.autograd import Function
from pullback.core.node import walk
from pullback.core.sequence import thread_of
from tests.leaves import double_leaf as leaf


class Twice(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


X = torch.ones(2, 3, requires_grad=True)
V = torch.ones(3, requires_grad=True)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: X + 1, "AddBackward0"),
        (lambda: X * 2, "MulBackward0"),
        (lambda: X**2, "PowBackward0"),
        (lambda: X**X, "PowBackward1"),
        (lambda: X.sum(), "SumBackward0"),
        (lambda: X.sum(0), "SumBackward1"),
        (lambda: X.mean(), "MeanBackward0"),
        (lambda: X.mean(0), "MeanBackward1"),
        (lambda: X.max(), "MaxBackward1"),
        (lambda: X.max(0).values, "MaxBackward0"),
        (lambda: X.clamp(0, 1), "ClampBackward1"),
        (lambda: X.view(3, 2), "ViewBackward0"),
        (lambda: X.t(), "TBackward0"),
        (lambda: X.transpose(0, 1), "TransposeBackward0"),
        (lambda: X.permute(1, 0), "PermuteBackward0"),
        (lambda: X[0], "SelectBackward0"),
        (lambda: X[:, 1:], "SliceBackward0"),
        (lambda: X[torch.tensor([0, 1])], "IndexBackward0"),
        (lambda: torch.cat([X, X]), "CatBackward0"),
        (lambda: X.to(torch.float64), "ToCopyBackward0"),
        (lambda: X.mm(X.t()), "MmBackward0"),
        (lambda: torch.addmm(V, X, torch.ones(3, 3)), "AddmmBackward0"),
        (lambda: X.clone().mul_(2), "MulBackward0"),
        (lambda: Twice.apply(X), "TwiceBackward"),
    ],
)
def test_nodes_have_torchs_names(make, name):
    """E-41, E-42, E-43"""
    node = make().grad_fn
    assert type(node).__name__ == name
    assert node.name() == name
    assert re.search(rf"{name} object at 0x", repr(node))


def test_a_tensor_shows_its_node():
    """E-43"""
    assert "grad_fn=<MulBackward0>" in repr(leaf(1.0) * 2)


def test_special_nodes_answer_with_a_prefix():
    """E-42, E-44"""
    node = (X * 2).grad_fn.next_functions[0][0]
    assert type(node).__name__ == "AccumulateGrad"
    assert node.name() == "torch::autograd::AccumulateGrad"
    base = leaf(1.0, 2.0) * 1
    base[0] = 5.0
    assert type(base.grad_fn).__name__ == "CopySlices"


def test_next_functions_have_a_pair_for_each_differentiable_argument():
    """E-45"""
    x = leaf(1.0)
    pairs = (x * 2).grad_fn.next_functions
    assert len(pairs) == 2
    assert pairs[0][0].variable is x
    assert pairs[1] == (None, 0)


def test_nodes_keep_their_identity_and_the_graph_below_alive():
    """E-46"""
    x = leaf(1.0)
    y = x * 2
    z = y * 3
    node = z.grad_fn
    inner = node.next_functions[0][0]
    assert inner is y.grad_fn
    assert {inner: 1}[y.grad_fn] == 1
    alive = weakref.ref(inner)
    del y, z, inner
    assert alive() is not None
    del node
    assert alive() is None


def test_a_leaf_has_one_accumulator_while_a_graph_lives():
    """E-47"""
    x = leaf(1.0)
    first, second = x * 2, x * 3
    node = first.grad_fn.next_functions[0][0]
    assert node is second.grad_fn.next_functions[0][0]
    assert node.variable is x
    fired = []
    node.register_hook(lambda i, o: fired.append(1))
    del node, first, second
    (x * 2).backward()
    assert fired == []


def test_data_of_another_dtype_takes_a_leaf_off_its_accumulator():
    """E-48"""
    x = leaf(1.0, 2.0)
    y = x * 2
    old = y.grad_fn.next_functions[0][0]
    x.data = torch.ones(2, dtype=torch.float32)
    assert (x * 2).grad_fn.next_functions[0][0] is not old
    x = leaf(1.0, 2.0)
    y = x * 2
    old = y.grad_fn.next_functions[0][0]
    x.data = torch.ones(3, dtype=torch.float64)
    z = x * 2
    assert z.grad_fn.next_functions[0][0] is old
    with pytest.raises(RuntimeError, match="shape"):
        z.sum().backward()


def test_metadata_is_the_users_dict():
    """E-49"""
    node = (leaf(1.0) * 2).grad_fn
    assert node.metadata == {}
    node.metadata["mine"] = 1
    assert node.metadata == {"mine": 1}
    assert node.requires_grad is True


def test_input_metadata_describes_each_gradient():
    """E-50"""
    (entry,) = (leaf(1.0, 2.0) * 2).grad_fn._input_metadata
    assert tuple(entry.shape) == (2,)
    assert entry.dtype is torch.float64
    assert entry.device == torch.device("cpu")
    assert not entry.is_nested_tensor
    assert not entry.is_cpp_nested_tensor
    several = leaf(1.0, 2.0).unbind(0)[0].grad_fn._input_metadata
    assert [tuple(one.shape) for one in several] == [(), ()]


def test_sequence_numbers_grow_and_can_be_read_ahead_and_set():
    """E-51"""
    x = leaf(1.0)
    ahead = torch.autograd._get_sequence_nr()
    assert torch.autograd._get_sequence_nr() == ahead
    y = x * 2
    assert y.grad_fn._sequence_nr() == ahead
    assert (y * 2).grad_fn._sequence_nr() == ahead + 1
    assert y.grad_fn.next_functions[0][0]._sequence_nr() == 2**64 - 1


def test_every_node_takes_hooks():
    """E-52"""
    x = leaf(1.0)
    y = x * 2
    y.register_hook(lambda g: None)
    for node in (y.grad_fn, y.grad_fn.next_functions[0][0], Twice.apply(x).grad_fn):
        node.register_hook(lambda i, o: None).remove()
        node.register_prehook(lambda o: None).remove()
    y.grad_fn._register_hook_dict(y)
    y.backward()
    assert x.grad.item() == 2


def test_saved_values_can_be_read():
    """E-53, E-54"""
    x = leaf(2.0)
    y = x * x
    assert y.grad_fn._saved_self is x
    assert y.grad_fn._saved_other is x
    e = x.exp()
    result = e.grad_fn._saved_result
    assert result is not e
    assert result.grad_fn is e.grad_fn
    assert result.data_ptr() == e.data_ptr()
    s = x.sum(0, keepdim=True)
    assert s.grad_fn._saved_keepdim is True
    assert tuple(s.grad_fn._saved_self_sym_sizes) == (1,)
    assert (x * 2).grad_fn._saved_self is None


def test_a_node_is_callable():
    """E-55"""
    x = leaf(2.0)
    node = (x * 3).grad_fn
    fired = []
    node.register_hook(lambda i, o: fired.append(1))
    g = torch.ones(1, dtype=torch.float64)
    for _ in range(2):
        assert node(g)[0].item() == 3
    assert fired == []
    for bad in (lambda: node(), lambda: node(g, g), lambda: node(3), lambda: node(g=g)):
        with pytest.raises(TypeError):
            bad()
    custom = Twice.apply(x).grad_fn
    assert custom.apply(g).item() == 2


def test_no_node_and_no_number_without_need():
    """E-57"""
    before = torch.autograd._get_sequence_nr()
    torch.ones(1) * 2
    with torch.no_grad():
        assert (leaf(1.0) * 2).grad_fn is None
    assert torch.autograd._get_sequence_nr() == before


def test_in_place_gives_the_tensor_a_new_node_and_leaves_the_old_one():
    """E-60"""
    x = leaf(1.0)
    y = x * 2
    old = y.grad_fn
    fired = []
    old.register_hook(lambda i, o: fired.append(1))
    y.mul_(3)
    assert y.grad_fn is not old
    assert y.grad_fn.next_functions[0][0] is old
    y.backward()
    assert fired == [1]
    assert x.grad.item() == 6


@pytest.mark.usefixtures("both_passes")
@pytest.mark.parametrize("fails", [False, True])
def test_deep_chains_are_run_failed_and_dropped_without_recursion(fails):
    """E-61"""
    x = leaf(1.0)
    y = x * 1.0
    if fails:
        y.register_hook(lambda g: 1 / 0)
    for _ in range(50_000):
        y = y + 1.0
    if fails:
        with pytest.raises(ZeroDivisionError):
            y.backward()
    else:
        y.backward()
        assert x.grad.item() == 1
    node = weakref.ref(y.grad_fn)
    del y
    gc.collect()
    assert node() is None


def in_new_thread(work):
    results = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join(60)
    return results[0]


def test_every_thread_numbers_its_nodes_from_0():
    """E-58"""
    x = leaf(1.0)

    def work():
        ahead = torch.autograd._get_sequence_nr()
        numbers = [(x * 2).grad_fn._sequence_nr() for _ in range(3)]
        return ahead, numbers, torch.autograd._get_sequence_nr()

    before = torch.autograd._get_sequence_nr()
    for _ in range(2):
        assert in_new_thread(work) == (0, [0, 1, 2], 3)
    assert torch.autograd._get_sequence_nr() == before
    assert (x * 2).grad_fn._sequence_nr() == before
    assert (x * 2).grad_fn._sequence_nr() == before + 1


def test_a_node_knows_the_thread_that_made_it():
    """E-58"""
    x = leaf(1.0)
    made, ident = in_new_thread(lambda: (x * 2, threading.get_ident()))
    assert thread_of(made.grad_fn._seq) == ident
    assert thread_of((x * 2).grad_fn._seq) == threading.get_ident()


def test_a_program_of_one_thread_counts_with_a_bare_counter():
    """E-58: telling threads apart costs nothing before there are two."""
    program = (
        "import threading, pullback as torch\n"
        "from pullback.core import sequence\n"
        "x = torch.ones(1, requires_grad=True)\n"
        "first = (x * 1).grad_fn._sequence_nr()\n"
        "assert type(sequence.numbering.next.__self__).__name__ == 'count'\n"
        "assert sequence.numbering.numbers is sequence.numbering.next.__self__\n"
        "thread = threading.Thread(target=lambda: x * 1)\n"
        "thread.start(); thread.join()\n"
        "assert sequence.numbering.next is sequence.among_threads\n"
        "print(first, (x * 1).grad_fn._sequence_nr(), (x + 1).grad_fn._sequence_nr())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.split() == ["0", "1", "2"]


def test_threads_build_one_graph_together():
    """E-58, E-63: the newest node runs first, whichever thread made it."""
    x = leaf(2.0)
    log = []
    y = x
    for step in range(6):
        y = in_new_thread(lambda y=y: y * 2) if step % 2 else y * 3
        y.register_hook(lambda g, step=step: log.append(step))
    y.backward()
    assert log == [5, 4, 3, 2, 1, 0]
    assert x.grad.item() == 6**3


def test_edges_lead_to_older_nodes():
    """E-59: a node's number proves that no path leads from an older node to a newer one."""
    x = leaf(1.0, 2.0, 3.0)
    y = x * 2
    view = y[1:]
    y.mul_(3)
    view.add_(x[0])
    z = (y * view.sum()).cumsum(0).sum() + in_new_thread(lambda: (x * 2).sum())
    nodes = list(walk(iter([z.grad_fn])))
    assert len(nodes) > 10
    for node in nodes:
        for after, _ in node.next_functions:
            assert after is None or after._seq > node._seq


@pytest.mark.parametrize("make", [lambda: X * 2, lambda: X.unbind(0)[0], lambda: Twice.apply(X)])
def test_weak_references_to_nodes_do_not_keep_them(make):
    """E-56"""
    y = make()
    node = weakref.ref(y.grad_fn)
    assert node() is y.grad_fn
    del y
    assert node() is None

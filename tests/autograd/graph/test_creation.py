"""A call for every node that is made inside a block."""

import threading

import pytest

import pullback as torch
from pullback.autograd.graph import node_creation_hook


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def names(nodes):
    return [node.name() for node in nodes]


def test_nodes_made_inside_are_told_and_no_others():
    x = torch.ones(2, requires_grad=True)
    seen = []
    with node_creation_hook(seen.append):
        y = (x * 3).sin()
    z = y * 5
    assert names(seen) == ["MulBackward0", "SinBackward0"]
    assert seen[1] is y.grad_fn
    assert z.grad_fn not in seen


def test_nodes_are_complete_when_they_are_told():
    x = torch.full((2,), 2.0, requires_grad=True)
    found = []
    with node_creation_hook(lambda node: found.append((node._saved_self, node.next_functions))):
        x.square()
    ((saved, edges),) = found
    assert saved is x
    assert edges[0][0].variable is x


def test_hooks_of_backward_and_notes_can_be_put_on_them():
    x = torch.ones(2, requires_grad=True)

    def tenfold(node):
        node.metadata["region"] = "first"
        node.register_prehook(lambda grads: (grads[0] * 10,))

    with node_creation_hook(tenfold):
        z = x.exp()
    z.sum().backward()
    assert torch.allclose(x.grad, 10 * x.detach().exp())
    assert z.grad_fn.metadata == {"region": "first"}


def test_functions_and_writes_count():
    x = torch.ones(2, requires_grad=True)
    seen = []
    with node_creation_hook(seen.append):
        y = Double.apply(x)
        y = y.clone()
        y.mul_(3)
        y[0] = 5.0
        y[1:].exp_()
    assert {"DoubleBackward", "CloneBackward0", "MulBackward0"} <= set(names(seen))
    assert names(seen).count("torch::autograd::CopySlices") == 2
    y.sum().backward()
    assert torch.allclose(x.grad, torch.tensor([0.0, 6.0]) * torch.tensor(6.0).exp())


def test_nodes_of_higher_derivatives_and_second_runs_count():
    x = torch.ones(1, requires_grad=True)
    seen = []
    with node_creation_hook(seen.append):
        (g,) = torch.autograd.grad(x.sin(), x, create_graph=True)
    assert g.grad_fn in seen
    y = torch.utils.checkpoint.checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False)
    seen.clear()
    with node_creation_hook(seen.append):
        y.backward()
    assert "SinBackward0" in names(seen)


def test_nested_blocks_call_the_outer_hook_first_and_end_with_the_block():
    x = torch.ones(1, requires_grad=True)
    order = []
    with node_creation_hook(lambda node: order.append("outer")):
        with node_creation_hook(lambda node: order.append("inner")):
            y = x * 2
        y * 2
    assert order == ["outer", "inner", "outer"]


def test_other_threads_are_left_alone():
    x = torch.ones(1, requires_grad=True)
    seen = []
    with node_creation_hook(seen.append):
        thread = threading.Thread(target=lambda: x * 2)
        thread.start()
        thread.join()
    assert seen == []


def test_errors_of_the_hook_and_answers_are_refused():
    x = torch.ones(1, requires_grad=True)
    with pytest.raises(TypeError, match="must be callable"):
        node_creation_hook(3)
    with pytest.raises(RuntimeError, match="returns None, this one a int"), node_creation_hook(id):
        x * 2
    with pytest.raises(ZeroDivisionError), node_creation_hook(lambda node: 1 / 0):
        x * 2
    assert (x * 2).requires_grad  # nobody looks on any more


def test_callbacks_run_when_the_pass_is_over():
    x = torch.ones(1, requires_grad=True)
    seen = []
    x.register_hook(lambda g: torch.autograd.graph.queue_callback(lambda: seen.append(x.grad)))
    (x * 2).backward()
    assert seen[0].tolist() == [2]
    with pytest.raises(RuntimeError):
        torch.autograd.graph.queue_callback(lambda: None)

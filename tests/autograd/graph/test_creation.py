"""Hooks for every node that is made inside a block."""

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


def test_nodes_made_inside_are_hooked_and_no_others():
    x = torch.ones(2, requires_grad=True)
    seen = []
    with node_creation_hook(lambda grads: seen.append(("before", grads[0].tolist()))):
        y = x * 3
    z = y * 5
    z.sum().backward()
    assert seen == [("before", [5.0, 5.0])]
    assert x.grad.tolist() == [15, 15]


def test_hooks_may_change_gradients_and_see_functions_and_writes():
    x = torch.ones(2, requires_grad=True)
    post = []
    with node_creation_hook(None, lambda inputs, outputs: post.append(len(outputs))):
        y = Double.apply(x)
        y = y.clone()
        y.mul_(3)
    y.sum().backward()
    assert len(post) >= 3
    x.grad = None
    with node_creation_hook(lambda grads: (grads[0] * 10,)):
        z = x.exp()
    z.sum().backward()
    assert torch.allclose(x.grad, 10 * x.detach().exp())


def test_nested_blocks_call_the_outer_hooks_first_and_end_with_the_block():
    x = torch.ones(1, requires_grad=True)
    order = []
    with node_creation_hook(lambda g: order.append("outer")):
        with node_creation_hook(lambda g: order.append("inner")):
            y = x * 2
        z = y * 2
    z.backward()
    assert order == ["outer", "outer", "inner"]


def test_other_threads_are_left_alone():
    x = torch.ones(1, requires_grad=True)
    made, seen = [], []
    with node_creation_hook(seen.append):
        thread = threading.Thread(target=lambda: made.append(x * 2))
        thread.start()
        thread.join()
    made[0].backward()
    assert seen == []


def test_what_is_not_supported_is_refused():
    with pytest.raises(NotImplementedError, match="always_call"):
        node_creation_hook(always_call=True)
    with pytest.raises(TypeError, match="post_hook"):
        node_creation_hook(None, 3)


def test_callbacks_run_when_the_pass_is_over():
    x = torch.ones(1, requires_grad=True)
    seen = []
    x.register_hook(lambda g: torch.autograd.graph.queue_callback(lambda: seen.append(x.grad)))
    (x * 2).backward()
    assert seen[0].tolist() == [2]
    with pytest.raises(RuntimeError):
        torch.autograd.graph.queue_callback(lambda: None)

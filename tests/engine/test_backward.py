"""backward() and grad(): every test runs through the plain and through the ordered pass."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import pullback as torch
from pullback.engine import request as entry
from tests.leaves import double_leaf as leaf


@pytest.fixture(params=["plain", "ordered"], autouse=True)
def both_passes(request, monkeypatch):
    monkeypatch.setattr(entry, "always_ordered", request.param == "ordered")


def test_gradient_of_a_product_reaches_both_factors():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x * w).sum().backward()
    assert x.grad.tolist() == [3.0, 4.0]
    assert w.grad.tolist() == [1.0, 2.0]


def test_second_backward_adds_to_the_same_grad_object():
    x = leaf(1.0, 2.0)
    (x * 2).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    assert x.grad is first
    assert first.tolist() == [5.0, 5.0]
    assert first._version == 1


def test_two_leaves_never_share_gradient_memory():
    x, y = leaf(1.0, 2.0), leaf(1.0, 2.0)
    g = torch.ones(2, dtype=torch.float64)
    (x + y).backward(g)
    x.grad.zero_()
    assert y.grad.tolist() == [1.0, 1.0]
    assert g.tolist() == [1.0, 1.0]


def test_users_gradient_argument_is_not_adopted_through_views():
    x = leaf(1.0, 2.0)
    g = torch.ones(2, 1, dtype=torch.float64)
    x.view(2, 1).backward(g)
    g.zero_()
    assert x.grad.tolist() == [1.0, 1.0]


def test_broadcast_operand_gets_the_sum():
    x, b = torch.ones(3, 2, requires_grad=True), torch.ones(2, requires_grad=True)
    (x * b).sum().backward()
    assert b.grad.tolist() == [3.0, 3.0]


def test_fan_out_sums_all_contributions_before_a_hook_sees_them():
    x = leaf(2.0)
    y = x * 1.0
    seen = []
    y.register_hook(lambda g: seen.append(g.item()))
    (y * 2 + y * 3 + y * 4).backward()
    assert seen == [9.0]
    assert x.grad.item() == 9.0


def test_hook_may_replace_the_gradient():
    x = leaf(2.0)
    y = x * 1.0
    y.register_hook(lambda g: g * 10)
    y.backward(torch.ones(1, dtype=torch.float64))
    assert x.grad.item() == 10.0


def test_leaf_hook_runs_once_with_the_total():
    x = leaf(2.0)
    seen = []
    x.register_hook(lambda g: seen.append(g.item()))
    (x * 2 + x * 3).backward()
    assert seen == [5.0]


def test_post_accumulate_hook_sees_the_stored_gradient():
    x = leaf(2.0)
    seen = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.item()))
    (x * 2).backward()
    assert seen == [2.0]


def test_retain_grad_keeps_a_copy_on_a_computed_tensor():
    x = leaf(2.0)
    y = x * 3
    y.retain_grad()
    (y * y).backward()
    assert y.grad.item() == 12.0
    assert y.retains_grad


def test_freed_graph_names_the_call_that_freed_it():
    x = leaf(2.0)
    y = x * x
    y.backward()
    with pytest.raises(RuntimeError, match=r"retain_graph=True") as caught:
        y.backward()
    assert "test_backward.py" in str(caught.value)


def test_retained_graph_runs_again():
    x = leaf(2.0)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 8.0


def test_error_in_a_rule_carries_the_forward_line():
    x = leaf(2.0)
    y = x * 1.0
    y.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.backward()
    (x * 2).backward()  # the engine is usable afterwards
    assert x.grad.item() == 2.0


def test_create_graph_gives_higher_derivatives():
    x = leaf(3.0)
    y = x * x * x
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    (h,) = torch.autograd.grad(g, x, create_graph=True)
    (t,) = torch.autograd.grad(h, x)
    assert (g.item(), h.item(), t.item()) == (27.0, 18.0, 6.0)


def test_grad_leaves_dot_grad_alone_and_frees_nothing_beyond_its_inputs():
    x = leaf(3.0)
    y = x * x
    z = y * y
    (gy,) = torch.autograd.grad(z, y)
    assert gy.item() == 18.0
    assert x.grad is None
    y.backward()  # the node of y was not executed, so its values are still there
    assert x.grad.item() == 6.0


def test_unused_input_is_an_error_unless_allowed():
    x, unused = leaf(3.0), leaf(1.0)
    with pytest.raises(RuntimeError, match="allow_unused"):
        torch.autograd.grad((x * x), [x, unused])
    _, none = torch.autograd.grad(x * x, [x, unused], allow_unused=True)
    assert none is None
    _, zeros = torch.autograd.grad(x * x, [x, unused], materialize_grads=True)
    assert zeros.tolist() == [0.0]


def test_backward_with_inputs_touches_only_those():
    x, w = leaf(2.0), leaf(5.0)
    (x * w).backward(inputs=[x])
    assert x.grad.item() == 5.0
    assert w.grad is None


def test_batched_gradients_stack_the_single_results():
    x = leaf(1.0, 2.0)
    y = x * x
    rows = torch.eye(2, dtype=torch.float64)
    (jacobian,) = torch.autograd.grad(y, x, rows, is_grads_batched=True)
    assert jacobian.tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_implicit_gradient_needs_one_element():
    with pytest.raises(RuntimeError, match="scalar"):
        (leaf(1.0, 2.0) * 2).backward()


def test_backward_on_an_untracked_tensor_says_so():
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.ones(1).sum().backward()


def test_several_outputs_of_one_node():
    x = torch.arange(6, dtype=torch.float64).reshape(3, 2).requires_grad_()
    a, _, c = x.unbind(0)
    (a * 2 + c * 3).sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0], [0.0, 0.0], [3.0, 3.0]]


def test_a_long_chain_builds_runs_and_is_freed_without_recursion():
    x = leaf(1.0)
    y = x
    for _ in range(100_000):
        y = y + 1.0
    y.backward()
    assert x.grad.item() == 1.0
    node = weakref.ref(y.grad_fn)
    del y
    assert node() is None


def test_memory_is_flat_with_the_cyclic_collector_off():
    w = torch.ones(50, 50, requires_grad=True)
    alive = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            out = (w * 2).exp().sum()
            alive.append(weakref.ref(out.grad_fn))
            out.backward()
            w.grad = None
            del out
        assert not any(ref() is not None for ref in alive)
    finally:
        gc.enable()


def test_threads_lose_no_gradient_on_a_shared_leaf():
    x = torch.zeros(100, dtype=torch.float64, requires_grad=True)

    def work():
        for _ in range(50):
            (x * 1.0).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(x.grad.numpy(), np.full(100, 200.0))


def test_grad_mode_inside_a_hook_follows_create_graph():
    x = leaf(2.0)
    seen = []
    y = x * 1.0
    y.register_hook(lambda g: seen.append(torch.is_grad_enabled()))
    y.backward(retain_graph=True)
    torch.autograd.grad(y, x, create_graph=True)
    assert seen == [False, True]


def test_hooks_on_an_accumulator_run_around_the_accumulation():
    x = leaf(2.0)
    y = x * 3
    node = y.grad_fn.next_functions[0][0]
    seen = []
    node.register_prehook(lambda grads: seen.append(("before", grads[0].item(), x.grad)))
    node.register_hook(lambda ins, outs: seen.append(("after", ins, x.grad.item())))
    y.backward()
    assert seen == [("before", 3.0, None), ("after", (), 3.0)]


def test_an_expanded_gradient_is_never_added_into():
    w = torch.ones(3, dtype=torch.float64, requires_grad=True)
    x = w * 1.0
    (x.expand(2, 3).sum() + x.sum() * 0.1 + (x * x).sum()).backward()
    np.testing.assert_allclose(w.grad.numpy(), np.full(3, 4.1))
    w.grad = None
    (w.sum() * 0.1 + (w * 2).sum()).backward()
    np.testing.assert_allclose(w.grad.numpy(), np.full(3, 2.1))


@pytest.mark.parametrize("roots", [(0, 1), b"bytes", [None]])
def test_a_pass_does_not_begin_at_what_is_no_tensor(roots):
    with pytest.raises(TypeError, match="begins at tensors"):
        torch.autograd.backward(roots)
    with pytest.raises(TypeError, match="begins at tensors"):
        torch.autograd.grad(roots, torch.ones(2, requires_grad=True))

"""Hooks: their order, what they may do, and when they fire (rows E-99 to E-114)."""

from __future__ import annotations

import gc
import weakref

import pytest

import pullback as torch
from pullback.autograd import Function, grad
from tests.leaves import double_leaf as leaf

pytestmark = pytest.mark.usefixtures("both_passes")


def test_order_of_hooks_at_one_node():
    """E-99"""
    x = leaf(1.0)
    y = x * 2
    log = []
    y.retain_grad()
    y.grad_fn.register_hook(lambda i, o: log.append(("post", o[0].item())))
    y.grad_fn.register_prehook(lambda o: (log.append(("pre", o[0].item())), (o[0] * 10,))[1])
    y.register_hook(lambda g: (log.append(("first", g.item())), g * 10)[1])
    y.register_hook(lambda g: log.append(("second", g.item())))
    y.backward()
    assert log == [("first", 1), ("second", 10), ("pre", 10), ("post", 100)]
    assert y.grad.item() == 10
    assert x.grad.item() == 200


def test_order_of_hooks_at_a_leaf():
    """E-99"""
    x = leaf(1.0)
    y = x * 2
    log = []
    node = y.grad_fn.next_functions[0][0]
    node.register_hook(lambda i, o: log.append(("post", i, o[0].item())))
    x.register_post_accumulate_grad_hook(lambda p: log.append(("accumulated", p.grad.item())))
    node.register_prehook(lambda o: (o[0] * 10,))
    x.register_hook(lambda g: g * 3)
    y.backward()
    assert log == [("accumulated", 60), ("post", (), 60)]


def test_tensor_hooks_fire_on_roots_and_captures_but_node_hooks_only_when_run():
    """E-100"""
    x = leaf(1.0)
    y = x * 2
    log = []
    y.register_hook(lambda g: log.append("tensor"))
    y.grad_fn.register_prehook(lambda o: log.append("pre"))
    y.grad_fn.register_hook(lambda i, o: log.append("post"))
    grad(y * 3, y)
    assert log == ["tensor"]
    log.clear()
    y.backward()
    assert log == ["tensor", "pre", "post"]


def test_captured_value_has_its_hooks_unless_the_node_runs_too():
    """E-101"""
    x = leaf(1.0)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    assert grad((y * 3).sum(), [y])[0].item() == 30
    gy, gx = grad((y * 3).sum(), [y, x])
    assert (gy.item(), gx.item()) == (3, 60)


def test_hooks_need_a_gradient_and_are_checked_when_called():
    """E-102"""
    with pytest.raises(RuntimeError, match="grad"):
        torch.ones(1).register_hook(print)
    x = leaf(1.0)
    y = x * 2
    y.register_hook(3)
    with pytest.raises(TypeError):
        y.backward()


def wrong_type(g):
    return 3


def wrong_shape(g):
    return torch.ones(5, dtype=torch.float64)


def wrong_dtype(g):
    return g.to(torch.float32)


@pytest.mark.parametrize(
    ("hook", "kind", "text"),
    [
        (wrong_type, TypeError, "int"),
        (wrong_shape, RuntimeError, "wrong_shape"),
        (wrong_dtype, RuntimeError, "wrong_dtype"),
    ],
)
@pytest.mark.parametrize("on_leaf", [False, True])
def test_what_a_tensor_hook_returns_is_checked(hook, kind, text, on_leaf):
    """E-103"""
    x = leaf(1.0)
    y = x * 2
    (x if on_leaf else y).register_hook(hook)
    with pytest.raises(kind, match=text):
        y.backward()


def test_a_hook_may_not_make_a_gradient_from_none():
    """E-103"""

    class Nothing(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return None

    y = leaf(1.0) * 2
    y.register_hook(lambda g: torch.ones(1, dtype=torch.float64))
    with pytest.raises(RuntimeError):
        Nothing.apply(y).backward()


def test_what_a_prehook_returns_is_checked():
    """E-104"""
    for returned, kind in (
        (lambda o: list(o), TypeError),
        (lambda o: o[0], TypeError),
        (lambda o: o * 2, RuntimeError),
        (lambda o: (torch.ones(7, dtype=torch.float64),), RuntimeError),
    ):
        y = leaf(1.0) * 2
        y.grad_fn.register_prehook(returned)
        with pytest.raises(kind):
            y.backward()
    x = leaf(1.0)
    y = x * 2
    y.grad_fn.register_prehook(lambda o: (None,))
    y.backward()
    assert x.grad is None


def test_a_posthook_sees_and_replaces_validated_results():
    """E-105"""
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    w = torch.ones(3, 2, dtype=torch.float64)
    y = x * w
    shapes = []

    def hook(i, o):
        shapes.append([None if g is None else tuple(g.shape) for g in i])
        return (i[0] * 2, *i[1:])

    y.grad_fn.register_hook(hook)
    y.sum().backward()
    assert shapes == [[(2,), None]]
    assert x.grad.tolist() == [6, 6]
    y = leaf(1.0) * 2
    y.grad_fn.register_hook(lambda i, o: list(i))
    with pytest.raises(TypeError):
        y.backward()


def test_post_accumulate_hooks_get_the_leaf():
    """E-106"""
    with pytest.raises(RuntimeError):
        (leaf(1.0) * 2).register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError):
        torch.ones(1).register_post_accumulate_grad_hook(print)
    x = leaf(1.0)
    seen = []

    def clear(p):
        seen.append((p is x, p.grad.item(), torch.is_grad_enabled()))
        p.grad = None
        return p

    x.register_post_accumulate_grad_hook(clear)
    (x * 2).backward()
    assert seen == [(True, 2, False)]
    assert x.grad is None
    for returned, kind in ((3, TypeError), (torch.ones(1), RuntimeError)):
        x = leaf(1.0)
        x.register_post_accumulate_grad_hook(lambda p, returned=returned: returned)
        with pytest.raises(kind):
            (x * 2).backward()


def test_hooks_stay_with_the_node_and_retain_grad_moves_on():
    """E-107"""
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    log = []
    y.register_hook(lambda g: log.append(("old", g.item())))
    y.mul_(5)
    y.register_hook(lambda g: log.append(("new", g.item())))
    (y * 3).backward()
    assert log == [("new", 3), ("old", 15)]
    assert y.grad.item() == 3


def test_leaf_hooks_belong_to_the_tensor():
    """E-108"""
    x, w = leaf(1.0), leaf(1.0)
    y = (x * 2) * w
    log = []
    y.register_hook(lambda g: x.register_hook(lambda g: log.append("late")) and None)
    x.register_hook(lambda g: log.append("early"))
    y.backward()
    assert log == ["early", "late"]
    log.clear()
    (x * 2).backward()
    assert log == ["early", "late"]


def test_a_running_list_of_hooks_is_a_snapshot():
    """E-109"""
    x = leaf(1.0)
    a = x * 2
    b = a * 3
    log = []

    def first(g):
        log.append("first")
        handle.remove()
        b.register_hook(lambda g: log.append("added"))
        a.register_hook(lambda g: log.append("older node"))

    b.register_hook(first)
    handle = b.register_hook(lambda g: log.append("removed meanwhile"))
    b.backward()
    assert log == ["first", "removed meanwhile", "older node"]


def test_a_posthook_added_while_its_node_runs_gets_no_gradients():
    """E-110"""
    seen = []

    class Own(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            ctx.register_hook(lambda i, o: seen.append((len(i), o)))
            return g * 2

    x = leaf(1.0)
    Own.apply(x).backward()
    assert seen == [(1, ())]
    grad(Own.apply(x), x, create_graph=True)
    assert seen[1:] == [(1, ())]


def test_hooks_run_in_each_pass_and_removal_is_idempotent():
    """E-111"""
    x = leaf(1.0)
    y = x * 2
    log = []
    handle = y.register_hook(lambda g: log.append(1))
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    handle.remove()
    handle.remove()
    y.backward()
    assert log == [1, 1]
    del y
    handle.remove()


def test_retained_gradients_are_new_objects_and_do_not_keep_the_tensor():
    """E-112"""
    x = leaf(1.0)
    y = x * 2
    z = y * 3
    y.retain_grad()
    z.backward(retain_graph=True)
    first = y.grad
    z.backward(retain_graph=True)
    assert y.grad is not first
    assert (first.item(), y.grad.item()) == (3, 6)
    alive = weakref.ref(y)
    del y
    gc.collect()
    assert alive() is None
    z.backward()


def test_retained_gradient_of_a_sum_is_contiguous_and_its_own():
    """E-112"""
    x = torch.ones(2, 3, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.sum().backward()
    assert y.grad.is_contiguous()
    y.grad.zero_()


def test_hooks_of_a_recorded_pass_are_differentiable():
    """E-113"""
    x = leaf(3.0)
    y = x * x
    y.register_hook(lambda g: g * x)
    (g,) = grad(y, x, create_graph=True)
    assert g.item() == 18
    assert grad(g, x)[0].item() == 12


def test_hooks_of_several_outputs_fire_in_order_of_first_registration():
    """E-114"""
    a, b = leaf(1.0, 2.0).unbind(0)
    log = []
    b.register_hook(lambda g: log.append(("b", g.item())))
    a.register_hook(lambda g: log.append(("a", g.item())))
    b.register_hook(lambda g: log.append(("b2", g.item())))
    (a * 2 + b * 3).backward()
    assert log == [("b", 3), ("b2", 3), ("a", 2)]


def _of_tensor(x, y, hook):
    y.register_hook(hook)


def _before_node(x, y, hook):
    y.grad_fn.register_prehook(hook)


def _after_node(x, y, hook):
    y.grad_fn.register_hook(hook)


def _of_leaf(x, y, hook):
    x.register_hook(hook)


def _after_leaf(x, y, hook):
    x.register_post_accumulate_grad_hook(hook)


@pytest.mark.parametrize("kind", [_of_tensor, _before_node, _after_node, _of_leaf, _after_leaf])
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.filterwarnings("ignore:backward.create_graph=True. stores gradients")
def test_what_a_hook_does_to_grad_mode_ends_with_it(both_passes, kind, create_graph):
    seen = []

    def hook(*_):
        seen.append(torch.is_grad_enabled())
        torch.set_grad_enabled(not create_graph)

    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    kind(x, y, hook)
    if kind is not _after_leaf:
        kind(x, y, hook)
    y.sin().sum().backward(create_graph=create_graph)
    assert seen == [create_graph] * (1 if kind is _after_leaf else 2)
    assert torch.is_grad_enabled()
    assert x.grad.requires_grad == create_graph
    x.grad = None  # no cycle


def test_a_hook_may_not_change_the_layout_of_a_gradient(both_passes):
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: g.to_sparse())
    with pytest.raises(RuntimeError, match="layout"):
        y.sum().backward()
    assert x.grad is None

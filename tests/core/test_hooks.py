"""Hooks on tensors: when they run, in which order, what they may return, and how they go."""

import gc
import weakref

import pytest

import pullback as torch
from tests.leaves import leaf


def test_handle_removes_once_or_as_a_context():
    """V-131."""
    x, seen = leaf(), []
    first = x.register_hook(lambda g: seen.append(1))
    second = x.register_hook(lambda g: seen.append(2))
    assert second.id > first.id
    assert list(x._backward_hooks) == [first.id, second.id]
    first.remove()
    first.remove()
    with second:
        (x * 1).sum().backward()
    (x * 1).sum().backward()
    assert seen == [2]


def test_hook_needs_a_tensor_that_requires_grad():
    """V-131."""
    t = torch.zeros(1)
    assert t._backward_hooks is None
    with pytest.raises(RuntimeError):
        t.register_hook(print)


def test_hook_runs_for_captured_tensors_and_replaces_what_is_captured():
    """V-132."""
    x = leaf()
    y = x * 2
    y.register_hook(lambda g: g * 10)
    (g,) = torch.autograd.grad(y.sum(), y, retain_graph=True)
    assert g.tolist() == [10.0, 10.0]
    x.register_hook(lambda g: g + 1)
    (g,) = torch.autograd.grad(y.sum(), x)
    assert g.tolist() == [21.0, 21.0]


def test_hook_that_returns_nothing_or_the_same_changes_nothing():
    """V-132."""
    x = leaf()
    x.register_hook(lambda g: None)
    x.register_hook(lambda g: g)
    x.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "hook",
    [lambda g: g.double(), lambda g: g[:1], lambda g: g.view(1, 2), lambda g: g.expand(3, 2)],
)
def test_hook_must_keep_dtype_and_shape(hook):
    """V-133."""

    def changes(g):
        return hook(g)

    for make in (leaf, lambda: leaf() * 1):
        t = make()
        t.register_hook(changes)
        with pytest.raises(RuntimeError, match="changes"):
            t.sum().backward()


def test_hook_must_return_a_tensor_and_errors_pass():
    """V-133."""
    x = leaf()
    x.register_hook(lambda g: 3)
    with pytest.raises(TypeError):
        x.sum().backward()
    y = leaf() * 1

    def fail(g):
        raise KeyError("mine")

    y.register_hook(fail)
    with pytest.raises(KeyError, match="mine"):
        y.sum().backward()


def test_order_around_a_node():
    """V-134."""
    order = []
    x = leaf()
    y = x * 2
    note = lambda name: lambda *args: order.append(name)  # noqa: E731 (kept by name)
    y.grad_fn.register_hook(note("post"))
    y.grad_fn.register_prehook(note("pre"))
    y.register_hook(note("first"))
    y.register_hook(note("second"))
    y.sum().backward()
    assert order == ["first", "second", "pre", "post"]


def test_order_around_a_leaf():
    """V-134."""
    order = []
    x = leaf()
    y = x * 2
    node = y.grad_fn.next_functions[0][0]
    note = lambda name: lambda *args: order.append((name, x.grad is not None))  # noqa: E731 (kept by name)
    node.register_hook(note("post"))
    node.register_prehook(note("pre"))
    x.register_post_accumulate_grad_hook(note("accumulated"))
    x.register_hook(note("tensor"))
    y.sum().backward()
    assert order == [("tensor", False), ("pre", False), ("accumulated", True), ("post", True)]


def test_hook_may_see_none_and_must_leave_it():
    """V-135."""
    seen = []
    a, b = (leaf() * 1).unbind(0)
    b.register_hook(seen.append)
    a.backward()
    assert seen == [None]
    a, b = (leaf() * 1).unbind(0)
    b.register_hook(lambda g: torch.zeros(()))
    with pytest.raises(RuntimeError):
        a.backward()


def test_leaf_hooks_added_after_the_forward_fire():
    """V-136."""
    x, seen = leaf(), []
    y = (x * 2).sum()
    x.register_hook(lambda g: seen.append(g.tolist()))
    y.backward()
    assert seen == [[2.0, 2.0]]


def test_hooks_of_a_dead_tensor_fire():
    """V-136."""
    seen = []
    y = leaf() * 2
    y.register_hook(lambda g: seen.append(1))
    z = y.sum()
    del y
    z.backward()
    assert seen == [1]


def test_set_of_hooks_of_a_pass_is_that_at_its_start():
    """V-136."""
    for make in (leaf, lambda: leaf() * 1):
        t, seen, handles = make(), [], []

        def first(g, seen=seen, handles=handles):
            seen.append("first")
            for handle in handles:
                handle.remove()

        handles.append(t.register_hook(first))
        handles.append(t.register_hook(lambda g, seen=seen: seen.append("second")))
        loss = t.sum()
        loss.backward(retain_graph=True)
        loss.backward()
        assert seen == ["first", "second"]


def test_hooks_stay_with_the_value_they_were_put_on():
    """V-137."""
    x, seen = leaf(), []
    y = x * 1
    y.register_hook(lambda g: seen.append(("old", g.tolist())))
    y.mul_(5)
    assert y._backward_hooks is None
    y.register_hook(lambda g: seen.append(("new", g.tolist())))
    (y * 2).sum().backward()
    assert seen == [("new", [2.0, 2.0]), ("old", [10.0, 10.0])]


def test_hook_on_a_stale_view_belongs_to_the_new_value():
    """V-138."""
    x, seen = leaf(1.0, 2.0, 3.0), []
    y = x * 1
    v = y[:2]
    y.mul_(4)
    v.register_hook(lambda g: seen.append(g.tolist()))
    (v * 3).sum().backward()
    assert seen == [[3.0, 3.0]]
    assert x.grad.tolist() == [12.0, 12.0, 0.0]


def test_leaf_hooks_do_not_fire_once_the_tensor_is_computed():
    """V-139."""
    x, seen = leaf(), []
    x.register_hook(lambda g: seen.append(1))
    x.requires_grad_(False)
    x.mul_(leaf())
    x.sum().backward()
    assert seen == []


def test_post_accumulate_hooks():
    """V-140."""
    x, seen = leaf(), []

    def hook(t):
        seen.append((t is x, t.grad.tolist(), torch.is_grad_enabled()))
        t.grad = None

    handle = x.register_post_accumulate_grad_hook(hook)
    assert list(x._post_accumulate_grad_hooks) == [handle.id]
    (x * 2 + x).sum().backward()
    assert seen == [(True, [3.0, 3.0], False)]
    assert x.grad is None
    for t in (x * 1, torch.zeros(1)):
        with pytest.raises(RuntimeError):
            t.register_post_accumulate_grad_hook(hook)


def test_post_accumulate_hook_may_change_the_leaf():
    """V-140."""
    x = leaf()
    x.register_post_accumulate_grad_hook(lambda t: t.sub_(t.grad))
    (x * 1).sum().backward()
    assert x.tolist() == [0.0, 1.0]


def test_post_accumulate_hooks_run_for_backward_only():
    """V-141."""
    x, seen = leaf(), []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(1))
    torch.autograd.grad((x * 2).sum(), x)
    assert seen == []
    (x * 2).sum().backward(inputs=[x])
    assert seen == [1]


def test_post_accumulate_hook_must_return_nothing():
    """V-141."""
    x = leaf()
    handle = x.register_post_accumulate_grad_hook(lambda t: torch.zeros(2))
    with pytest.raises(RuntimeError):
        x.sum().backward()
    handle.remove()
    x.register_post_accumulate_grad_hook(lambda t: 3)
    with pytest.raises(TypeError):
        x.sum().backward()


def test_post_accumulate_hook_runs_for_undefined_gradients():
    """V-141."""

    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return None

    x, seen = leaf(), []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad))
    Nothing.apply(x).sum().backward()
    assert seen == [None]


# Hooks on several tensors ------------------------------------------------------------------------


def test_all_hook_is_called_once_with_every_gradient():
    """V-142."""
    a, b, c, seen = leaf(), leaf(), leaf(), []
    handle = torch.autograd.graph.register_multi_grad_hook(
        (a, b, c), lambda grads: seen.append([None if g is None else g.tolist() for g in grads])
    )
    loss = (a * 2 + b * 3).sum()
    loss.backward(retain_graph=True)
    assert seen == [[[2.0, 2.0], [3.0, 3.0], None]]
    loss.backward(retain_graph=True)
    assert len(seen) == 2
    handle.remove()
    loss.backward()
    assert len(seen) == 2


def test_any_hook_is_called_at_the_first_gradient():
    """V-142."""
    a, b, seen = leaf(), leaf(), []
    torch.autograd.graph.register_multi_grad_hook(
        (a, b), lambda g: seen.append(g.tolist()), mode="any"
    )
    (a * b).sum().backward()
    assert len(seen) == 1


def test_bad_mode_is_refused():
    """V-142."""
    with pytest.raises(ValueError, match="some"):
        torch.autograd.graph.register_multi_grad_hook((leaf(),), print, mode="some")


def test_multi_hook_on_non_leaves():
    """V-142."""
    x, seen = leaf(), []
    y, z = x * 2, x * 3
    torch.autograd.graph.register_multi_grad_hook([y, z], lambda grads: seen.append(len(grads)))
    (y + z).sum().backward()
    assert seen == [2]


def test_hook_that_refers_to_its_tensor_can_be_collected():
    """V-196."""
    for make in (leaf, lambda: leaf() * 1):
        t = make()
        t.register_hook(lambda g, t=t: t)
        gone = weakref.ref(t)
        del t
        gc.collect()
        assert gone() is None


class Doubled(torch.autograd.Function):
    """Writes to both of its arguments."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.mark_dirty(a, b)
        return a.mul_(2), b.mul_(3)

    @staticmethod
    def backward(ctx, g, h):
        return g * 2, h * 3


class Fork(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, g, h):
        return g * 2 + h * 3


def _of_view(x):
    base = x * 1
    view = base[:2]
    view.retain_grad()
    base.mul_(5)
    return (view * 7).sum(), [(view, 7)]


def _of_views(x):
    base = x * 1
    first, last = base[:2], base[1:]
    first.retain_grad()
    last.retain_grad()
    first.mul_(3)
    last.mul_(2)
    return (first * 5).sum() + (last * 7).sum() + base.sum(), [(first, 5), (last, 7)]


def _of_one_function(x):
    a, b = x * 1, x * 2
    a.retain_grad()
    b.retain_grad()
    Doubled.apply(a, b)
    return (a * 5 + b * 7).sum(), [(a, 5), (b, 7)]


def _of_its_neighbour(x):
    a, b = Fork.apply(x)
    a.retain_grad()
    b.mul_(3)
    return (a * 5 + b * 7).sum(), [(a, 5)]


def _of_both_outputs(x):
    a, b = Fork.apply(x)
    a.retain_grad()
    b.retain_grad()
    b.mul_(3)
    return (a * 5 + b * 7).sum(), [(a, 5), (b, 7)]


@pytest.mark.parametrize(
    "program", [_of_view, _of_views, _of_one_function, _of_its_neighbour, _of_both_outputs]
)
def test_a_retained_gradient_is_that_of_the_value_after_all_writes(program):
    loss, retained = program(torch.ones(4, requires_grad=True))
    loss.backward()
    for tensor, expected in retained:
        assert tensor.retains_grad
        assert set(tensor.grad.tolist()) == {expected}

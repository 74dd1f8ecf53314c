"""Inputs that a Function changes in place and marks dirty (F-43 to F-53)."""

import pytest

import pullback as torch
from pullback.autograd.function import Function
from tests.leaves import double_leaf as leaf


def function(forward, backward=None, tell=None):
    """A Function of one tensor; `tell(ctx, x, result)` is what forward says to ctx."""

    class Mine(Function):
        @staticmethod
        def forward(ctx, x):
            result = forward(x)
            if tell is not None:
                tell(ctx, x, result)
            return result

        @staticmethod
        def backward(ctx, *grads):
            return backward(*grads) if backward is not None else grads[0]

    return Mine


def doubling(tell=None):
    return function(
        lambda x: x.mul_(2),
        lambda g: g * 2,
        tell or (lambda ctx, x, out: ctx.mark_dirty(x)),
    )


def test_dirty_input_is_returned_with_new_history():
    """F-43, F-44."""
    x = leaf(1.0, 2.0)
    y = x * 3
    old = y.grad_fn
    out = doubling().apply(y)
    assert out is y
    assert y.grad_fn.name() == "MineBackward"
    assert y.grad_fn.next_functions == ((old, 0),)
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_dirty_input_without_gradient_gets_one_from_the_other_argument():
    """F-44."""

    class Scale(Function):
        @staticmethod
        def forward(ctx, target, w):
            ctx.mark_dirty(target)
            ctx.save_for_backward(target.clone())
            return target.mul_(w)

        @staticmethod
        def backward(ctx, g):
            return None, g * ctx.saved_tensors[0]

    target, w = torch.full((2,), 3.0, dtype=torch.float64), leaf(5.0)
    out = Scale.apply(target, w)
    assert out is target
    assert target.requires_grad
    target.sum().backward()
    assert w.grad.tolist() == [6.0]


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad])
def test_marking_counts_as_a_write(mode):
    """F-45."""
    x = leaf(1.0) * 1
    with mode():
        doubling().apply(x)
    assert x._version == 2


def test_marking_invalidates_what_others_saved():
    """F-45."""
    x = leaf(2.0)
    y = x * 1
    square = y * y
    doubling().apply(y)
    with pytest.raises(RuntimeError, match=r"Mine \(mark_dirty\)"):
        square.sum().backward()


def test_dirty_leaf_is_refused_after_the_fact():
    """F-46."""
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="leaf"):
        doubling().apply(x)
    assert x.tolist() == [2.0]


def test_dirty_tensor_must_be_returned():
    """F-46."""
    mine = function(lambda x: x.mul_(2) * 1, tell=lambda ctx, x, out: ctx.mark_dirty(x))
    with pytest.raises(RuntimeError, match="not returned"):
        mine.apply(leaf(1.0) * 1)


def test_marking_what_is_no_input():
    """F-47."""
    fresh = function(lambda x: x * 2, tell=lambda ctx, x, out: ctx.mark_dirty(out))
    with pytest.warns(UserWarning, match="no input"):
        fresh.apply(leaf(1.0))
    view = function(lambda x: x[1:], tell=lambda ctx, x, out: ctx.mark_dirty(out))
    with pytest.raises(RuntimeError, match="view made in forward"):
        view.apply(leaf(1.0, 2.0) * 1)
    number = function(lambda x: x * 2, tell=lambda ctx, x, out: ctx.mark_dirty(3))
    with pytest.raises(RuntimeError, match="mark_dirty takes tensors, but argument 0 is a int"):
        number.apply(leaf(1.0))


def test_dirty_view_rewrites_the_history_of_its_base():
    """F-48."""
    x = leaf(1.0, 2.0, 3.0)
    base = x * 1
    view = base[1:]
    assert doubling().apply(view) is view
    assert base.grad_fn.name() == "torch::autograd::CopySlices"
    assert view.grad_fn.name() == "AsStridedBackward0"
    (base.sum() + view.sum()).backward()
    assert x.grad.tolist() == [1.0, 4.0, 4.0]


def test_dirty_view_may_be_any_argument():
    """F-48; torch sends the base's gradient to the wrong argument here."""

    class Second(Function):
        @staticmethod
        def forward(ctx, w, view, other):
            ctx.mark_dirty(view)
            return view.mul_(3).add_(w)

        @staticmethod
        def backward(ctx, g):
            return g.sum(0, True), g * 3, g * 100

    x, w, other = leaf(1.0, 2.0, 3.0), leaf(5.0), leaf(0.0, 0.0)
    base = x * 1
    Second.apply(w, base[1:], other)
    base.sum().backward()
    assert x.grad.tolist() == [1.0, 3.0, 3.0]
    assert w.grad.tolist() == [2.0]
    assert other.grad.tolist() == [100.0, 100.0]


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradient_of_a_dirty_view_is_checked(create_graph):
    """F-48, F-65."""
    mine = function(lambda x: x.mul_(2), lambda g: g.sum(), lambda ctx, x, out: ctx.mark_dirty(x))
    x = leaf(1.0, 2.0, 3.0)
    base = x * 1
    mine.apply(base[1:])
    with pytest.raises(RuntimeError, match=r"MineBackward .* shape \(\)"):
        torch.autograd.grad(base.sum(), x, create_graph=create_graph)


def test_dirty_view_whose_backward_stops_cuts_the_base():
    """V-107."""
    mine = function(lambda x: x.mul_(2), lambda g: None, lambda ctx, x, out: ctx.mark_dirty(x))
    x = leaf(1.0, 2.0)
    base = x * 1
    mine.apply(base[1:])
    base.sum().backward()
    assert x.grad is None


def test_dirty_view_with_other_results_is_refused():
    """F-48."""
    mine = function(lambda x: (x.mul_(2), 3), tell=lambda ctx, x, out: ctx.mark_dirty(x))
    with pytest.raises(RuntimeError, match="returned 2 values"):
        mine.apply((leaf(1.0, 2.0) * 1)[1:])


def test_dirty_view_must_permit_writes():
    """F-48, V-110."""
    first, _ = (leaf(1.0, 2.0) * 1).unbind()
    with pytest.raises(RuntimeError, match="several views"):
        doubling().apply(first)


def test_dirty_view_works_when_only_the_other_argument_requires_grad():
    """F-48."""

    class Fill(Function):
        @staticmethod
        def forward(ctx, view, w):
            ctx.mark_dirty(view)
            return view.copy_(w)

        @staticmethod
        def backward(ctx, g):
            return torch.zeros_like(g), g

    base, w = torch.zeros(3, dtype=torch.float64), leaf(7.0)
    Fill.apply(base[1:2], w)
    assert base.requires_grad
    (base * base).sum().backward()
    assert w.grad.tolist() == [14.0]


def test_dirty_input_may_be_returned_with_others():
    """F-49."""
    mine = function(
        lambda x: (x.mul_(2), x * 3),
        lambda g, h: g * 2 + h * 6,
        lambda ctx, x, out: ctx.mark_dirty(x),
    )
    x = leaf(1.0)
    y = x * 1
    a, b = mine.apply(y)
    assert a is y
    (a + b).sum().backward()
    assert x.grad.tolist() == [8.0]


def test_hooks_stay_with_the_old_value_and_retained_grad_follows():
    """F-50."""
    log = []
    x = leaf(1.0)
    y = x * 1
    y.register_hook(lambda g: log.append(g.tolist()))
    y.retain_grad()
    y.sum().backward()
    assert y.grad is not None
    y = x * 1
    y.register_hook(lambda g: log.append(g.tolist()))
    y.retain_grad()
    doubling().apply(y)
    (y * 5).sum().backward()
    assert log == [[1.0], [10.0]]
    assert y.grad.tolist() == [5.0]


def test_stored_grad_of_a_dirty_tensor_is_dropped():
    """F-50."""
    y = leaf(1.0) * 1
    y.retain_grad()
    y.sum().backward(retain_graph=True)
    doubling().apply(y)
    assert y.grad is None


def test_saved_dirty_tensor_is_saved_as_an_output():
    """F-51."""

    def tell(ctx, x, out):
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)

    y = leaf(3.0) * 1
    doubling(tell).apply(y)
    (saved,) = y.grad_fn.saved_tensors
    assert saved is not y
    assert saved.tolist() == [6.0]
    assert saved.grad_fn is y.grad_fn


def test_changed_but_unmarked_input_comes_back_as_a_view():
    """F-52."""
    y = leaf(3.0) * 1
    out = function(lambda x: x.mul_(2)).apply(y)
    assert out is not y
    assert out._base is y
    assert y._version == 1


def test_dirty_and_without_gradient_gives_a_detached_alias():
    """F-53."""

    def tell(ctx, x, out):
        ctx.mark_dirty(x)
        ctx.mark_non_differentiable(x)

    y = leaf(3.0) * 1
    out = doubling(tell).apply(y)
    assert out is not y
    assert not out.requires_grad
    assert out.tolist() == y.tolist() == [6.0]

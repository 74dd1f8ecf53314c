"""Results of forward: inputs and views returned, writes, results without gradient (F-19 to F-32, F-43 to
F-60). The differential tests compare the whole matrix with torch; here each rule is stated alone.
"""

from collections import namedtuple

import pytest

import pullback as torch
from pullback.autograd.function import Function


def leaf(*values):
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=True)


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


def test_structure_of_results_is_kept():
    """F-19, F-20."""
    pair = namedtuple("pair", "a b")
    x = leaf(1.0)
    assert isinstance(function(lambda x: x * 1).apply(x), torch.Tensor)
    assert len(function(lambda x: (x * 1,)).apply(x)) == 1
    assert function(lambda x: ()).apply(x) == ()
    named = function(lambda x: pair(x * 1, 2)).apply(x)
    assert type(named) is tuple
    assert named[1] == 2
    listed = function(lambda x: [x * 1]).apply(x)
    assert not listed[0].requires_grad
    thing = object()
    assert function(lambda x: (thing, x * 1)).apply(x)[0] is thing


def test_results_that_are_no_tensors_occupy_a_slot():
    """F-20, F-21."""
    seen = []
    mine = function(lambda x: ("a", x * 2, x > 0, None), lambda *gs: seen.append(gs) or gs[1])
    x = leaf(1.0)
    _, y, mask, _ = mine.apply(x)
    assert (y.output_nr, mask.requires_grad) == (1, False)
    y.sum().backward()
    a, g, m, n = seen[0]
    assert a is None
    assert n is None
    assert g.tolist() == [1.0]
    assert m.tolist() == [False]


def test_history_recorded_inside_forward_is_discarded():
    """F-22."""

    def forward(x):
        with torch.enable_grad():
            return x * 5

    x = leaf(1.0)
    out = function(forward, lambda g: g * 100).apply(x)
    assert out.grad_fn.name() == "MineBackward"
    out.sum().backward()
    assert x.grad.tolist() == [100.0]


def test_captured_tensor_gets_its_history_overwritten():
    """F-23."""
    captured = leaf(1.0)
    out = function(lambda x: captured).apply(leaf(2.0))
    assert out is captured
    assert not captured.is_leaf


def test_one_tensor_in_two_slots_belongs_to_the_last():
    """F-24."""
    seen = []
    mine = function(lambda x: (lambda y: (y, y))(x * 2), lambda *gs: seen.append(gs) or gs[1])
    a, b = mine.apply(leaf(1.0))
    assert a is b
    assert a.output_nr == 1
    (a * 2 + b).sum().backward()
    assert [g.tolist() for g in seen[0]] == [[0.0], [3.0]]


def test_results_in_inference_mode_are_inference_tensors():
    """F-25."""
    with torch.inference_mode():
        out = function(lambda x: x * 2).apply(leaf(1.0))
    assert out.is_inference()


def test_input_returned_as_is_becomes_a_view():
    """F-26, F-27."""
    x = leaf(1.0) * 1
    before = x.grad_fn
    mine = function(lambda x: (x, x), lambda g, h: g * 10 + h)
    a, b = mine.apply(x)
    assert a is not x
    assert a is not b
    assert a._base is x
    assert (a.output_nr, b.output_nr) == (0, 1)
    assert x.grad_fn is before


def test_input_returned_and_saved_in_setup_context_is_refused():
    """F-28."""

    class Mine(Function):
        @staticmethod
        def forward(x):
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])

    with pytest.raises(RuntimeError, match="view_as"):
        Mine.apply(leaf(1.0))
    with pytest.raises(RuntimeError, match="view_as"):
        Mine.apply(torch.ones(1))


def test_input_returned_under_no_grad():
    """F-29."""
    mine = function(lambda x: x)
    plain, tracked = torch.ones(2), leaf(1.0)
    with torch.no_grad():
        of_plain, of_tracked = mine.apply(plain), mine.apply(tracked)
    assert of_plain._base is plain
    assert not of_tracked._is_view()
    assert not of_tracked.requires_grad
    assert mine.apply(plain)._base is plain


@pytest.mark.parametrize("changed", ["result", "base"])
@pytest.mark.parametrize(
    ("forward", "match"),
    [(lambda x: x[1:], "custom Function"), (lambda x: (x[1:], x * 2), "several views")],
)
def test_views_from_a_function_must_not_be_changed(forward, match, changed):
    """F-30."""
    x = leaf(1.0, 2.0, 3.0) * 1
    out = function(forward).apply(x)
    view = out[0] if isinstance(out, tuple) else out
    with pytest.raises(RuntimeError, match=match):
        if changed == "result":
            view.mul_(2)
        else:
            x.mul_(2)
            view.sum()


def test_results_that_are_no_views_may_be_changed():
    """F-31."""
    x = leaf(1.0)
    a, b = function(lambda x: (x * 2, x * 3), lambda g, h: g * 2 + h * 3).apply(x)
    a.mul_(10)
    b.add_(1)
    (a + b).sum().backward()
    assert x.grad.tolist() == [23.0]


def test_pure_view_may_be_changed():
    """F-32."""
    mine = function(
        lambda x: x[1:],
        lambda g: torch.cat([g.new_zeros(1), g]),
        lambda ctx, x, out: setattr(ctx, "_is_pure_view", True),
    )
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    mine.apply(y).mul_(5)
    assert y.grad_fn.name() == "torch::autograd::CopySlices"
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 5.0, 5.0]


# In-place ---------------------------------------------------------------------------------------


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


# Without gradient, materialised gradients ---------------------------------------------------------


def test_marked_results_require_no_grad():
    """F-54, F-56, F-57."""
    seen = []
    mine = function(
        lambda x: (x * 2, x * 3),
        lambda *gs: seen.append(gs) or gs[0],
        lambda ctx, x, out: ctx.mark_non_differentiable(out[1]),
    )
    x = leaf(1.0, 2.0)
    a, b = mine.apply(x)
    assert not b.requires_grad
    assert b.grad_fn is None
    a.sum().backward()
    zeros = seen[0][1]
    assert zeros.tolist() == [0.0, 0.0]
    assert zeros.dtype == torch.float64
    assert not zeros.requires_grad
    number = function(lambda x: x * 2, tell=lambda ctx, x, out: ctx.mark_non_differentiable(3))
    with pytest.raises(RuntimeError, match="mark_non_differentiable takes tensors"):
        number.apply(x)


def test_marked_inputs_and_views():
    """F-55."""
    x = leaf(1.0, 2.0)
    out = function(lambda x: x, tell=lambda ctx, x, out: ctx.mark_non_differentiable(x)).apply(x)
    assert out is not x
    assert not out.requires_grad
    assert x.requires_grad
    view = function(
        lambda x: x[1:], tell=lambda ctx, x, out: ctx.mark_non_differentiable(out)
    ).apply(x)
    assert view.requires_grad
    assert view.grad_fn is None


def test_zeros_have_the_results_own_dtype_and_are_fresh_row_major():
    """F-56, F-57, pitfall 8."""
    seen = []
    mine = function(
        lambda x: (x * 2, x.transpose(0, 1) * 3, x.long()),
        lambda *gs: seen.append(gs) or gs[0],
    )
    x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    for _ in range(2):
        mine.apply(x)[0].sum().backward()
    (_, h, i), (_, again, _) = seen
    assert tuple(h.shape) == (3, 2)
    assert h.stride() == (2, 1)
    assert i.dtype == torch.int64
    h.add_(1)
    assert again.sum().item() == 0


def test_set_materialize_grads():
    """F-58."""
    seen = []
    mine = function(
        lambda x: (x * 2, x * 3),
        lambda *gs: seen.append(gs) or gs[0],
        lambda ctx, x, out: ctx.set_materialize_grads(False),
    )
    x = leaf(1.0)
    out = mine.apply(x)
    out[0].sum().backward()
    assert seen[0][1] is None
    with pytest.raises(AttributeError):
        _ = out[0].grad_fn.materialize_grads
    bad = function(lambda x: x * 2, tell=lambda ctx, x, out: ctx.set_materialize_grads(1))
    with pytest.raises(TypeError, match="True or False"):
        bad.apply(x)


def test_materialize_non_diff_grads():
    """F-59."""
    seen = []

    def tell(ctx, x, out):
        ctx.mark_non_differentiable(out[1])
        assert ctx._materialize_non_diff_grads is True
        ctx._materialize_non_diff_grads = False

    mine = function(
        lambda x: (x * 2, x * 3, x * 4, x > 0), lambda *gs: seen.append(gs) or gs[0], tell
    )
    mine.apply(leaf(1.0))[0].sum().backward()
    _, marked, other, mask = seen[0]
    assert marked is None
    assert mask is None
    assert other.tolist() == [0.0]


def test_backward_runs_once_with_sums_and_not_when_unreached():
    """F-60."""
    seen = []
    mine = function(lambda x: x * 2, lambda g: seen.append(g.tolist()) or g * 2)
    x = leaf(1.0)
    y = mine.apply(x)
    (y * 2 + y * 3 + y).sum().backward()
    assert seen == [[6.0]]
    mine.apply(x)
    x.sum().backward()
    assert len(seen) == 1

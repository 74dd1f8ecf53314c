"""Results of forward: inputs and views returned, results without gradient.

F-19 to F-32 and F-54 to F-60, each rule alone; the differential tests compare the whole matrix.
"""

from collections import namedtuple

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
    if changed == "result":
        with pytest.raises(RuntimeError, match=match):
            view.mul_(2)
    else:
        x.mul_(2)
        with pytest.raises(RuntimeError, match=match):
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

"""Forward mode through a Function's jvp (F-78 to F-88)."""

import pytest

import pullback as torch
from pullback.autograd import forward_ad as fw
from pullback.autograd.function import Function


def values(*numbers):
    return torch.tensor(list(numbers), dtype=torch.float64)


def pushed(function, x, t, *rest):
    """Tangents of the results at x along t."""
    with fw.dual_level():
        out = function.apply(fw.make_dual(x, t), *rest)
        outs = out if isinstance(out, tuple) else (out,)
        return [fw.unpack_dual(o).tangent if isinstance(o, torch.Tensor) else None for o in outs]


def with_jvp(forward, jvp, tell=None):
    class Mine(Function):
        @staticmethod
        def forward(ctx, x, *rest):
            out = forward(x, *rest)
            if tell is not None:
                tell(ctx, x, out)
            return out

    Mine.jvp = staticmethod(jvp)
    return Mine


class Square(Function):
    @staticmethod
    def forward(x, k):
        return x * x * k

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.k = inputs[1]
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0] * ctx.k, None

    @staticmethod
    def jvp(ctx, t, nothing):
        assert nothing is None
        return 2 * t * ctx.saved_tensors[0] * ctx.k


def test_jvp_gives_the_tangent_and_is_not_called_without():
    """F-78."""
    (tangent,) = pushed(Square, values(3.0), values(1.0), 5)
    assert tangent.tolist() == [30.0]
    calls = []
    mine = with_jvp(lambda x: x * 2, lambda ctx, t: calls.append(t))
    with fw.dual_level():
        mine.apply(values(1.0))
    assert calls == []


def test_missing_jvp_is_named():
    """F-78."""

    class Silent(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(NotImplementedError, match="Silent has no jvp"):
        pushed(Silent, values(1.0), values(1.0))


@pytest.mark.parametrize("materialize", [True, False])
def test_absent_tangents_are_zeros_or_none(materialize):
    """F-79."""
    seen = []

    class Mine(Function):
        @staticmethod
        def forward(ctx, x, w, k, i):
            ctx.set_materialize_grads(materialize)
            return x * w

        @staticmethod
        def jvp(ctx, *tangents):
            seen.extend(tangents)
            return tangents[0]

    pushed(Mine, values(1.0), values(2.0), values(3.0), 4, torch.ones(1, dtype=torch.int64))
    t, w, k, i = seen
    assert t.tolist() == [2.0]
    assert k is None
    assert i is None
    assert (w.tolist() == [0.0]) if materialize else w is None


def test_forward_sees_no_tangents_and_jvp_runs_in_the_callers_mode():
    """F-10, F-80."""
    seen = []

    def forward(x):
        seen.append(fw.unpack_dual(x).tangent)
        return x * 2

    def jvp(ctx, t):
        seen.append(torch.is_grad_enabled())
        seen.append(fw.unpack_dual(t * 1).tangent)
        return t * 2

    mine = with_jvp(forward, jvp)
    pushed(mine, values(1.0), values(1.0))
    with torch.no_grad():
        pushed(mine, values(1.0), values(1.0))
    assert seen == [None, True, None, None, False, None]


@pytest.mark.parametrize(
    ("returned", "match"),
    [
        (lambda t: (t, t), "expected 1, got 2"),
        (lambda t: (t, None), "expected 1, got 2"),
        (lambda t: (), "expected 1, got 0"),
        (lambda t: 3.0, "float at index 0"),
        (lambda t: None, "None at position 0"),
        (lambda t: t.sum(), r"shape \(\) at position 0.* shape \(2,\)"),
    ],
)
def test_what_jvp_returns_is_checked(returned, match):
    """F-81, F-82."""
    mine = with_jvp(lambda x: x * 2, lambda ctx, t: returned(t))
    with pytest.raises(RuntimeError, match=match):
        pushed(mine, values(1.0, 2.0), values(1.0, 1.0))


@pytest.mark.parametrize("number", [1, 2, 3])
def test_results_without_gradient_must_have_no_tangent(number):
    """F-82."""
    mine = with_jvp(
        lambda x: (x * 2, x > 0, "s", x * 3),
        lambda ctx, t: tuple(t if i in (0, number) else None for i in range(4)),
        lambda ctx, x, out: ctx.mark_non_differentiable(out[3]),
    )
    x = values(1.0).requires_grad_()
    with pytest.raises(RuntimeError, match=f"position {number}"):
        pushed(mine, x, values(1.0))


def test_tangent_is_kept_as_it_is():
    """F-83."""
    mine = with_jvp(lambda x: x * 2, lambda ctx, t: given)
    given = values(7.0)
    (tangent,) = pushed(mine, values(1.0), values(1.0))
    assert tangent is given


def test_saved_tensors_in_jvp_are_those_saved_for_forward():
    """F-84."""
    seen = []

    class Mine(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.scratch = 1
            if forward_too:
                ctx.save_for_forward(x, None)
            return x * 2

        @staticmethod
        def jvp(ctx, t):
            seen.append(ctx.saved_tensors)
            del ctx.scratch
            return t * 2

    forward_too = False
    x = values(1.0).requires_grad_()
    with fw.dual_level():
        dual = fw.make_dual(x, values(1.0))
        Mine.apply(dual)
        forward_too = True
        node = Mine.apply(dual).grad_fn
        assert seen[0] == ()
        assert seen[1][0] is dual
        assert seen[1][1] is None
        assert node.saved_for_forward is None
        assert len(node.saved_tensors) == 1
        assert not hasattr(node, "scratch")


def test_only_tensors_are_saved_for_forward():
    """F-84."""
    mine = with_jvp(lambda x: x * 2, None, lambda ctx, x, out: ctx.save_for_forward(3))
    with pytest.raises(AssertionError, match="argument 0 is a int"):
        mine.apply(values(1.0))


def in_place(jvp):
    return with_jvp(lambda x: x.mul_(2), jvp, lambda ctx, x, out: ctx.mark_dirty(x))


def test_in_place_function_changes_the_tangent_in_place():
    """F-85."""
    with fw.dual_level():
        dual = fw.make_dual(values(1.0), t := values(3.0))
        out = in_place(lambda ctx, t: t.mul_(2)).apply(dual)
        assert out is dual
        assert fw.unpack_dual(dual).tangent is t
        assert t.tolist() == [6.0]


@pytest.mark.parametrize(
    ("jvp", "match"),
    [
        (lambda ctx, t: t, "did not modify"),
        (lambda ctx, t: t * 2, "did not return"),
    ],
)
def test_in_place_function_must_do_so(jvp, match):
    """F-85."""
    with pytest.raises(RuntimeError, match=match):
        pushed(in_place(jvp), values(1.0), values(3.0))


def test_in_place_function_gives_an_argument_its_first_tangent():
    """F-85."""

    class Scale(Function):
        @staticmethod
        def forward(ctx, target, w):
            ctx.mark_dirty(target)
            ctx.old = target.clone()
            return target.mul_(w)

        @staticmethod
        def jvp(ctx, t, d):
            return ctx.old * d

    with fw.dual_level():
        base = values(1.0, 2.0, 3.0)
        w = fw.make_dual(values(5.0), values(10.0))
        Scale.apply(base[1:], w)
        assert fw.unpack_dual(base).tangent.tolist() == [0.0, 20.0, 30.0]
        whole = values(4.0)
        Scale.apply(whole, w)
        assert fw.unpack_dual(whole).tangent.tolist() == [40.0]


@pytest.mark.parametrize("forward", [lambda x: x[:2], lambda x: x])
def test_view_needs_a_view_of_the_tangent(forward):
    """F-86."""
    x, t = values(1.0, 2.0), values(3.0, 4.0)
    assert pushed(with_jvp(forward, lambda ctx, t: t.view_as(t)), x, t)[0].tolist() == [3.0, 4.0]
    with pytest.raises(RuntimeError, match="not a view"):
        pushed(with_jvp(forward, lambda ctx, t: t), x, t)
    with pytest.raises(RuntimeError, match="not a view"):
        pushed(with_jvp(forward, lambda ctx, t: t * 1), x, t)
    with pytest.raises(RuntimeError, match="something else"):
        pushed(with_jvp(forward, lambda ctx, t: (t * 1)[:2]), x, t)


def test_view_of_an_argument_without_tangent():
    """F-87."""

    class First(Function):
        @staticmethod
        def forward(ctx, x, w):
            return x[:1]

        @staticmethod
        def jvp(ctx, t, d):
            return d[:1]

    with fw.dual_level():
        x = values(1.0, 2.0)
        w = fw.make_dual(values(0.0), values(9.0))
        out = First.apply(x, w)
        assert fw.unpack_dual(out).tangent.tolist() == [9.0]
        assert fw.unpack_dual(x).tangent.tolist() == [9.0, 0.0]


def test_reverse_over_forward():
    """F-88."""
    x = values(3.0).requires_grad_()
    t = values(2.0).requires_grad_()
    with fw.dual_level():
        out = Square.apply(fw.make_dual(x, t), 5)
        tangent = fw.unpack_dual(out).tangent
        along_x, along_t = torch.autograd.grad(tangent.sum(), (x, t))
    assert along_x.tolist() == [20.0]
    assert along_t.tolist() == [30.0]


def test_forward_over_reverse_through_a_saved_output():
    """F-88, V-152."""

    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            out = x.exp()
            ctx.save_for_backward(out)
            ctx.save_for_forward(out)
            return out

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

        @staticmethod
        def jvp(ctx, t):
            return t * ctx.saved_tensors[0]

    x = values(0.0).requires_grad_()
    with fw.dual_level():
        dual = fw.make_dual(x, values(2.0))
        (g,) = torch.autograd.grad(Exp.apply(dual).sum(), x)
        assert g.tolist() == [1.0]
        assert fw.unpack_dual(g).tangent.tolist() == [2.0]

"""A Function's vmap rule, its own or generated, and Functions under transforms (F-96 to F-107)."""

import gc

import pytest

import pullback as torch
from pullback.autograd import forward_ad as fw
from pullback.autograd.function import Function, VmapInfo
from pullback.autograd.function.vmap import (
    batched,
    checked_rule,
    has_generated_rule,
    run_under_vmap,
)
from pullback.autograd.graph import Node


def loop(function, args, in_dims, info):
    """The plainest way to run a function under a batch: once for each example."""
    rows = []
    for example in range(info.batch_size):
        one = [
            arg if dim is None or arg is None else arg.select(dim, example)
            for arg, dim in zip(args, in_dims, strict=True)
        ]
        rows.append(function(*one))
    columns = list(zip(*rows, strict=True))
    stacked = [None if c[0] is None else torch.stack(list(c)) for c in columns]
    return tuple(stacked), tuple(None if c is None else 0 for c in stacked)


def batch(*shape):
    n = 1
    for size in shape:
        n *= size
    return (torch.arange(n).double() / n + 0.5).reshape(*shape).requires_grad_()


class Scale(Function):
    """x * w * k, one example of x at a time; w broadcasts against x."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, w, k):
        return x * w * k, x.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w, k = inputs
        shapes.append(tuple(x.shape))
        ctx.k = k
        ctx.save_for_backward(x, None, w)
        ctx.save_for_forward(w)

    @staticmethod
    def backward(ctx, g, h):
        x, nothing, w = ctx.saved_tensors
        assert nothing is None
        return g * w * ctx.k + h, g * x * ctx.k, None

    @staticmethod
    def jvp(ctx, t, d, _):
        (w,) = ctx.saved_tensors
        return t * w * ctx.k, t.sum()


shapes = []


def test_a_rule_is_needed_and_only_one():
    """F-101."""

    class Split(Function):
        @staticmethod
        def forward(x):
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    class Own(Split):
        @staticmethod
        def vmap(info, in_dims, x):
            return x, in_dims[0]

    class Both(Own):
        generate_vmap_rule = True

    class Generated(Split):
        generate_vmap_rule = True

    with pytest.raises(RuntimeError, match="Split cannot be used under vmap"):
        has_generated_rule(Split)
    with pytest.raises(RuntimeError, match="Both has a vmap staticmethod and generate_vmap_rule"):
        has_generated_rule(Both)
    assert has_generated_rule(Generated)
    assert not has_generated_rule(Own)


def test_own_rule_gets_the_batch_and_says_where_it_went():
    """F-102."""
    seen = []

    class Own(Function):
        @staticmethod
        def forward(x, k):
            return x * k

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def vmap(info, in_dims, x, k):
            seen.append((info.batch_size, info.randomness, in_dims))
            return (x * k, (x, k)), (in_dims[0], None)

    x = batch(2, 3)
    output, dims = batched(Own, VmapInfo(3, "error"), (1, None), (x, 2), loop)
    assert seen == [(3, "error", (1, None))]
    assert dims == (1, (None, None))
    assert output[0].tolist() == (x * 2).tolist()


@pytest.mark.parametrize(
    ("returned", "match"),
    [
        (3, "returned a int"),
        ((1, 2, 3), "a tuple of 3"),
        (((torch.ones(1), torch.ones(1)), (0,)), "out_dims"),
        ((torch.ones(1), (0, 0)), "out_dims"),
        ((torch.ones(1), "0"), "out_dims"),
    ],
)
def test_what_a_rule_returns_is_checked(returned, match):
    """F-103."""
    with pytest.raises(RuntimeError, match=f"Scale.vmap .*{match}"):
        checked_rule(Scale, returned)


@pytest.mark.parametrize("run", [loop, run_under_vmap])
@pytest.mark.parametrize("in_dims", [(0, None, None), (1, None, None), (1, 0, None)])
def test_generated_rule_gives_each_example_its_own_backward(in_dims, run):
    """F-100, F-105."""
    shapes.clear()
    size = 4
    x = batch(size, 3) if in_dims[0] == 0 else batch(3, size)
    w = batch(1) if in_dims[1] is None else batch(size, 1)
    (out, total), dims = batched(Scale, VmapInfo(size, "error"), in_dims, (x, w, 5.0), run)
    assert dims == (0, 0)
    assert out.grad_fn.name() == "VmappedScaleBackward"
    assert set(shapes) == {(3,)}
    (out * out).sum().backward(retain_graph=True)
    total.sum().backward()

    x2, w2 = x.detach().requires_grad_(), w.detach().requires_grad_()
    rows = [
        Scale.apply(x2.select(in_dims[0], i), w2 if in_dims[1] is None else w2.select(0, i), 5.0)
        for i in range(size)
    ]
    expected = torch.stack([row[0] for row in rows])
    assert torch.allclose(out, expected)
    ((expected * expected).sum() + sum(row[1] for row in rows)).backward()
    assert torch.allclose(x.grad, x2.grad)
    assert torch.allclose(w.grad, w2.grad)


@pytest.mark.parametrize("run", [loop, run_under_vmap])
def test_generated_rule_has_forward_mode(run):
    """F-105."""
    x, w = batch(4, 3).detach(), batch(1).detach()
    with fw.dual_level():
        dual = fw.make_dual(x, torch.ones_like(x))
        (out, total), _ = batched(
            Scale, VmapInfo(4, "error"), (0, None, None), (dual, w, 5.0), loop
        )
        assert torch.allclose(fw.unpack_dual(out).tangent, torch.ones_like(x) * w * 5)
        assert fw.unpack_dual(total).tangent.tolist() == [3.0] * 4


def test_generated_rule_leaves_nothing_behind():
    """F-118, of calls under vmap."""
    x, w = batch(4, 3), batch(1)

    def step():
        out, total = mapped(lambda one: Scale.apply(one, w, 5.0), (0,), x)
        (out.sum() + total.sum()).backward()

    step()
    gc.collect()
    gc.disable()
    try:
        counts = []
        for _ in range(3):
            step()
            counts.append(sum(issubclass(type(o), torch.Tensor | Node) for o in gc.get_objects()))
    finally:
        gc.enable()
    assert counts[0] == counts[2]


def test_mark_dirty_needs_a_rule_of_its_own():
    """F-106."""

    class Dirty(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(inputs[0])

    with pytest.raises(RuntimeError, match="Dirty: mark_dirty"):
        batched(Dirty, VmapInfo(2, "error"), (0,), (batch(2, 2),), loop)


def test_reserved_names():
    """F-106."""

    class Reserved(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx._pt_mine = 1

    with pytest.raises(AttributeError, match="_pt_"):
        batched(Reserved, VmapInfo(2, "error"), (0,), (batch(2, 2),), loop)


# In a running vmap --------------------------------------------------------------------------------


def mapped(function, in_dims, *args, size=4):
    """vmap of `function`, with the batch of the results in front."""

    def examples(*one):
        out = function(*one)
        return out if isinstance(out, tuple) else (out,)

    outs, dims = run_under_vmap(examples, args, in_dims, VmapInfo(size, "error"))
    return [
        out if dim in (None, 0) else out.movedim(dim, 0)
        for out, dim in zip(outs, dims, strict=True)
    ]


class Own(Function):
    """x * w, with a rule of its own."""

    @staticmethod
    def forward(x, w):
        return x * w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, g * x

    @staticmethod
    def vmap(info, in_dims, x, w):
        x_dim, w_dim = in_dims
        x = x.unsqueeze(0) if x_dim is None else x if x_dim == 0 else x.movedim(x_dim, 0)
        w = w.unsqueeze(0) if w_dim is None else w if w_dim == 0 else w.movedim(w_dim, 0)
        return Own.apply(x, w), 0


def test_own_rule_runs_with_the_level_removed():
    """F-102, F-104."""
    x, w = batch(3, 4), batch(3)
    (out,) = mapped(Own.apply, (1, None), x, w)
    assert torch.allclose(out, (x.transpose(0, 1) * w))
    out.sum().backward()
    assert torch.allclose(x.grad, w.reshape(3, 1).expand(3, 4))
    assert torch.allclose(w.grad, x.sum(1))


def test_generated_rule_in_a_running_vmap():
    """F-97, F-105."""
    x, w = batch(4, 3), batch(1)
    out, total = mapped(lambda one, k: Scale.apply(one, w, k), (0, None), x, 5.0)
    assert torch.allclose(out, x * w * 5)
    assert torch.allclose(total, x.sum(1))
    (g,) = torch.autograd.grad((out * out).sum(), x, create_graph=True)
    assert torch.allclose(g, 2 * x * w * w * 25)
    (h,) = torch.autograd.grad(g.sum(), w)
    assert torch.allclose(h, (4 * x * w * 25).sum().reshape(1))


def test_vmap_within_vmap():
    """F-103, F-104."""
    x, w = batch(4, 2, 3), batch(2, 1)
    for function in (lambda a, b: Scale.apply(a, b, 2.0)[0], Own.apply):

        def rows(one, function=function):
            return mapped(function, (0, 0), one, w, size=2)[0]

        (out,) = mapped(rows, (0,), x)
        factor = 1 if function == Own.apply else 2
        assert torch.allclose(out, x * w * factor)
        (out,) = mapped(lambda one: mapped(lambda v: one * v, (0,), w, size=2)[0], (0,), x)
        assert out.shape == (4, 2, 2, 3)


def test_without_batched_arguments_the_call_goes_on_but_a_rule_is_needed():
    """F-101, F-103."""
    calls = []

    class Counts(Own):
        @staticmethod
        def vmap(info, in_dims, x, w):
            calls.append(in_dims)
            return x, None

    class NoRule(Function):
        @staticmethod
        def forward(x):
            return x * 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    x, w = batch(3), batch(3)
    outs = mapped(lambda one: (one, Counts.apply(x, w)), (0,), batch(4, 3))
    assert calls == []
    assert outs[1].grad_fn.name() == "CountsBackward"
    with pytest.raises(RuntimeError, match="NoRule cannot be used under vmap"):
        mapped(lambda one: NoRule.apply(x), (0,), batch(4, 3))


def test_combined_style_is_refused_under_any_transform():
    """F-96."""

    class Combined(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(RuntimeError, match=r"Combined takes ctx in forward.*setup_context"):
        mapped(lambda one: Combined.apply(3), (0,), batch(4))
    with pytest.raises(RuntimeError, match="setup_context"):
        torch.func.grad(lambda x: Combined.apply(x).sum())(batch(3).detach())
    with pytest.raises(RuntimeError, match="setup_context"):
        torch.func.jvp(Combined.apply, (batch(3).detach(),), (batch(3).detach(),))


def test_wrappers_of_an_ended_vmap_are_taken_off():
    """F-107."""
    escaped = []
    x = batch(4, 3)
    mapped(lambda one: escaped.append(one) or one, (0,), x)

    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    out = Double.apply(escaped[0])
    assert tuple(out.shape) == (4, 3)
    out.sum().backward()
    assert x.grad.sum().item() == 24.0

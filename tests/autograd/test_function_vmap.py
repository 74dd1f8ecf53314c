"""A Function's vmap rule, its own or generated, and Functions under transforms (F-96, F-100 to F-106)."""

import pytest

import pullback as torch
from pullback.autograd.function import Function, VmapInfo
from pullback.autograd.function_vmap import batched, checked_rule, has_generated_rule
from pullback.core.mode import change, current


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


@pytest.mark.parametrize("in_dims", [(0, None, None), (1, None, None), (1, 0, None)])
def test_generated_rule_gives_each_example_its_own_backward(in_dims):
    """F-100, F-105."""
    shapes.clear()
    size = 4
    x = batch(size, 3) if in_dims[0] == 0 else batch(3, size)
    w = batch(1) if in_dims[1] is None else batch(size, 1)
    (out, total), dims = batched(Scale, VmapInfo(size, "error"), in_dims, (x, w, 5.0), loop)
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


def test_generated_rule_has_forward_mode():
    """F-105."""
    from pullback.autograd import forward_ad as fw

    x, w = batch(4, 3).detach(), batch(1).detach()
    with fw.dual_level():
        dual = fw.make_dual(x, torch.ones_like(x))
        (out, total), _ = batched(
            Scale, VmapInfo(4, "error"), (0, None, None), (dual, w, 5.0), loop
        )
        assert torch.allclose(fw.unpack_dual(out).tangent, torch.ones_like(x) * w * 5)
        assert fw.unpack_dual(total).tangent.tolist() == [3.0] * 4


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


def test_combined_style_is_refused_under_a_transform():
    """F-96; a split one is handed to the level."""
    calls = []

    class Level:
        def process_function(self, cls, args):
            calls.append((cls, args))
            return "the level's"

    class Combined(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    before = change(levels=(Level(),))
    try:
        with pytest.raises(RuntimeError, match="Combined takes ctx in forward.*setup_context"):
            Combined.apply(3)
        assert Scale.apply(1, 2, k=3) == "the level's"
    finally:
        current.set(before)
    assert calls == [(Scale, (1, 2, 3))]

"""In-place on views: histories of base and views after a write, and which views forbid it."""

import gc

import numpy as np
import pytest

import pullback as torch
from tests.leaves import counted_leaf as leaf

# In-place on views -------------------------------------------------------------------------------


def test_write_to_a_view_rewrites_the_history_of_the_base():
    """V-101."""
    x, w = leaf(), torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    y = x * 1
    old = y.grad_fn
    v = y[1:3]
    v.mul_(w)
    node = y.grad_fn
    assert type(node).__name__ == "CopySlices"
    assert node.name() == "torch::autograd::CopySlices"
    assert node.next_functions[0][0] is old
    assert node.next_functions[1][0].variable is w
    assert v.grad_fn.next_functions[0][0] is node
    assert v.output_nr == 0


def test_gradients_after_a_write_to_a_view_are_those_of_the_new_value():
    """V-102."""
    for pick in (lambda y, v, s: y, lambda y, v, s: v, lambda y, v, s: s):
        x = leaf()
        y = x * 1
        v, sibling = y[1:3], y[2:]
        v.mul_(5)
        pick(y, v, sibling).sum().backward()
        seen = pick(np.arange(4), np.arange(1, 3), np.arange(2, 4))
        reached = np.isin(np.arange(4), seen)
        assert x.grad.tolist() == (np.array([1.0, 5, 5, 1]) * reached).tolist()


def test_write_of_a_tracked_value_into_a_plain_base():
    """V-103."""
    base, w = torch.zeros(4, dtype=torch.float64), leaf(2)
    base[1:3] = w
    assert base.requires_grad
    assert not base.is_leaf
    (base * torch.tensor([1.0, 2, 3, 4], dtype=torch.float64)).sum().backward()
    assert w.grad.tolist() == [2.0, 3.0]


def test_stale_views_are_regenerated_when_asked():
    """V-104."""
    y = leaf() * 1
    v = y[1:]
    first = v.grad_fn
    y.mul_(2)
    assert v.grad_fn is not first
    assert type(v.grad_fn).__name__ == "AsStridedBackward0"
    assert v.grad_fn.next_functions[0][0] is y.grad_fn
    assert v.output_nr == 0
    assert v.grad_fn is v.grad_fn


def test_views_of_a_base_that_got_history_later_follow():
    """V-104."""
    base, w = torch.zeros(4, dtype=torch.float64), leaf(2)
    v = base[2:]
    base[1:3].copy_(w)
    assert v.requires_grad
    v.sum().backward()
    assert w.grad.tolist() == [0.0, 1.0]


def test_untracked_writes_renew_the_node_too():
    """V-105."""
    y = leaf() * 1
    v = y[1:]
    first = v.grad_fn
    with torch.no_grad():
        y.mul_(2)
    assert v.grad_fn is not first
    assert v.grad_fn.next_functions[0][0] is y.grad_fn


def test_slice_gradient_goes_through_the_written_operator():
    """V-106."""
    x, w = leaf(), leaf(2)
    y = x * 1
    y[:2].copy_(w)
    y[2:].zero_()
    (y * 3).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0, 0.0]
    assert w.grad.tolist() == [3.0, 3.0]


def test_function_without_gradient_for_its_target_blocks_the_whole_base():
    """V-107."""

    class Blocks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return None, g

    x, w = leaf(), leaf(2)
    y = x * 1
    Blocks.apply(y[:2], w)
    y.sum().backward()
    assert x.grad is None
    assert w.grad.tolist() == [1.0, 1.0]


def test_freed_copy_slices_says_so():
    """V-108."""
    y = leaf() * 1
    y[:2].mul_(leaf(2))
    loss = y.sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="retain_graph"):
        loss.backward()


def test_pruned_backward_goes_through_copy_slices():
    """V-109."""
    x, w = leaf(), leaf(2)
    y = x * 1
    y[:2].mul_(w)
    (g,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    assert g.tolist() == [1.0, 2.0, 1.0, 1.0]
    (g,) = torch.autograd.grad(y.sum(), w)
    assert g.tolist() == [1.0, 2.0]


def no_grad_view(x):
    with torch.no_grad():
        return x[1:]


def inference_view(x):
    with torch.inference_mode():
        return x[1:]


class Pass(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g


FORBIDDEN = {
    "multi": (lambda x: x.unbind(0)[0], "out-of-place|inplace|in-place"),
    "custom": (lambda x: Pass.apply(x), "[Cc]lon"),
    "no_grad": (no_grad_view, "no_grad"),
    "inference": (inference_view, "inference"),
}


@pytest.mark.parametrize("kind", FORBIDDEN)
def test_views_that_forbid_recorded_writes(kind):
    """V-110, V-112."""
    make, words = FORBIDDEN[kind]
    v = make(leaf() * 1)
    with pytest.raises(RuntimeError, match=words):
        v.mul_(2)


@pytest.mark.parametrize("kind", FORBIDDEN)
def test_views_that_forbid_use_after_a_write_to_the_base(kind):
    """V-110, V-112."""
    make, words = FORBIDDEN[kind]
    y = leaf() * 1
    v = make(y)
    y.mul_(2)
    with pytest.raises(RuntimeError, match=words) as caught:
        v.grad_fn
    assert "base" in str(caught.value)


def test_output_index_and_operator_are_named():
    """V-110."""
    v = (leaf() * 1).unbind(0)[2]
    with pytest.raises(RuntimeError, match=r"Output 2 of Unbind"):
        v.mul_(2)


def test_views_of_views_inherit_the_tag():
    """V-111."""
    get, tags = torch._C._autograd._get_creation_meta, torch._C._autograd.CreationMeta
    y = leaf(2, 2) * 1
    assert get(y.unbind(0)[0][1:]) == tags.MULTI_OUTPUT_NODE
    assert get(no_grad_view(y)[0]) == tags.NO_GRAD_MODE
    assert get(inference_view(y).unbind(0)[0]) == tags.INFERENCE_MODE
    assert get(no_grad_view(y).unbind(0)[0]) == tags.MULTI_OUTPUT_NODE


def test_tag_matters_only_where_history_is_involved():
    """V-113."""
    plain = torch.zeros(4, dtype=torch.float64)
    plain.unbind(0)[0].add_(1)
    no_grad_view(plain).add_(1)
    assert plain.tolist() == [1.0, 1.0, 1.0, 1.0]
    with pytest.raises(RuntimeError):
        no_grad_view(plain).mul_(leaf(3))
    with torch.no_grad():
        (leaf() * 1).unbind(0)[0].mul_(2)


def test_no_grad_view_changed_inside_no_grad():
    """V-114."""
    x = leaf()
    with torch.no_grad():
        v = x[1:]
        x.mul_(2)
        v.add_(1)
        assert v.tolist() == [5.0, 7.0, 9.0]
    assert "<Invalid>" in repr(v)
    with pytest.raises(RuntimeError):
        v * 2
    with pytest.raises(RuntimeError):
        v.is_leaf


def test_write_with_several_outputs_on_a_view_is_refused():
    """V-115."""

    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(2)
            return x, x.clone()

        @staticmethod
        def backward(ctx, g, h):
            return g * 2

    y = leaf() * 1
    with pytest.raises(RuntimeError):
        Two.apply(y[:2])


def test_many_views_of_one_base_are_freed_at_once():
    """V-76, V-194."""
    y = leaf(1000) * 1
    gc.collect()
    gc.disable()
    try:
        for _ in range(20_000):
            y[1:]
        alive = sum(type(o) is torch.Tensor and o._base is y for o in gc.get_objects())
    finally:
        gc.enable()
    assert alive == 0


PARTS_THROUGH_STEPS = {
    "imag": lambda z: z.imag[0],
    "real column": lambda z: z.real[:, 1],
    "pairs": lambda z: torch.view_as_real(z)[0],
    "adjoint": lambda z: z.mH[0],
    "adjoint diagonal": lambda z: z.mH.diagonal(),
    "conjugated column": lambda z: z.conj()[:, 1],
    "strided first": lambda z: z[1:].imag[..., 1:],
}


@pytest.mark.parametrize("name", PARTS_THROUGH_STEPS)
@pytest.mark.parametrize("begin", [0, 1])
def test_writes_through_steps_that_strides_cannot_say_find_their_place_in_any_order(name, begin):
    """Steps behind the first were replayed on a row-major gradient with the base's own strides."""
    part, expected = PARTS_THROUGH_STEPS[name], None
    x = torch.randn(2, 3, dtype=torch.complex128)
    weight = torch.randn(2, 3, dtype=torch.complex128)
    for order in ((0, 1), (1, 0)):
        memory = torch.zeros(7, dtype=torch.complex128)[begin : begin + 6].detach()
        sizes = [(2, 3)[dim] for dim in order]
        whole = memory.view(sizes).permute(order).detach()
        start = x.clone().requires_grad_()
        whole.copy_(start)
        part(whole).mul_(3)
        loss = (whole * whole * weight).sum().real
        (gradient,) = torch.autograd.grad(loss, start, create_graph=True)
        (second,) = torch.autograd.grad(gradient.abs().square().sum(), start)
        if expected is None:
            expected = (gradient, second)
        assert torch.allclose(gradient, expected[0])
        assert torch.allclose(second, expected[1])
    factor = torch.full((2, 3), 1 + 1j, dtype=torch.complex128)
    kept = part(factor)
    kept.fill_(0)
    untouched = factor == 1 + 1j
    plain = x.clone().requires_grad_()
    (usual,) = torch.autograd.grad((plain * plain * weight).sum().real, plain)
    assert torch.allclose(expected[0][untouched], usual[untouched])


@pytest.mark.parametrize("name", ["imag", "real column", "pairs", "strided first"])
def test_tangents_of_parts_through_steps_are_written_in_any_order(name):
    part = PARTS_THROUGH_STEPS[name]
    x = torch.randn(2, 3, dtype=torch.complex128)
    dx = torch.randn(2, 3, dtype=torch.complex128)

    def f(x):
        part(x).mul_(3)
        return x

    turned = torch.func.jvp(lambda x: f(x.t().contiguous().t()), (x,), (dx,))
    for one, other in zip(turned, (f(x.clone()), f(dx.clone())), strict=True):
        assert torch.allclose(one, other)


def test_a_view_through_steps_outlives_a_change_of_its_base_shape():
    """Its node is made anew from a base that looks at the same memory in another order."""
    x = torch.randn(2, 3, dtype=torch.complex128, requires_grad=True)
    whole = x * 1
    part = whole.mH[0]
    whole.t_()
    whole.mul_(2)
    weight = torch.randn(2, dtype=torch.complex128)
    (gradient,) = torch.autograd.grad((part * weight).sum().real, x)
    expected = torch.zeros(2, 3, dtype=torch.complex128)
    expected[:, 0] = 2 * weight
    assert torch.allclose(gradient, expected)

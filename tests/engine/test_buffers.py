"""Sums of gradients, undefined ones, their validation, and `.grad` (rows E-75 to E-98)."""

from __future__ import annotations

import pytest

import pullback as torch
from pullback.autograd import Function, grad
from tests.leaves import double_leaf as leaf

pytestmark = pytest.mark.usefixtures("both_passes")


def returning(*results, inputs=1, shape=None):
    """A Function whose backward returns `results`."""

    class Returns(Function):
        @staticmethod
        def forward(ctx, *args):
            first = args[0].detach()
            return first * 2 if shape is None else torch.ones(shape, dtype=first.dtype)

        @staticmethod
        def backward(ctx, g):
            return results

    return Returns


def test_all_contributions_are_summed_before_anyone_sees_them():
    """E-75, E-76"""
    x = leaf(2.0)
    y = x * 1
    seen = []
    y.register_hook(lambda g: seen.append(g.item()))
    z = y * 2 + y * 3
    (g,) = grad(z + y * y, x, create_graph=True)
    assert seen == [9]
    assert g.requires_grad
    assert grad(g, x)[0].item() == 2


def test_sums_never_write_to_what_a_user_can_see():
    """E-77"""
    x, y = leaf(1.0, 2.0), leaf(1.0, 2.0)
    g = torch.ones(2, dtype=torch.float64)
    kept = []

    class Same(Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            kept.append(g)
            return g, g

    out = Same.apply(x, y) + x + y + x
    out.backward(g)
    assert g.tolist() == [1, 1]
    assert kept[0].tolist() == [1, 1]
    assert x.grad.tolist() == [3, 3]
    assert y.grad.tolist() == [2, 2]


def test_expanded_gradients_are_not_added_into():
    """E-77, E-80"""
    x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    (x.sum() + x.sum() * 2).backward()
    assert x.grad.tolist() == [[3] * 3] * 2
    x.grad.mul_(2)  # an array of its own, writable


def test_undefined_contributions_are_skipped():
    """E-79, E-84"""
    x = leaf(2.0)
    y = x * 1
    seen = []
    y.register_hook(seen.append)
    returning(None).apply(y).backward()
    assert seen == [None]
    assert x.grad is None


def test_identity_may_return_the_given_gradient():
    """E-81"""
    x = leaf(1.0)
    g = torch.ones(1, dtype=torch.float64)
    a, b = grad(x + leaf(1.0), [x, x], g)
    assert a.item() == b.item() == 1


def test_nodes_without_any_gradient_still_run_their_hooks():
    """E-82"""
    x = leaf(2.0)
    y = x * 2
    log = []
    y.register_hook(lambda g: log.append(("tensor", g)))
    y.grad_fn.register_prehook(lambda g: log.append(("pre", g)))
    y.grad_fn.register_hook(lambda i, o: log.append(("post", i, o)))
    x.register_hook(lambda g: log.append(("leaf", g)))
    x.register_post_accumulate_grad_hook(lambda p: log.append(("accumulated", p.grad)))
    returning(None).apply(y).backward()
    assert log == [
        ("tensor", None),
        ("pre", (None,)),
        ("post", (None, None), (None,)),
        ("leaf", None),
        ("accumulated", None),
    ]


def test_missing_gradients_of_several_outputs_are_zeros():
    """E-83"""
    x = leaf(1.0, 2.0, 3.0)
    a, _, c = x.unbind(0)
    (a + 2 * c).backward()
    assert x.grad.tolist() == [1, 0, 2]


@pytest.mark.parametrize("materialize", [True, False])
def test_custom_functions_get_zeros_or_none(materialize):
    """E-83"""
    seen = []

    class Pair(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(materialize)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            seen.append(b if b is None else b.tolist())
            return a

    x = leaf(1.0, 2.0)
    Pair.apply(x)[0].sum().backward()
    assert seen == [[0, 0] if materialize else None]


def test_returned_gradient_is_summed_to_its_target():
    """E-85"""
    x = leaf(1.0, 2.0)
    returning(torch.ones(4, 2, dtype=torch.float64)).apply(x).sum().backward()
    assert x.grad.tolist() == [4, 4]
    for shape in ((3,), (1,), ()):
        wrong = torch.ones(shape, dtype=torch.float64)
        with pytest.raises(RuntimeError, match=r"ReturnsBackward.*0"):
            returning(wrong).apply(x).sum().backward()


def test_returned_gradient_is_cast_but_not_from_complex():
    """E-86"""
    x = leaf(1.0)
    for dtype in (torch.float32, torch.int64, torch.bool):
        x.grad = None
        returning(torch.ones(1, dtype=dtype)).apply(x).backward()
        assert x.grad.dtype is torch.float64
    with pytest.raises(RuntimeError, match="complex"):
        returning(torch.ones(1, dtype=torch.complex128)).apply(x).backward()
    c = torch.ones(1, dtype=torch.complex128, requires_grad=True)
    returning(torch.ones(1)).apply(c).abs().sum().backward()
    assert c.grad.dtype is torch.complex128


def test_the_number_and_kind_of_returned_values_are_checked():
    """E-89"""
    x = leaf(1.0)
    one = torch.ones(1, dtype=torch.float64)
    returning(one, None, None).apply(x).backward()
    for results, args in (((one, one), (x,)), ((one,), (x, 3)), ((one, one), (x, 3)), ((3,), (x,))):
        with pytest.raises(RuntimeError):
            returning(*results).apply(*args).backward()


def test_values_for_arguments_without_gradient_are_ignored():
    """E-90"""
    x = leaf(1.0)
    wrong = torch.ones(7, dtype=torch.complex128)
    returning(torch.ones(1), wrong).apply(x, torch.ones(1)).backward()
    assert x.grad.item() == 1


def test_grad_dtype_of_a_leaf():
    """E-91"""
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="leaf"):
        (x * 2).grad_dtype = torch.float32
    x.grad_dtype = torch.float32
    (x * 2).backward()
    assert x.grad.dtype is torch.float32


def test_the_first_gradient_is_memory_of_its_own():
    """E-92"""
    x, y = leaf(1.0, 2.0), leaf(1.0, 2.0)
    g = torch.ones(2, dtype=torch.float64)
    seen = []
    z = (x + y) + 0
    z.register_hook(seen.append)
    z.backward(g)
    pointers = {t.data_ptr() for t in (x.grad, y.grad, g)}
    assert len(pointers) == 3
    assert seen[0].data_ptr() not in {x.grad.data_ptr(), y.grad.data_ptr()}
    assert not x.grad.requires_grad


def test_later_gradients_are_added_in_place():
    """E-93"""
    x = leaf(1.0)
    x.grad = given = torch.ones(1, dtype=torch.float64)
    (x * 2).backward()
    assert x.grad is given
    assert given.item() == 3
    assert given._version == 1


@pytest.mark.filterwarnings("ignore:backward.create_graph")
def test_recorded_gradients_are_added_out_of_place():
    """E-94"""
    x = leaf(3.0)
    (x**2).backward(create_graph=True)
    first = x.grad
    assert first.requires_grad
    (x**2).backward(create_graph=True)
    assert x.grad is not first
    assert first.item() == 6
    assert grad(x.grad, x)[0].item() == 4
    x.grad = None


def test_a_fresh_grad_has_the_strides_of_its_leaf():
    """E-95"""
    x = torch.ones(3, 2, dtype=torch.float64).t().requires_grad_()
    (x * 2).sum().backward()
    assert x.grad.stride() == x.stride()
    sparse = torch.ones(4, 4, dtype=torch.float64)[:, ::2].requires_grad_()
    (sparse * 2).sum().backward()
    assert sparse.grad.stride() == (2, 1)


def test_layout_policy_can_be_switched_off():
    """E-96"""
    x = torch.ones(3, 2, dtype=torch.float64).t().requires_grad_()
    policy = torch.autograd.enforce_grad_layout_policy
    with policy(False):
        (x * torch.ones(2, 3, dtype=torch.float64)).backward(torch.ones(2, 3, dtype=torch.float64))
    assert x.grad.tolist() == [[1] * 3] * 2
    assert x.grad.stride() == (3, 1)

    @policy(False)
    def inside():
        return True

    assert inside()


def test_a_leaf_that_changed_since():
    """E-97"""
    x = leaf(1.0)
    y = x * 2
    x.requires_grad_(False)
    y.backward()
    assert x.grad is None
    x = leaf(1.0)
    y = x * 2
    with torch.no_grad():
        x.requires_grad_(False)
    x.mul_(leaf(2.0))
    with pytest.raises(RuntimeError, match="leaf"):
        y.backward()


class Elsewhere(Function):
    """Its gradients are on another device."""

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return torch.empty(g.shape, dtype=g.dtype, device="meta")


def test_a_gradient_on_another_device_than_its_leaf_is_refused():
    """E-87"""
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="on device meta, expected device cpu"):
        Elsewhere.apply(x).sum().backward()
    assert x.grad is None
    number = leaf(1.0)[0].detach().requires_grad_()
    with pytest.raises(NotImplementedError, match="no data"):
        Elsewhere.apply(number).backward()

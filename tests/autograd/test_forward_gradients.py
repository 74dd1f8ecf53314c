"""Forward gradients on tensors: levels, duals, views and in-place writes."""

import threading

import pytest

import pullback as torch

fwd = torch.autograd.forward_ad


def tangent(t):
    return fwd.unpack_dual(t).tangent


def test_one_level_at_a_time():
    """V-162."""
    with fwd.dual_level():
        with pytest.raises(RuntimeError):
            fwd.enter_dual_level()
        d = fwd.make_dual(torch.ones(1), torch.ones(1))
    assert tangent(d) is None
    with pytest.raises(RuntimeError):
        fwd.exit_dual_level()
    level = fwd.enter_dual_level()
    assert level == 0
    fwd.exit_dual_level(level=level)


def test_level_is_process_wide():
    """V-162."""
    seen = []
    with fwd.dual_level():
        d = fwd.make_dual(torch.ones(1), torch.ones(1))
        thread = threading.Thread(target=lambda: seen.append(tangent(d * 2).tolist()))
        thread.start()
        thread.join()
    assert seen == [[2.0]]


def test_make_dual_checks_its_arguments():
    """V-163."""
    with pytest.raises(RuntimeError):
        fwd.make_dual(torch.ones(1), torch.ones(1))
    with fwd.dual_level():
        with pytest.raises(ValueError, match="floating"):
            fwd.make_dual(torch.ones(1, dtype=torch.int64), torch.ones(1))
        with pytest.raises(RuntimeError):
            fwd.make_dual(torch.ones(1), torch.ones(2))
        d = fwd.make_dual(torch.ones(1), torch.ones(1))
        with pytest.raises(RuntimeError):
            fwd.make_dual(d, torch.ones(1))


def test_dual_is_a_view_of_its_primal():
    """V-163."""
    x = torch.ones(2, requires_grad=True)
    with fwd.dual_level():
        d = fwd.make_dual(x, torch.ones(2))
        assert d._base is x
        assert type(d.grad_fn).__name__ == "ViewBackward0"
        assert tangent(x) is None


def test_unpacked_tangent_is_the_same_object_if_laid_out_alike():
    """V-164."""
    with fwd.dual_level():
        t = torch.ones(2, 3)
        d = fwd.make_dual(torch.zeros(2, 3), t)
        assert tangent(d) is t
        turned = torch.ones(3, 2).t()
        d = fwd.make_dual(torch.zeros(2, 3), turned)
        assert tangent(d) is not turned
        assert tangent(d).stride() == (3, 1)
        assert tangent(torch.zeros(1)) is None
    assert fwd.unpack_dual(torch.zeros(1)).tangent is None


def test_tangents_pass_under_no_grad():
    """V-165."""
    with fwd.dual_level():
        d = fwd.make_dual(torch.full((2,), 3.0), torch.ones(2))
        with torch.no_grad():
            assert tangent(d * d).tolist() == [6.0, 6.0]


def test_reverse_over_forward():
    """V-165."""
    x = torch.full((1,), 3.0, requires_grad=True)
    with fwd.dual_level():
        d = fwd.make_dual(x, torch.ones(1))
        t = tangent(d * d * d)
        (g,) = torch.autograd.grad(t.sum(), x)
    assert g.tolist() == [18.0]


def test_what_carries_no_tangent():
    """V-166."""
    with fwd.dual_level():
        d = fwd.make_dual(torch.ones(2), torch.ones(2))
        for t in (d.detach(), d.data, d > 0):
            assert tangent(t) is None
        y = d * 2
        y.detach_()
        assert tangent(y) is None


def test_views_and_writes_act_on_the_tangent():
    """V-167."""
    with fwd.dual_level():
        t = torch.ones(3)
        d = fwd.make_dual(torch.ones(3), t)
        y = d * 1
        v = y[1:]
        assert tangent(v).tolist() == [1.0, 1.0]
        y.mul_(2)
        assert tangent(y).tolist() == [2.0, 2.0, 2.0]
        assert tangent(v).tolist() == [2.0, 2.0]
        v.fill_(5)
        assert tangent(y).tolist() == [2.0, 0.0, 0.0]


def test_write_of_a_dual_into_a_view_makes_the_base_dual():
    """V-168."""
    base = torch.zeros(3)
    v = base[1:]
    with fwd.dual_level():
        v.copy_(fwd.make_dual(torch.ones(2), torch.full((2,), 7.0)))
        assert tangent(base).tolist() == [0.0, 7.0, 7.0]
        assert tangent(v).tolist() == [7.0, 7.0]


def test_write_of_a_dual_into_a_base_makes_its_views_dual():
    """V-169."""
    base = torch.zeros(3)
    v = base[1:]
    with fwd.dual_level():
        base.copy_(fwd.make_dual(torch.ones(3), torch.tensor([1.0, 2.0, 3.0])))
        assert tangent(v).tolist() == [2.0, 3.0]


def test_write_to_a_dual_changes_the_values_of_its_primal_only():
    """V-170."""
    primal = torch.ones(2)
    with fwd.dual_level():
        d = fwd.make_dual(primal, torch.ones(2))
        d.mul_(3)
        assert primal.tolist() == [3.0, 3.0]
        assert tangent(d).tolist() == [3.0, 3.0]
        assert tangent(primal) is None
        d = fwd.make_dual(torch.ones(2, requires_grad=True), torch.ones(2))
        with pytest.raises(RuntimeError, match="leaf"):
            d.mul_(3)


def test_copy_sets_zeroes_and_broadcasts_tangents():
    """V-171."""
    with fwd.dual_level():
        y = fwd.make_dual(torch.ones(2), torch.ones(2)) * 1
        y.copy_(torch.zeros(2))
        assert tangent(y).tolist() == [0.0, 0.0]
        y.copy_(fwd.make_dual(torch.ones(1), torch.full((1,), 4.0)))
        assert tangent(y).tolist() == [4.0, 4.0]


def test_out_takes_no_duals():
    """V-171."""
    with fwd.dual_level():
        d = fwd.make_dual(torch.ones(2), torch.ones(2))
        with pytest.raises(NotImplementedError):
            torch.mul(d, 2, out=torch.zeros(2))


def test_tangents_can_be_hidden():
    """V-172."""
    with fwd.dual_level():
        d = fwd.make_dual(torch.ones(2), torch.ones(2))
        with fwd._set_fwd_grad_enabled(False):
            assert tangent(d) is None
        assert tangent(d) is not None


def test_a_view_that_is_all_of_its_base_shares_its_tangent():
    base = torch.zeros(2, 2)
    view = base.view_as(base)
    with torch.autograd.forward_ad.dual_level():
        view.copy_(torch.autograd.forward_ad.make_dual(torch.zeros(2, 2), torch.ones(2, 2)))
        of_view, of_base = (
            torch.autograd.forward_ad.unpack_dual(view).tangent,
            torch.autograd.forward_ad.unpack_dual(base).tangent,
        )
        assert of_view is of_base
        assert not of_view._is_view()
        assert (of_base == 1).all()
    part = torch.zeros(2, 2)
    with torch.autograd.forward_ad.dual_level():
        part[:1].copy_(torch.autograd.forward_ad.make_dual(torch.zeros(1, 2), torch.ones(1, 2)))
        assert torch.autograd.forward_ad.unpack_dual(part).tangent.tolist() == [[1, 1], [0, 0]]

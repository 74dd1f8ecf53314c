"""A view as a function of its base, and the other way round."""

import pytest

import pullback as torch


def test_visitors_see_the_sizes_of_kept_steps_and_may_change_them():
    with torch.autograd._force_original_view_tracking(True):
        x = torch.arange(12.0)
        v = x.view(3, 4)[1:3]
    seen = []
    again = v._view_func(torch.arange(12.0), symint_visitor_fn=lambda n: seen.append(n) or n)
    assert seen == [3, 4, 1, 3, 1]
    assert torch.equal(again, v)
    wider = v._view_func_unsafe(torch.arange(24.0), lambda n: 8 if n == 4 else n)
    assert wider.shape == (2, 8)


def test_without_kept_steps_visitors_have_nothing_to_see():
    v = torch.arange(12.0).view(3, 4)
    seen = []
    again = v._view_func(
        torch.zeros(12), symint_visitor_fn=seen.append, tensor_visitor_fn=seen.append
    )
    assert again.shape == (3, 4)
    assert seen == []


def test_base_is_found_from_a_view():
    x, y = torch.arange(6.0), torch.zeros(6)
    base = x[1:4]._rev_view_func_unsafe(y[1:4])
    assert base.shape == (6,)
    assert base.data_ptr() == y.data_ptr()
    assert torch.equal(x.view(2, 3)._rev_view_func_unsafe(torch.ones(2, 3)), torch.ones(6))
    assert x._rev_view_func_unsafe(y) is None


def test_base_is_refused_to_a_tensor_that_lies_otherwise():
    v = torch.arange(6.0).view(2, 3).t()
    with pytest.raises(RuntimeError, match="cannot be a view as this one is"):
        v._rev_view_func_unsafe(torch.ones(3, 2))
    with pytest.raises(RuntimeError, match="the memory holds 3"):
        torch.arange(6.0)[1:4]._rev_view_func_unsafe(torch.ones(3))

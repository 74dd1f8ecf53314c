"""In-place writes: what is refused, what happens to history, and which values backward needs."""

import numpy as np
import pytest

import pullback as torch
from tests.leaves import leaf

WRITES = {
    "add_": lambda t: t.add_(1),
    "zero_": lambda t: t.zero_(),
    "fill_": lambda t: t.fill_(1.0),
    "copy_": lambda t: t.copy_(torch.zeros(2)),
    "exp_": lambda t: t.exp_(),
    "masked_fill_": lambda t: t.masked_fill_(torch.tensor([True, False]), 0.0),
    "index_add_": lambda t: t.index_add_(0, torch.tensor([0]), torch.ones(1)),
    "unsqueeze_": lambda t: t.unsqueeze_(0),
}


@pytest.mark.parametrize("name", WRITES)
def test_recorded_writes_to_leaves_are_refused_before_writing(name):
    """V-87."""
    x = leaf()
    with pytest.raises(RuntimeError, match="leaf"):
        WRITES[name](x)
    assert x.tolist() == [1.0, 2.0]
    assert x._version == 0


@pytest.mark.parametrize("name", WRITES)
def test_recorded_writes_to_views_of_leaves_are_refused(name):
    """V-87."""
    x = leaf()
    with pytest.raises(RuntimeError, match="view of a leaf"):
        WRITES[name](x.view(2))
    assert x.tolist() == [1.0, 2.0]


def test_item_assignment_to_a_leaf_is_refused():
    """V-87."""
    x = leaf()
    with pytest.raises(RuntimeError, match="view of a leaf"):
        x[0] = 1


def test_tracked_operand_needs_history_in_the_target():
    """V-87, V-90."""
    int_target = torch.zeros(2, dtype=torch.int64)
    int_target.copy_(leaf())
    assert not int_target.requires_grad
    assert int_target.tolist() == [1, 2]


@pytest.mark.parametrize("name", WRITES)
def test_writes_without_grad_mode_change_data_and_version_only(name):
    """V-88."""
    x, y = leaf(), leaf() * 1
    node = y.grad_fn
    with torch.no_grad():
        WRITES[name](x)
        WRITES[name](y)
    assert x._version == 1
    assert y._version == 1
    assert x.is_leaf
    assert y.grad_fn is node


def test_recorded_write_replaces_the_node_of_the_same_object():
    """V-36, V-89."""
    x = leaf(1.0, 2.0, 3.0)
    values = torch.stack([x, x]).max(0)[0]
    old = values.grad_fn
    same = values.mul_(2)
    assert same is values
    assert type(values.grad_fn).__name__ == "MulBackward0"
    assert values.grad_fn.next_functions[0][0] is old
    assert values.output_nr == 0


def test_earlier_uses_keep_the_old_node():
    """V-89."""
    x = leaf()
    y = x * 3
    z = y + 1
    y.add_(5)
    (z + y).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


@pytest.mark.parametrize(
    "write",
    [
        lambda a, w: a.mul_(w),
        lambda a, w: a.copy_(w),
        lambda a, w: a.__setitem__(slice(None), w),
        lambda a, w: a.add_(w),
    ],
)
def test_tracked_value_makes_the_target_tracked(write):
    """V-90."""
    a, w = torch.ones(2), leaf()
    write(a, w)
    assert a.requires_grad
    assert not a.is_leaf
    a.sum().backward()
    assert w.grad.tolist() == [1.0, 1.0]


def test_copy_gives_the_source_the_gradient_and_the_target_none():
    """V-91."""
    x, src = leaf(), leaf(3.0, dtype=torch.float64)
    y = x * 1
    y.copy_(src)
    assert type(y.grad_fn).__name__ == "CopyBackwards"
    (y * torch.tensor([2.0, 5.0])).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]
    assert src.grad.tolist() == [7.0]
    assert src.grad.dtype is torch.float64


def test_real_source_of_a_complex_target_gets_the_real_part():
    """V-91."""
    src = leaf()
    z = torch.zeros(2, dtype=torch.complex64)
    z.copy_(src)
    z.backward(torch.tensor([1 + 2j, 3 + 4j]))
    assert src.grad.tolist() == [1.0, 3.0]


def test_fill_and_zero_cut_the_gradient():
    """V-92."""
    for write in (lambda y: y.zero_(), lambda y: y.fill_(4)):
        x = leaf()
        y = x * 1
        write(y)
        y.sum().backward()
        assert x.grad.tolist() == [0.0, 0.0]
    x, v = leaf(), torch.tensor(3.0, requires_grad=True)
    y = x * 1
    y.fill_(v)
    y.sum().backward()
    assert v.grad.item() == 2.0


@pytest.mark.parametrize("name", ["sin_", "cos_", "square_", "log_", "abs_"])
def test_operators_that_need_the_old_value_keep_it(name):
    """V-93."""
    x = leaf()
    y = x * 1
    getattr(y, name)()
    y.sum().backward()
    expected = torch.autograd.grad(getattr(x, name[:-1])().sum(), x)[0]
    assert x.grad.tolist() == expected.tolist()


def test_power_in_place():
    """V-93."""
    x = leaf()
    y = x * 1
    y.pow_(3)
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]


@pytest.mark.parametrize("name", ["exp_", "sigmoid_", "tanh_", "relu_", "sqrt_"])
def test_operators_that_need_the_new_value_save_it(name):
    """V-93, V-145."""
    x = leaf()
    y = x * 1
    getattr(y, name)()
    assert y.grad_fn._saved_result.data_ptr() == y.data_ptr()
    y.sum().backward()
    expected = torch.autograd.grad(getattr(x, name[:-1])().sum(), x)[0]
    assert x.grad.tolist() == expected.tolist()


def test_overwritten_second_operand_fails_in_backward():
    """V-94."""
    y = leaf() * 1
    y.mul_(y)
    with pytest.raises(RuntimeError, match="version"):
        y.sum().backward()


@pytest.mark.parametrize(
    "write",
    [
        lambda: torch.zeros(2).add_(torch.zeros(3, 2)),
        lambda: torch.zeros(1).mul_(torch.zeros(2)),
        lambda: torch.zeros(2).add_(1j),
        lambda: torch.zeros(2).mul_(torch.zeros(2, dtype=torch.complex64)),
        lambda: torch.zeros(2, dtype=torch.int64).add_(1.5),
        lambda: torch.zeros(2, dtype=torch.int64).mul_(torch.ones(2)),
        lambda: torch.zeros(2, dtype=torch.bool).add_(1),
        lambda: torch.zeros(2).copy_(torch.zeros(2, 2)),
        lambda: torch.zeros(2).copy_(torch.zeros(3)),
        lambda: torch.zeros(()).copy_(torch.zeros(2)),
    ],
)
def test_growth_in_place_is_refused(write):
    """V-95."""
    with pytest.raises(RuntimeError):
        write()


@pytest.mark.parametrize("shape", [(4, 2), (4,), (1, 4, 2)])
def test_copy_of_what_does_not_fit_names_both_shapes(shape):
    """V-95."""
    for target in (torch.zeros(2), leaf() * 1):
        with pytest.raises(RuntimeError, match=r"(?s)2.*4|4.*2"):
            target.copy_(torch.zeros(shape))


def test_out_is_refused_where_gradients_are_wanted():
    """V-96."""
    x, o = leaf(), torch.zeros(2)
    with pytest.raises(RuntimeError, match="mul"):
        torch.mul(x, 2, out=o)
    with pytest.raises(RuntimeError, match="exp"):
        torch.exp(torch.zeros(2), out=leaf() * 1)
    with torch.no_grad():
        torch.mul(x, 2, out=o)
    assert o.tolist() == [2.0, 4.0]
    assert o._version == 1


def test_resizing_needs_a_tensor_without_gradient():
    """V-97."""
    for t in (leaf(), leaf() * 1):
        with pytest.raises(RuntimeError):
            t.resize_(3)
        with pytest.raises(RuntimeError):
            t.resize_as_(torch.zeros(3))


def test_resizing_a_dual_is_refused():
    """V-97."""
    with torch.autograd.forward_ad.dual_level():
        d = torch.autograd.forward_ad.make_dual(torch.zeros(2), torch.ones(2))
        with pytest.raises(RuntimeError):
            d.resize_(3)


def test_set_on_leaves_and_others():
    """V-98."""
    with pytest.raises(RuntimeError, match="leaf"):
        leaf().set_(torch.zeros(3))
    y = leaf() * 1
    y.set_(torch.zeros(3))
    assert type(y.grad_fn).__name__ == "NotImplemented"
    assert y.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(RuntimeError, match="set_"):
        y.sum().backward()
    plain = torch.zeros(1)
    plain.set_(leaf() * 2)
    assert type(plain.grad_fn).__name__ == "NotImplemented"


def test_leaf_written_under_no_grad_matters_only_if_it_was_saved():
    """V-99."""
    x = leaf()
    added, squared = (x + 1).sum(), (x * x).sum()
    with torch.no_grad():
        x.add_(1)
    added.backward()
    with pytest.raises(RuntimeError, match="version 1"):
        squared.backward()


def test_leaf_that_moved_into_the_graph_is_refused():
    """V-100."""
    x = leaf()
    old = x * 2
    x.requires_grad_(False)
    x.mul_(leaf())
    with pytest.raises(RuntimeError):
        old.sum().backward()


def test_operator_without_derivative_runs_and_refuses_in_backward():
    """V-46."""
    y = torch.heaviside(leaf(), torch.zeros(2))
    assert type(y.grad_fn).__name__ == "NotImplemented"
    with pytest.raises(RuntimeError, match="heaviside"):
        y.sum().backward()


def test_write_under_no_grad_through_a_view_shows_in_the_base():
    """V-88."""
    y = leaf() * 1
    with torch.no_grad():
        y[:1].mul_(7)
    assert y.tolist() == [7.0, 2.0]
    assert type(y.grad_fn).__name__ == "MulBackward0"


def test_in_place_chain_has_the_gradient_of_the_out_of_place_one():
    """V-89, V-93."""
    x, w = leaf(0.3, 0.7), leaf(2.0, 3.0)
    y = x * 1
    y.mul_(w).sin_().add_(w).exp_()
    y.sum().backward()
    a, b = np.array([0.3, 0.7]), np.array([2.0, 3.0])
    outer = np.exp(np.sin(a * b) + b)
    assert np.allclose(x.grad.tolist(), outer * np.cos(a * b) * b, rtol=1e-5)
    assert np.allclose(w.grad.tolist(), outer * (np.cos(a * b) * a + 1), rtol=1e-5)

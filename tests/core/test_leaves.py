"""What a tensor says of itself before and after it meets autograd: leaves and `requires_grad`."""

import copy
import warnings

import numpy as np
import pytest

import pullback as torch
from tests.leaves import leaf

# State that a tensor carries ---------------------------------------------------------------------


def test_untouched_tensor_has_default_state_and_reading_changes_nothing():
    """V-1, V-2."""
    t = torch.zeros(2)
    for _ in range(2):
        assert t.grad is None
        assert t.grad_fn is None
        assert t._base is None
        assert (t.is_leaf, t.requires_grad, t.output_nr, t._version) == (True, False, 0, 0)
    assert not t._is_view()
    assert not t.retains_grad


def test_graph_gives_back_the_same_python_object():
    """V-3."""
    x = torch.nn.Parameter(torch.ones(2))
    x.note = "mine"
    y = (x * x).sum()
    kept = id(x)
    del x
    found = y.grad_fn.next_functions[0][0].next_functions[0][0].variable
    assert id(found) == kept
    assert found.note == "mine"
    assert type(found) is torch.nn.Parameter


def test_saved_input_and_base_are_the_same_objects():
    """V-3, V-145."""
    x = leaf()
    y = x * x
    assert y.grad_fn._saved_self is x
    assert x.view(2)._base is x


def test_name_is_none():
    """V-4."""
    assert torch.zeros(1).name is None


def test_volatile_only_warns():
    """V-4."""
    t = torch.zeros(1)
    with pytest.warns(UserWarning, match="volatile"):
        assert t.volatile is False
    with pytest.warns(UserWarning, match="volatile"):
        t.volatile = True


def test_variable_makes_plain_tensors_and_knows_all_tensors():
    """V-5."""
    data = torch.zeros(2)
    v = torch.autograd.Variable(data, requires_grad=True)
    assert type(v) is torch.Tensor
    assert v.requires_grad
    assert isinstance(data, torch.autograd.Variable)
    assert isinstance(torch.nn.Parameter(data), torch.autograd.Variable)
    assert not isinstance(3, torch.autograd.Variable)


def test_parameter_is_a_leaf_on_detached_shared_memory():
    """V-5."""
    data = leaf() * 2
    p = torch.nn.Parameter(data)
    assert p.is_leaf
    assert p.requires_grad
    assert p.data_ptr() == data.data_ptr()
    assert p.grad_fn is None


@pytest.mark.parametrize(
    "use", [lambda p: p.data, lambda p: p.detach(), lambda p: p.clone(), lambda p: p + 1]
)
def test_results_of_a_parameter_are_plain_tensors(use):
    """V-6."""
    assert type(use(torch.nn.Parameter(torch.zeros(2)))) is torch.Tensor


def test_integer_parameter_must_not_require_grad():
    """V-6."""
    with pytest.raises(RuntimeError):
        torch.nn.Parameter(torch.zeros(2, dtype=torch.int64))
    constant = torch.nn.Parameter(torch.zeros(2, dtype=torch.int64), requires_grad=False)
    assert not constant.requires_grad


def test_hash_is_identity_and_comparisons_never_require_grad():
    """V-7."""
    a, b = leaf(), leaf()
    assert hash(a) != hash(b)
    assert len({a, b, a}) == 2
    assert not (a == b).requires_grad
    assert (a == b).tolist() == [True, True]
    assert not (a < b).requires_grad


# Leaves ------------------------------------------------------------------------------------------


def test_is_leaf_exactly_when_there_is_no_grad_fn():
    """V-8."""
    x = leaf()
    for t in (x, torch.zeros(1), x * 2, x.detach(), (x * 2).detach(), torch.zeros(2) + 1):
        assert t.is_leaf == (t.grad_fn is None)
    assert x.is_leaf
    assert not (x * 2).is_leaf


def test_output_requires_grad_iff_grad_mode_input_and_dtype_say_so():
    """V-9."""
    x, c = leaf(), torch.zeros(2)
    assert (x + c).requires_grad
    assert not (c + c).requires_grad
    with torch.no_grad():
        y = x + c
    assert not y.requires_grad
    assert y.is_leaf
    assert y.grad_fn is None


@pytest.mark.parametrize(
    "use", [lambda x: x > 1, lambda x: x.argmax(), lambda x: x.long(), lambda x: x.max(0)[1]]
)
def test_integer_outputs_never_require_grad(use):
    """V-10."""
    out = use(leaf())
    assert not out.requires_grad
    assert out.grad_fn is None
    assert out.output_nr == 0


def test_sibling_of_an_integer_output_requires_grad():
    """V-10."""
    assert leaf().max(0)[0].requires_grad


def test_non_leaf_always_requires_grad():
    """V-11."""
    y = leaf() * 2
    assert y.requires_grad
    with torch.no_grad():
        assert y.requires_grad


@pytest.mark.parametrize("value", [True, False])
def test_flag_of_a_non_leaf_cannot_be_assigned(value):
    """V-12."""
    y = leaf() * 2
    with pytest.raises(RuntimeError, match="detach" if not value else "leaf"):
        y.requires_grad = value


def test_requires_grad_method():
    """V-13."""
    t = torch.zeros(2)
    assert t.requires_grad_() is t
    assert t.requires_grad
    assert t.requires_grad_(False) is t
    assert not t.requires_grad
    y = leaf() * 2
    assert y.requires_grad_(True) is y
    with pytest.raises(RuntimeError, match="detach"):
        y.requires_grad_(False)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_only_differentiable_dtypes_can_require_grad(dtype):
    """V-14."""
    t = torch.zeros(2, dtype=dtype)
    with pytest.raises(RuntimeError, match=r"floating.point"):
        t.requires_grad = True
    with pytest.raises(RuntimeError, match=r"floating.point"):
        t.requires_grad_()
    with pytest.raises(RuntimeError):
        torch.tensor([1], requires_grad=True)
    with pytest.raises(RuntimeError):
        torch.zeros(2, dtype=dtype, requires_grad=True)
    t.requires_grad_(False)


def test_values_that_are_no_bool_are_refused():
    """V-15."""
    t = torch.zeros(2)
    with pytest.raises(RuntimeError):
        t.requires_grad = 1
    with pytest.raises(TypeError):
        t.requires_grad_(1)
    with pytest.raises(RuntimeError):
        del t.requires_grad


def test_changing_the_flag_keeps_grad_and_version():
    """V-16."""
    x = leaf()
    x.sum().backward()
    g = x.grad
    x.requires_grad = False
    x.requires_grad_(True)
    assert x.grad is g
    assert x._version == 0


def test_flag_switched_off_before_backward_leaves_grad_alone():
    """V-17."""
    x, w = leaf(), leaf()
    loss = (x * w).sum()
    x.requires_grad_(False)
    loss.backward()
    assert x.grad is None
    assert w.grad is not None


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(2, requires_grad=True),
        lambda: torch.tensor([1.0], requires_grad=True),
        lambda: torch.ones_like(torch.zeros(2), requires_grad=True),
        lambda: torch.nn.Parameter(torch.zeros(1)),
        lambda: torch.zeros(2).new_zeros(1, requires_grad=True),
    ],
)
def test_factories_ignore_grad_mode(make):
    """V-18."""
    with torch.no_grad():
        assert make().requires_grad


def test_factories_like_a_tensor_do_not_inherit_the_flag():
    """V-19."""
    x = leaf()
    assert not torch.zeros_like(x).requires_grad
    assert not x.new_zeros(2).requires_grad
    assert torch.as_tensor(x) is x
    with pytest.warns(UserWarning, match="clone"):
        y = torch.tensor(x)
    assert not y.requires_grad
    assert y.data_ptr() != x.data_ptr()


# Views of leaves ---------------------------------------------------------------------------------


def test_flag_of_a_view_follows_its_base_when_read():
    """V-20, V-21."""
    base = torch.zeros(3)
    v = base[:2]
    assert not v.requires_grad
    base.requires_grad_()
    assert v.requires_grad
    assert v.is_leaf
    assert v.grad_fn is None
    y = v * 2
    assert y.requires_grad
    assert y.grad_fn.next_functions[0] == (None, 0)
    y.sum().backward()
    assert base.grad is None


def test_view_can_be_a_leaf_of_its_own():
    """V-22."""
    base = torch.zeros(3)
    v = base[:2].requires_grad_()
    assert v.is_leaf
    (v * 3).sum().backward()
    assert v.grad.tolist() == [3.0, 3.0]
    assert not base.requires_grad
    assert base.grad is None


def test_view_that_is_a_leaf_stops_being_one_when_its_base_gets_history():
    """V-22, V-104."""
    base = torch.zeros(3)
    v = base[:2].requires_grad_()
    base[2:].mul_(leaf(5.0))
    assert not v.is_leaf


def test_flag_of_a_no_grad_view_can_be_cleared_but_reads_true():
    """V-23."""
    x = leaf()
    with torch.no_grad():
        v = x.view(2)
    v.requires_grad = False
    assert v.requires_grad


def test_deepcopy_keeps_the_flag():
    """V-185."""
    assert copy.deepcopy(leaf()).requires_grad


def test_as_tensor_of_an_array_shares_memory():
    """V-19."""
    array = np.zeros(2)
    t = torch.as_tensor(array)
    array[0] = 1
    assert t.tolist() == [1.0, 0.0]


def test_reading_does_not_warn_on_leaves():
    """V-2, V-25."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert leaf().grad is None
        assert torch.zeros(1).grad is None


def test_variable_without_data_is_an_empty_tensor():
    """V-5"""
    assert torch.autograd.Variable().tolist() == []
    assert torch.autograd.Variable(requires_grad=True).requires_grad
    with pytest.raises(TypeError):
        torch.autograd.Variable([1.0])


@pytest.mark.parametrize(
    "off",
    [lambda x: x.requires_grad_(False), lambda x: x.detach_()],
    ids=["requires_grad_", "detach_"],
)
def test_a_leaf_switched_off_and_on_is_the_same_leaf_to_its_graphs(off):
    """V-116: one accumulator, which the graph keeps"""
    x = torch.ones(2, requires_grad=True)
    y = (x * 3).sum()
    off(x)
    x.requires_grad_()
    assert (x * 1).grad_fn.next_functions[0][0] is y.grad_fn.next_functions[0][0].next_functions[0][
        0
    ]
    assert torch.autograd.grad(y, x, retain_graph=True)[0].tolist() == [3.0, 3.0]
    y.backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_leaf_that_no_graph_knows_any_more_starts_anew():
    x = torch.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    x.requires_grad_(False)
    x.requires_grad_()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_a_leaf_of_another_size_gets_an_accumulator_of_that_size():
    """The one of the old shape was used again."""
    x = torch.ones(16, requires_grad=True)
    for size in (15, 14):
        with torch.no_grad():
            x.set_(x[1:])
            x.grad = None
        kept = torch.cat((x, x))
        kept.sum().backward()
        assert x.grad.shape == (size,)


def test_set_cuts_a_leaf_off_from_its_past():
    """What was computed before belongs to the old accumulator, which the edge still names."""
    x = torch.ones(2, requires_grad=True)
    edge = torch.autograd.graph.get_gradient_edge(x)
    out = x.clone()
    with torch.no_grad():
        x.set_(torch.zeros(2))
    assert torch.autograd.grad(out.sum(), edge, retain_graph=True)[0].tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad(out.sum(), x)

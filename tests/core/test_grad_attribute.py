"""The `.grad` attribute: reading, assigning, retaining, and what backward stores there."""

import gc
import subprocess
import sys
import warnings
import weakref

import pytest

import pullback as torch
from tests.leaves import leaf

# Reading and assigning ---------------------------------------------------------------------------


def test_grad_is_none_then_one_object():
    """V-24."""
    x = leaf()
    assert x.grad is None
    (x * 2).sum().backward()
    assert x.grad is x.grad


def test_reading_grad_of_a_non_leaf_warns():
    """V-25."""
    y = leaf() * 2
    with pytest.warns(UserWarning, match="retain_grad"):
        assert y.grad is None


def test_reading_grad_of_a_non_leaf_warns_once_per_place_with_the_remedy():
    """V-25: as filters have it by default; each place of the user's is one of its own."""
    y = leaf() * 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            assert y.grad is None
        assert y.grad is None
    lines = [warning.lineno for warning in caught]
    assert len(lines) == 2
    assert lines[1] == lines[0] + 1
    assert all(warning.filename == __file__ for warning in caught)
    assert "retain_grad() on the tensor before backward()" in str(caught[0].message)
    assert "the leaf" in str(caught[0].message)


def test_reading_a_retained_or_stored_grad_does_not_warn():
    """V-25."""
    y, z = leaf() * 2, leaf() * 2
    y.retain_grad()
    z.grad = torch.zeros(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert y.grad is None
        assert z.grad is not None


def test_assigned_grad_is_the_object_itself():
    """V-26."""
    x, g = leaf(), torch.ones(2)
    x.grad = g
    assert x.grad is g
    (x * 2).sum().backward()
    assert x.grad is g
    assert g.tolist() == [3.0, 3.0]


def test_grad_can_be_cleared_in_two_ways():
    """V-27."""
    x = leaf()
    x.grad = torch.ones(2)
    x.grad = None
    assert x.grad is None
    x.grad = torch.ones(2)
    del x.grad
    assert x.grad is None


def test_assignment_checks_dtype_shape_and_type():
    """V-28."""
    x = leaf()
    with pytest.raises(RuntimeError, match=r"dtype|type"):
        x.grad = torch.ones(3, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"shape|size"):
        x.grad = torch.ones(3)
    with pytest.raises(TypeError, match="list"):
        x.grad = [1.0]
    with pytest.raises(RuntimeError):
        x.grad = x
    assert x.grad is None


def test_assignment_does_not_look_at_requires_grad():
    """V-30."""
    plain, whole, y = torch.zeros(2), torch.zeros(2, dtype=torch.int64), leaf() * 2
    plain.grad = torch.ones(2, requires_grad=True)
    whole.grad = torch.ones(2, dtype=torch.int64)
    y.grad = torch.ones(2)
    x = leaf()
    x.grad = x.detach()
    assert plain.grad.requires_grad
    assert whole.grad.dtype is torch.int64


def test_private_alias_of_grad():
    """V-31."""
    x = leaf()
    x._grad = torch.ones(2)
    assert x._grad is x.grad


def test_grad_dtype_defaults_to_the_dtype_and_belongs_to_leaves():
    """V-32."""
    x = leaf()
    assert x.grad_dtype is torch.float32
    with pytest.raises(RuntimeError):
        (x * 2).grad_dtype
    with pytest.raises(RuntimeError):
        (x * 2).grad_dtype = torch.float64


def test_grad_dtype_changes_what_is_stored():
    """V-32."""
    x = leaf()
    x.grad_dtype = torch.float64
    (x * 2).sum().backward()
    assert x.grad.dtype is torch.float64
    x.grad = None
    x.grad_dtype = None
    x.grad = torch.ones(2, dtype=torch.float16)


def test_bad_grad_dtypes_are_refused():
    """V-33."""
    x = leaf()
    with pytest.raises(RuntimeError):
        x.grad_dtype = 3
    x.grad = torch.ones(2)
    with pytest.raises(RuntimeError):
        x.grad_dtype = torch.float64


# retain_grad -------------------------------------------------------------------------------------


def test_retain_grad_stores_the_gradient_of_a_non_leaf():
    """V-48."""
    x = leaf()
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    assert y.retains_grad
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3.0, 3.0]


def test_retain_grad_works_in_autograd_grad():
    """V-48."""
    x = leaf()
    y = x * 2
    y.retain_grad()
    torch.autograd.grad((y * 3).sum(), x)
    assert y.grad.tolist() == [3.0, 3.0]


def test_retain_grad_on_leaves():
    """V-49."""
    x = leaf()
    x.retain_grad()
    assert not x.retains_grad
    with pytest.raises(RuntimeError):
        torch.zeros(2).retain_grad()


def test_retained_value_is_a_private_copy_and_sums_are_new_objects():
    """V-50."""
    x = leaf()
    y = x * 2
    y.retain_grad()
    loss = y.sum()
    loss.backward(retain_graph=True)
    first = y.grad
    assert first.is_contiguous()
    assert first.stride() == (1,)
    loss.backward()
    assert y.grad is not first
    assert first.tolist() == [1.0, 1.0]
    assert y.grad.tolist() == [2.0, 2.0]


def test_given_gradient_is_not_aliased_by_the_retained_one():
    """V-50."""
    x, given = leaf(), torch.ones(2)
    y = x * 2
    y.retain_grad()
    y.backward(given)
    assert y.grad is not given
    given.zero_()
    assert y.grad.tolist() == [1.0, 1.0]


def test_retained_value_is_after_tensor_hooks_and_before_node_pre_hooks():
    """V-51, V-134."""
    x = leaf()
    y = x * 2
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 100,))
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    assert y.grad.tolist() == [10.0, 10.0]
    assert x.grad.tolist() == [2000.0, 2000.0]


def test_retention_follows_the_tensor_through_writes():
    """V-52."""
    x = leaf()
    y = x * 2
    y.retain_grad()
    y.mul_(5)
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3.0, 3.0]


def test_retention_follows_base_and_views_through_writes_to_a_view():
    """V-53."""
    x = leaf(1.0, 2.0, 3.0)
    base = x * 1
    view = base[:2]
    base.retain_grad()
    view.retain_grad()
    view.mul_(5)
    (base * 2).sum().backward(retain_graph=True)
    assert base.grad.tolist() == [2.0, 2.0, 2.0]
    (view * 3).sum().backward()
    assert view.grad.tolist() == [3.0, 3.0]
    assert x.grad.tolist() == [25.0, 25.0, 2.0]


def test_unused_sibling_retains_nothing():
    """V-54."""
    a, b = leaf().unbind(0)
    b.retain_grad()
    a.backward()
    assert b.grad is None


def test_retention_does_not_keep_the_tensor_alive():
    """V-54."""
    x = leaf()
    y = x * 2
    y.retain_grad()
    z = y.sum()
    gone = weakref.ref(y)
    del y
    assert gone() is None
    z.backward()
    assert x.grad.tolist() == [2.0, 2.0]


# Accumulation ------------------------------------------------------------------------------------


def accumulator(t):
    return (t * 1).grad_fn.next_functions[0][0]


def test_one_live_accumulator_per_leaf_held_weakly():
    """V-116."""
    x = leaf()
    y, z = x * 2, x * 3
    node = y.grad_fn.next_functions[0][0]
    assert node is z.grad_fn.next_functions[0][0]
    assert node.variable is x
    node.metadata["mine"] = 1
    del y, z, node
    gc.collect()
    assert "mine" not in accumulator(x).metadata


def test_graph_keeps_the_leaf_alive():
    """V-117."""
    x = leaf()
    y = x * 2
    alive = weakref.ref(x)
    del x
    assert alive() is not None
    del y
    assert alive() is None


def test_hooks_see_the_sum_of_one_backward():
    """V-118."""
    x, seen = leaf(), []
    x.register_hook(lambda g: seen.append(g.tolist()))
    (x * 2 + x * 3).sum().backward()
    assert seen == [[5.0, 5.0]]


def test_second_backward_adds_into_the_stored_object():
    """V-119 (a), (b)."""
    x = leaf()
    (x * 2).sum().backward()
    g, version = x.grad, x.grad._version
    assert not g.requires_grad
    (x * 3).sum().backward()
    assert x.grad is g
    assert g._version == version + 1
    assert g.tolist() == [5.0, 5.0]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_recorded_backward_stores_new_differentiable_objects():
    """V-119 (c)."""
    x = leaf()
    (x * x).sum().backward(create_graph=True)
    first = x.grad
    assert first.requires_grad
    (x * x).sum().backward(create_graph=True)
    assert x.grad is not first
    assert x.grad.tolist() == [4.0, 8.0]
    x.grad = None


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_recorded_first_gradient_is_a_copy():
    """V-119 (c)."""
    x = leaf()
    (x * x).sum().backward(create_graph=True)
    assert type(x.grad.grad_fn).__name__ in ("CopyBackwards", "CloneBackward0")
    x.grad = None


def test_leaves_never_share_gradient_memory():
    """V-120."""
    x, y, given = leaf(), leaf(), torch.ones(2)
    (x + y).backward(given)
    pointers = {x.grad.data_ptr(), y.grad.data_ptr(), given.data_ptr()}
    assert len(pointers) == 3


def test_given_gradient_is_copied_through_view_formulas():
    """V-120."""
    x, given = leaf(), torch.ones(2)
    x.view(2).backward(given)
    given.zero_()
    assert x.grad.tolist() == [1.0, 1.0]


def test_stored_gradient_has_the_strides_of_a_dense_leaf():
    """V-121."""
    x = torch.zeros(2, 3).t().requires_grad_()
    x.sum().backward()
    assert x.grad.stride() == (1, 3)
    y = torch.zeros(4, 4)[:, ::2].requires_grad_()
    y.sum().backward()
    assert y.grad.stride() == (2, 1)


def test_undefined_gradient_leaves_grad_untouched():
    """V-124."""

    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return None

    x = leaf()
    Nothing.apply(x).sum().backward()
    assert x.grad is None


def test_stored_gradient_that_requires_grad_is_added_to_without_recording():
    """V-125."""
    x = leaf()
    x.grad = torch.ones(2, requires_grad=True)
    g = x.grad
    (x * 2).sum().backward()
    assert x.grad is g
    assert g.is_leaf
    assert g.tolist() == [3.0, 3.0]


def test_stored_inference_gradient_is_refused_outside():
    """V-126."""
    x = leaf()
    with torch.inference_mode():
        g = torch.ones(2)
    x.grad = g
    with pytest.raises(RuntimeError):
        (x * 2).sum().backward()


def test_gradient_edge_names_the_place_of_a_tensor():
    """V-128."""
    x = leaf()
    y = x * 2
    edge = torch.autograd.graph.get_gradient_edge(y)
    assert (edge.node, edge.output_nr) == (y.grad_fn, 0)
    with torch.no_grad():
        edge = torch.autograd.graph.get_gradient_edge(x)
    assert edge.node.variable is x
    assert edge.output_nr == 0
    with pytest.raises(RuntimeError):
        torch.autograd.graph.get_gradient_edge(torch.zeros(1))


def test_gradient_edges_stand_for_tensors():
    """V-129."""
    x = leaf()
    y = x * 2
    edge = torch.autograd.graph.get_gradient_edge(y)
    (g,) = torch.autograd.grad((y * y).sum(), edge)
    assert g.tolist() == [4.0, 8.0]
    torch.autograd.backward(edge, torch.ones(2))
    assert x.grad.tolist() == [2.0, 2.0]


def test_edge_of_a_tensor_written_later_stays_with_the_old_value():
    """V-129."""
    x = leaf()
    y = x * 2
    edge = torch.autograd.graph.get_gradient_edge(y)
    y.mul_(10)
    (g,) = torch.autograd.grad(y.sum(), edge)
    assert g.tolist() == [10.0, 10.0]


def test_data_of_another_dtype_gets_a_new_accumulator():
    """V-130."""
    x = leaf()
    old = x * 2
    x.data = torch.zeros(2, dtype=torch.float64)
    new = x * 2
    assert old.grad_fn.next_functions[0][0] is not new.grad_fn.next_functions[0][0]
    new.sum().backward()
    assert x.grad.dtype is torch.float64


# What is stored already ---------------------------------------------------------------------------


def test_expanded_gradients_are_not_added_to():
    """V-126"""
    x = torch.ones(2, 3, requires_grad=True)
    x.grad = torch.ones(1, 3).expand(2, 3)
    with pytest.raises(RuntimeError, match="several elements"):
        (x * 2).sum().backward()
    assert x.grad.tolist() == [[1.0] * 3] * 2


def test_gradients_of_a_former_shape_are_not_added_to():
    """V-126"""
    x = torch.ones(2, 3, requires_grad=True)
    x.grad = torch.ones(2, 3)
    x.data = torch.ones(4)
    with pytest.raises(RuntimeError, match=r"shape \(2, 3\).* \(4,\)"):
        (x * 2).sum().backward()


def test_inference_gradients_are_not_added_to_outside():
    """V-126"""
    x = torch.ones(2, requires_grad=True)
    with torch.inference_mode():
        x.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="inference"):
        (x * 2).sum().backward()
    y = (x * 2).sum()
    with torch.inference_mode():
        y.backward()
        assert x.grad.tolist() == [3.0, 3.0]


_LAYOUTS = """
import warnings
import pullback as torch
def step(grad):
    x = torch.ones(2, 3, requires_grad=True)
    x.grad = grad
    (x * 2).sum().backward()
    assert x.grad is grad and grad.tolist() == [[3.0] * 3] * 2
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    step(torch.ones(2, 3))
    with torch.autograd.enforce_grad_layout_policy(False):
        step(torch.ones(3, 2).t())
    assert not caught
    step(torch.ones(3, 2).t())
    step(torch.ones(3, 2).t())
assert len(caught) == 1, caught
text = str(caught[0].message)
assert "[2, 3]" in text and "[1, 2]" in text and "[3, 1]" in text
"""


def test_gradients_in_another_order_warn_once_per_process():
    """V-122"""
    subprocess.run([sys.executable, "-c", _LAYOUTS], check=True)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_recorded_gradients_are_stored_as_differentiable_copies():
    """V-119: and added to out of place"""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (x**3).sum().backward(create_graph=True)
    first = x.grad
    assert "CopyBackwards" in first.grad_fn.name()
    assert torch.autograd.grad(first.sum(), x, retain_graph=True)[0].tolist() == [6.0, 12.0]
    (x**3).sum().backward(create_graph=True)
    assert x.grad is not first
    assert x.grad.tolist() == [6.0, 24.0]
    x.grad = None


class _Widened(torch.autograd.Function):
    forward = staticmethod(lambda ctx, x: x * 2)
    backward = staticmethod(lambda ctx, g: g.double())


@pytest.mark.filterwarnings("ignore:Using backward:UserWarning")
@pytest.mark.parametrize("recorded", [False, True])
def test_a_leaf_without_grad_dtype_keeps_gradients_as_they_come(recorded):
    """They were cast to the leaf's dtype."""
    x = leaf()
    x.grad_dtype = None
    _Widened.apply(x).sum().backward(create_graph=recorded)
    assert x.grad.dtype is torch.float64
    x.grad = None
    (g,) = torch.autograd.grad(_Widened.apply(x).sum(), x, create_graph=recorded)
    assert g.dtype is torch.float64


def test_a_leaf_with_a_grad_dtype_rounds_gradients_once():
    """To the leaf's dtype first."""

    class Third(torch.autograd.Function):
        forward = staticmethod(lambda ctx, x: x * 2)
        backward = staticmethod(lambda ctx, g: g.double() / 3)

    x = leaf()
    x.grad_dtype = torch.float64
    Third.apply(x).sum().backward()
    assert x.grad.tolist() == [1 / 3, 1 / 3]


def test_strides_are_compared_in_elements_not_bytes():
    """A stored gradient of another dtype made a warning about strides."""
    x = leaf(1.0, 2.0, dtype=torch.bfloat16)
    x.grad_dtype = None
    x.grad = torch.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (x * 3).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]

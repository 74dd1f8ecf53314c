"""backward() and grad(): arguments, their checks, roots and inputs (rows E-1 to E-40)."""

from __future__ import annotations

import inspect
import warnings

import pytest

import pullback as torch
from pullback.autograd import Function, backward, grad
from pullback.autograd.graph import GradientEdge, get_gradient_edge
from pullback.core.process import warning_once
from tests.leaves import double_leaf as leaf

pytestmark = pytest.mark.usefixtures("both_passes")


def ones(*shape):
    return torch.ones(shape, dtype=torch.float64)


class Swallow(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return None


def test_signatures_are_torchs():
    """E-1"""
    assert str(inspect.signature(backward)).startswith("(tensors")
    assert list(inspect.signature(backward).parameters) == [
        "tensors", "grad_tensors", "retain_graph", "create_graph", "grad_variables", "inputs",
    ]  # fmt: skip
    assert list(inspect.signature(grad).parameters) == [
        "outputs", "inputs", "grad_outputs", "retain_graph", "create_graph", "only_inputs",
        "allow_unused", "is_grads_batched", "materialize_grads",
    ]  # fmt: skip
    assert list(inspect.signature(torch.Tensor.backward).parameters)[1:] == [
        "gradient", "retain_graph", "create_graph", "inputs",
    ]  # fmt: skip


def test_roots_and_inputs_may_be_one_or_many_tensors_or_edges():
    """E-2"""
    x = leaf(2.0)
    y, z = x * 3, x * 4
    backward((y, get_gradient_edge(z)), [ones(1), ones(1)])
    assert x.grad.item() == 7
    y = x * 5
    (g,) = grad(get_gradient_edge(y), (t for t in [x]))
    assert g.item() == 5
    with pytest.raises(TypeError):
        backward(3)
    with pytest.raises(TypeError):
        grad(x * 2, 3)


def test_generators_serve_as_roots():
    """E-2"""
    x = leaf(2.0)
    backward(x * k for k in (1.0, 2.0))
    assert x.grad.item() == 3


@pytest.mark.parametrize("gradient", [None, torch.ones(1)])
def test_root_without_history_is_refused_by_index(gradient):
    """E-3"""
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match=r"1.*grad"):
        backward([x * 2, torch.ones(1)], [ones(1), gradient])
    assert x.grad is None


def test_gradients_must_be_tensors_or_none():
    """E-4"""
    x = leaf(1.0)
    backward([x * 2], ones(1))
    with pytest.raises(TypeError, match="int"):
        backward([x * 2], [3])
    assert x.grad.item() == 2


def test_fewer_gradients_than_roots_are_refused_and_surplus_is_dropped():
    """E-5"""
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match=r"2.*1"):
        backward([x * 2, x * 3], [ones(1)])
    backward([x * 2], [ones(1), ones(1)])
    assert x.grad.item() == 2


def test_implicit_gradient_is_for_one_real_element():
    """E-6"""
    x = leaf(1.0)
    (x * 2).reshape(1, 1, 1).backward()
    assert x.grad.item() == 2
    with pytest.raises(RuntimeError, match="scalar"):
        (leaf(1.0, 2.0) * 2).backward()
    c = torch.ones(1, dtype=torch.complex128, requires_grad=True)
    with pytest.raises(RuntimeError, match="complex"):
        (c * 2).backward()


def test_untracked_roots_of_any_kind_report_missing_history():
    """E-7"""
    for root in (torch.ones(3), torch.arange(3)):
        with pytest.raises(RuntimeError, match="does not require grad"):
            backward(root)


def test_root_gradient_must_have_the_roots_shape():
    """E-8"""
    x = leaf(1.0, 2.0)
    for shape in ((1,), (2, 2), ()):
        with pytest.raises(RuntimeError, match=r"0"):
            (x * 2).backward(ones(*shape))


def test_root_gradient_dtype_is_cast_unless_complexness_differs():
    """E-9"""
    x = torch.ones(1, requires_grad=True)
    for dtype in (torch.float64, torch.float16, torch.int64, torch.bool):
        x.grad = None
        (x * 2).backward(torch.ones(1, dtype=dtype))
        assert x.grad.dtype is torch.float32
        assert x.grad.item() == 2
    with pytest.raises(RuntimeError, match="complex"):
        (x * 2).backward(torch.ones(1, dtype=torch.complex64))


def test_create_graph_retains_unless_told_otherwise():
    """E-11"""
    x = leaf(3.0)
    y = x**3
    (g,) = grad(y, x, create_graph=True, retain_graph=False)
    assert grad(g, x)[0].item() == 18
    with pytest.raises(RuntimeError, match="retain_graph"):
        grad(y, x)
    y = x**3
    grad(y, x, create_graph=True)
    assert grad(y, x)[0].item() == 27


def test_backward_with_create_graph_warns_once_per_process(monkeypatch):
    """E-12"""
    monkeypatch.setattr(warning_once, "_given", set())
    x = leaf(3.0)
    with pytest.warns(UserWarning, match="cycle"):
        (x**2).backward(create_graph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (x**2).backward(create_graph=True)
        grad(x**2, x, create_graph=True)
    x.grad = None


def test_deprecated_arguments_warn():
    """E-13, E-14"""
    x = leaf(3.0)
    with pytest.warns(FutureWarning, match="grad_variables"):
        backward(x * 2, grad_variables=[ones(1)])
    with pytest.raises(RuntimeError, match=r"grad_tensors.*grad_variables"):
        backward(x * 2, [ones(1)], grad_variables=[ones(1)])
    with pytest.warns(FutureWarning, match="only_inputs"):
        assert grad(x * 2, x, only_inputs=False)[0].item() == 2


@pytest.mark.parametrize("kind", [RuntimeError, ValueError])
def test_empty_inputs_are_refused(kind):
    """E-15"""
    x = leaf(3.0)
    with pytest.raises(kind):
        backward(x * 2, inputs=[])
    with pytest.raises(kind):
        grad(x * 2, [])


def test_dict_of_inputs_gives_dict_of_gradients():
    """E-16"""
    x, w = leaf(3.0), leaf(4.0)
    result = grad(x * w, {"w": w, "x": x})
    assert list(result) == ["w", "x"]
    assert result["w"].item() == 3


def test_grad_returns_a_tuple_and_backward_none():
    """E-17"""
    x = leaf(3.0)
    assert isinstance(grad(x * 2, x), tuple)
    assert backward(x * 2) is None


def test_backward_inputs_retains_the_gradient_of_a_non_leaf_for_good():
    """E-18"""
    x = leaf(3.0)
    y = x * 2
    fired = []
    y.grad_fn.register_hook(lambda i, o: fired.append(1))
    z = y * y
    z.backward(inputs=[y], retain_graph=True)
    assert y.grad.item() == 12
    assert fired == [1]
    assert x.grad is None
    assert y.retains_grad
    z.backward()
    assert y.grad.item() == 24


def test_unreachable_inputs_of_backward_are_silent():
    """E-19"""
    x, other = leaf(3.0), leaf(1.0)
    y = x * x
    y.backward(inputs=[other])
    assert other.grad is None
    y.backward()  # nothing was freed
    assert x.grad.item() == 6


def test_inputs_must_require_grad_and_be_tensors():
    """E-20"""
    x = leaf(3.0)
    for call in (lambda i: backward(x * 2, inputs=i), lambda i: grad(x * 2, i, allow_unused=True)):
        with pytest.raises(RuntimeError):
            call([torch.ones(1)])
        with pytest.raises(RuntimeError, match="int"):
            call([3])


def test_grad_runs_no_accumulator_but_leaf_hooks_and_retained_gradients():
    """E-21"""
    x = leaf(3.0)
    y = x * 2
    y.retain_grad()
    log = []
    x.register_hook(lambda g: log.append("leaf"))
    x.register_post_accumulate_grad_hook(lambda p: log.append("post"))
    y.grad_fn.next_functions[0][0].register_prehook(lambda g: log.append("accumulator"))
    grad(y * y, x)
    assert log == ["leaf"]
    assert x.grad is None
    assert y.grad.item() == 12


def test_unused_input_is_an_error_after_the_pass():
    """E-22, E-23"""
    x, other = leaf(3.0), leaf(1.0)
    y = x * x
    with pytest.raises(RuntimeError, match=r"1.*allow_unused=True"):
        grad(y, [x, other])
    with pytest.raises(RuntimeError, match="retain_graph"):
        y.backward()
    with pytest.raises(RuntimeError, match="allow_unused"):
        grad(Swallow.apply(x * 2), x)
    assert grad(Swallow.apply(x * 2), x, allow_unused=True) == (None,)


def test_materialize_grads_gives_zeros():
    """E-24"""
    x, other = leaf(3.0), leaf(1.0, 2.0)
    (zeros,) = grad(x * x, other, materialize_grads=True)
    assert zeros.tolist() == [0, 0]
    assert not zeros.requires_grad
    assert grad(x * x, other, materialize_grads=True, create_graph=True)[0].requires_grad
    with pytest.raises(ValueError, match="materialize_grads"):
        grad(x * x, other, materialize_grads=True, allow_unused=False)
    with pytest.raises(RuntimeError, match="Edge"):
        grad(x * x, get_gradient_edge(other), materialize_grads=True)


def test_duplicates_among_inputs_and_roots():
    """E-25"""
    x = leaf(3.0)
    y = x * 2
    a, b = grad([y, y], [x, x])
    assert (a.item(), b.item()) == (4, 4)


def test_an_input_may_be_a_root_an_ancestor_or_one_of_several_outputs():
    """E-26"""
    x = leaf(3.0)
    y = x * 2
    z = y * 5
    gz, gy, gx = grad(z, [z, y, x])
    assert (gz.item(), gy.item(), gx.item()) == (1, 5, 10)
    a, b = torch.arange(2.0, requires_grad=True).unbind(0)
    assert [g.item() for g in grad(a * 2 + b * 3, [b, a])] == [3, 2]


def test_a_leaf_can_be_a_root():
    """E-27"""
    x = leaf(3.0)
    g = ones(1) * 4
    x.backward(g)
    assert x.grad.item() == 4
    assert x.grad is not g
    assert grad(x, x)[0].item() == 1


def test_a_root_above_another_runs_once_with_both_gradients():
    """E-28"""
    x = leaf(3.0)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.item()))
    backward([y * 5, y])
    assert seen == [6]
    assert x.grad.item() == 12


def test_no_roots_do_nothing():
    """E-29"""
    x = leaf(3.0)
    backward([])
    assert grad([], x, allow_unused=True) == (None,)
    with pytest.raises(RuntimeError):
        grad([], x)


def test_edge_root_outlives_its_tensor_and_carries_its_metadata():
    """E-30"""
    x = leaf(1.0, 2.0)
    edge = get_gradient_edge(x * 2)
    with pytest.raises(RuntimeError, match="scalar"):
        backward(edge)
    with pytest.raises(RuntimeError, match=r"3"):
        backward(edge, ones(3))
    backward(edge, ones(2))
    assert x.grad.tolist() == [2, 2]


def test_edge_inputs():
    """E-31"""
    x = leaf(3.0)
    y = x * 2
    z = y * y
    assert grad(z, get_gradient_edge(y), retain_graph=True)[0].item() == 12
    ran = []
    y.grad_fn.register_hook(lambda i, o: ran.append(1))
    z.backward(inputs=[get_gradient_edge(y)], retain_graph=True)
    assert ran == [1]
    assert not y.retains_grad
    assert x.grad is None
    z.backward(inputs=[get_gradient_edge(x)])
    assert x.grad.item() == 24


def test_edge_must_hold_a_node():
    """E-32"""
    with pytest.raises(RuntimeError, match="Node"):
        backward(GradientEdge(3, 0))
    x = leaf(3.0)
    y = x * 2
    with pytest.raises((RuntimeError, TypeError, AttributeError)):
        backward([(y.grad_fn, 0)])


def test_batched_gradients_stack_single_results():
    """E-33"""
    x, other = leaf(1.0, 2.0), leaf(1.0)
    rows = torch.eye(2, dtype=torch.float64)
    jacobian, none = grad(x * x, [x, other], rows, is_grads_batched=True, allow_unused=True)
    assert jacobian.tolist() == [[2, 0], [0, 4]]
    assert none is None


def test_batched_gradients_check_shapes():
    """E-34"""
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="batch"):
        grad(x * x, x, ones(2, 3), is_grads_batched=True)
    with pytest.raises(ValueError, match="gradient"):
        grad(x.sum(), x, is_grads_batched=True)
    with pytest.raises(ValueError, match="same number"):
        grad([x * x, x * 2], x, [ones(2, 2), ones(3, 2)], is_grads_batched=True)
    with pytest.raises(ValueError, match="first dimension"):
        grad(x.sum(), x, ones(), is_grads_batched=True)


def test_batched_gradients_with_create_graph_free_once():
    """E-35"""
    x = leaf(1.0, 2.0)
    rows = torch.eye(2, dtype=torch.float64)
    y = x**3
    (first,) = grad(y, x, rows, is_grads_batched=True, create_graph=True)
    (second,) = grad(first.sum(), x)
    assert second.tolist() == [6, 12]
    grad(y, x, rows, is_grads_batched=True)
    with pytest.raises(RuntimeError, match="retain_graph"):
        grad(y, x, rows, is_grads_batched=True)


def test_backward_inside_a_transform_is_refused():
    """E-36"""
    x = leaf(1.0)

    def inside(t):
        (t * t).sum().backward()
        return t

    with pytest.raises(RuntimeError, match="func"):
        torch.func.vmap(inside)(x)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_backward_and_grad_work_without_recording(mode):
    """E-37"""
    x = leaf(3.0)
    y = x * x
    with mode():
        assert grad(y, x, retain_graph=True)[0].item() == 6
        y.backward()
    assert x.grad.item() == 6


def test_engine_object_runs_a_pass_with_everything_spelt_out():
    """E-38"""
    x = leaf(3.0)
    engine = torch.autograd.Variable._execution_engine
    assert engine.run_backward((x * 2,), (ones(1),), False, False, (x,))[0].item() == 2
    engine.run_backward((x * 2,), (ones(4, 1),), False, False, (x,), accumulate_grad=True)
    assert x.grad.item() == 8
    with pytest.raises(RuntimeError, match=r"tensors.*list"):
        engine.run_backward([x * 2], (ones(1),), False, False)
    with pytest.raises(RuntimeError, match="None"):
        engine.run_backward((x * 2,), (None,), False, False)
    assert engine.is_checkpoint_valid()


def test_variable_is_the_old_name_of_tensor():
    """E-39"""
    assert isinstance(torch.ones(1), torch.autograd.Variable)
    assert not isinstance(3, torch.autograd.Variable)
    assert torch.autograd.variable.Variable is torch.autograd.Variable
    with pytest.raises(RuntimeError, match="tensor"):
        torch.autograd.variable(1.0)


def test_grad_inside_vmap_takes_batched_gradients_only():
    """E-36"""
    x = leaf(1.0, 2.0)
    y = x * x
    rows = torch.eye(2, dtype=torch.float64)
    result = torch.func.vmap(lambda g: grad(y, x, g, retain_graph=True)[0])(rows)
    assert result.tolist() == [[2, 0], [0, 4]]


def test_objects_that_act_as_tensors_are_offered_the_call_first():
    """E-40"""

    class Like:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func, types, args, kwargs

    like, x = Like(), leaf(1.0)
    func, types, args, options = backward(like, retain_graph=True)
    assert func is backward
    assert types == (Like,)
    assert args == (like,)
    assert options["retain_graph"] is True
    assert backward([x * 2, like])[0] is backward
    assert grad(x * 2, [like])[0] is grad
    assert grad(like, x)[2] == (like, x)

    class Declines:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError):
        backward(Declines())


def test_a_root_gradient_on_another_device_is_moved_only_if_it_is_one_number():
    """E-10"""
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="on device meta, expected device cpu"):
        backward(x * 2, torch.ones(2, dtype=torch.float64, device="meta"))
    # Moved, then: but a number on "meta" has no value to move.
    with pytest.raises(NotImplementedError, match="no data"):
        backward((x * 2).sum(), torch.ones((), dtype=torch.float64, device="meta"))
    assert x.grad is None

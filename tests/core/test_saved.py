"""Values saved for backward: how they read back, when they are refused, and their hooks."""

import gc
import weakref

import pytest

import pullback as torch
from pullback.utils._python_dispatch import TorchDispatchMode
from tests.leaves import leaf

graph = torch.autograd.graph


# Reading -----------------------------------------------------------------------------------------


def test_freed_values_are_named_as_such():
    """V-143."""
    x = leaf()
    y = x * x
    node = y.grad_fn
    y.sum().backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.sum().backward()
    with pytest.raises(RuntimeError):
        node._saved_self


def test_nodes_that_saved_nothing_run_again():
    """V-143."""
    x = leaf()
    y = (x + 1).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_retained_graph_runs_again():
    """V-143."""
    x = leaf()
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4.0, 8.0]


def test_saved_values_have_the_names_of_torch():
    """V-47, V-144."""
    x, c = leaf(), torch.ones(2)
    node = (x * c).grad_fn
    assert node._saved_other is c
    assert node._saved_self is None
    assert x.exp().grad_fn._saved_result.tolist() == x.exp().tolist()
    node = torch.zeros(2, 3, requires_grad=True).sum(1, keepdim=True).grad_fn
    assert node._saved_keepdim is True
    assert tuple(node._saved_self_sym_sizes) == (2, 3)


def test_saved_names_are_listed_and_no_others_are_there():
    node = (leaf() * torch.ones(2)).grad_fn
    assert {"_saved_self", "_saved_other", "_raw_saved_other"} <= set(dir(node))
    with pytest.raises(AttributeError, match="_saved_nothing"):
        node._saved_nothing  # reading it is the point


def test_slots_of_nodes_are_read_without_a_hook_for_missing_names():
    """With such a hook the interpreter reads every slot the slow path."""
    assert not hasattr(type((leaf() * 2).grad_fn), "__getattr__")


def test_saved_input_is_the_same_object_and_saved_output_a_new_one():
    """V-145."""
    x = leaf()
    y = x.exp()
    assert (x * x).grad_fn._saved_self is x
    first, second = y.grad_fn._saved_result, y.grad_fn._saved_result
    assert first is not y
    assert first is not second
    assert first.data_ptr() == y.data_ptr()
    assert first.grad_fn is y.grad_fn
    assert first.output_nr == 0


def test_double_backward_flows_through_saved_outputs():
    """V-145."""
    x = leaf(0.5)
    (g,) = torch.autograd.grad(x.exp().sum(), x, create_graph=True)
    (gg,) = torch.autograd.grad(g.sum(), x)
    assert abs(gg.item() - 1.6487212) < 1e-6


def test_changed_value_error_says_what_happened():
    """V-146."""
    x = leaf()
    y = x * 1
    z = (y * y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError) as caught:
        z.backward()
    text = str(caught.value)
    for part in ("version 1", "version 0", "set_detect_anomaly"):
        assert part in text
    assert "[2]" in text or "(2,)" in text


def test_changed_value_error_names_the_saving_line_and_every_write():
    """V-146: more than torch tells."""
    x = leaf()
    y = x * 1
    z = (y * y).sum()
    y.add_(1)
    with torch.no_grad():
        y[0] = 3
    with pytest.raises(RuntimeError) as caught:
        z.backward()
    first = test_changed_value_error_names_the_saving_line_and_every_write.__code__.co_firstlineno
    saved, added, assigned = (f"test_saved.py:{first + n}" for n in (4, 5, 7))
    text = str(caught.value)
    assert f"MulBackward0 at {saved}" in text
    assert f"add_ at {added}, then" in text
    assert assigned in text


def test_changed_value_error_has_another_hint_under_anomaly_mode():
    """V-146."""
    x = leaf()
    y = x * 1
    with torch.autograd.set_detect_anomaly(True):
        z = (y * y).sum()
        y.add_(1)
        with pytest.warns(UserWarning, match="forward"), pytest.raises(RuntimeError) as caught:
            z.backward()
    assert "set_detect_anomaly(True)" not in str(caught.value)


def test_reading_the_attribute_checks_too():
    """V-146."""
    y = leaf() * 1
    node = (y * y).grad_fn
    y.add_(1)
    with pytest.raises(RuntimeError, match="version"):
        node._saved_self


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y[:1].add_(1),
        lambda y: y.detach().add_(1),
        lambda y: torch.no_grad()(y.add_)(1),
        lambda y: torch.inference_mode()(y.add_)(1),
        lambda y: y.view(2).detach()[0].zero_(),
    ],
)
def test_check_covers_all_ways_to_the_memory(write):
    """V-147."""
    y = leaf() * 1
    z = (y * y).sum()
    write(y)
    with pytest.raises(RuntimeError, match="version"):
        z.backward()


def test_check_does_not_see_data_and_arrays():
    """V-147."""
    y = leaf() * 1
    z = (y * y).sum()
    y.data.add_(1)
    y.detach().numpy()[0] = 3
    z.backward()


def test_swapped_data_is_read_silently():
    """V-148."""
    x = leaf()
    y = (x * x).sum()
    x.data = torch.tensor([10.0, 20.0])
    y.backward()
    assert x.grad.tolist() == [20.0, 40.0]


def test_inference_tensor_cannot_be_saved():
    """V-149."""
    with torch.inference_mode():
        i = torch.ones(2)
    with pytest.raises(RuntimeError, match=r"clone|Clone"):
        leaf() * i
    assert (leaf() + i).requires_grad


def test_numbers_are_not_shown_to_hooks():
    """V-150."""
    seen = []
    with graph.saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
        leaf() * 3
    assert seen == []


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.exp(),
        lambda x: (x * 1).exp_(),
        lambda x: (x * 1).view(2).exp_(),
        lambda x: torch.stack([x, x])[0].tanh(),
        lambda x: x.max(0)[0],
    ],
)
def test_saved_outputs_make_no_cycle(make):
    """V-151."""
    x = leaf()
    gc.collect()
    gc.disable()
    try:
        y = make(x)
        gone = weakref.ref(y)
        del y
        assert gone() is None
    finally:
        gc.enable()


def test_saved_tensor_keeps_its_tangent_inside_the_level():
    """V-152."""
    fwd = torch.autograd.forward_ad
    with fwd.dual_level():
        d = fwd.make_dual(leaf(), torch.ones(2))
        node = (d * d).grad_fn
        assert fwd.unpack_dual(node._saved_self).tangent is not None
        y = d.exp()
        assert fwd.unpack_dual(y.grad_fn._saved_result).tangent is not None


# SavedTensor -------------------------------------------------------------------------------------


def test_raw_saved_values():
    """V-153."""
    x = leaf()
    y = x.exp()
    raw = y.grad_fn._raw_saved_result
    assert isinstance(raw, torch.autograd.SavedTensor)
    with pytest.raises(RuntimeError):
        torch.autograd.SavedTensor()
    assert isinstance((x * x).grad_fn._raw_saved_self, torch.autograd.SavedTensor)


def test_raw_saved_lists_are_tuples():
    """V-153."""
    x = leaf()

    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    raw = Keep.apply(x).grad_fn._raw_saved_tensors
    assert all(isinstance(one, torch.autograd.SavedTensor) for one in raw)


def test_registered_hooks_pack_at_once_and_unpack_each_time():
    """V-154."""
    x, seen = leaf(), []

    def pack(t):
        seen.append(("pack", t.requires_grad, torch.is_grad_enabled()))
        return t * 10

    def unpack(t):
        seen.append("unpack")
        return t / 10

    y = x.exp()
    y.grad_fn._raw_saved_result.register_hooks(pack, unpack)
    assert seen == [("pack", False, False)]
    read = y.grad_fn._saved_result
    assert read.grad_fn is y.grad_fn
    assert read.requires_grad
    y.sum().backward()
    assert seen[1:] == ["unpack", "unpack"]
    assert x.grad.tolist() == pytest.approx(y.tolist())


def test_unpacked_input_takes_the_place_of_the_original():
    """V-154."""
    x = leaf()
    y = x * x
    y.grad_fn._raw_saved_self.register_hooks(lambda t: t.clone(), lambda t: t)
    read = y.grad_fn._saved_self
    assert read is not x
    assert read.requires_grad
    assert read.is_leaf


def test_registration_is_refused_where_it_cannot_work():
    """V-155."""
    x = leaf()
    node = (x * torch.ones(2)).grad_fn
    with pytest.raises(RuntimeError):
        node._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    raw = node._raw_saved_other
    with pytest.raises(TypeError):
        raw.register_hooks(1, lambda t: t)
    with pytest.raises(RuntimeError):
        raw.register_hooks(lambda t: t.add_(1), lambda t: t)
    node = (x * torch.ones(2)).grad_fn
    raw = node._raw_saved_other
    raw.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(RuntimeError):
        raw.register_hooks(lambda t: t, lambda t: t)


def test_registration_after_release_is_refused():
    """V-155."""
    y = leaf().exp()
    raw = y.grad_fn._raw_saved_result
    y.sum().backward()
    with pytest.raises(RuntimeError):
        raw.register_hooks(lambda t: t, lambda t: t)


def test_bad_unpack_and_failing_hooks():
    """V-155."""
    y = leaf().exp()
    y.grad_fn._raw_saved_result.register_hooks(lambda t: t, lambda t: 3)
    with pytest.raises(TypeError):
        y.sum().backward()

    def fail(t):
        raise ValueError("mine")

    y = leaf().exp()
    with pytest.raises(ValueError, match="mine"):
        y.grad_fn._raw_saved_result.register_hooks(fail, lambda t: t)


def test_hooked_values_are_not_checked():
    """V-156."""
    y = leaf() * 1
    z = (y * y).sum()
    node = z.grad_fn.next_functions[0][0]
    node._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    node._raw_saved_other.register_hooks(lambda t: t, lambda t: t)
    y.add_(1)
    z.backward()


def test_saved_tensor_shows_data_and_hook():
    """V-153."""
    x = leaf()
    y = x * x
    raw = y.grad_fn._raw_saved_self

    def unpack(t):
        return t

    raw.register_hooks(lambda t: t * 2, unpack)
    assert raw.data.tolist() == (x * 2).tolist()
    assert raw.unpack_hook is unpack
    assert raw.unpack().tolist() == raw.data.tolist()


# Hook contexts -----------------------------------------------------------------------------------


def test_hooks_pack_once_per_slot_and_the_innermost_wins():
    """V-157."""
    seen = []

    def pair(name):
        def pack(t):
            seen.append((name, torch.is_grad_enabled()))
            return t

        return pack, lambda t: t

    x = leaf()
    with graph.saved_tensors_hooks(*pair("outer")):
        with graph.saved_tensors_hooks(*pair("inner")):
            x * x
        x.exp()
        x + 1
        with torch.no_grad():
            x * x
    assert seen == [("inner", False), ("inner", False), ("outer", False)]


def test_pack_gets_the_input_itself():
    """V-157."""
    x, seen = leaf(), []
    with graph.saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
        x * x
    assert all(t is x for t in seen)


def test_unpack_runs_once_per_use():
    """V-157."""
    x, seen = leaf(), []
    with graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: seen.append(1) or t):
        y = x.exp()
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert len(seen) == 2
    assert x.grad.tolist() == pytest.approx((2 * y).tolist())


def test_values_saved_on_cpu_come_back():
    """V-158."""
    x = leaf()
    with graph.save_on_cpu():
        y = (x * x).exp().sum()
    y.backward()
    (expected,) = torch.autograd.grad((x * x).exp().sum(), x)
    assert x.grad.tolist() == expected.tolist()
    with graph.save_on_cpu(pin_memory=False, device_type="cuda"):
        x * x


def test_hooks_can_be_forbidden():
    """V-159."""
    hooks = graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    with graph.disable_saved_tensors_hooks("outer"):
        with (
            graph.disable_saved_tensors_hooks("inner"),
            pytest.raises(RuntimeError, match=r"^inner$"),
        ):
            hooks.__enter__()
        with pytest.raises(RuntimeError, match=r"^outer$"):
            hooks.__enter__()
    with hooks:
        pass


def test_forbidding_inside_hooks_raises():
    """V-159."""
    with (
        graph.saved_tensors_hooks(lambda t: t, lambda t: t),
        pytest.raises(RuntimeError, match=r"^no$"),
        graph.disable_saved_tensors_hooks("no"),
    ):
        pass


def test_saved_tensors_may_be_changed_where_allowed():
    """V-160."""
    x = leaf()
    with graph.allow_mutation_on_saved_tensors():
        y = x * 1
        z = (y * y).sum()
        y.add_(100)
        z.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_changed_saved_outputs_are_kept_too():
    """V-160."""
    x = leaf()
    with graph.allow_mutation_on_saved_tensors():
        y = x.exp()
        expected = y.tolist()
        z = y.sum()
        y.zero_()
        y[:1].fill_(3)
        z.backward()
    assert x.grad.tolist() == pytest.approx(expected)


def test_allowing_mutation_has_limits():
    """V-160."""
    with graph.allow_mutation_on_saved_tensors():
        with pytest.raises(RuntimeError), graph.allow_mutation_on_saved_tensors():
            pass
        y = leaf() * 1
        z = (y * y).sum()
        y.add_(1)
    with pytest.raises(AssertionError):
        z.backward()


def test_user_made_cycle_can_be_collected():
    """V-161."""
    x = leaf()
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = x.exp()
    gone = weakref.ref(y)
    del y
    gc.collect()
    assert gone() is None


# Rows of the graph's specification ----------------------------------------------------------------


def test_inference_tensors_are_refused_when_saved():
    """G-11."""
    with torch.inference_mode():
        constant = torch.ones(2)
    with pytest.raises(RuntimeError, match="Clone"):
        leaf() * constant
    (leaf() * constant.clone()).sum().backward()


def test_a_rebuilt_output_shares_memory_and_counter_and_is_no_view():
    """G-12."""
    x = leaf()
    y = x.exp()
    again = y.grad_fn._saved_result
    with torch.no_grad():
        again.add_(1)
    assert y._version == again._version == 1
    assert not again._is_view()
    assert again.grad_fn is y.grad_fn
    parts = torch.ones(2, 3, requires_grad=True).max(1)
    assert not parts.values.grad_fn._saved_indices.requires_grad


def test_a_saved_tensor_that_was_detached_in_place_is_refused():
    """G-13."""
    y = leaf() * 2
    z = (y * y).sum()
    y.detach_()
    with pytest.raises(RuntimeError, match=r"`detach\(\)`"):
        z.backward()


def test_none_is_never_released():
    """G-14."""
    y = leaf() * torch.ones(2)
    node = y.grad_fn
    assert node._saved_self is None
    y.sum().backward()
    with pytest.raises(RuntimeError, match="retain_graph"):
        node._saved_other


def test_raw_values_of_builtin_and_custom_nodes():
    """G-15, G-16."""

    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    x, seen = leaf(), []
    builtin = (x * x).grad_fn._raw_saved_self
    custom, nothing = Keeps.apply(x).grad_fn._raw_saved_tensors
    for raw in (builtin, custom):
        assert isinstance(raw, torch.autograd.SavedTensor)
        assert raw.data is x
        assert raw.unpack_hook is None
        with pytest.raises(AttributeError):
            raw.data = x
        with pytest.raises(TypeError, match="callable"):
            raw.register_hooks(3, same)
        raw.register_hooks(lambda t: seen.append(t) or "packed", same)
        assert raw.data == "packed"
        assert raw.unpack_hook is same
        assert seen[-1] is not x
        assert not seen[-1].requires_grad
        with pytest.raises(RuntimeError, match="one pair"):
            raw.register_hooks(same, same)
    with pytest.raises(RuntimeError, match="None"):
        nothing.register_hooks(same, same)
    with pytest.raises(RuntimeError, match="by hand"):
        torch.autograd.SavedTensor()
    with graph.saved_tensors_hooks(lambda t: t.detach(), same):
        packed = x.exp().grad_fn._raw_saved_result
    with pytest.raises(RuntimeError, match="one pair"):
        packed.register_hooks(same, same)


def same(t):
    return t


SAVING = {
    "input": lambda x: x * x,
    "output": lambda x: x.exp(),
    "index tensors": lambda x: x.outer(x)[:, None][
        torch.tensor([0, 1]), torch.tensor([0, 0]), torch.tensor([1, 1])
    ],
    "through a view": lambda x: (x * 2)[1:].sin() * x[:1],
}


def _packed_and_not(function, x):
    plain = function(x)
    with graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda kept: kept):
        return plain, function(x)


@pytest.mark.parametrize("name", SAVING)
def test_what_hooks_kept_still_has_its_tangents_and_its_history(name):
    """Hooks see values alone; derivatives of derivatives must not end at what they give back."""
    program = SAVING[name]
    x = torch.tensor([0.5, 0.75, 1.25], dtype=torch.float64)
    v = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)

    def slope(x):
        (g,) = torch.autograd.grad(program(x).sum(), x, create_graph=True)
        return g

    def forward_over_reverse(x):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x.clone().requires_grad_(), v)
            return torch.autograd.forward_ad.unpack_dual(slope(dual)).tangent.tolist()

    def reverse_over_reverse(x):
        x = x.clone().requires_grad_()
        return torch.autograd.grad((slope(x) * v).sum(), x)[0].tolist()

    for derivative in (forward_over_reverse, reverse_over_reverse):
        plain, packed = _packed_and_not(derivative, x)
        assert any(plain)
        assert packed == plain


@pytest.mark.parametrize("wrong", [0, 1])
def test_hooks_of_one_value_are_functions_both(wrong):
    y = leaf().exp()
    hooks = [lambda t: t, lambda t: t]
    hooks[wrong] = "no function"
    with pytest.raises(TypeError, match="pack_hook must be callable"):
        y.grad_fn._raw_saved_result.register_hooks(*hooks)
    y.sum().backward()


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_mode_around_is_shown_what_hooks_do(create_graph):
    """Grad mode is off in there, and nothing else differs from the code around."""
    seen = []

    class Shown(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **kwargs or {})

    x = leaf()
    hooks = graph.saved_tensors_hooks(lambda t: t.cosh(), lambda t: t.acosh())
    with Shown(), hooks:
        y = x.exp()
    assert seen == ["aten.exp.default", "aten.cosh.default"]
    with Shown():
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=create_graph)
    assert "aten.acosh.default" in seen
    assert torch.allclose(g, x.exp())

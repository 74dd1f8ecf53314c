"""Contexts that change how values are saved for backward."""

import contextlib
import gc
import threading
import weakref

import pytest

import pullback as torch
from tests.leaves import leaf

graph = torch.autograd.graph


def same(t):
    return t


class KeepsBoth(torch.autograd.Function):
    """Saves its input and its output, and reads them twice."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(x, None, y)
        return y

    @staticmethod
    def backward(ctx, g):
        _, nothing, y = ctx.saved_tensors
        assert nothing is None
        assert ctx.saved_tensors[2].tolist() == y.tolist()
        return g * y


# saved_tensors_hooks -----------------------------------------------------------------------------


def test_values_go_through_both_hooks():
    """G-17."""
    x = leaf()
    hooks = graph.saved_tensors_hooks(lambda t: t.tolist(), lambda v: torch.tensor(v) * 3)
    assert hooks.__enter__() is None
    try:
        y = (x * x).sum()
    finally:
        hooks.__exit__(None, None, None)
    y.backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_arguments_are_required_and_checked_on_entry():
    """G-17."""
    with pytest.raises(TypeError):
        graph.saved_tensors_hooks(same)
    for pair in ((3, same), (same, None)):
        hooks = graph.saved_tensors_hooks(*pair)
        with pytest.raises(TypeError, match="callable"):
            hooks.__enter__()
    assert (leaf() * 2).requires_grad


@pytest.mark.parametrize(
    ("make", "dtypes"),
    [
        (lambda x: x * 2, []),
        (lambda x: x + x, []),
        (lambda x: x * torch.ones(2), ["torch.float32"]),
        (lambda x: x.exp(), ["torch.float32"]),
        (lambda x: x.max(0).values, ["torch.int64"]),
        (lambda x: x.gather(0, torch.tensor([0])), ["torch.int64"]),
        (lambda x: x.view(1, 2).sum(), []),
        (lambda x: torch.where(torch.tensor([True, False]), x, 0.0), ["torch.bool"]),
        (KeepsBoth.apply, ["torch.float32"] * 2),
        (lambda x: x.detach() * x.detach(), []),
        (lambda x: torch.no_grad()(torch.exp)(x), []),
    ],
)
def test_exactly_the_saved_tensors_are_packed(make, dtypes):
    """G-18."""
    seen = []
    with graph.saved_tensors_hooks(lambda t: seen.append(str(t.dtype)) or t, same):
        make(leaf())
    assert seen == dtypes


def test_a_slot_is_packed_once_in_order():
    """G-19."""
    a, b, seen = leaf(), leaf(3.0, 4.0), []
    with graph.saved_tensors_hooks(lambda t: seen.append(t) or t, same):
        y = a * a
        z = a * b
    assert [id(t) for t in seen[:2]] == [id(a), id(a)]
    assert {id(t) for t in seen[2:]} == {id(a), id(b)}
    (y + z).sum().backward()
    assert len(seen) == 4


def test_pack_runs_without_grad_and_sees_the_history():
    """G-20."""
    x, seen = leaf(), []

    def pack(t):
        seen.append((torch.is_grad_enabled(), t.requires_grad, t.grad_fn and t.grad_fn.name()))
        return t.detach()

    with graph.saved_tensors_hooks(pack, same):
        y = x.exp()
        z = x * y
        w = (x * 1).exp_()
        v = KeepsBoth.apply(x)
    names = [name for *_, name in seen]
    assert {grad for grad, *_ in seen} == {False}
    assert names[0] == "ExpBackward0"
    assert set(names[1:3]) == {None, "ExpBackward0"}
    assert names[3:] == ["ExpBackward0", None, "KeepsBothBackward"]
    (y + z + w + v).sum().backward()
    expected = leaf()
    (3 * expected.exp() + expected * expected.exp()).sum().backward()
    assert x.grad.tolist() == pytest.approx(expected.grad.tolist())


def test_unpack_runs_for_each_access():
    """G-21."""
    x, seen = leaf(), []
    with graph.saved_tensors_hooks(lambda t: t.detach(), lambda t: seen.append(1) or t):
        y = x.exp()
        z = KeepsBoth.apply(x)
    y.grad_fn._saved_result
    y.grad_fn._saved_result
    assert len(seen) == 2
    y.sum().backward()
    assert len(seen) == 3
    z.sum().backward()
    assert len(seen) == 3 + 2 * 2


def test_unpack_must_give_a_tensor_of_whatever_shape():
    """G-21."""
    x = leaf()
    with graph.saved_tensors_hooks(same, lambda t: "text"):
        y = x * x
    with pytest.raises(TypeError, match="str"):
        y.sum().backward()
    with graph.saved_tensors_hooks(same, lambda t: torch.ones(5, dtype=torch.float64)):
        node = (x * x).grad_fn
    assert node._saved_self.shape == (5,)


@pytest.mark.parametrize(
    "unpacked", [same, torch.clone, lambda t: t.detach().requires_grad_(t.is_floating_point())]
)
def test_unpacked_tensors_take_the_place_of_the_original(unpacked):
    """G-22, G-23."""
    x, constant = leaf(), torch.ones(2)
    with graph.saved_tensors_hooks(same, unpacked):
        y = x * 3
        z = y * x
        w = x * constant
        e = z.exp()
        parts = (x * 1).max(0)
    saved = z.grad_fn._saved_other
    assert saved.is_leaf
    assert saved.requires_grad
    assert saved is not x
    assert graph.get_gradient_edge(saved) == graph.get_gradient_edge(x)
    inner = z.grad_fn._saved_self
    assert inner.grad_fn is y.grad_fn
    assert inner is not y
    assert not w.grad_fn._saved_other.requires_grad
    assert e.grad_fn._saved_result.grad_fn is e.grad_fn
    assert e.grad_fn._saved_result is not e
    assert not parts.values.grad_fn._saved_indices.requires_grad
    gc.collect()


def test_second_derivatives_reach_the_original_graph():
    """G-22."""
    x = leaf()
    with graph.saved_tensors_hooks(lambda t: t.detach().clone(), same):
        y = (x.exp() * x).sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    (gg,) = torch.autograd.grad(g.sum(), x)
    plain = leaf()
    (g2,) = torch.autograd.grad((plain.exp() * plain).sum(), plain, create_graph=True)
    (gg2,) = torch.autograd.grad(g2.sum(), plain)
    assert gg.tolist() == gg2.tolist()


def test_second_derivatives_reach_leaves_that_nothing_else_kept():
    """G-22: a leaf's accumulator lives as long as its graph, and the saved leaf must find it."""

    def derivatives(hooks):
        x, w = leaf(), leaf(3.0, 4.0)
        with hooks:
            y = (x * w) * x
        g = torch.autograd.grad(y.sum(), [x, w], create_graph=True)
        return [t.tolist() for t in torch.autograd.grad((g[0] * g[1]).sum(), [x, w])]

    hooked = derivatives(graph.saved_tensors_hooks(lambda t: t.detach(), same))
    assert hooked == derivatives(contextlib.nullcontext())


def test_a_change_after_packing_is_not_noticed():
    """G-24."""
    x = leaf()
    with graph.saved_tensors_hooks(lambda t: t.detach(), same):
        y = x * 1
        z = (y * y).sum()
    with torch.no_grad():
        y.add_(1)
    z.backward()
    assert x.grad.tolist() == [4.0, 6.0]


@pytest.mark.parametrize("make", [lambda x: x * x, torch.exp, KeepsBoth.apply])
def test_pack_must_not_write(make):
    """G-25."""
    x = leaf() * 1
    with (
        graph.saved_tensors_hooks(lambda t: t.mul_(2), same),
        pytest.raises(RuntimeError, match="pack hook"),
    ):
        make(x)


def test_the_stack_belongs_to_the_thread():
    """G-26."""
    seen = []

    def elsewhere():
        leaf().exp()
        seen.append("quiet")

    with graph.saved_tensors_hooks(lambda t: seen.append("packed") or t, same):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert seen == ["quiet"]


def test_hooks_are_fixed_when_a_value_is_saved():
    """G-27."""
    x, seen = leaf(), []

    def pair(name):
        return lambda t: seen.append(f"pack {name}") or t, lambda t: seen.append(name) or t

    with graph.saved_tensors_hooks(*pair("forward")):
        y = (x * x).sum()
    with graph.saved_tensors_hooks(*pair("backward")):
        (g,) = torch.autograd.grad(y, x, create_graph=True)
    assert seen.count("pack forward") == 2
    assert seen.count("forward") == 2
    assert "backward" not in seen
    assert "pack backward" in seen
    g.sum().backward()
    gc.collect()


@pytest.mark.parametrize("make", [lambda x: x * x, torch.exp, lambda x: (x * 1).exp_()])
def test_failing_hooks_leave_the_stack_as_it_was(make):
    """G-28."""

    def fails(_):
        raise KeyError("mine")

    x = leaf()
    with graph.saved_tensors_hooks(fails, same):
        for _ in range(2):
            with pytest.raises(KeyError, match="mine"):
                make(x)
    make(x)
    with graph.saved_tensors_hooks(lambda t: t.detach(), fails):
        y = make(x)
    with pytest.raises(KeyError, match="mine"):
        y.sum().backward()
    x.exp().sum().backward()
    assert x.grad.tolist() == x.exp().tolist()


def test_an_in_place_operator_whose_input_hook_fails_has_written_nothing():
    """G-28: hooks see inputs before anything is computed."""

    def fails(_):
        raise KeyError("mine")

    y = leaf() * 1
    with graph.saved_tensors_hooks(fails, same), pytest.raises(KeyError):
        y.mul_(y)
    assert y.tolist() == [1.0, 2.0]
    assert y._version == 0


def test_operators_in_a_pack_hook_save_nothing():
    """G-29."""
    seen = []

    def pack(t):
        seen.append((t * t).exp().requires_grad)
        return t

    with graph.saved_tensors_hooks(pack, same):
        leaf() * torch.ones(2)
    assert seen == [False]


def test_unpack_has_the_grad_mode_of_its_reader():
    """G-30."""
    x, seen = leaf(), []
    with graph.saved_tensors_hooks(
        lambda t: t.detach(), lambda t: seen.append(torch.is_grad_enabled()) or t
    ):
        y = x.exp()
    y.grad_fn._saved_result
    with torch.no_grad():
        y.grad_fn._saved_result
    y.sum().backward(retain_graph=True)
    torch.autograd.grad(y.sum(), x, create_graph=True)
    assert seen == [True, False, False, True]


def test_unpack_may_call_backward():
    """G-30."""
    x, inner = leaf(), leaf()

    def unpack(t):
        with torch.enable_grad():
            (inner * inner).sum().backward()
        return t

    with graph.saved_tensors_hooks(lambda t: t.detach(), unpack):
        y = x.exp().sum()
    y.backward()
    assert inner.grad.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("retain", [False, True])
def test_packed_object_and_hooks_go_with_the_saved_state(retain):
    """G-31."""

    class Box:
        def __init__(self, t):
            self.t = t.detach()

    boxes = []

    def pack(t):
        box = Box(t)
        boxes.append(weakref.ref(box))
        return box

    def unpack(box):
        return box.t

    hooks = weakref.ref(unpack)
    gc.disable()
    try:
        y = leaf()
        with graph.saved_tensors_hooks(pack, unpack):
            y = y.exp()
        del unpack
        y.sum().backward(retain_graph=retain)
        assert (boxes[0]() is not None) is retain
        assert (hooks() is not None) is retain
        del y
        assert boxes[0]() is None
        assert hooks() is None
    finally:
        gc.enable()


def test_one_context_may_be_entered_again_and_inside_itself():
    """G-33."""
    seen = []
    hooks = graph.saved_tensors_hooks(lambda t: seen.append(1) or t.detach(), same)
    with hooks, hooks:
        leaf().exp()
    leaf().exp()
    with hooks:
        leaf().exp()
    assert len(seen) == 2


# save_on_cpu -------------------------------------------------------------------------------------


def test_host_tensors_are_kept_without_a_copy():
    """G-34."""
    x = leaf()
    hooks = graph.save_on_cpu()
    assert isinstance(hooks, graph.saved_tensors_hooks)
    with hooks:
        node = (x * x).grad_fn
    device, kept = node._raw_saved_self.data
    assert device == x.device
    assert kept.data_ptr() == x.data_ptr()


def test_asking_for_pinned_memory_copies():
    """G-35."""
    x = leaf()
    with graph.save_on_cpu(pin_memory=True, device_type="cuda"):
        y = (x * x).sum()
    kept = y.grad_fn.next_functions[0][0]._raw_saved_self.data[1]
    assert kept.data_ptr() != x.data_ptr()
    y.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_saving_on_the_host_makes_no_cycle():
    """G-34."""
    gc.disable()
    try:
        with graph.save_on_cpu():
            y = leaf().exp()
        gone = weakref.ref(y)
        del y
        assert gone() is None
    finally:
        gc.enable()


# disable_saved_tensors_hooks ---------------------------------------------------------------------


def test_all_users_of_hooks_are_refused_with_the_message():
    """G-36."""
    x = leaf()
    with graph.disable_saved_tensors_hooks("not in here"):
        for context in (
            graph.saved_tensors_hooks(same, same),
            graph.save_on_cpu(),
            graph.allow_mutation_on_saved_tensors(),
        ):
            with pytest.raises(RuntimeError, match=r"^not in here$"):
                context.__enter__()
        y = x.exp()
        y.grad_fn._raw_saved_result.register_hooks(lambda t: t.clone(), same)
        y.sum().backward()
    assert x.grad is not None


def test_forbidding_nests_and_belongs_to_the_thread():
    """G-37."""
    allowed = []

    def elsewhere():
        with graph.saved_tensors_hooks(same, same):
            allowed.append(True)

    forbid = graph.disable_saved_tensors_hooks("again")
    with forbid, forbid:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert allowed == [True]
    with graph.saved_tensors_hooks(same, same), pytest.raises(RuntimeError, match=r"^again$"):
        forbid.__enter__()
    elsewhere()


def test_whether_hooks_are_allowed_can_be_asked():
    """G-38."""
    asked = torch._C._autograd
    assert asked._saved_tensors_hooks_is_enabled()
    assert asked._saved_tensors_hooks_get_disabled_error_message() is None
    with graph.disable_saved_tensors_hooks("outer"):
        with graph.disable_saved_tensors_hooks("inner"):
            assert asked._saved_tensors_hooks_get_disabled_error_message() == "inner"
        assert asked._saved_tensors_hooks_get_disabled_error_message() == "outer"
        assert not asked._saved_tensors_hooks_is_enabled()


@pytest.mark.parametrize("name", ["mul", "linear", "conv1d"])
def test_parameters_are_packed_as_tensors_are(name):
    x = torch.randn(2, 3, 5, requires_grad=True)
    weight = torch.nn.Parameter(
        torch.randn({"mul": (5,), "linear": (4, 5), "conv1d": (2, 3, 2)}[name])
    )
    call = {"mul": torch.mul, "linear": torch.nn.functional.linear}.get(name)
    call = call or torch.nn.functional.conv1d
    packed = []

    def pack(tensor):
        packed.append(tensor)
        return tensor * 2

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept / 2):
        y = call(x, weight)
    assert any(one is weight for one in packed)
    y.sum().backward()
    hooked = x.grad.clone(), weight.grad.clone()
    x.grad = weight.grad = None
    call(x, weight).sum().backward()
    assert torch.allclose(x.grad, hooked[0])
    assert torch.allclose(weight.grad, hooked[1])

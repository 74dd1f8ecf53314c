"""register_multi_grad_hook: one call per pass, whatever the pass looks like."""

import contextlib
import gc
import threading
import weakref

import pytest

import pullback as torch
from pullback.core.hooks import RemovableHandle
from pullback.engine import request as entry
from tests.leaves import leaf

register = torch.autograd.graph.register_multi_grad_hook


@pytest.fixture(params=["plain", "ordered"], autouse=True)
def both_passes(request, monkeypatch):
    monkeypatch.setattr(entry, "always_ordered", request.param == "ordered")


def listed(gradients):
    return [None if g is None else g.tolist() for g in gradients]


@pytest.mark.parametrize("mode", ["all", "any"])
def test_one_handle_removes_all_parts(mode):
    """G-46."""
    x, y, seen = leaf(), leaf(), []
    handle = register((x, y), seen.append, mode=mode)
    assert isinstance(handle, RemovableHandle)
    (x * y).sum().backward()
    handle.remove()
    handle.remove()
    (x * y).sum().backward()
    assert len(seen) == 1
    with register((x, y), seen.append, mode=mode):
        (x * y).sum().backward()
    (x * y).sum().backward()
    assert len(seen) == 2


def test_mode_is_one_of_two_and_by_keyword():
    """G-46."""
    with pytest.raises(TypeError):
        register((leaf(),), print, "all")
    with pytest.raises(ValueError, match=r"all.*any"):
        register((leaf(),), print, mode="some")


def test_absent_tensors_are_not_waited_for():
    """G-47."""
    x, y, z, seen = leaf(), leaf(), leaf(), []
    register((x, y, z), lambda gs: seen.append(listed(gs)))
    (x * 2 + z * 3).sum().backward()
    (x * y * z).sum().backward(inputs=[y])
    assert seen == [[[2.0, 2.0], None, [3.0, 3.0]], [None, [1.0, 4.0], None]]


def test_an_undefined_gradient_is_none():
    """G-47."""

    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            return g, None

    a, b, seen = leaf() * 1, leaf() * 1, []
    register((a, b), lambda gs: seen.append(listed(gs)))
    Nothing.apply(a, b).sum().backward()
    assert seen == [[[1.0, 1.0], None]]


def test_roots_count():
    """G-48: one call, with both; torch would fire for the root alone and again."""
    x, seen = leaf(3.0), []
    a = x * 2
    b = a * 3
    register((a, b), lambda gs: seen.append(listed(gs)))
    b.backward(retain_graph=True)
    register((b,), lambda gs: seen.append(listed(gs)))
    b.backward()
    assert seen == [[[3.0], [1.0]], [[1.0]], [[3.0], [1.0]]]


def test_a_leaf_that_grad_asks_for_is_refused():
    """G-49."""
    x, y, seen = leaf(), leaf(), []
    register((x, y), seen.append)
    with pytest.raises(RuntimeError, match="captured"):
        torch.autograd.grad((x * y).sum(), [x])
    assert seen == []
    (x * y).sum().backward()
    assert len(seen) == 1


def test_captured_tensors_take_part():
    """G-47."""
    x, seen = leaf(), []
    a = x * 2
    b = a * 3
    register((a, b), lambda gs: seen.append(listed(gs)))
    torch.autograd.grad(b.sum(), [a])
    assert seen == [[[3.0, 3.0], [1.0, 1.0]]]


def test_any_fires_at_the_first_and_skips_constants():
    """G-50."""
    x, seen = leaf(), []
    a = x * 2
    b = a * 3
    register((a, torch.ones(2), b), lambda g: seen.append(g.tolist()), mode="any")
    b.sum().backward()
    assert seen == [[1.0, 1.0]]
    with pytest.raises(AssertionError, match="require grad"):
        register((x, torch.ones(2)), print)


def test_results_are_ignored_and_order_is_that_of_tensor_hooks():
    """G-51."""
    x, seen = leaf(), []
    a = x * 2
    a.register_hook(lambda g: g * 10)
    register((a,), lambda gs: seen.append(listed(gs)) or gs[0] * 100)
    a.register_hook(lambda g: seen.append("after"))
    a.sum().backward()
    assert seen == [[[10.0, 10.0]], "after"]
    assert x.grad.tolist() == [20.0, 20.0]


@pytest.mark.parametrize("mode", ["all", "any"])
def test_each_of_many_passes_gives_one_call(mode):
    """G-52: repeated, nested and concurrent ones."""
    x, y, seen = leaf(), leaf(), []
    register((x, y), seen.append, mode=mode)
    loss = (x * y).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    assert len(seen) == 2

    def nested(g):
        handle.remove()
        with torch.enable_grad():
            (x * y).sum().backward()

    handle = x.register_hook(nested)
    (x * y).sum().backward()
    assert len(seen) == 4
    threads = [threading.Thread(target=lambda: (x * y).sum().backward()) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 12


@pytest.mark.parametrize("mode", ["all", "any"])
def test_after_a_failure_passes_work_and_nothing_stays(mode):
    """G-53."""
    x, y, seen = leaf(), leaf(), []

    class Kept:
        pass

    def fn(gs):
        if len(seen) < 1:
            seen.append("failed")
            raise KeyError("mine")
        seen.append("called")

    register((x, y), fn, mode=mode)
    with pytest.raises(KeyError):
        (x * y).sum().backward()
    (x * y).sum().backward()
    assert seen == ["failed", "called"]

    def fails(g):
        raise KeyError("elsewhere")

    a = x * 1
    with a.register_hook(fails), pytest.raises(KeyError, match="elsewhere"):
        (a + y * 2).sum().backward()
    before = len(seen)
    (x * y).sum().backward()
    assert len(seen) == before + 1


def test_gradients_of_a_failed_pass_are_let_go():
    """G-53."""
    x, y, kept = leaf(), leaf(), []
    register((x, y), print)
    y.register_hook(lambda g: kept.append(weakref.ref(g)))

    def fails(g):
        raise KeyError("mine")

    a = x * 1
    with a.register_hook(fails), contextlib.suppress(KeyError):
        (y * 2 + a).sum().backward()
    gc.collect()
    assert all(reference() is None for reference in kept)


def test_positions_count_not_tensors():
    """G-54."""
    x, seen = leaf(), []
    register((x, x), lambda gs: seen.append(listed(gs)))
    x.sum().backward()
    assert seen == [[[1.0, 1.0]] * 2]
    assert register((), seen.append).remove() is None


@pytest.mark.parametrize("mode", ["all", "any"])
def test_parts_belong_in_a_pass(mode):
    """G-54."""
    x = leaf()
    register((x,), print, mode=mode)
    (part,) = x._backward_hooks.values()
    with pytest.raises(AssertionError, match="outside"):
        part(torch.ones(2))


def test_a_multi_hook_keeps_no_leaf_alive():
    """G-46."""
    gc.disable()
    try:
        x, y = leaf(), leaf()
        register((x, y), lambda gs: None)
        gone = weakref.ref(x)
        del x
        assert gone() is None
    finally:
        gc.enable()

"""Grad modes as contexts, decorators and functions; what printing and backward make of them."""

import asyncio
import contextvars
import inspect
import threading

import pytest

import pullback as torch
from pullback.core.mode import get_mode
from tests.leaves import leaf


def test_contexts_switch_and_restore():
    """V-173."""
    assert torch.is_grad_enabled()
    with torch.no_grad():
        assert not torch.is_grad_enabled()
        with torch.enable_grad():
            assert torch.is_grad_enabled()
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()


def test_mode_is_restored_on_errors():
    """V-173."""
    with pytest.raises(KeyError), torch.no_grad():
        raise KeyError
    assert torch.is_grad_enabled()


def test_new_threads_start_enabled():
    """V-173."""
    seen = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


@pytest.mark.parametrize("decorate", [lambda f: torch.no_grad()(f), lambda f: torch.no_grad(f)])
def test_decorators_keep_the_face_of_the_function(decorate):
    """V-174."""

    def work(a, b=2):
        """What it does."""
        return torch.is_grad_enabled()

    made = decorate(work)
    assert made(1) is False
    assert made.__name__ == "work"
    assert made.__doc__ == "What it does."
    assert str(inspect.signature(made)) == "(a, b=2)"
    assert torch.is_grad_enabled()


def test_set_grad_enabled_works_at_once():
    """V-175."""
    torch.set_grad_enabled(False)
    try:
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)
    with torch.set_grad_enabled(False):
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()


def test_set_grad_enabled_as_a_decorator_restores():
    """V-175."""

    @torch.set_grad_enabled(False)
    def work():
        return torch.is_grad_enabled()

    assert torch.is_grad_enabled()
    assert work() is False
    assert torch.is_grad_enabled()


def test_set_grad_enabled_takes_bools_and_shows_them():
    """V-175."""
    with pytest.raises(TypeError):
        torch.set_grad_enabled(1)
    assert repr(torch.set_grad_enabled(True)) in (
        "set_grad_enabled(mode=True)",
        "torch.autograd.grad_mode.set_grad_enabled(mode=True)",
    )


def test_generators_run_in_the_mode_and_yield_outside_of_it():
    """V-176."""
    log = []

    @torch.no_grad()
    def work():
        log.append(torch.is_grad_enabled())
        got = yield 1
        log.append((got, torch.is_grad_enabled()))
        try:
            yield 2
        except KeyError:
            log.append(("caught", torch.is_grad_enabled()))
        try:
            yield 3
        finally:
            log.append(("closed", torch.is_grad_enabled()))
        return 4

    g = work()
    assert next(g) == 1
    assert torch.is_grad_enabled()
    assert g.send("x") == 2
    assert torch.is_grad_enabled()
    assert g.throw(KeyError()) == 3
    g.close()
    assert torch.is_grad_enabled()
    assert log == [False, ("x", False), ("caught", False), ("closed", False)]


def test_generators_return_values():
    """V-176."""

    @torch.no_grad()
    def work():
        yield 1
        return 7

    def outer():
        got = yield from work()
        assert got == 7
        yield got

    assert list(outer()) == [1, 7]


def test_decorated_class_becomes_a_function():
    """V-177."""
    with pytest.warns(FutureWarning):

        @torch.no_grad()
        class Thing:
            def __init__(self):
                self.seen = torch.is_grad_enabled()

            def now(self):
                return torch.is_grad_enabled()

    thing = Thing()
    assert thing.seen is False
    assert thing.now() is True
    assert inspect.isfunction(Thing)


def test_coroutines_are_wrapped_around_their_making_only():
    """V-177."""

    @torch.no_grad()
    async def work():
        return torch.is_grad_enabled()

    assert asyncio.run(work()) is True


def test_reentered_instance_remembers_one_value():
    """V-178."""
    context = torch.no_grad()
    try:
        with context, context:
            pass
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def test_backward_sets_the_mode_by_create_graph():
    """V-179."""
    seen = []
    for caller in (True, False):
        x = leaf()
        x.register_hook(lambda g: seen.append(torch.is_grad_enabled()))
        y = (x * x).sum()
        with torch.set_grad_enabled(caller):
            torch.autograd.grad(y, x, retain_graph=True)
            torch.autograd.grad(y, x, create_graph=True)
    assert seen == [False, True, False, True]


# Printing ----------------------------------------------------------------------------------------


def test_printing_shows_history():
    """V-191."""
    x = leaf(1.0, 1.0, dtype=torch.float64)
    assert repr(x * 2).endswith("grad_fn=<MulBackward0>)")
    assert "dtype=torch.float64" in repr(x * 2)
    assert repr(x).endswith("requires_grad=True)")
    assert repr(torch.zeros(1)) == "tensor([0.])"


def test_printing_of_parameters_numbers_and_duals():
    """V-192."""
    fwd = torch.autograd.forward_ad
    assert repr(torch.nn.Parameter(torch.zeros(1))).startswith("Parameter containing:\n")
    assert f"{torch.tensor(1.5, requires_grad=True):.2f}" == "1.50"
    with fwd.dual_level():
        d = fwd.make_dual(torch.zeros(1), torch.ones(1))
        assert "tangent=tensor([1.])" in repr(d)


def test_printing_changes_nothing():
    """V-193."""
    x = leaf()
    y = x * 2
    node = y.grad_fn
    str(y), repr(x), f"{y}"
    assert y.grad_fn is node
    assert (x._version, y._version) == (0, 0)
    assert torch.is_grad_enabled()
    with torch.inference_mode():
        i = torch.zeros(2)
    assert repr(i) == "tensor([0., 0.])"


@pytest.mark.parametrize("outer", ["fresh", "hooks", "inference"])
def test_set_grad_enabled_goes_back_where_more_than_grad_mode_is_unusual(outer):
    seen = []

    def inside():
        before = get_mode()
        with torch.set_grad_enabled(False):
            seen.append(torch.is_grad_enabled())
        after = get_mode()
        seen.append(
            (after.grad, after.inference, after.saved_hooks)
            == (before.grad, before.inference, before.saved_hooks)
        )
        torch.set_grad_enabled(True)
        seen.append(torch.is_grad_enabled())

    contexts = {
        "hooks": lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
        "inference": torch.inference_mode,
    }
    if outer == "fresh":
        contextvars.Context().run(inside)
    else:
        with contexts[outer]():
            inside()
    assert seen == [False, True, True]
    assert torch.is_grad_enabled()

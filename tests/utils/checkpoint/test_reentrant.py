"""checkpoint(use_reentrant=True): a backward inside backward."""

import gc
import weakref

import pytest

import pullback as torch
from pullback.utils.checkpoint import (
    CheckpointFunction,
    DefaultDeviceType,
    check_backward_validity,
    detach_variable,
    get_device_states,
    noop_context_fn,
    set_device_states,
)
from pullback.utils.checkpoint import checkpoint as either
from tests.leaves import double_leaf as leaf


def checkpoint(function, *args, **kwargs):
    return either(function, *args, use_reentrant=True, **kwargs)


def test_parameters_inside_get_their_gradients():
    """G-91."""
    x, weight, modes = leaf(), leaf(3.0, 4.0), []

    def function(t):
        modes.append(torch.is_grad_enabled())
        return (t * weight).sin()

    y = checkpoint(function, x)
    assert y.grad_fn.name() == "CheckpointFunctionBackward"
    y.sum().backward()
    assert modes == [False, True]
    plain_x, plain_weight = leaf(), leaf(3.0, 4.0)
    (plain_x * plain_weight).sin().sum().backward()
    assert x.grad.tolist() == plain_x.grad.tolist()
    assert weight.grad.tolist() == plain_weight.grad.tolist()


def test_asking_for_inputs_is_refused():
    """G-92."""
    x = leaf()
    for ask in (
        lambda y: torch.autograd.grad(y, x),
        lambda y: y.backward(inputs=[x]),
    ):
        with pytest.raises(RuntimeError, match=r"use_reentrant=False.*without inputs"):
            ask(checkpoint(torch.exp, x).sum())


def test_only_direct_tensor_arguments_count():
    """G-93."""
    weight = leaf()
    with pytest.warns(UserWarning, match="requires grad"):
        y = checkpoint(lambda t: t * weight, torch.ones(2, dtype=torch.float64))
    assert not y.requires_grad
    with pytest.warns(UserWarning, match="requires grad"):
        y = checkpoint(lambda ts: ts[0] * 2, [weight])
    assert not y.requires_grad


def test_other_values_pass_through():
    """G-93."""
    x = leaf()
    a, b, c, d = checkpoint(lambda t, n, m: (t * n, m, "text", {"t": t * 2}), x, 3, None)
    assert (b, c) == (None, "text")
    assert not d["t"].requires_grad
    a.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_all_floating_outputs_require_grad():
    """G-94."""
    x = leaf()
    calls = []

    def function(t):
        calls.append(1)
        out = t.sin(), t.detach() * 2, torch.arange(2)
        calls.append("end")
        return out

    a, b, c = checkpoint(function, x)
    assert a.requires_grad
    assert b.requires_grad
    assert not c.requires_grad
    (a.sum() + b.sum()).backward()
    assert calls == [1, "end"] * 2
    y = checkpoint(lambda t: t.detach() * 2, x)
    with pytest.raises(RuntimeError, match="unnecessary"):
        y.sum().backward()


def test_arguments_of_the_other_variant_are_refused():
    """G-95."""
    x = leaf()
    with pytest.raises(ValueError, match="scale"):
        checkpoint(lambda t, scale: t, x, scale=2)
    with pytest.raises(ValueError, match="context_fn"):
        checkpoint(torch.exp, x, context_fn=lambda: noop_context_fn())
    with pytest.raises(ValueError, match="debug"):
        checkpoint(torch.exp, x, debug=True)
    checkpoint(torch.exp, x, determinism_check="whatever", early_stop=False).sum().backward()


@pytest.mark.filterwarnings("ignore:backward.create_graph")
def test_there_are_no_second_derivatives():
    """G-95."""
    x = leaf()
    checkpoint(lambda t: t * t, x).sum().backward(create_graph=True)
    assert not x.grad.requires_grad
    x.grad = None
    gc.collect()


@pytest.mark.parametrize("preserve", [True, False])
def test_random_numbers_are_drawn_again(preserve):
    """G-67."""
    drawn = []

    def noisy(t):
        drawn.append(torch.rand(1).item())
        return t * 2

    y = checkpoint(noisy, leaf(), preserve_rng_state=preserve)
    before = torch.get_rng_state().tolist()
    y.sum().backward()
    assert (drawn[0] == drawn[1]) is preserve
    assert (torch.get_rng_state().tolist() == before) is preserve


def test_public_pieces():
    """G-96."""
    x = leaf()
    detached, text = detach_variable((x * 2, "text"))
    assert detached.is_leaf
    assert detached.requires_grad
    assert text == "text"
    assert not detach_variable((torch.ones(1),))[0].requires_grad
    with pytest.raises(RuntimeError, match="tuple"):
        detach_variable([x])
    check_backward_validity([None, x])
    with pytest.warns(UserWarning, match="requires grad"):
        check_backward_validity([torch.ones(1)])
    assert get_device_states(x, [x]) == ([], [])
    set_device_states([], [])
    with pytest.raises(RuntimeError, match="no device"):
        set_device_states([0], [torch.ones(1)], device_type="nothing")
    assert DefaultDeviceType.get_device_type() == "cuda"
    DefaultDeviceType.set_device_type("other")
    assert DefaultDeviceType.get_device_type() == "other"
    DefaultDeviceType.set_device_type()
    assert len(noop_context_fn()) == 2
    assert issubclass(CheckpointFunction, torch.autograd.Function)


def test_nothing_stays_without_the_collector():
    """Pitfall 6."""
    gc.collect()
    gc.disable()
    try:
        x = leaf()
        y = checkpoint(lambda t: t.sin().exp(), x)
        y.sum().backward()
        gone = weakref.ref(x), weakref.ref(y)
        del x, y
        assert [reference() for reference in gone] == [None, None]
    finally:
        gc.enable()

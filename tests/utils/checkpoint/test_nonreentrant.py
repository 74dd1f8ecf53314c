"""checkpoint(use_reentrant=False): an ordinary graph whose saved tensors are recomputed."""

import contextlib
import gc
import sys
import threading
import weakref

import pytest

import pullback as torch
from pullback.core.graph import GradientEdge
from pullback.utils.checkpoint import (
    CheckpointError,
)
from pullback.utils.checkpoint import checkpoint as either
from tests.utils.checkpoint.recomputed import Counted, body, checkpoint, gradient_of, leaf

graph = torch.autograd.graph


# Common ------------------------------------------------------------------------------------------


def test_gradients_and_structure_are_those_without():
    """G-65."""

    def structured(t, scale=1):
        return {"a": [t.sin() * scale, None], "b": (3, t.exp())}

    x = leaf()
    out = checkpoint(structured, x, scale=2)
    assert (out["a"][1], out["b"][0]) == (None, 3)
    (out["a"][0] + out["b"][1]).sum().backward()
    assert x.grad.tolist() == gradient_of(lambda t: t.sin() * 2 + t.exp())


def test_the_variant_must_be_chosen():
    """G-66."""
    x = leaf()
    with pytest.warns(UserWarning, match="use_reentrant"):
        y = either(body, x)
    assert y.grad_fn.name() == "CheckpointFunctionBackward"


@pytest.mark.parametrize("preserve", [True, False])
def test_random_numbers_are_drawn_again(preserve):
    """G-66, G-67."""
    torch.manual_seed(0)
    drawn = []

    def noisy(t):
        drawn.append(torch.rand(1).item())
        return (t * 2).sin()

    y = checkpoint(noisy, leaf(), preserve_rng_state=preserve)
    torch.rand(3)
    before = torch.get_rng_state().tolist()
    y.sum().backward()
    assert (drawn[0] == drawn[1]) is preserve
    assert (torch.get_rng_state().tolist() == before) is preserve


def test_default_device_and_autocast_of_the_forward_hold_in_the_rerun():
    """G-68."""
    seen = []
    autocast = torch.library.autocast

    def looking(t):
        seen.append((torch.get_default_device(), torch.library.is_autocast_enabled("cpu")))
        return t.sin()

    x = leaf()
    with torch.device("meta"), autocast("cpu"):
        y = checkpoint(looking, x)
    y.sum().backward()
    assert seen[0] == seen[1] == (torch.device("meta"), True)
    assert torch.get_default_device() == torch.device("cpu")
    y = checkpoint(looking, x).sum()
    with torch.device("meta"), autocast("cpu"):
        y.backward()
        assert torch.get_default_device() == torch.device("meta")
    assert seen[2] == seen[3] == (torch.device("cpu"), False)


def test_failures_pass_and_leave_nothing_behind():
    """G-70."""
    fails = [True]

    def function(t):
        torch.rand(1)
        if fails[0]:
            raise KeyError("mine")
        return body(t)

    torch.manual_seed(1)
    state = torch.get_rng_state().tolist()
    x = leaf()
    with pytest.raises(KeyError, match="mine"):
        checkpoint(function, x)
    torch.manual_seed(1)
    fails[0] = False
    y = checkpoint(function, x).sum()
    after = torch.get_rng_state().tolist()
    assert after != state
    fails[0] = True
    with pytest.raises(KeyError, match="mine"):
        y.backward(retain_graph=True)
    assert torch.get_rng_state().tolist() == after
    assert torch.is_grad_enabled()
    assert not x.exp().grad_fn._raw_saved_result.unpack_hook
    fails[0] = False
    y.backward()
    assert x.grad.tolist() == gradient_of(body)


def test_errors_are_runtime_errors():
    """G-71."""
    assert issubclass(CheckpointError, RuntimeError)


# The graph ---------------------------------------------------------------------------------------


def test_the_graph_is_an_ordinary_one():
    """G-72."""
    function = Counted(body)
    y = checkpoint(function, leaf())
    assert y.grad_fn.name() == "ExpBackward0"
    assert y.grad_fn.next_functions[0][0].name() == "SinBackward0"
    assert function.calls == 1


def test_without_grad_mode_it_is_a_plain_call():
    """G-72."""
    entered = []

    @contextlib.contextmanager
    def noted():
        entered.append(1)
        yield

    with torch.no_grad():
        y = checkpoint(body, leaf(), context_fn=lambda: (noted(), noted()))
    assert not y.requires_grad
    assert entered == []


def test_every_kind_of_pass_works():
    """G-73."""
    weight = leaf(3.0, 4.0)

    def function(first, *, second, nested):
        return (first * weight).sin() + second * nested["t"][0]

    x, y, z = leaf(), leaf(), leaf()
    edge = graph.get_gradient_edge(x)

    def made():
        return checkpoint(function, x, second=y, nested={"t": [z]}).sum()

    by_grad = torch.autograd.grad(made(), [edge, weight, y, z])
    for tensor in (x, weight, y, z):
        made().backward(inputs=[tensor])
    assert [g.tolist() for g in by_grad] == [t.grad.tolist() for t in (x, weight, y, z)]
    assert isinstance(edge, GradientEdge)
    (g,) = torch.autograd.grad(made(), x, create_graph=True)
    (gg,) = torch.autograd.grad(g.sum(), x)
    expected = (-(x * weight).sin() * weight * weight).tolist()
    assert gg.tolist() == pytest.approx(expected)


def test_no_tensor_argument_is_needed():
    """G-73."""
    weight = leaf()
    function = Counted(lambda: (weight * weight).sin())
    checkpoint(function).sum().backward()
    assert weight.grad.tolist() == gradient_of(lambda t: (t * t).sin())
    assert function.calls == 2
    x = torch.ones(2, dtype=torch.float64)
    checkpoint(lambda t: (t * weight).exp(), x).sum().backward()


def test_one_rerun_per_pass():
    """G-74."""
    function = Counted(lambda t: body(body(t)) * t)
    x = leaf()
    y = checkpoint(function, x).sum()
    y.backward(retain_graph=True)
    assert function.calls == 2
    y.backward(retain_graph=True)
    assert function.calls == 3
    threads = [threading.Thread(target=lambda: y.backward(retain_graph=True)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert function.calls == 6
    expected = [5 * g for g in gradient_of(lambda t: body(body(t)) * t)]
    assert x.grad.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("retain", [False, True])
def test_a_recomputed_tensor_is_dropped_once_used(retain):
    """G-75."""
    alive, made = [], []

    class Watch(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            return t.clone()

        @staticmethod
        def backward(ctx, g):
            gc.collect()
            alive.append(sum(reference() is not None for reference in made))
            return g

    def function(t):
        for _ in range(3):
            t = Watch.apply(t)
            t = t * 1
            made.append(weakref.ref(t._array))
            t = t.sin()  # keeps its input
        return t

    x = leaf()
    y = checkpoint(function, x).sum()
    gc.collect()
    made.clear()
    y.backward(retain_graph=retain)
    assert alive == [2, 1, 0]
    gc.collect()
    assert not any(reference() is not None for reference in made)


def test_a_slot_cannot_be_read_twice_in_a_pass():
    """G-75."""

    class Greedy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            ctx.save_for_backward(t)
            return t * 2

        @staticmethod
        def backward(ctx, g):
            ctx.saved_tensors
            ctx.saved_tensors
            return g

    y = checkpoint(lambda t: Greedy.apply(t.sin()), leaf())
    with pytest.raises(CheckpointError, match="unpacked already"):
        y.sum().backward()


def test_saved_values_can_be_read_outside_a_pass():
    """G-76."""
    function = Counted(body)
    y = checkpoint(function, leaf())
    for calls in (2, 3):
        assert y.grad_fn._saved_result.tolist() == y.tolist()
        assert function.calls == calls


# Arguments ---------------------------------------------------------------------------------------


def test_arguments_are_saved_as_by_any_node():
    """G-77."""
    packed = []
    x = leaf() * 1
    with graph.saved_tensors_hooks(lambda t: packed.append(t) or t.detach(), lambda t: t):
        y = checkpoint(body, x)
    assert [t is x for t in packed] == [True]
    y.sum().backward()
    y = checkpoint(body, x)
    x.detach().add_(1)
    with pytest.raises(RuntimeError, match="version"):
        y.sum().backward()


def test_a_function_may_not_write_to_its_arguments():
    """G-77."""
    x = leaf() * 1
    y = checkpoint(lambda t: t.mul_(2).sin(), x)
    with pytest.raises(RuntimeError, match="version"):
        y.sum().backward()


# Memory ------------------------------------------------------------------------------------------


def test_intermediates_are_not_kept():
    """G-65."""
    made = []

    def function(t):
        t = t.sin()
        made.append(weakref.ref(t._array))
        return t.exp()

    y = checkpoint(function, leaf())
    assert made[0]() is None
    y.sum().backward()
    assert made[1]() is None


def test_nothing_stays_without_the_collector():
    """G-65, pitfall 6."""

    class Big:
        def __init__(self):
            self.t = leaf()

        def __call__(self, t):
            return checkpoint(lambda u: (u * self.t).sin().exp(), t * 2)

    gc.collect()
    gc.disable()
    try:
        references = []
        for retain in (False, True):
            function, x = Big(), leaf()
            y = checkpoint(function, x)
            y.sum().backward(retain_graph=retain)
            references += [weakref.ref(function), weakref.ref(x), weakref.ref(y._array)]
            del function, x, y
        assert [reference() for reference in references] == [None] * 6
    finally:
        gc.enable()


def test_under_forbidden_hooks_it_says_so():
    """G-36."""
    with (
        graph.disable_saved_tensors_hooks("not in here"),
        pytest.raises(RuntimeError, match=r"^not in here$"),
    ):
        checkpoint(body, leaf())


def test_a_written_argument_is_named_with_the_line_of_the_checkpoint():
    """G-77."""
    x = leaf() * 1
    y = checkpoint(body, x)
    x.detach().add_(1)
    with pytest.raises(RuntimeError, match=r"checkpoint\(\) at .*recomputed\.py:\d+ needs"):
        y.sum().backward()


def test_a_checkpoint_adds_few_python_calls():
    """What the function itself does is done twice; the rest is the price of a checkpoint."""
    w = torch.rand(4, 4, dtype=torch.float64, requires_grad=True)
    x = torch.rand(4, 4, dtype=torch.float64, requires_grad=True)

    def block(t):
        return t + (t @ w).tanh()

    def calls(program):
        found = 0

        def count(frame, event, argument):
            nonlocal found
            found += event == "call"

        for _ in range(2):
            program()
        before = sys.getprofile()
        try:
            sys.setprofile(count)
            program()
        finally:
            sys.setprofile(before)
        return found

    plain = calls(lambda: block(x).sum().backward())
    assert calls(lambda: checkpoint(block, x).sum().backward()) < plain + 140


# Writes ------------------------------------------------------------------------------------------


def test_a_write_after_use_inside_the_function_is_refused_as_in_a_plain_backward():
    def function(t):
        made = t.exp()
        out = made.sin()  # keeps what is then overwritten
        made.mul_(10)
        return out * t

    for run in (function, lambda t: checkpoint(function, t)):
        with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*mul_ at"):
            run(leaf()).sum().backward()


def test_a_write_between_the_passes_to_what_the_function_found_is_refused():
    scale = torch.ones(2)
    for run in (lambda t: (t * scale).sin(), lambda t: checkpoint(lambda t: (t * scale).sin(), t)):
        out = run(leaf()).sum()
        scale.add_(1)
        with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*add_ at"):
            out.backward()


def test_what_a_function_writes_itself_before_it_uses_it_is_no_later_write():
    state, x = torch.ones(2), leaf()

    def function(t):
        state.fill_(3)
        return (t * state).sin() + (t * 1).exp_()

    checkpoint(function, x).sum().backward()
    assert x.grad.tolist() == gradient_of(function)

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
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)
from pullback.utils.checkpoint import checkpoint as either

graph = torch.autograd.graph


def checkpoint(function, *args, **kwargs):
    return either(function, *args, use_reentrant=False, **kwargs)


def leaf(*values):
    return torch.tensor(values or (1.0, 2.0), dtype=torch.float64, requires_grad=True)


class Counted:
    """A function that knows how often it was called."""

    def __init__(self, function):
        self.function = function
        self.calls = 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.function(*args, **kwargs)


def body(t):
    return (t * t).sin().exp()


def gradient_of(function, *values):
    x = leaf(*values)
    function(x).sum().backward()
    return x.grad.tolist()


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


# Early stop --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["default", "argument", "context"])
def test_a_rerun_ends_when_all_is_there(how):
    """G-78."""
    reached = []

    def function(t):
        t = t.sin()
        t = t.exp()
        reached.append(1)
        return t + 1

    early = how == "default"
    context = contextlib.nullcontext() if how != "context" else set_checkpoint_early_stop(False)
    with context:
        y = checkpoint(function, leaf(), early_stop=how != "argument")
    y.sum().backward()
    assert len(reached) == (1 if early else 2)


def test_the_last_operator_is_not_computed_again():
    """G-78: a matrix product keeps its inputs; they are all that is needed."""
    from pullback.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.eye(2, dtype=torch.float64).requires_grad_()
    y = checkpoint(lambda t: t.sin() @ t, x, context_fn=lambda: (contextlib.nullcontext(), Log()))
    y.sum().backward()
    assert "aten.sin.default" in seen
    assert "aten.mm.default" not in seen


def test_the_signal_is_no_exception_and_closes_contexts():
    """G-79."""
    closed = []

    @contextlib.contextmanager
    def noted(name):
        try:
            yield
        finally:
            closed.append(name)

    def function(t):
        with noted("outer"):
            try:
                with noted("inner"):
                    return t.sin().exp()
            except Exception:
                closed.append("caught")
                raise

    x = leaf()
    y = checkpoint(function, x)
    y.sum().backward()
    assert closed == ["inner", "outer"] * 2
    assert x.grad.tolist() == gradient_of(lambda t: t.sin().exp())


# Determinism -------------------------------------------------------------------------------------


def changing(*functions):
    """A function that does something else each time."""
    turns = iter(functions)
    return lambda t: next(turns)(t)


def test_other_metadata_is_found():
    """G-80, G-82."""
    function = changing(
        lambda t: t.sin().exp().sum(), lambda t: t.view(1, 2).float().sin().exp().sum()
    )
    y = checkpoint(function, leaf(), early_stop=False)
    with pytest.raises(CheckpointError) as caught:
        y.backward()
    text = str(caught.value)
    for part in (
        "saved tensor 0",
        "saved tensor 1",
        "(2,)",
        "(1, 2)",
        "float64",
        "float32",
        "debug=True",
        "set_checkpoint_debug_enabled",
    ):
        assert part in text


def test_the_check_can_be_left_out():
    """G-80."""
    function = changing(lambda t: t.sin().sum(), lambda t: t.float().sin().sum())
    checkpoint(function, leaf(), determinism_check="none").backward()
    with pytest.raises(ValueError, match=r"default.*none"):
        checkpoint(body, leaf(), determinism_check="some")


@pytest.mark.parametrize("check", ["default", "none"])
def test_fewer_saved_tensors_are_an_error(check):
    """G-81, G-82."""
    function = changing(lambda t: t.sin().exp(), lambda t: t.sin())
    y = checkpoint(function, leaf(), determinism_check=check)
    with pytest.raises(CheckpointError, match=r"2 tensors.*re-run 1.*debug=True"):
        y.sum().backward()


@pytest.mark.parametrize("early", [False, True])
def test_more_saved_tensors_are_seen_without_early_stop(early):
    """G-81."""
    function = changing(lambda t: t.sin(), lambda t: t.sin().exp())
    y = checkpoint(function, leaf(), early_stop=early)
    if early:
        y.sum().backward()
        return
    with pytest.raises(CheckpointError, match=r"1 tensors.*re-run 2"):
        y.sum().backward()


@pytest.mark.parametrize("how", ["argument", "context"])
def test_debugging_lists_the_operators_of_both_runs(how):
    """G-83."""
    function = changing(lambda t: t.sin().exp(), lambda t: t.cos())
    context = contextlib.nullcontext() if how == "argument" else set_checkpoint_debug_enabled(True)
    with context:
        y = checkpoint(function, leaf(), debug=how == "argument")
    with pytest.raises(CheckpointError) as caught:
        y.sum().backward()
    text = str(caught.value)
    forward, _, rerun = text.partition("In the re-run")
    assert "aten.sin" in forward
    assert "aten.exp" in forward
    assert "aten.cos" in rerun
    assert "test_nonreentrant.py" in rerun
    assert isinstance(caught.value.__cause__, CheckpointError)
    assert "2 tensors" in str(caught.value.__cause__)


def test_debugging_can_be_overridden_and_needs_the_contexts():
    """G-83."""
    with set_checkpoint_debug_enabled(False):
        y = checkpoint(changing(torch.sin, torch.sign), leaf(), debug=True)
    with pytest.raises(CheckpointError, match="debug=True"):
        y.sum().backward()
    with (
        set_checkpoint_debug_enabled(None),
        pytest.raises(ValueError, match="context_fn"),
    ):
        checkpoint(body, leaf(), debug=True, context_fn=lambda: (contextlib.nullcontext(),) * 2)
    x = leaf()
    checkpoint(body, x, debug=True).sum().backward()
    assert x.grad.tolist() == gradient_of(body)


# Contexts ----------------------------------------------------------------------------------------


def test_contexts_surround_the_forward_and_each_rerun():
    """G-84."""
    log = []

    class Noted:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            log.append(f"enter {self.name}")

        def __exit__(self, *_):
            log.append(f"leave {self.name}")

    def contexts():
        log.append("asked")
        return Noted("forward"), Noted("rerun")

    def function(t):
        log.append("run")
        return t.sin().exp()

    y = checkpoint(function, leaf(), context_fn=contexts)
    forward = ["asked", "enter forward", "run", "leave forward"]
    assert log == forward
    for _ in range(2):
        y.sum().backward(retain_graph=True)
    assert log == forward + ["enter rerun", "run", "leave rerun"] * 2


def test_bad_contexts_are_refused():
    """G-85."""
    suppress = contextlib.suppress(KeyError)

    def fails(t):
        raise KeyError

    with pytest.raises(RuntimeError, match="suppressed"):
        checkpoint(fails, leaf(), context_fn=lambda: (suppress, suppress))
    for wrong in (lambda: None, lambda: suppress, lambda: (suppress,)):
        with pytest.raises(TypeError, match="two context managers"):
            checkpoint(body, leaf(), context_fn=wrong)


# Hooks and passes inside -------------------------------------------------------------------------


def test_inner_hooks_keep_what_is_saved_under_them():
    """G-86."""
    log = []

    def function(t):
        t = t.sin()
        with graph.saved_tensors_hooks(
            lambda v: log.append("pack") or v.detach(), lambda v: log.append("unpack") or v
        ):
            t = t.exp()
        return t.cos()

    x = leaf()
    y = checkpoint(function, x)
    y.sum().backward()
    # Packed again in the re-run, which ends at the last tensor that is the checkpoint's own.
    assert sorted(log) == ["pack", "pack", "unpack"]
    assert x.grad.tolist() == gradient_of(lambda t: t.sin().exp().cos())


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("retain", [True, False])
def test_a_pass_inside_the_function(early, retain):
    """G-87."""

    def function(t):
        a = t.sin()
        b = a.exp()
        (g,) = torch.autograd.grad(b.sum(), t, retain_graph=retain)
        return (t * t).cos() * g.detach() + (a * 1 if retain else 0)

    x = leaf()
    counted = Counted(function)
    y = checkpoint(counted, x, early_stop=early).sum()
    assert counted.calls == 2
    y.backward()
    assert counted.calls == 3
    assert x.grad.tolist() == gradient_of(function)


def test_outputs_may_be_used_one_after_another():
    """G-88."""
    x = leaf()
    counted = Counted(lambda t: (t.sin().exp(), (t * 2).cos(), t * t))
    a, b, c = checkpoint(counted, x)
    a.sum().backward()
    c.sum().backward()
    b.sum().backward()
    assert counted.calls == 4
    assert x.grad.tolist() == pytest.approx(
        gradient_of(lambda t: t.sin().exp() + (t * 2).cos() + t * t)
    )
    with pytest.raises(RuntimeError, match="retain_graph"):
        a.sum().backward()


def test_values_of_other_outputs_are_let_go_at_the_end_of_a_pass():
    """G-88."""
    made = []

    def function(t):
        u = t * 3
        made.append(weakref.ref(u._array))
        return u.sin(), t.exp()

    a, b = checkpoint(function, leaf())
    b.sum().backward(retain_graph=True)
    gc.collect()
    assert [reference() for reference in made] == [None, None]
    a.sum().backward()


# Nesting -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("early", [True, False])
def test_three_levels_run_two_three_and_four_times(early):
    """G-89, G-90."""
    calls = [0, 0, 0]

    def level(k):
        def function(t):
            calls[k] += 1
            return (checkpoint(level(k + 1), t) if k < 2 else t).sin()

        return function

    x = leaf()
    with set_checkpoint_early_stop(early):
        checkpoint(level(0), x).sum().backward()
    assert calls == [2, 3, 4]
    assert x.grad.tolist() == gradient_of(lambda t: t.sin().sin().sin())


@pytest.mark.parametrize("outer", [True, False])
def test_both_variants_mix(outer):
    """G-89."""
    x = leaf()

    def function(t):
        return either(lambda u: u.sin().exp(), t * 2, use_reentrant=not outer).cos()

    either(function, x, use_reentrant=outer).sum().backward()
    assert x.grad.tolist() == gradient_of(lambda t: (t * 2).sin().exp().cos())


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


# Function transforms, where torch refuses ---------------------------------------------------------

TRANSFORMS = {
    "grad": lambda f: torch.func.grad(lambda t: f(t).sum()),
    "vmap": lambda f: torch.func.vmap(f),
    "vmap of grad": lambda f: torch.func.vmap(torch.func.grad(lambda t: f(t).sum())),
    "jacrev": lambda f: torch.func.jacrev(f),
    "jvp": lambda f: lambda x: torch.func.jvp(f, (x,), (torch.ones_like(x),))[1],
    "hessian": lambda f: torch.func.hessian(lambda t: f(t).sum()),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_checkpoints_work_inside_transforms(transform):
    """G-73."""
    x = torch.tensor([[0.5, 1.0], [1.5, -0.5]], dtype=torch.float64)
    ours = transform(lambda t: checkpoint(body, t))(x)
    assert torch.allclose(ours, transform(body)(x))


def test_backward_after_vmap_runs_the_function_inside_of_it_again():
    """G-73."""
    x = torch.tensor([[0.5, 1.0], [1.5, -0.5]], dtype=torch.float64, requires_grad=True)
    shapes = []

    def function(t):
        shapes.append(tuple(t.shape))
        return body(t) * t.sum()

    out = torch.func.vmap(lambda t: checkpoint(function, t))(x)
    (ours,) = torch.autograd.grad(out.sum(), x)
    assert shapes == [(2,), (2,)]
    (theirs,) = torch.autograd.grad(torch.func.vmap(function)(x).sum(), x)
    assert torch.allclose(ours, theirs)


def test_checkpoints_pass_second_order_checks():
    """G-73."""
    x = leaf(0.5, -0.3)
    assert torch.autograd.gradcheck(lambda t: checkpoint(body, t), (x,))
    assert torch.autograd.gradgradcheck(lambda t: checkpoint(body, t), (x,))


def test_a_written_argument_is_named_with_the_line_of_the_checkpoint():
    """G-77."""
    x = leaf() * 1
    y = checkpoint(body, x)
    x.detach().add_(1)
    with pytest.raises(RuntimeError, match=r"checkpoint\(\) at .*test_nonreentrant\.py:\d+ needs"):
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

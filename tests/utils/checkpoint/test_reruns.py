"""How a rerun goes: where it stops, what it must find again, which contexts surround it."""

import contextlib

import pytest

import pullback as torch
from pullback.utils.checkpoint import (
    CheckpointError,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)
from tests.utils.checkpoint.recomputed import body, checkpoint, gradient_of, leaf

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
    assert "test_reruns.py" in rerun
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

"""checkpoint_sequential, and passes that share one re-run."""

import threading

import pytest

import pullback as torch
from pullback.utils.checkpoint import (
    CheckpointError,
    GraphExecGroup,
    checkpoint,
    checkpoint_sequential,
)
from tests.leaves import double_leaf as leaf


class Step:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function = function
        self.calls = 0

    def __call__(self, t):
        self.calls += 1
        return self.function(t)


class Chain:
    """As a Sequential module: its children are the functions."""

    def __init__(self, steps):
        self.steps = steps

    def children(self):
        return iter(self.steps)


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("as_module", [True, False])
def test_all_segments_but_the_last_are_run_again(reentrant, as_module):
    """G-102."""
    steps = [Step(torch.sin) for _ in range(8)]
    x = leaf()
    given = Chain(steps) if as_module else steps
    y = checkpoint_sequential(given, 3, x, use_reentrant=reentrant, preserve_rng_state=False)
    y.sum().backward()
    # Two segments of two; the last has the remaining four.
    assert [step.calls for step in steps[4:]] == [1] * 4
    assert [step.calls for step in steps[:4]] == [2] * 4
    expected = leaf()
    out = expected
    for step in steps:
        out = step(out)
    out.sum().backward()
    assert x.grad.tolist() == expected.grad.tolist()


def test_arguments_are_checked():
    """G-102, G-103."""
    x = leaf()
    with pytest.warns(UserWarning, match="use_reentrant"):
        checkpoint_sequential([torch.sin] * 2, 2, x).sum().backward()
    with pytest.raises(ValueError, match="scale"):
        checkpoint_sequential([torch.sin], 1, x, use_reentrant=False, scale=2)
    for functions, segments in (([torch.sin], 2), ([], 1)):
        with pytest.raises(ValueError, match="segments"):
            checkpoint_sequential(functions, segments, x, use_reentrant=False)
    with pytest.raises(ZeroDivisionError):
        checkpoint_sequential([torch.sin], 0, x, use_reentrant=False)


# GraphExecGroup ----------------------------------------------------------------------------------


def two_outputs(calls):
    def function(t):
        calls.append(1)
        return t.sin().exp(), (t * t).cos()

    return function


def test_passes_of_a_group_share_one_rerun():
    """G-104."""
    calls, x = [], leaf()
    a, b = checkpoint(two_outputs(calls), x, use_reentrant=False)
    with GraphExecGroup() as group:
        assert isinstance(group, GraphExecGroup)
        a.sum().backward()
        b.sum().backward()
    assert len(calls) == 2
    expected = leaf()
    (expected.sin().exp() + (expected * expected).cos()).sum().backward()
    assert x.grad.tolist() == pytest.approx(expected.grad.tolist())


def test_passes_of_a_group_must_not_overlap():
    """G-104."""
    calls, x = [], leaf()
    a, _ = checkpoint(two_outputs(calls), x, use_reentrant=False)
    with GraphExecGroup():
        a.sum().backward(retain_graph=True)
        with pytest.raises(CheckpointError, match="overlap"):
            a.sum().backward()
    a.sum().backward()
    assert len(calls) == 3


def test_groups_do_not_nest_and_belong_to_a_thread():
    """G-104."""
    entered = []

    def elsewhere():
        with GraphExecGroup():
            entered.append(True)

    with GraphExecGroup():
        with pytest.raises(RuntimeError, match="nested"), GraphExecGroup():
            pass
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert entered == [True]
    elsewhere()


def test_a_group_has_no_effect_on_the_reentrant_variant():
    """G-104."""
    calls, x = [], leaf()
    a, b = checkpoint(two_outputs(calls), x, use_reentrant=True)
    with GraphExecGroup():
        a.sum().backward(retain_graph=True)
        b.sum().backward()
    assert len(calls) == 3

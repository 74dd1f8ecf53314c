"""checkpoint(debug=True): values of the re-run that differ are found, with the operator's line."""

import inspect
import re

import pytest

import pullback as torch
from pullback.utils.checkpoint import CheckpointError, checkpoint


def leaf():
    return torch.linspace(0.1, 1.0, 4).requires_grad_()


def scaled_by_changed_state():
    state = {"scale": 2.0}

    def function(t):
        hidden = t.sin()
        hidden = hidden * state["scale"]  # differs
        return hidden.exp()

    loss = checkpoint(function, leaf(), use_reentrant=False, debug=True).sum()
    state["scale"] = 3.0
    return loss


def buffer_updated_in_between():
    running = torch.ones(4)

    def function(t):
        return (t.cos() * running).exp()  # differs

    loss = checkpoint(function, leaf(), use_reentrant=False, debug=True).sum()
    running.add_(1)
    return loss


def an_extra_operator():
    calls = []

    def function(t):
        hidden = t.sin()
        calls.append(1)
        if len(calls) > 1:
            hidden = hidden.neg()  # differs
        return hidden.exp().exp()

    return checkpoint(function, leaf(), use_reentrant=False, debug=True).sum()


def fresh_random_numbers():
    def function(t):
        noise = torch.rand(4)  # differs
        return (t * noise).exp()

    loss = checkpoint(
        function, leaf(), use_reentrant=False, debug=True, preserve_rng_state=False
    ).sum()
    torch.rand(1)
    return loss


@pytest.mark.parametrize(
    "mistake",
    [
        scaled_by_changed_state,
        buffer_updated_in_between,
        an_extra_operator,
        fresh_random_numbers,
    ],
)
def test_the_first_operator_that_differs_is_named_with_its_line(mistake):
    torch.manual_seed(0)
    lines, start = inspect.getsourcelines(mistake)
    line = start + next(i for i, one in enumerate(lines) if "# differs" in one)
    loss = mistake()
    with pytest.raises(CheckpointError, match=r"first (operator )?that differs") as raised:
        loss.backward()
    assert str(line) in re.findall(r"test_debug\.py:(\d+)", str(raised.value))
    assert "Gradients would be wrong" in str(raised.value)


def test_a_tensor_argument_that_changed_is_told_from_a_number():
    with pytest.raises(CheckpointError, match="Argument 1 came with other values"):
        buffer_updated_in_between().backward()
    with pytest.raises(CheckpointError, match="Its tensors were the same"):
        scaled_by_changed_state().backward()


@pytest.mark.parametrize("early_stop", [True, False])
def test_the_same_function_passes(early_stop):
    torch.manual_seed(0)
    x, plain = leaf(), leaf()
    drop = torch.nn.Dropout(0.5)

    def function(t):
        return drop(t.sin() * 2).exp().relu() + t

    state = torch.get_rng_state()
    y = checkpoint(function, x, use_reentrant=False, debug=True, early_stop=early_stop)
    y.sum().backward()
    torch.set_rng_state(state)
    function(plain).sum().backward()
    assert x.grad.tolist() == plain.grad.tolist()

"""A second backward over freed values says what it shares with the first."""

from __future__ import annotations

import pytest

import pullback as torch
from pullback.engine import request as entry


@pytest.fixture(params=["plain", "ordered", "recorded", "threads"])
def way(request, monkeypatch):
    monkeypatch.setattr(entry, "always_ordered", request.param == "ordered")
    threads = 3 if request.param == "threads" else 1
    with torch.autograd.set_backward_threads(threads):
        yield request.param


def second(way, loss, x):
    options = {"create_graph": True} if way == "recorded" else {}
    with pytest.raises(RuntimeError) as caught:
        torch.autograd.grad(loss, x, **options)
    return caught.value


def line_of(text):
    with open(__file__) as source:
        return next(n for n, line in enumerate(source, 1) if text in line)


def test_it_names_the_call_the_node_the_shared_part_and_the_remedy(way):
    """E-116"""
    x = torch.ones(3, requires_grad=True)
    hidden = x.exp()  # shared: saves
    hidden = hidden + 1  # shared: the newest
    first = (hidden * 2).sum()
    other = (hidden * 3).sum()
    first.backward()  # frees
    error = second(way, other, x)
    text = str(error)
    assert f"ExpBackward0 (made at test_rejoin.py:{line_of('# shared: saves')})" in text
    assert f"backward pass at test_rejoin.py:{line_of('# frees')} used and freed" in text
    where = line_of("# shared: the newest")
    assert f"AddBackward0 at test_rejoin.py:{where}: `hidden = hidden + 1  # shared" in text
    assert "This pass at test_rejoin.py:" in text
    assert "retain_graph=True" in text
    assert "add the losses" in text
    assert any("ExpBackward0" in note for note in error.__notes__)


def test_the_same_loss_twice_is_told_so(way):
    """E-116"""
    x = torch.ones(3, requires_grad=True)
    loss = x.exp().sum()
    loss.backward()
    assert "starts from the same result" in str(second(way, loss, x))


def test_a_first_loss_that_is_gone_leaves_the_rest_of_the_message(way):
    """E-116"""
    x = torch.ones(3, requires_grad=True)
    hidden = x.exp()
    hidden.sum().backward()
    text = str(second(way, hidden.sum(), x))
    assert "ExpBackward0 (made at test_rejoin.py" in text
    assert "retain_graph=True" in text


def test_reading_a_freed_value_outside_a_pass_names_the_call():
    """E-116"""
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    y.sum().backward()  # this one
    with pytest.raises(RuntimeError, match=rf"test_rejoin.py:{line_of('# this one')} used and"):
        y.grad_fn._saved_result


def test_what_was_freed_does_not_keep_the_graph_that_freed_it():
    x = torch.ones(3, requires_grad=True)
    hidden = x.exp()
    loss = hidden.sum()
    loss.backward()
    (reference,) = hidden.grad_fn.s_out.roots
    assert reference() is loss.grad_fn
    del loss
    assert reference() is None


# The state that a loop carries ----------------------------------------------------------------


def rnn_loop(detach):
    torch.manual_seed(0)
    cell, h = torch.nn.RNNCell(3, 4), torch.zeros(1, 4)
    for _ in range(3):
        if detach:
            h = h.detach()
        h = cell(torch.ones(1, 3), h)
        h.pow(2).sum().backward()


def lstm_loop(detach):
    torch.manual_seed(0)
    lstm, state = torch.nn.LSTM(3, 4), None
    for _ in range(3):
        if detach and state is not None:
            state = tuple(one.detach() for one in state)
        out, state = lstm(torch.ones(5, 1, 3), state)
        out.pow(2).sum().backward()


def leaky_loop(detach):
    w, level = torch.tensor(0.5, requires_grad=True), torch.zeros(())
    for step in range(3):
        if detach:
            level = level.detach()
        level = level * w + step
        (level**2).backward()


@pytest.mark.parametrize(
    ("loop", "name"), [(rnn_loop, "h"), (lstm_loop, "state"), (leaky_loop, "level")]
)
def test_the_state_that_a_loop_carries_is_named_and_detaching_it_cures_it(loop, name):
    with pytest.raises(RuntimeError, match="no longer has its saved values") as raised:
        loop(detach=False)
    assert f"The loop carries `{name}`" in str(raised.value)
    assert ".detach()" in str(raised.value)
    loop(detach=True)


def _each(calls):
    for call in calls:
        call()


def test_two_losses_of_one_trunk_carry_nothing():
    w = torch.tensor(0.5, requires_grad=True)
    trunk = w.exp()
    trunk = trunk.exp()
    losses = [trunk * 2, trunk * 3]
    run = [loss.backward for loss in losses]
    with pytest.raises(RuntimeError) as raised:
        _each(run)
    assert "carries" not in str(raised.value)

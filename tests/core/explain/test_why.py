"""`tensor.why_no_grad()` names what cut the tensor off, and where; backward() says the same."""

import inspect
import threading

import numpy as np
import pytest

import pullback as torch


def leaf():
    return torch.tensor([1.0, 2.0], requires_grad=True)


def line_of(function, text):
    """The number of the line of `function` that holds `text`."""
    lines, start = inspect.getsourcelines(function)
    return start + next(i for i, line in enumerate(lines) if text in line)


@pytest.mark.parametrize(
    ("cut", "named"),
    [
        (lambda x: x.detach(), "detach()"),
        (lambda x: x.data, ".data"),
        (lambda x: (x * 2).detach_(), "detach_()"),
        (lambda x: x.detach()[0], "detach()"),
    ],
)
def test_cuts_are_named_with_their_line(cut, named):
    line = inspect.getsourcelines(cut)[1]
    text = cut(leaf()).why_no_grad()
    assert text.startswith(named)
    assert f"test_why.py:{line}" in text


def test_integers_and_inference_tensors_are_named():
    x = leaf()
    assert "torch.bool" in (x > 1).why_no_grad()
    assert "torch.int64" in x.argmax().why_no_grad()
    assert "torch.int64" in x.long().why_no_grad()
    with torch.inference_mode():
        y = x * 2
    assert "inference_mode" in y.why_no_grad()
    with torch.no_grad():
        assert "Grad mode is off" in torch.zeros(2).why_no_grad()


# no_grad ------------------------------------------------------------------------------------------


def under_no_grad(x, compute):
    with torch.no_grad():
        return compute(x)


@pytest.mark.parametrize(
    "compute",
    [
        pytest.param(lambda x: x * 2, id="fast path"),
        pytest.param(lambda x: x.exp(), id="saves its output"),
        pytest.param(lambda x: x * torch.tensor([1, 2]), id="interpreted"),
        pytest.param(lambda x: x.max(dim=0).values, id="several outputs"),
        pytest.param(lambda x: (x * 2).view(2, 1), id="a view of it"),
        pytest.param(lambda x: (x * 2).mul_(3), id="written since"),
        pytest.param(lambda x: (x * 2).detach(), id="detached"),
    ],
)
def test_results_of_a_no_grad_block_name_its_line(compute):
    text = under_no_grad(leaf(), compute).why_no_grad()
    assert f"no_grad at test_why.py:{line_of(under_no_grad, 'torch.no_grad()')}" in text


def test_views_and_writes_after_the_block_keep_its_name():
    y = under_no_grad(leaf(), lambda x: x * 2)
    line = f"test_why.py:{line_of(under_no_grad, 'torch.no_grad()')}"
    view = y[:1]
    y.add_(1)
    assert line in y.why_no_grad()
    assert line in view.why_no_grad()


@torch.no_grad()
def decorated(x):
    return x * 2


def switched_off(x):
    torch.set_grad_enabled(False)
    try:
        return x * 2
    finally:
        torch.set_grad_enabled(True)


def test_decorators_and_switches_are_named():
    line = line_of(decorated.__wrapped__, "@torch.no_grad()")
    assert f"no_grad at test_why.py:{line}" in decorated(leaf()).why_no_grad()
    line = line_of(switched_off, "set_grad_enabled(False)")
    assert f"set_grad_enabled at test_why.py:{line}" in switched_off(leaf()).why_no_grad()


def test_the_innermost_block_is_named_and_the_outer_one_afterwards():
    x = leaf()
    with torch.no_grad():
        with torch.no_grad():
            inner = x * 2
        outer = x * 2
    inner_line = line_of(test_the_innermost_block_is_named_and_the_outer_one_afterwards, "with") + 1
    assert f"test_why.py:{inner_line})" in inner.why_no_grad()
    assert f"test_why.py:{inner_line - 1})" in outer.why_no_grad()


def test_results_in_hooks_name_no_block():
    x, seen = leaf(), []
    x.register_hook(lambda g: seen.append(g * 2))
    with torch.no_grad():
        pass
    (x * 3).sum().backward()
    assert "in a hook or backward" in seen[0].why_no_grad()


def test_blocks_of_two_threads_are_never_taken_for_one_another():
    x = leaf()
    entered, leave = threading.Event(), threading.Event()

    def other():
        with torch.no_grad():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    entered.wait(10)
    with torch.no_grad():
        y = x * 2
    leave.set()
    thread.join()
    assert "test_why.py" not in y.why_no_grad()
    assert "grad mode off" in y.why_no_grad()


def test_a_tensor_that_requires_grad_can_be_made_of_an_unrecorded_one():
    y = under_no_grad(leaf(), lambda x: x * 2).requires_grad_()
    (y * y).sum().backward()
    assert y.grad.tolist() == [4.0, 8.0]
    assert y._version == 0
    with torch.no_grad():
        y.add_(1)
    assert y._version == 1


# Arrays, leaves, rounding ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.from_numpy(x.detach().numpy() * 2),
        lambda x: torch.tensor(x.detach().numpy()),
        lambda x: torch.as_tensor(x.detach().numpy()),
        lambda x: torch.as_tensor(np.asarray(x.tolist())),
    ],
)
def test_round_trips_through_numpy_are_named(make):
    line = inspect.getsourcelines(make)[1]
    text = make(leaf()).why_no_grad()
    assert "NumPy arrays carry no history" in text
    assert f"test_why.py:{line}" in text


def test_a_leaf_that_nobody_asked_for_names_its_line():
    made = torch.tensor([1.0])
    text = made.why_no_grad()
    line = line_of(test_a_leaf_that_nobody_asked_for_names_its_line, "torch.tensor")
    assert f"leaf made by tensor() at test_why.py:{line}" in text
    assert "requires_grad_()" in torch.zeros(2).why_no_grad()
    assert "leaf that requires grad" in leaf().why_no_grad()


@pytest.mark.parametrize("name", ["round", "floor", "ceil", "trunc", "sign"])
def test_rounding_operators_are_named_as_long_as_nothing_gets_around_them(name):
    x = leaf()
    y = getattr(x, name)()
    line = line_of(
        test_rounding_operators_are_named_as_long_as_nothing_gets_around_them, "getattr(x"
    )
    assert f"{name} at test_why.py:{line}" in (y * 2).why_no_grad()
    assert "zeros" in y.sum().why_no_grad()
    assert name not in (y * 2 + x).why_no_grad()
    assert "retain_grad" in (x * 2).why_no_grad()


def test_a_view_that_leads_nowhere_says_so():
    x = leaf()
    with torch.no_grad():
        view = x[:1]
    assert view.requires_grad
    assert "leads nowhere" in view.why_no_grad()


# Errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.sum().detach(),
        lambda x: under_no_grad(x, torch.sum),
        lambda x: torch.tensor(1.0),
        lambda x: torch.from_numpy(np.ones(1)),
        lambda x: torch.zeros(()),
    ],
)
def test_backward_on_such_a_tensor_ends_with_the_same_text(make):
    root = make(leaf())
    with pytest.raises(RuntimeError, match="does not require grad") as raised:
        root.backward()
    assert str(raised.value).endswith(root.why_no_grad())
    with pytest.raises(RuntimeError) as raised:
        torch.autograd.grad(root, leaf())
    assert str(raised.value).endswith(root.why_no_grad())


def test_nothing_is_noted_where_it_would_cost_memory():
    assert "_cut" not in vars(torch.zeros(2).detach())
    y = under_no_grad(leaf(), lambda x: x * 2)
    assert vars(y) == {}

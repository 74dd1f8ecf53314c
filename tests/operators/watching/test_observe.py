"""Observers see every operator call while they look, and cost nothing afterwards."""

import pytest

import pullback as torch
from pullback.operators.pointwise.arithmetic import mul
from pullback.operators.watching.observe import observe, stop


class Log:
    def __init__(self):
        self.entered, self.left = [], []

    def enter(self, op, called):
        self.entered.append(called)
        return called

    def leave(self, token, result, operands):
        self.left.append((token, None if result is None else result.shape, len(operands)))


@pytest.fixture
def log():
    log = Log()
    observe(log)
    yield log
    stop(log)


def test_calls_of_functions_methods_signs_and_inplace_forms_are_seen(log):
    x = torch.ones(2, 3)
    torch.exp(x)
    x.mul(2.0)
    x + x
    x.add_(1)
    assert log.entered[-4:] == ["exp", "mul", "add", "add_"]
    assert log.left[-1] == ("add_", (2, 3), 2)


def test_an_operator_first_written_while_observed_is_seen(log):
    torch.special.log_ndtr(torch.zeros(2))
    assert "log_ndtr" in log.entered


def test_a_failing_operator_is_left_without_result(log):
    with pytest.raises(RuntimeError, match="broadcast"):
        torch.ones(2) * torch.ones(3)
    assert log.left[-1] == ("mul", None, 2)


def test_two_observers_see_the_same_calls_and_leave_independently(log):
    other = Log()
    observe(other)
    torch.ones(2).exp()
    stop(other)
    torch.ones(2).log()
    assert other.entered[-1] == "exp"
    assert log.entered[-2:] == ["exp", "log"]


def test_the_code_is_the_old_one_when_nobody_looks():
    torch.ones(2) * torch.ones(2)
    before = mul.__code__
    log = Log()
    observe(log)
    assert mul.__code__ is not before
    stop(log)
    assert mul.__code__ is before


def test_the_users_line_is_still_found(log):
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    assert y.grad_fn.origin.file == __file__

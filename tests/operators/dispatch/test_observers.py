"""Observers see every operator call while they look, and cost nothing afterwards."""

import subprocess
import sys

import pytest

import pullback as torch
from pullback.operators.dispatch.layers import code_of
from pullback.operators.dispatch.observers import observe, observers, stop
from pullback.operators.pointwise.arithmetic import mul


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


def test_looking_swaps_no_code():
    torch.ones(2) * torch.ones(2)
    before = code_of(mul)
    log = Log()
    observe(log)
    torch.ones(2) * torch.ones(2)
    assert code_of(mul) is before
    stop(log)
    assert code_of(mul) is before
    assert observers.active is None


def test_a_sign_gives_way_to_the_other_operand_while_somebody_looks(log):
    class Reflected:
        def __radd__(self, other):
            return "mine"

    x = torch.ones(2)
    torch.add(x, x)
    assert x + Reflected() == "mine"


FIRST_CALLS = """
import contextlib, sys, threading
import pullback as torch
from pullback.operators.attach.every import load_all
from pullback.operators.declare import OPERATORS
from pullback.operators.dispatch.observers import observers, observe

load_all()
unary = [op for op in OPERATORS.values() if op.kind == "elementwise" and len(op.params) == 1]
seen = []

class Log:
    def enter(self, op, called):
        seen.append(called)

    def leave(self, token, result, operands):
        pass

observe(Log())
sys.setswitchinterval(1e-5)
barrier = threading.Barrier(4)

def work():
    x = torch.full((2,), 0.5)
    barrier.wait()
    for op in unary:
        with contextlib.suppress(RuntimeError):  # bits of floating-point numbers
            op.function(x)

threads = [threading.Thread(target=work) for _ in range(4)]
for one in threads:
    one.start()
for one in threads:
    one.join()
names = {op.name for op in unary}
print(len(unary), sum(name in names for name in seen))
"""


def test_first_calls_from_several_threads_are_all_seen():
    ran = subprocess.run(
        [sys.executable, "-c", FIRST_CALLS], capture_output=True, text=True, check=True, timeout=120
    )
    operators, calls = map(int, ran.stdout.split())
    assert operators > 40
    assert calls >= 4 * operators


def test_the_users_line_is_still_found(log):
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    assert y.grad_fn.origin.file == __file__

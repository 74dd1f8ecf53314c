"""What handlers answer is recorded by written lines as it is step by step."""

import pytest

import pullback as torch
from pullback.core.ports import ports
from pullback.operators.declare import OPERATORS
from pullback.operators.writing import build
from pullback.utils._python_dispatch import TorchDispatchMode


class Passing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


CALLS = {
    "mul": lambda x, y: torch.mul(x, y),
    "number": lambda x, y: x * 2.5,
    "number first": lambda x, y: 2.5 - x,
    "div": lambda x, y: torch.div(x, y),
    "pow": lambda x, y: x**3,
    "where": lambda x, y: torch.where(x > 0.5, x, y),
    "sum over a dim": lambda x, y: x.sum(-1, keepdim=True),
    "matrix product": lambda x, y: x @ y.t(),
    "broadcast": lambda x, y: x * y[0],
    "mixed dtypes": lambda x, y: x * torch.tensor([1, 2, 3]),
    "whole numbers": lambda x, y: (x > y).to(torch.int64) * 2,
    "linear": lambda x, y: torch.nn.functional.linear(x, y),
    "clamp": lambda x, y: x.clamp(0.2, 0.8),
}


def outcome(call, monkeypatch, *, written):
    if not written:
        monkeypatch.setattr(ports, "recorder_of", lambda op: None)
    x = torch.tensor([[0.1, 0.5, 0.9], [0.3, 0.7, 0.2]], requires_grad=True)
    y = torch.tensor([[0.4, 0.6, 1.5], [0.8, 0.3, 0.9]], requires_grad=True)
    with Passing():
        made = call(x, y)
    if made.requires_grad:
        made.sum().backward()
    monkeypatch.undo()
    node = made.grad_fn
    gradients = [None if one.grad is None else one.grad.tolist() for one in (x, y)]
    kept = None if node is None else (type(node), node.next_functions and len(node.next_functions))
    return made.tolist(), gradients, kept, node and node.origin and node.origin.line


@pytest.mark.parametrize("name", CALLS)
def test_written_recording_is_that_of_the_interpreter(name, monkeypatch):
    written = outcome(CALLS[name], monkeypatch, written=True)
    assert written == outcome(CALLS[name], monkeypatch, written=False)


def test_operators_that_keep_their_result_have_none():
    assert build.recorder_of(OPERATORS["exp"]) is None
    assert build.recorder_of(OPERATORS["mul"]) is not None

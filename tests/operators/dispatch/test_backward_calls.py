"""Function modes and classes see the call of a backward pass once, as the user made it."""

import pullback as torch
from pullback.overrides import TorchFunctionMode


class Noting(TorchFunctionMode):
    def __init__(self):
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append((func, args, dict(kwargs or {})))
        return func(*args, **(kwargs or {}))


def test_modes_see_the_method_and_both_functions():
    """B-82."""
    x = torch.ones(2, requires_grad=True)
    for call, named in [
        (lambda y: y.backward(), torch.Tensor.backward),
        (torch.autograd.backward, torch.autograd.backward),
        (lambda y: torch.autograd.grad(y, x), torch.autograd.grad),
    ]:
        y = x.sin().sum()
        with Noting() as mode:
            call(y)
        assert [func for func, _, _ in mode.calls] == [named]
        assert mode.calls[0][1][0] is y
    assert torch.allclose(x.grad, 2 * x.detach().cos())


def test_options_are_handed_over_by_name():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    g = torch.ones(2)
    with Noting() as mode:
        y.backward(g, retain_graph=True, inputs=[x])
    ((_, args, kwargs),) = mode.calls
    assert args == (y,)
    assert kwargs == {"gradient": g, "retain_graph": True, "create_graph": False, "inputs": [x]}


def test_a_mode_may_answer_itself():
    class Silent(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return None

    x = torch.ones(2, requires_grad=True)
    y = x.sum()
    with Silent():
        y.backward()
    assert x.grad is None


def test_classes_are_asked_once():
    calls = []

    class Noted(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2).as_subclass(Noted).requires_grad_()
    y = x.sum()
    calls.clear()
    y.backward()
    assert calls == [torch.Tensor.backward]
    assert x.grad.tolist() == [1, 1]

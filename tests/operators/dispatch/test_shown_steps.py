"""What a dispatch mode is shown besides operators: saved outputs, first and last gradients."""

import pullback as torch
from pullback.utils._python_dispatch import TorchDispatchMode


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__.removesuffix(".default"))
        return func(*args, **(kwargs or {}))


def logged(function):
    x = torch.ones(2, 2, requires_grad=True)
    with Log() as log:
        function(x).backward()
    first, log.names = log.names, []
    with log:
        function(x).backward()
    return first, log.names, x.grad


def test_a_saved_output_is_detached_when_it_is_saved_and_when_it_is_read():
    names, again, _ = logged(lambda x: x.exp().sum())
    forward = ["exp", "detach", "sum"]
    assert names == [*forward, "ones_like", "expand", "detach", "mul.Tensor", "detach"]
    assert again == [*forward, "ones_like", "expand", "detach", "mul.Tensor", "add_.Tensor"]


def test_a_gradient_is_kept_or_copied_in_sight():
    names, again, g = logged(lambda x: (x * x).sum())
    steps = ["mul.Tensor", "sum", "ones_like", "expand", "mul.Tensor", "mul.Tensor", "add.Tensor"]
    assert names == [*steps, "detach"]
    assert again == [*steps, "add_.Tensor"]
    assert (g == 4).all()
    names, _, g = logged(lambda x: x.sum())  # an expanded number is no memory to keep
    assert names == ["sum", "ones_like", "expand", "new_empty_strided", "copy_"]
    assert (g == 2).all()


def test_what_a_mode_makes_of_the_first_gradient_counts():
    class Twos(Log):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            made = super().__torch_dispatch__(func, types, args, kwargs)
            return made * 2 if "ones_like" in func.__name__ else made

    x = torch.ones(2, requires_grad=True)
    with Twos():
        (x * 3).sum().backward()
    assert x.grad.tolist() == [6, 6]


def test_outputs_saved_in_a_mode_are_read_outside_of_it():
    x = torch.ones(2, requires_grad=True)
    with Log():
        y = x.exp()
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())

"""What a device runs in place of the host's functions is entered by object, and is what runs."""

import functools
import sys

import pytest

import pullback as torch
from pullback.core.home import home_of
from pullback.operators.cuda.kernel_overrides import (
    KERNEL_OVERRIDES,
    on_device,
    replace,
    unbound_forward,
)


def named(function):
    """A function as its module has it: the operator made of it, or what remembers its results."""
    home = vars(sys.modules[home_of(function)])
    found = home.get(function.__name__, function)
    return function if isinstance(found, type) else found


def test_every_replaced_function_is_met_as_its_own_module_has_it(library):
    assert len(KERNEL_OVERRIDES) > 60
    for function, own in KERNEL_OVERRIDES.items():
        found = named(function)
        op = getattr(found, "op", None)
        if op is not None and op.function is found and op.meaning is function:
            made = unbound_forward(op, library.space)
            assert any(one.function is own for one in op.kernels if one.on == "cuda")
        else:
            made = on_device(found, library.space)
        assert getattr(made, "__wrapped__", made) in (own, getattr(own, "__wrapped__", own)), (
            function
        )


def test_a_device_kernel_of_an_operator_asks_for_what_the_operator_has():
    from pullback.operators.linalg import affine

    with pytest.raises(TypeError, match="asks for"):
        replace({affine.linear: lambda xp, input, weights: None})
    assert KERNEL_OVERRIDES[affine.linear.op.meaning].__name__ == "_linear"


def test_a_helper_that_does_not_exist_fails_when_it_is_named():
    from pullback.operators.arrays import sums

    with pytest.raises(AttributeError):
        replace({sums.no_longer_there: functools.partial})


class Passing(torch.overrides.TorchFunctionMode):
    """Looks at calls, and lets them pass."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_a_function_that_looks_at_its_arguments_keeps_its_own_defaults(library):
    """What is written before it on its first call has other defaults: it takes more names."""
    x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    with Passing():  # from here on the function looks for who would answer
        torch.diag_embed(x)
    torch.diag_embed(x)
    made = on_device(torch.diag_embed, library.space)
    assert made.__defaults__ == (0, -2, -1)
    a = torch.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=torch.float64).cuda().requires_grad_()
    torch.linalg.eigvals(a).abs().sum().backward()
    assert a.grad.cpu().allclose(torch.eye(2, dtype=torch.float64))

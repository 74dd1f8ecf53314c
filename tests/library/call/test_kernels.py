"""Kernels and devices, autocast (C-29 to C-33)."""

import logging

import pytest

import pullback as torch
from pullback import Tensor
from pullback.library import autocast, custom_op, register_autocast, register_kernel
from pullback.library.call.keys import winner


def kernel(number):
    def run(x: Tensor) -> Tensor:
        return torch.full_like(x, number)

    return run


def test_kernel_of_the_device_comes_before_the_default_one(name):
    """C-29."""
    op = custom_op(name, kernel(1), mutates_args=())
    assert op.register_kernel("cpu", kernel(2)).__name__ == "run"
    assert op(torch.ones(1)).item() == 2
    op.register_kernel(("cpu", "cuda"))(kernel(3))
    assert op(torch.ones(1)).item() == 3
    register_kernel(name, "cpu", kernel(4))
    register_kernel(op, None, kernel(5))
    assert op(torch.ones(1)).item() == 4

    @register_kernel(op._opoverload, "cpu")
    def _(x):
        return torch.full_like(x, 6)

    assert op(torch.ones(1)).item() == 6
    with pytest.raises(ValueError, match="got int"):
        register_kernel(3, "cpu", kernel(1))


def test_cuda_has_the_word_where_devices_meet():
    """C-29."""
    assert winner({"cpu", "cuda"}) == "cuda"
    assert winner({"cpu"}) == "cpu"
    assert winner({"cuda", "meta", "cpu"}) == "meta"


def test_missing_kernel_says_how_to_register_one(name):
    """C-30."""
    op = custom_op(name, kernel(1), mutates_args=(), device_types="cuda")
    with pytest.raises(NotImplementedError, match=f"{name}.*'cpu'.*register_kernel"):
        op(torch.ones(1))
    with pytest.raises(RuntimeError, match=r"'toaster' is no type of device.*cpu, cuda"):
        op.register_kernel("toaster", kernel(1))
    with pytest.raises(RuntimeError, match="'toaster'"):
        custom_op(name, kernel(1), mutates_args=(), device_types="toaster")


def test_operator_without_tensors_chooses_by_its_device_argument(name):
    """C-31."""

    def ones(n: int) -> Tensor:
        return torch.ones(n)

    with pytest.raises(ValueError, match=r"device: torch.device"):
        custom_op(name, ones, mutates_args=(), device_types="cpu")
    assert custom_op(name, ones, mutates_args=())(2).tolist() == [1, 1]

    def ones_on(n: int, device: torch.device) -> Tensor:
        return torch.ones(n)

    op = custom_op(name, ones_on, mutates_args=(), device_types="cpu")
    assert op(2, "cpu").tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="no kernel for device='cuda'"):
        op(2, torch.device("cuda"))


def test_empty_list_of_tensors_runs_the_default_kernel(name):
    """C-31."""

    @custom_op(name, mutates_args=())
    def total(xs: list[Tensor]) -> Tensor:
        return torch.tensor(float(len(xs)))

    assert total([]).item() == 0


def test_kernel_can_be_switched_off_for_a_block(name, caplog):
    """C-32."""
    op = custom_op(name, kernel(1), mutates_args=())
    op.register_kernel("cpu", kernel(2))
    x = torch.ones(1)
    with op.set_kernel_enabled("cpu", enabled=False):
        assert op(x).item() == 1
        with op.set_kernel_enabled("cpu", enabled=True):
            assert op(x).item() == 2
        assert op(x).item() == 1
    assert op(x).item() == 2
    with caplog.at_level(logging.WARNING), op.set_kernel_enabled("cpu"):
        assert op(x).item() == 2
    with caplog.at_level(logging.WARNING), op.set_kernel_enabled("cuda", enabled=False):
        assert op(x).item() == 2
    assert len(caplog.records) == 2


def test_autocast_casts_floating_inputs_but_not_float64(name):
    """C-33."""
    seen = []

    @custom_op(name, mutates_args=())
    def op(x: Tensor, ys: list[Tensor], n: int) -> Tensor:
        seen.append([x.dtype, *(y.dtype for y in ys), n, torch.library.is_autocast_enabled("cpu")])
        return x.clone()

    register_autocast(op, "cpu", torch.float16)
    args = (
        torch.ones(1),
        [torch.ones(1, dtype=torch.float64), torch.ones(1, dtype=torch.int64)],
        3,
    )
    assert op(*args).dtype is torch.float32
    with autocast("cpu"):
        assert op(*args).dtype is torch.float16
        with autocast("cpu", enabled=False):
            assert op(*args).dtype is torch.float32
    with autocast("xpu"):
        assert op(*args).dtype is torch.float32
    assert seen[1] == [torch.float16, torch.float64, torch.int64, 3, False]


def test_autocast_goes_through_backward(name):
    """C-33."""
    op = custom_op(name, kernel(1), mutates_args=())
    op.register_autograd(lambda ctx, g: g * 2)
    op.register_autocast("cpu", torch.float16)
    x = torch.ones(2, requires_grad=True)
    with autocast("cpu"):
        y = op(x)
    y.sum().backward()
    assert x.grad.dtype is torch.float32
    assert x.grad.tolist() == [2, 2]


def test_autocast_arguments_are_checked(name):
    """C-33."""
    op = custom_op(name, kernel(1), mutates_args=())
    with pytest.raises(ValueError, match="'cpu' and 'cuda'"):
        register_autocast(op, "xpu", torch.float16)
    with pytest.raises(ValueError, match="must be a dtype"):
        register_autocast(op, "cpu", "float16")

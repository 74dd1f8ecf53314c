"""Sizes that are given to view, reshape and expand."""

import pytest

import pullback as torch


@pytest.mark.parametrize("sizes", [(2, -5), (-5,), (2, -3, 1), (-2, 2, 1)], ids=str)
@pytest.mark.parametrize("recorded", [False, True])
def test_no_size_but_minus_one_is_worked_out(sizes, recorded):
    x = torch.ones(4, requires_grad=recorded)
    turned = torch.ones(2, 2).t()
    for call, told in (
        (lambda: x.view(*sizes), "view"), (lambda: x.view(sizes), "view"),
        (lambda: x.reshape(*sizes), "reshape"), (lambda: x.reshape(sizes), "reshape"),
        (lambda: torch.reshape(x, sizes), "reshape"), (lambda: turned.reshape(sizes), "reshape"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=f"{told}: .*no other may be negative"):
            call()


def test_expand_keeps_sizes_by_minus_one_alone():
    x = torch.ones(1, 4)
    assert x.expand(3, -1).shape == (3, 4)
    with pytest.raises(RuntimeError, match="size -2 at dimension 0 is negative"):
        x.expand(-2, 4)


@pytest.mark.parametrize(
    ("tensor", "dtype"),
    [
        (lambda: torch.zeros(4)[1:3], torch.float64),
        (lambda: torch.zeros(8, dtype=torch.uint8)[1:5], torch.int32),
        (lambda: torch.zeros(3, 3, dtype=torch.int64)[:, :2], torch.complex128),
        (lambda: torch.zeros(4, 4, dtype=torch.int32)[:, 1:3], torch.int64),
        (lambda: torch.zeros(20, dtype=torch.int32).as_strided((2, 2), (3, 1)), torch.int64),
    ],
)
def test_elements_that_do_not_lie_one_after_another_are_not_read_as_larger_ones(tensor, dtype):
    """The view's offset or stride was no whole number of elements, and was rounded."""
    with pytest.raises(RuntimeError, match="multiple"):
        tensor().view(dtype)
    assert tensor().clone(memory_format=torch.contiguous_format).view(dtype).dtype is dtype


def test_memory_read_as_another_dtype_is_a_view_where_it_divides():
    x = torch.arange(4.0)
    assert x[2:].view(torch.float64).storage_offset() == 1
    assert torch.zeros(4, 4, dtype=torch.int64)[:, :2].view(torch.complex128).stride() == (2, 1)
    assert torch.zeros(4, 4, dtype=torch.int64)[1:, 1:].view(torch.int32).storage_offset() == 10


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.complex128])
def test_memory_read_as_another_dtype_has_no_history(dtype):
    z = torch.zeros(2, dtype=torch.complex64, requires_grad=True)
    for one in (z, z * 2):
        read = one.view(dtype)
        assert not read.requires_grad
        assert read.data_ptr() == one.data_ptr()


@pytest.mark.parametrize("shape", [(4,), ("2", 3), (2.0, 3), (None,)])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_errors_of_reshape_name_reshape(shape, is_transposed):
    x = torch.ones(2, 3).t() if is_transposed else torch.ones(2, 3)
    for call in (x.reshape, lambda *sizes: torch.reshape(x, sizes)):
        with pytest.raises((RuntimeError, TypeError), match=r"^reshape[(:]"):
            call(*shape)

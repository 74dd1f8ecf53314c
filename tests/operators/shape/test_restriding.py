"""as_strided: any geometry that the memory holds, and empty ones anywhere."""

import pytest

import pullback as torch


def test_an_empty_shape_may_begin_beyond_the_memory():
    """R-44"""
    x = torch.tensor([1.0], requires_grad=True)
    y = x.as_strided((0,), (1,), 2)
    assert y.storage_offset() == 2
    assert y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    y.sum().backward()
    assert x.grad.tolist() == [0]
    assert x.detach().as_strided((0, 3), (1, 7), 5).shape == (0, 3)
    with pytest.raises(RuntimeError, match="memory holds 1"):
        x.as_strided((1,), (1,), 2)
    with pytest.raises(RuntimeError, match="offset -1"):
        x.as_strided((0,), (1,), -1)


def test_sizes_that_no_memory_has_room_for_are_a_runtime_error():
    x = torch.arange(3.0)
    for size in ((2**46,), (2**40, 2**6), (2**62, 2**6)):
        with pytest.raises(RuntimeError, match=r"resize_: there is no memory|too large"):
            x.resize_(*size)
    with pytest.raises(RuntimeError, match="resize_: there is no memory"):
        x.untyped_storage().resize_(2**48)
    assert x.tolist() == [0, 1, 2]

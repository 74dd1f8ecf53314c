"""Arrangements of tensors: what is refused; the values are tested with all operators."""

import pytest

import pullback as torch


def test_a_grid_of_nothing_is_refused():
    with pytest.raises(RuntimeError, match="at least one tensor"):
        torch.meshgrid(indexing="ij")


def test_a_flipped_tensor_lies_in_memory_as_its_input():
    x = torch.arange(48.0).reshape(2, 3, 2, 4)
    for laid in (x.to(memory_format=torch.channels_last), x.permute(3, 1, 0, 2)):
        assert laid.flip(2).stride() == laid.stride()
        assert torch.equal(laid.flip(0, 2), laid.contiguous().flip(0, 2))

"""Copies of what views show."""

import pytest

import pullback as torch


@pytest.mark.parametrize(
    "copy",
    [
        lambda x: torch.slice_copy(x, 0, 0, 2),
        lambda x: torch.transpose_copy(x, 0, 1),
        lambda x: torch.permute_copy(x, (1, 0, 2)),
        lambda x: torch.select_copy(x, 0, 0),
        lambda x: torch.unbind_copy(x)[0],
        lambda x: torch.split_copy(x, 1)[0],
        lambda x: torch.expand_copy(x[:1], (4, 3, 2)),
        torch.alias_copy,
        torch.squeeze_copy,
    ],
)
def test_a_copy_is_contiguous_whatever_it_is_a_copy_of(copy):
    assert copy(torch.ones(2, 3, 4).transpose(0, 2)).is_contiguous()

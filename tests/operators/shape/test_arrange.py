"""Arrangements of tensors: what is refused; the values are tested with all operators."""

import pytest

import pullback as torch


def test_a_grid_of_nothing_is_refused():
    with pytest.raises(RuntimeError, match="at least one tensor"):
        torch.meshgrid(indexing="ij")

"""Changing signs."""

import numpy as np
import pytest

import pullback as torch


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.complex64])
@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 8, 16])
def test_elements_apart_in_memory_change_their_own_sign(dtype, step):
    """NumPy's own `negative(v, v)` took those of neighbours, 16 and 64 bytes apart."""
    values = np.arange(1, 9 * step + 1).astype(dtype)
    x = torch.tensor(values)
    x[::step].neg_()
    values[::step] = -values[::step].copy()
    assert np.array_equal(x.numpy(), values)


def test_a_diagonal_changes_its_sign_in_place():
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    x.diagonal().neg_()
    assert x.tolist() == [[-1.0, 2.0, 3.0], [4.0, -5.0, 6.0]]

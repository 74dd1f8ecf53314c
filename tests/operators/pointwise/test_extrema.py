"""The larger and the smaller, and limits."""

import pytest

import pullback as torch


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_clamp_keeps_the_sign_of_zero_that_lies_within(dtype):
    x = torch.tensor([-0.0, 0.0, -2.0, 2.0], dtype=dtype)
    for made in (x.clamp(-1, 1), x.clone().clamp_(-1, 1), x.clamp(-1, 1)):  # limits met before
        assert torch.signbit(made).tolist() == [True, False, True, False]
        assert made.tolist() == [0.0, 0.0, -1.0, 1.0]

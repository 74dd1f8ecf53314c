"""Channels and pixels exchanged: what is refused."""

import pytest

import pullback as torch


def test_a_factor_whose_square_overflows_is_a_wrong_value_and_one_that_does_not_divide_is_not():
    image = torch.ones(1, 4, 2, 2)
    with pytest.raises(ValueError, match="too large"):
        torch.nn.PixelShuffle(545460846592)(image)
    with pytest.raises(RuntimeError, match="must be divisible"):
        torch.pixel_shuffle(image, 3)

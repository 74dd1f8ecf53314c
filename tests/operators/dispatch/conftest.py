"""A tensor to be watched."""

import pytest

import pullback as torch


@pytest.fixture
def x():
    return torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)

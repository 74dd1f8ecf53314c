"""Torch's oldest ways to make tensors."""

import numpy
import pytest

import pullback as torch


def test_ints_are_a_size_and_sequences_are_data():
    assert torch.Tensor(2, 3).shape == (2, 3)
    assert torch.Tensor(torch.Size([2, 3])).shape == (2, 3)
    assert torch.Tensor([2, 3]).tolist() == [2, 3]
    assert torch.Tensor(numpy.array([1.0])).dtype is torch.float32
    assert torch.Tensor().shape == (0,)
    with pytest.raises(TypeError):
        torch.Tensor([1], dtype=torch.int32)


def test_types_of_one_dtype():
    assert torch.LongTensor([1, 2]).dtype is torch.int64
    assert torch.DoubleTensor(2).dtype is torch.float64
    assert isinstance(torch.ones(1), torch.FloatTensor)
    assert not isinstance(torch.ones(1), torch.LongTensor)
    assert torch.ones(1).type(torch.DoubleTensor).dtype is torch.float64
    with pytest.raises(TypeError, match="own dtype only"):
        torch.LongTensor(torch.ones(1))


def test_new_keeps_the_dtype():
    x = torch.ones(3, dtype=torch.int32)
    assert x.new(2).shape == (2,)
    assert x.new([2, 3]).tolist() == [2, 3]
    assert x.new().dtype is torch.int32


def test_typename():
    assert torch.typename(torch.ones(1)) == "torch.FloatTensor"
    assert torch.typename(3) == "int"

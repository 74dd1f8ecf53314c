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


@pytest.mark.parametrize("kind", [torch.int32, torch.float64, torch.complex64, torch.bool])
def test_a_tensor_of_any_dtype_is_seen_by_the_class(kind):
    class Mine(torch.Tensor):
        pass

    for cls in (torch.Tensor, Mine):
        x = torch.zeros(2, dtype=kind)
        made = cls(x)
        assert (type(made), made.dtype) == (cls, kind)
        assert made._base is x
        made[0] = 1
        assert x[0] == 1


def test_a_tensor_that_is_seen_keeps_its_history():
    x = torch.zeros(2, requires_grad=True)
    for made in (torch.Tensor(x), x.new(x), torch.FloatTensor(x)):
        made.sum().backward()
    assert x.grad.tolist() == [3, 3]


@pytest.mark.parametrize("make", [torch.Tensor, torch.FloatTensor, torch.ones(1).new])
def test_the_size_may_be_named(make):
    assert make(size=(2, 3)).shape == (2, 3)
    assert make(size=torch.Size([4])).shape == (4,)
    with pytest.raises(TypeError, match="sequence"):
        make(size=3)
    with pytest.raises(TypeError, match="nothing goes with it"):
        make(1, size=(3,))


@pytest.mark.parametrize("kind", [float, int, bool, complex])
def test_python_s_types_are_dtypes(kind):
    expected = torch.tensor([], dtype=kind).dtype
    x = torch.ones(2, dtype=torch.float64)
    for made in (x.view(kind), x.view(dtype=kind), x.to(kind), x.to(dtype=kind)):
        assert made.dtype is expected
    assert x.view(float) is x
    with pytest.raises(TypeError):
        x.view(str)

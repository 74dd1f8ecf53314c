"""Torch's oldest names of sparse tensors, as code for graphs uses them."""

import pytest

import pullback as torch

INDICES = torch.tensor([[0, 1], [1, 0]])


def values():
    return torch.tensor([1.0, 2.0])


def test_they_make_tensors_of_indices_and_values():
    with pytest.warns(UserWarning, match="deprecated"):
        made = torch.sparse.FloatTensor(INDICES, values(), torch.Size([2, 3]))
    assert made.to_dense().tolist() == [[0, 1, 0], [2, 0, 0]]
    with pytest.warns(UserWarning, match="deprecated"):
        made = torch.sparse.FloatTensor(INDICES, values().requires_grad_())
    assert made.shape == (2, 2)
    assert made.requires_grad


@pytest.mark.filterwarnings("ignore")
def test_they_make_empty_ones_of_a_size():
    for made in (torch.sparse.LongTensor(2, 3), torch.sparse.LongTensor(torch.Size([2, 3]))):
        assert (made.shape, made._nnz(), made.dtype) == ((2, 3), 0, torch.int64)
    assert torch.sparse.HalfTensor().shape == (0,)
    with pytest.raises(TypeError, match="to_sparse"):
        torch.sparse.FloatTensor(torch.eye(2).to_sparse())


def test_types_tell_sparse_tensors_from_others():
    sparse, dense = torch.eye(2).to_sparse(), torch.eye(2)
    assert isinstance(sparse, torch.sparse.FloatTensor)
    assert not isinstance(dense, torch.sparse.FloatTensor)
    assert not isinstance(sparse, torch.FloatTensor)
    assert not isinstance(sparse.double(), torch.sparse.FloatTensor)
    assert not isinstance(
        torch.eye(2).to_sparse_csr(), torch.sparse.FloatTensor | torch.FloatTensor
    )
    assert not isinstance(dense.to("meta"), torch.FloatTensor)
    assert torch.sparse.FloatTensor.dtype is torch.float32
    assert torch.sparse.FloatTensor.layout is torch.sparse_coo
    with pytest.raises(TypeError, match="floating"):
        torch.set_default_tensor_type(torch.sparse.FloatTensor)


def test_the_name_of_a_type_says_where_and_how_a_tensor_is():
    sparse = torch.eye(2).to_sparse()
    assert sparse.type() == torch.typename(sparse) == "torch.sparse.FloatTensor"
    assert torch.eye(2, device="meta").type() == "torch.meta.FloatTensor"
    assert sparse.type(torch.sparse.DoubleTensor).type() == "torch.sparse.DoubleTensor"
    assert sparse.type("torch.sparse.DoubleTensor").dtype is torch.float64
    assert torch.eye(2).type(torch.sparse.DoubleTensor).type() == "torch.DoubleTensor"

"""There are no sparse tensors, and each way to make one says so."""

import pytest

import pullback as torch


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.sparse_coo_tensor([[0]], [1.0], (3,)),
        lambda: torch.sparse_csr_tensor([0, 1], [0], [1.0]),
        lambda: torch.zeros(3).to_sparse(),
        lambda: torch.zeros(3, 3).to_sparse_csr(),
        lambda: torch.nn.functional.embedding(torch.tensor([0]), torch.ones(2, 2), sparse=True),
    ],
)
def test_sparse_tensors_and_gradients_are_refused_by_name(make):
    """V-29, V-123: without sparse tensors no gradient can be one; nothing becomes dense silently"""
    with pytest.raises(NotImplementedError, match="sparse"):
        make()


def test_every_tensor_and_gradient_is_strided():
    """V-29, V-123"""
    weight = torch.ones(3, 2, requires_grad=True)
    torch.nn.functional.embedding(torch.tensor([0, 0]), weight).sum().backward()
    assert weight.grad.layout is torch.strided
    assert not weight.grad.is_sparse
    assert weight.grad.tolist() == [[2.0, 2.0], [0.0, 0.0], [0.0, 0.0]]

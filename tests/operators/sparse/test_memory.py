"""Whose memory a sparse tensor stands on: patterns are shared, what users can write to is not."""

import numpy
import pytest

import pullback as torch
from pullback.testing.sparse_samples import LAYOUTS, matrix

nn = torch.nn
F = torch.nn.functional


def bags(weight, index):
    return F.embedding_bag(index, weight, torch.tensor([0]), mode="sum", sparse=True)


SPARSE_GRADIENTS = {
    "embedding": lambda weight, index: F.embedding(index, weight, sparse=True),
    "embedding with padding": lambda weight, index: F.embedding(index, weight, 3, sparse=True),
    "embedding_bag": bags,
    "gather": lambda weight, index: torch.gather(weight, 0, index[:, None], sparse_grad=True),
    "embedding of int32": lambda weight, index: F.embedding(index.int(), weight, sparse=True),
}


@pytest.mark.parametrize("name", SPARSE_GRADIENTS)
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_sparse_gradient_does_not_follow_the_indices_that_were_looked_up(name, create_graph):
    weight = torch.ones(9, 1, requires_grad=True)
    index = torch.tensor([7, 1])
    made = SPARSE_GRADIENTS[name](weight, index)
    (g,) = torch.autograd.grad(made.sum(), weight, create_graph=create_graph)
    index.fill_(0)
    assert g.layout is torch.sparse_coo
    assert g.detach().to_dense().flatten().nonzero().flatten().tolist() == [1, 7]


def test_gather_of_one_place_has_a_sparse_gradient():
    x = torch.arange(10.0, requires_grad=True)
    torch.gather(x, 0, torch.tensor(4), sparse_grad=True).backward()
    assert x.grad.to_dense().nonzero().flatten().tolist() == [4]
    x = torch.tensor(2.0, requires_grad=True)
    torch.gather(x, 0, torch.tensor(0), sparse_grad=True).backward()
    assert x.grad.to_dense() == 1


def line_tensors(x):
    """The index tensors of a sparse tensor, as users get them."""
    if x.layout is torch.sparse_coo:
        return [x._indices()]
    if x.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [x.crow_indices(), x.col_indices()]
    return [x.ccol_indices(), x.row_indices()]


WRITES = {
    "an operator": lambda index: index.zero_(),
    "NumPy": lambda index: index.numpy().fill(0),
}


@pytest.mark.parametrize("write", WRITES)
def test_what_is_remembered_of_indices_follows_writes_to_them(write):
    index = torch.tensor([[2, 2]])
    x = torch.sparse_coo_tensor(index, torch.tensor([5.0, 1.0]), (3,))
    assert x.coalesce().to_dense().tolist() == [0, 0, 6]
    for target in (index, x._indices()):
        target.fill_(2)
        assert x.coalesce().to_dense().tolist() == [0, 0, 6]
        WRITES[write](target)
        assert x.coalesce().to_dense().tolist() == [6, 0, 0]
        assert x.to_dense().tolist() == [6, 0, 0]
        assert x.detach()._indices().tolist() == [[0, 0]]


def test_compressed_indices_of_users_are_followed_too():
    columns = torch.tensor([1, 0])
    x = torch.sparse_csr_tensor(torch.tensor([0, 1, 2]), columns, torch.tensor([3.0, 4.0]), (2, 2))
    vector = torch.tensor([1.0, 10.0])
    assert (x @ vector).tolist() == [30, 4]
    columns[0] = 0
    assert (x @ vector).tolist() == [3, 4]
    assert x.to_dense().tolist() == [[3, 0], [4, 0]]


def test_indices_are_the_same_memory_each_time_they_are_asked_for():
    x = torch.eye(2).to_sparse()
    version = x.indices()._version
    x.indices()[0, 0] = 1
    assert x.indices().tolist() == [[1, 1], [0, 1]]
    assert x._indices()._version == version + 1


# Results that torch makes anew, with indices and values of their own.
NEW = {
    "clone": lambda x: x.clone(),
    "mul": lambda x: x * 2,
    "neg": lambda x: -x,
    "sin": lambda x: x.sin(),
    "to": lambda x: x.float(),
    "add": lambda x: x + x,
    "dense factor": lambda x: x * torch.ones(x.shape, dtype=x.dtype),
    "sparse factor": lambda x: x * x,
    "sparse_mask": lambda x: torch.ones(x.shape, dtype=x.dtype).sparse_mask(x),
    "zeros_like": torch.zeros_like,
    "sparse.mm": lambda x: torch.sparse.mm(x, x.t().to_sparse(layout=x.layout)),
}


@pytest.mark.parametrize("layout", [*LAYOUTS, "uncoalesced"])
@pytest.mark.parametrize("name", NEW)
def test_writes_to_a_results_indices_and_values_leave_the_operand_alone(name, layout):
    x = matrix(torch, layout).detach()
    if name == "sparse.mm" and layout.startswith("bs"):
        pytest.skip("blocks are not multiplied with one another")
    before = x.to_dense()
    made = NEW[name](x)
    for index in line_tensors(made):
        index.zero_()
    (made._values() if made.layout is torch.sparse_coo else made.values()).zero_()
    assert torch.equal(x.to_dense(), before)
    x = matrix(torch, layout).detach()
    made = NEW[name](x)
    kept = made.to_dense()
    for index in line_tensors(x):
        index.zero_()
    assert torch.equal(made.to_dense(), kept)


def test_a_transposed_tensor_of_coordinates_has_values_of_its_own():
    x = torch.eye(2).to_sparse()
    x.t()._values().zero_()
    assert torch.equal(x.to_dense(), torch.eye(2))


def test_aliases_see_the_same_indices():
    x = torch.eye(2).to_sparse()
    for alias in (x.detach(), x.data):
        alias._indices()[1, 0] = 1
        assert x.to_dense().tolist() == [[0, 1], [0, 1]]
        alias._indices()[1, 0] = 0


def test_writes_in_place_that_keep_the_places_keep_the_indices():
    index = torch.tensor([[0, 1]])
    x = torch.sparse_coo_tensor(index, torch.tensor([1.0, 2.0]), (3,))
    x.mul_(2)
    index[0, 0] = 2
    assert x.to_dense().tolist() == [0, 4, 2]


@pytest.mark.parametrize("masked", [False, True])
def test_gradcheck_leaves_values_and_indices_as_they_were(masked):
    index = torch.tensor([[0, 0]])
    x = torch.sparse_coo_tensor(index, torch.tensor([1.0, 2.0], dtype=torch.float64), (3,))
    x.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: x.to_dense(masked_grad=masked) ** 2, x, masked=masked)
    assert x._nnz() == 2
    index[0, 0] = 2
    assert x.detach().to_dense().tolist() == [2, 0, 1]


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_values_are_coalesced(count):
    x = torch.sparse_coo_tensor(torch.zeros(2, count, dtype=torch.int64), torch.ones(count), (2, 2))
    assert x.is_coalesced()
    assert x.index_select(0, torch.tensor([0])).is_coalesced()
    assert torch.zeros(2, 2).to_sparse().t().is_coalesced()
    assert not x._coalesced_(False).is_coalesced()


def test_a_gradient_by_indices_of_a_program_in_numpy_is_its_own():
    rows = numpy.array([3, 3])
    weight = torch.ones(5, 1, requires_grad=True)
    F.embedding(torch.from_numpy(rows), weight, sparse=True).sum().backward()
    rows[:] = 0
    assert weight.grad.to_dense().flatten().tolist() == [0, 0, 0, 2, 0]

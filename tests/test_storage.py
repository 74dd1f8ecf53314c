"""Storages: memory that tensors are made on, and that copies share as the originals did."""

import copy
import warnings

import pytest

import pullback as torch


@pytest.fixture(autouse=True)
def _older_storages_are_meant():
    with warnings.catch_warnings(action="ignore"):
        yield


@pytest.mark.parametrize("storage", [torch.Tensor.untyped_storage, torch.Tensor.storage])
@pytest.mark.parametrize("first", [True, False])
def test_deep_copies_of_tensors_and_storages_share_memory_as_before(storage, first):
    a = torch.zeros(3)
    whole = [a, storage(a)] if first else [storage(a), a]
    made = copy.deepcopy(whole)
    tensor, memory = made if first else reversed(made)
    assert memory.data_ptr() == tensor.data_ptr() != a.data_ptr()


@pytest.mark.parametrize(
    "make",
    [torch.tensor, torch.as_tensor, torch.asarray, torch.FloatTensor, torch.Tensor,
     torch.ones(1).new, torch.ones(1).new_tensor],
)  # fmt: skip
def test_tensor_of_a_storage_is_on_its_memory(make):
    a = torch.arange(4.0)
    b = make(a.storage())
    b[0] = 9
    assert b.tolist() == a.tolist() == [9, 1, 2, 3]


def test_bytes_are_read_in_the_dtype_that_was_asked_for():
    memory = torch.arange(4.0).untyped_storage()
    assert torch.tensor(memory, dtype=torch.float32).tolist() == [0, 1, 2, 3]
    assert torch.tensor(memory).dtype is torch.int64
    assert torch.DoubleTensor(memory).shape == (2,)


def test_elements_of_another_dtype_are_not_read_so():
    memory = torch.arange(4.0).storage()
    for make in (torch.DoubleTensor, lambda s: torch.tensor(s, dtype=torch.float64)):
        with pytest.raises(RuntimeError, match="float32"):
            make(memory)

"""Batches of a TensorDataset taken as rows, against those that are collated from single items."""

import numpy
import pytest

import pullback as torch
from pullback.utils.data import DataLoader, TensorDataset
from pullback.utils.data._utils import collate, rows


def tensors():
    base = torch.arange(60.0).reshape(10, 6)
    return {
        "float32": base,
        "int64": torch.arange(10),
        "columns": base[:, ::2],
        "transposed": torch.arange(60).reshape(6, 10).T,
        "part": base[1:9],
        "bool": base[:, 0] > 20,
        "bfloat16": base.to(torch.bfloat16),
        "complex": torch.complex(base, base),
        "no columns": torch.zeros(10, 0),
    }


def collated(dataset, places):
    return collate.default_collate([dataset[place] for place in places])


@pytest.mark.parametrize("name", tensors())
@pytest.mark.parametrize("places", [[0], [3, 1, 1, 7], list(range(8))], ids=str)
def test_rows_are_what_single_items_collate_to(name, places):
    one = tensors()[name]
    dataset = TensorDataset(one, one)
    found, expected = rows.rows_at(dataset.tensors, places), collated(dataset, places)
    assert type(found) is type(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype is b.dtype
        assert a.shape == b.shape
        assert a.stride() == b.stride()
        assert a._array.tobytes() == b._array.tobytes()
        assert not numpy.shares_memory(a._array, one._array)
        assert not a.requires_grad
        assert a._version == 0


@pytest.mark.parametrize("places", [[-1], [10], [True], [torch.tensor(1)], [], (0, 1)], ids=str)
def test_other_places_take_a_closer_look(places):
    assert rows.rows_at((torch.arange(10.0),), places) is None


def test_tensors_with_history_or_of_another_sort_take_a_closer_look():
    w = torch.ones(4, requires_grad=True)
    conjugate = torch.complex(w.detach(), w.detach()).conj()
    for one in (w, w * 2, w[1:], torch.nn.Parameter(torch.ones(4)), conjugate):
        assert rows.rows_at((one,), [0, 1]) is None


def test_what_a_loader_gives_leads_back_to_tensors_that_require_grad():
    w = torch.ones(4, requires_grad=True)
    (batch,) = next(iter(DataLoader(TensorDataset(w * 2), batch_size=4)))
    batch.sum().backward()
    assert w.grad.tolist() == [2, 2, 2, 2]


def test_a_changed_table_of_collate_functions_is_asked(monkeypatch):
    taken = []

    def collate_fn(batch, *, collate_fn_map=None):
        taken.append(len(batch))
        return "mine"

    monkeypatch.setitem(collate.default_collate_fn_map, torch.Tensor, collate_fn)
    loader = DataLoader(TensorDataset(torch.ones(4)), batch_size=2)
    assert list(loader) == [["mine"], ["mine"]]
    assert taken == [2, 2]


def test_a_subclass_gives_its_own_items():
    class Shifted(TensorDataset):
        def __getitem__(self, index):
            return tuple(one + 1 for one in super().__getitem__(index))

    (batch,) = next(iter(DataLoader(Shifted(torch.arange(4)), batch_size=4)))
    assert batch.tolist() == [1, 2, 3, 4]

"""Datasets and what is made of them: joined, stacked, split."""

import pytest

import pullback as torch
from pullback.utils.data import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)


class Items(Dataset):
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, place):
        return self.items[place]


class Batched(Items):
    def __getitems__(self, places):
        return [self.items[place] for place in places]


class Some(IterableDataset):
    def __init__(self, items):
        self.items = items

    def __iter__(self):
        return iter(self.items)

    def __len__(self):
        return len(self.items)


def test_tensor_dataset_gives_rows():
    dataset = TensorDataset(torch.arange(6).reshape(3, 2), torch.arange(3))
    assert len(dataset) == 3
    assert [part.tolist() for part in dataset[1]] == [[2, 3], 1]
    with pytest.raises(AssertionError, match=r"\[2, 3\]"):
        TensorDataset(torch.ones(2), torch.ones(3))


def test_concatenation_by_plus_and_by_class():
    joined = Items([1, 2]) + Items([]) + Items([3])
    assert [joined[place] for place in range(len(joined))] == [1, 2, 3]
    assert joined[-1] == 3
    with pytest.raises(ValueError, match="-4"):
        joined[-4]
    with pytest.raises(IndexError):
        joined[3]
    with pytest.raises(AssertionError, match="at least one"):
        ConcatDataset([])
    with pytest.raises(AssertionError, match="ChainDataset"):
        ConcatDataset([Some([1])])
    with pytest.warns(FutureWarning, match="cumulative_sizes"):
        assert joined.cummulative_sizes == [2, 3]


def test_chains_of_iterables():
    chained = Some([1]) + Some([2, 3])
    assert isinstance(chained, ChainDataset)
    assert list(chained) == [1, 2, 3]
    assert len(chained) == 3
    with pytest.raises(AssertionError, match="ConcatDataset"):
        list(ChainDataset([[1]]))


@pytest.mark.parametrize("kind", [Items, Batched])
def test_stacks_give_tuples_or_dicts(kind):
    pairs = StackDataset(kind([1, 2]), kind(["a", "b"]))
    assert pairs[1] == (2, "b")
    assert pairs.__getitems__([1, 0]) == [(2, "b"), (1, "a")]
    named = StackDataset(x=kind([1, 2]))
    assert named[0] == {"x": 1}
    assert named.__getitems__([0, 1]) == [{"x": 1}, {"x": 2}]
    assert len(named) == 2


def test_stacks_refuse_what_does_not_fit():
    for args, names in [((), {}), (([1], [1, 2]), {}), (([1],), {"x": [1]})]:
        with pytest.raises(ValueError, match="StackDataset"):
            StackDataset(*args, **names)

    class Short(Items):
        def __getitems__(self, places):
            return []

    with pytest.raises(ValueError, match="__getitems__"):
        StackDataset(Short([1])).__getitems__([0])


@pytest.mark.parametrize("kind", [Items, Batched])
def test_subsets_renumber(kind):
    subset = Subset(kind("abcd"), [3, 1])
    assert (subset[0], subset[1], len(subset)) == ("d", "b", 2)
    assert subset.__getitems__([1, 0]) == ["b", "d"]
    assert Subset(TensorDataset(torch.arange(4)), [3, 1])[[0, 1]][0].tolist() == [3, 1]


def test_random_split_covers_everything_once():
    generator = torch.Generator().manual_seed(0)
    parts = random_split(range(10), [7, 3], generator)
    assert [len(part) for part in parts] == [7, 3]
    assert sorted(item for part in parts for item in part) == list(range(10))
    again = random_split(range(10), [7, 3], torch.Generator().manual_seed(0))
    assert [list(part) for part in again] == [list(part) for part in parts]


def test_random_split_by_fractions():
    lengths = [len(part) for part in random_split(range(11), [0.3, 0.3, 0.4])]
    assert lengths == [4, 3, 4]
    with pytest.warns(UserWarning, match="part 1 has no items"):
        random_split(range(1), [0.9, 0.1])
    with pytest.raises(ValueError, match="add up"):
        random_split(range(10), [0.5, 0.4])
    with pytest.raises(ValueError, match="fraction 0"):
        random_split(range(10), [-0.5, 1.5])


def test_a_class_without_items_says_what_to_write():
    with pytest.raises(NotImplementedError, match="__getitem__"):
        Dataset()[0]
    with pytest.raises(NotImplementedError, match="__iter__"):
        iter(IterableDataset())

"""Samplers: which places come, how many, and in which order."""

import pytest

import pullback as torch
from pullback.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_sequential():
    assert list(SequentialSampler("abc")) == [0, 1, 2]
    assert len(SequentialSampler("abc")) == 3


def test_random_permutations_and_their_counts():
    assert sorted(RandomSampler(range(9))) == list(range(9))
    three = list(RandomSampler(range(4), num_samples=10, generator=generator()))
    assert len(three) == 10
    assert sorted(three[:4]) == sorted(three[4:8]) == [0, 1, 2, 3]
    assert len(set(three[8:])) == 2


def test_random_with_replacement():
    sampler = RandomSampler(range(3), replacement=True, num_samples=100, generator=generator())
    drawn = list(sampler)
    assert len(drawn) == len(sampler) == 100
    assert set(drawn) == {0, 1, 2}


def test_subset_and_weights():
    assert sorted(SubsetRandomSampler([4, 2, 9], generator())) == [2, 4, 9]
    drawn = list(WeightedRandomSampler([0.0, 1.0, 3.0], 400, generator=generator()))
    assert set(drawn) == {1, 2}
    assert drawn.count(2) > 2 * drawn.count(1)
    once = list(WeightedRandomSampler([1.0, 1.0, 1.0], 3, replacement=False))
    assert sorted(once) == [0, 1, 2]


def test_batches():
    assert list(BatchSampler(range(5), 2, drop_last=False)) == [[0, 1], [2, 3], [4]]
    assert list(BatchSampler(range(5), 2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(BatchSampler(range(4), 2, drop_last=False)) == [[0, 1], [2, 3]]
    assert len(BatchSampler(range(5), 2, drop_last=False)) == 3
    assert len(BatchSampler(range(5), 2, drop_last=True)) == 2


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_distributed_parts_are_equal_and_cover_everything(drop_last, shuffle):
    def part(rank, epoch=0):
        sampler = DistributedSampler(range(10), 4, rank, shuffle, drop_last=drop_last)
        sampler.set_epoch(epoch)
        assert len(sampler) == (2 if drop_last else 3)
        return list(sampler)

    parts = [part(rank) for rank in range(4)]
    assert {len(p) for p in parts} == {2 if drop_last else 3}
    together = [place for p in parts for place in p]
    assert len(set(together)) == (8 if drop_last else 10)
    assert (part(0, epoch=1) != parts[0]) == shuffle


def test_distributed_with_fewer_items_than_ranks():
    assert [list(DistributedSampler([0], 3, rank)) for rank in range(3)] == [[0], [0], [0]]
    assert list(DistributedSampler([], 2, 1)) == []
    with pytest.raises(ValueError, match="rank 2"):
        DistributedSampler([0], 2, 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: RandomSampler([]),
        lambda: RandomSampler([1], num_samples=0),
        lambda: BatchSampler([1], 0, drop_last=False),
        lambda: BatchSampler([1], True, drop_last=False),
        lambda: BatchSampler([1], 1, drop_last=1),
        lambda: WeightedRandomSampler([1.0], 0),
        lambda: WeightedRandomSampler([[1.0]], 1),
        lambda: WeightedRandomSampler([1.0], 1, replacement=1),
    ],
)
def test_arguments_that_make_no_sense_are_refused(make):
    with pytest.raises(ValueError, match="Sampler: "):
        make()


def test_flags_are_bools_and_samplers_say_their_order():
    with pytest.raises(TypeError, match="replacement"):
        RandomSampler([1], replacement=1)
    with pytest.raises(NotImplementedError, match="__iter__"):
        iter(Sampler())

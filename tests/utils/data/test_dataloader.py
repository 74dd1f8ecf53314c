"""DataLoader in one process: batches, order, options and what it refuses."""

import pytest

import pullback as torch
from pullback.utils import data
from pullback.utils.data import DataLoader, IterableDataset, TensorDataset


class Count(IterableDataset):
    def __init__(self, stop, says=None):
        self.stop, self.says = stop, says

    def __iter__(self):
        return iter(range(self.stop))

    def __len__(self):
        if self.says is None:
            raise TypeError("no length")
        return self.says


def lists(loader):
    return [batch.tolist() if hasattr(batch, "tolist") else batch for batch in loader]


def test_batches_come_in_order_and_the_last_may_be_short_or_dropped():
    assert lists(DataLoader(range(5), batch_size=2)) == [[0, 1], [2, 3], [4]]
    assert lists(DataLoader(range(5), batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    assert len(DataLoader(range(5), batch_size=2)) == 3
    assert len(DataLoader(range(5), batch_size=2, drop_last=True)) == 2


def test_shuffled_batches_are_a_permutation_that_the_generator_determines():
    def order(seed):
        generator = torch.Generator().manual_seed(seed)
        loader = DataLoader(range(50), batch_size=7, shuffle=True, generator=generator)
        return [place for batch in lists(loader) for place in batch]

    assert sorted(order(1)) == list(range(50))
    assert order(1) == order(1) != order(2)


def test_the_global_seed_determines_the_order_too():
    torch.manual_seed(3)
    first = lists(DataLoader(range(20), shuffle=True))
    second = lists(DataLoader(range(20), shuffle=True))
    torch.manual_seed(3)
    assert lists(DataLoader(range(20), shuffle=True)) == first != second


def test_an_epoch_draws_from_the_stream_once_whether_it_shuffles_or_not():
    torch.manual_seed(0)
    torch.empty((), dtype=torch.int64).random_()
    expected = torch.rand(1)
    torch.manual_seed(0)
    list(DataLoader(range(3)))
    assert torch.equal(torch.rand(1), expected)


def test_iterable_datasets_come_in_their_own_order():
    assert lists(DataLoader(Count(5), batch_size=2)) == [[0, 1], [2, 3], [4]]
    assert lists(DataLoader(Count(5), batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    assert lists(DataLoader(Count(3), batch_size=None)) == [0, 1, 2]
    assert len(DataLoader(Count(5, says=5), batch_size=2)) == 3
    with pytest.raises(TypeError):
        len(DataLoader(Count(5)))


def test_more_batches_than_an_iterable_dataset_says_are_warned_of():
    loader = DataLoader(Count(3, says=2))
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="says that there are 2"):
        assert len(list(loader)) == 3


def test_without_batches_items_are_converted_and_not_stacked():
    dataset = TensorDataset(torch.arange(2))
    assert [item[0].shape for item in DataLoader(dataset, batch_size=None)] == [(), ()]


def test_collate_fn_and_samplers_are_the_users_own():
    loader = DataLoader(range(10), batch_size=3, sampler=[9, 1, 5], collate_fn=list)
    assert list(loader) == [[9, 1, 5]]
    assert list(DataLoader("abc", batch_sampler=[[2], [0, 1]])) == [["c"], ["a", "b"]]


def test_whole_batches_are_asked_for_where_the_dataset_can():
    class Rows(data.Dataset):
        def __init__(self):
            self.calls = []

        def __len__(self):
            return 4

        def __getitems__(self, places):
            self.calls.append(places)
            return [place * 10 for place in places]

    rows = Rows()
    assert lists(DataLoader(rows, batch_size=3)) == [[0, 10, 20], [30]]
    assert rows.calls == [[0, 1, 2], [3]]


def test_a_loader_can_be_gone_through_twice_at_once():
    loader = DataLoader(range(3))
    assert [(a.item(), b.item()) for a, b in zip(loader, loader, strict=True)] == [
        (0, 0),
        (1, 1),
        (2, 2),
    ]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"batch_size": 0}, ValueError),
        ({"num_workers": -1}, ValueError),
        ({"timeout": -1}, ValueError),
        ({"prefetch_factor": 2}, ValueError),
        ({"num_workers": 1, "prefetch_factor": -1}, ValueError),
        ({"num_workers": 1, "prefetch_factor": 0}, ValueError),
        ({"persistent_workers": True}, ValueError),
        ({"shuffle": True, "sampler": [0]}, ValueError),
        ({"batch_sampler": [[0]], "batch_size": 2}, ValueError),
        ({"batch_sampler": [[0]], "shuffle": True}, ValueError),
        ({"batch_sampler": [[0]], "drop_last": True}, ValueError),
        ({"batch_size": None, "drop_last": True}, ValueError),
        ({"multiprocessing_context": "fork"}, ValueError),
        ({"num_workers": 1, "multiprocessing_context": "threads"}, ValueError),
        ({"num_workers": 1, "multiprocessing_context": 3}, TypeError),
    ],
    ids=str,
)
def test_options_that_contradict_each_other_are_refused(options, error):
    with pytest.raises(error, match=r"DataLoader|batch_size"):
        DataLoader([1, 2], **options)


@pytest.mark.parametrize("option", [{"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}])
def test_an_iterable_dataset_has_an_order_already(option):
    with pytest.raises(ValueError, match="IterableDataset"):
        DataLoader(Count(3), **option)


def test_a_timeout_is_for_workers():
    with pytest.raises(AssertionError, match="timeout"):
        iter(DataLoader([1], timeout=1))


def test_what_the_batches_depend_on_is_fixed():
    loader = DataLoader([1, 2])
    for name in ("batch_size", "sampler", "drop_last", "dataset", "batch_sampler"):
        with pytest.raises(ValueError, match=name):
            setattr(loader, name, None)
    loader.num_workers = 0


def test_more_workers_than_processors_are_warned_of():
    with pytest.warns(UserWarning, match="10000 workers"):
        DataLoader([1], num_workers=10000)


def test_workers_that_cannot_be_started_are_done_without(monkeypatch):
    monkeypatch.setattr("sys.platform", "emscripten")
    with pytest.warns(UserWarning, match="no processes can be started") as seen:
        loader = DataLoader(range(4), 2, num_workers=2, persistent_workers=True, timeout=3)
    assert len(seen) == 1
    assert loader.num_workers == 0
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]

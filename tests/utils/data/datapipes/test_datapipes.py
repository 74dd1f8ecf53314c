"""Data pipes: chained by methods, read by one iterator at a time, shared out among workers."""

import io

import pytest

from pullback.utils import data
from pullback.utils.data.datapipes.iter import IterableWrapper
from pullback.utils.data.datapipes.utils.common import StreamWrapper


def _doubled(x):
    return 2 * x


def test_pipes_are_chained_by_methods():
    pipe = IterableWrapper(range(6)).map(_doubled).filter(bool).batch(2)
    assert list(pipe) == [[2, 4], [6, 8], [10]]
    assert isinstance(pipe, data.IterableDataset)


def test_a_second_iterator_ends_the_first():
    pipe = IterableWrapper(range(3))
    first = iter(pipe)
    next(first)
    second = iter(pipe)
    assert next(second) == 0
    with pytest.raises(RuntimeError, match="has ended"):
        next(first)


def test_an_error_tells_the_pipe_that_it_came_from():
    with pytest.raises(ZeroDivisionError) as caught:
        list(IterableWrapper([0]).map((1).__truediv__))
    assert any("MapperIterDataPipe" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_share_out_what_is_sharded(persistent):
    pipe = IterableWrapper(range(8)).shuffle().sharding_filter()
    options = {"num_workers": 2, "batch_size": 3, "persistent_workers": persistent}
    loader = data.DataLoader(pipe, shuffle=False, **options)
    assert [batch.tolist() for batch in loader] == [[0, 2, 4], [1, 3, 5], [6], [7]]
    shuffled = data.DataLoader(pipe, shuffle=True, **options)
    epochs = [[x for batch in shuffled for x in batch.tolist()] for _ in range(3)]
    # All workers shuffle by the same seed, so that each item comes once; another each epoch.
    assert all(sorted(epoch) == list(range(8)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1


def test_a_part_of_a_part_is_refused():
    from pullback.utils.data.graph_settings import apply_sharding

    pipe = IterableWrapper(range(8)).sharding_filter().map(_doubled).sharding_filter()
    with pytest.raises(RuntimeError, match="items would be lost"):
        apply_sharding(pipe, 2, 0)


def test_a_loader_shuffles_a_pipe_that_does_not():
    with pytest.warns(UserWarning, match="one is added"):
        loader = data.DataLoader(IterableWrapper(range(50)), shuffle=True, batch_size=50)
    (batch,) = loader
    assert sorted(batch.tolist()) == list(range(50)) != batch.tolist()


def test_streams_close_when_nobody_holds_them():
    stream = io.StringIO("text")
    wrapped = StreamWrapper(stream, name="a file")
    assert repr(wrapped) == "StreamWrapper<a file>"
    with wrapped:
        assert wrapped.read() == "text"
    assert stream.closed
    other = io.StringIO("text")
    StreamWrapper.close_streams({"a": [StreamWrapper(other)]})
    assert other.closed


def test_names_of_other_modules_are_not_there():
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        data.nothing_of_the_kind
    with pytest.raises(AttributeError, match="pandas"):
        data.DFIterDataPipe


def test_ranks_share_out_what_is_sharded_by_one_seed():
    from pullback import distributed

    def one():
        pipe = IterableWrapper(range(12)).shuffle().sharding_filter()
        return [x for batch in data.DataLoader(pipe, batch_size=2) for x in batch.tolist()]

    parts = distributed.threads.run(one, 3)
    assert [len(part) for part in parts] == [4, 4, 4]
    assert sorted(x for part in parts for x in part) == list(range(12))

"""utils.data on torch and on pullback: batches, collation, refusals, draws from the streams."""

import random
from collections import OrderedDict, deque, namedtuple
from types import SimpleNamespace

import numpy
import pytest

import pullback
from pullback.utils.data._utils.worker import _generate_state as seed_words

torch = pytest.importorskip("torch")
import torch.utils.data as theirs_data

import pullback.utils.data as ours_data

SIDES = (
    SimpleNamespace(torch=torch, data=theirs_data),
    SimpleNamespace(torch=pullback, data=ours_data),
)
Pair = namedtuple("Pair", "a b")


def plain(value):
    """What can be compared across libraries: tensors as dtype and list."""
    if hasattr(value, "untyped_storage"):
        return "tensor", str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return type(value), {key: plain(one) for key, one in value.items()}
    if isinstance(value, tuple | list | deque):
        return type(value), [plain(one) for one in value]
    return value


def outcome(program, side):
    try:
        return plain(program(side))
    except Exception as error:
        return type(error)


def same(program):
    theirs, ours = (outcome(program, side) for side in SIDES)
    assert ours == theirs


@pytest.mark.parametrize(
    "batch",
    [
        *([], [1, 2], [1.5, 2], [1, 2.5], [True, False], [None], [1j], ["a", "b"], [b"a"], (1, 2)),
        *([numpy.float64(1)], [numpy.int16(1)], [numpy.array(1.5)], [numpy.array(["a"])]),
        *([numpy.ones(2), numpy.ones(2)], [(1, 2), (3, 4)], [[1, 2], [3]], [Pair(1, "a")]),
        *([OrderedDict(a=1)], [deque([1, 2]), deque([3, 4])], [range(2)], [{1, 2}]),
        *([{"a": 1}, {"b": 1}], [{"a": (1, {"b": 2.0})}], [(1, "a"), (2, "b")]),
    ],
    ids=repr,
)
def test_collation(batch):
    same(lambda side: side.data.default_collate(batch))
    same(lambda side: side.data.default_convert(batch))


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 2},
        {"batch_size": 2, "drop_last": True},
        {"batch_size": None},
        {"sampler": [4, 0]},
        {"batch_sampler": [[1, 2], [0]]},
    ],
    ids=str,
)
def test_batches(options, workers):
    def program(side):
        dataset = side.data.TensorDataset(side.torch.arange(5), side.torch.arange(10).reshape(5, 2))
        loader = side.data.DataLoader(dataset, num_workers=workers, **options)
        return [len(loader), *loader]

    same(program)


REFUSED = [
    *({"batch_size": 0}, {"num_workers": -1}, {"timeout": -1}, {"prefetch_factor": 2}),
    *({"persistent_workers": True}, {"shuffle": True, "sampler": [0]}, {"batch_size": 1.5}),
    *({"batch_sampler": [[0]], "batch_size": 2}, {"batch_size": None, "drop_last": True}),
    *({"multiprocessing_context": "fork"}, {"num_workers": 1, "multiprocessing_context": 3}),
    {"num_workers": 1, "multiprocessing_context": "x"},
]


@pytest.mark.parametrize("options", REFUSED, ids=str)
def test_refusals(options):
    same(lambda side: type(side.data.DataLoader([1, 2], **options)).__name__)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("batch_size", [None, 2, 3])
@pytest.mark.filterwarnings("ignore")  # both warn where there are fewer processors than workers
def test_iterable_datasets_with_workers(workers, batch_size):
    def program(side):
        class Stream(side.data.IterableDataset):
            def __iter__(self):
                me = side.data.get_worker_info()
                return iter(range(me.id, 11, me.num_workers))

        loader = side.data.DataLoader(Stream(), batch_size, num_workers=workers)
        return list(loader)

    same(program)


def spent(side, program):
    """How many draws a program makes from the global stream."""
    side.torch.manual_seed(0)
    program(side)
    after = side.torch.empty((), dtype=side.torch.int64).random_().item()
    side.torch.manual_seed(0)
    for count in range(50):
        if side.torch.empty((), dtype=side.torch.int64).random_().item() == after:
            return count
    return None


def epochs_of_staying_workers(side):
    loader = side.data.DataLoader(range(3), num_workers=1, persistent_workers=True)
    for _ in range(3):
        list(loader)


@pytest.mark.parametrize(
    "program",
    [
        lambda side: list(side.data.DataLoader(range(3))),
        lambda side: list(side.data.DataLoader(range(3), shuffle=True)),
        lambda side: list(side.data.DataLoader(range(3), shuffle=True, num_workers=1)),
        lambda side: epochs_of_staying_workers(side),
        lambda side: iter(side.data.DataLoader(range(3), shuffle=True)),
        lambda side: list(side.data.RandomSampler(range(3))),
        lambda side: list(side.data.RandomSampler(range(3), num_samples=7)),
        lambda side: list(side.data.DistributedSampler(range(3), 2, 0)),
    ],
)
def test_draws_from_the_global_stream(program):
    theirs, ours = (spent(side, program) for side in SIDES)
    assert ours == theirs is not None


def test_the_seed_that_workers_give_numpy():
    from torch.utils.data._utils.worker import _generate_state

    for base, number in ((0, 0), (123456789012345, 3), (2**63 - 1, 7)):
        assert seed_words(base, number) == _generate_state(base, number)


@pytest.mark.parametrize("lengths", [[3, 7], [0.3, 0.7], [0.33, 0.33, 0.34], [0.5, 0.4], [11]])
def test_lengths_of_random_splits(lengths):
    same(lambda side: [len(part) for part in side.data.random_split(range(10), lengths)])


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("length", [0, 1, 5, 8])
def test_distributed_sampler_without_shuffling(length, drop_last):
    def program(side):
        make = side.data.DistributedSampler
        parts = [make(range(length), 3, rank, False, drop_last=drop_last) for rank in range(3)]
        return [list(part) for part in parts]

    same(program)


def drawn(side):
    """Whatever data draws, in the order in which torch draws it."""
    lib, data = side.torch, side.data
    found = []
    for workers in (0, 1):
        lib.manual_seed(0)
        loader = data.DataLoader(range(20), 4, shuffle=True, num_workers=workers)
        found.append([batch.tolist() for batch in loader])
    generator = lib.Generator().manual_seed(3)
    found.append(list(data.RandomSampler(range(9), num_samples=20, generator=generator)))
    lib.manual_seed(1)
    found.append([list(part.indices) for part in data.random_split(range(10), [0.5, 0.5])])
    found.append(list(data.RandomSampler(range(7), replacement=True, num_samples=40)))
    found.append(list(data.SubsetRandomSampler([5, 6, 7, 8])))
    found.append(list(data.WeightedRandomSampler([0.1, 0.5, 0.4], 10)))
    found.append(list(data.DistributedSampler(range(11), 3, 1)))
    engine = lib.quasirandom.SobolEngine(3, scramble=True, seed=4)
    found.append(engine.draw(3).tolist())
    dtypes = lib.float32, lib.int64, lib.complex64, lib.bool
    made = [lib.testing.make_tensor(5, dtype=dtype, device="cpu") for dtype in dtypes]
    return [*found, *[tensor.tolist() for tensor in made]]


def streams_agree():
    first = [side.torch.manual_seed(0) and side.torch.rand(1).item() for side in SIDES]
    return first[0] == first[1]


@pytest.mark.skipif(not streams_agree(), reason="the random numbers of a seed are not torch's")
def test_the_same_seed_gives_the_same_order():
    theirs, ours = (drawn(side) for side in SIDES)
    assert ours == theirs


@pytest.mark.skipif(not streams_agree(), reason="the random numbers of a seed are not torch's")
def test_workers_draw_the_same_numbers():
    def program(side):
        class Draws(side.data.Dataset):
            def __len__(self):
                return 4

            def __getitem__(self, place):
                numpys = numpy.random.rand()  # noqa: NPY002 (the global stream is seeded)
                return side.torch.rand(1).item(), random.random(), numpys

        side.torch.manual_seed(2)
        return list(side.data.DataLoader(Draws(), batch_size=None, num_workers=1))

    same(program)

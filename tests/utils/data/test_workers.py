"""Loaders with worker processes: the same batches, errors, seeds, and nothing left behind."""

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

import numpy
import pytest

import pullback as torch
from pullback.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

# A machine for tests may have one processor.
pytestmark = pytest.mark.filterwarnings("ignore:DataLoader. . workers share")


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """No process and no file descriptor outlives a test; blocks have no name, and so end too."""
    resource_tracker.ensure_running()  # Python's own servers stay for the next process
    forkserver.ensure_running()
    gc.collect()
    open_files = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    yield
    gc.collect()
    assert multiprocessing.active_children() == []
    if open_files:
        assert len(os.listdir("/proc/self/fd")) <= open_files


class Numbers(Dataset):
    """Items are what `get` makes of their number."""

    def __init__(self, length, get=lambda place: place):
        self.length, self.get = length, get

    def __len__(self):
        return self.length

    def __getitem__(self, place):
        return self.get(place)


class Stream(IterableDataset):
    """Each worker gives its own share of a range."""

    def __init__(self, stop):
        self.stop = stop

    def __iter__(self):
        me = get_worker_info()
        return iter(range(self.stop) if me is None else range(me.id, self.stop, me.num_workers))


def lists(loader):
    return [batch.tolist() for batch in loader]


@pytest.mark.parametrize("options", [{}, {"prefetch_factor": 1}, {"pin_memory": True}], ids=str)
def test_workers_give_the_same_batches_in_the_same_order(options):
    def slow_at_first(place):
        time.sleep(0.02 if place < 2 else 0)
        return place

    loader = DataLoader(Numbers(11, slow_at_first), batch_size=2, num_workers=2, **options)
    assert lists(loader) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10]]


def test_shuffled_order_does_not_depend_on_workers():
    def order(workers):
        torch.manual_seed(5)
        return lists(DataLoader(range(20), 3, shuffle=True, num_workers=workers))

    assert order(0) == order(1) == order(2)


def test_large_arrays_go_through_shared_memory_and_stay_valid():
    dataset = Numbers(6, lambda place: torch.full((64, 1024), float(place)))
    batches = list(DataLoader(dataset, batch_size=2, num_workers=2))
    assert all(batch.is_shared() for batch in batches)
    assert [batch.mean().item() for batch in batches] == [0.5, 2.5, 4.5]
    batches[0].add_(1)
    assert batches[0][1].unique().tolist() == [2.0]


def test_whoever_keeps_many_batches_runs_out_of_nothing():
    dataset = Numbers(100, lambda place: numpy.full((1 << 14,), place, numpy.float64))
    batches = list(DataLoader(dataset, batch_size=None, num_workers=1, collate_fn=lambda x: x))
    assert [batch[0] for batch in batches] == list(range(100))
    descriptors = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    assert descriptors < 250


def test_batches_may_be_anything_that_pickles():
    dataset = Numbers(2, lambda place: {"text": "a" * 300_000, "n": place, "none": None})
    got = list(DataLoader(dataset, batch_size=None, num_workers=1))
    assert [item["n"] for item in got] == [0, 1]
    assert len(got[0]["text"]) == 300_000


def test_index_lists_and_batches_larger_than_a_pipe_do_not_block_each_other():
    class Echo(Numbers):
        def __getitems__(self, places):
            return [f"{place:100}" for place in places]

    loader = DataLoader(Echo(120_000), batch_size=30_000, num_workers=1, prefetch_factor=4)
    assert sum(len(batch) for batch in loader) == 120_000


def test_iterable_datasets_are_shared_out_by_worker_info():
    loader = DataLoader(Stream(9), batch_size=2, num_workers=2)
    assert lists(loader) == [[0, 2], [1, 3], [4, 6], [5, 7], [8]]
    assert sorted(DataLoader(Stream(5), batch_size=None, num_workers=2)) == list(range(5))


def test_out_of_order_gives_what_is_ready():
    others = multiprocessing.get_context("fork").Event()

    def first_waits_for_others(place):
        assert place or others.wait(20)
        return place

    dataset = Numbers(6, first_waits_for_others)
    got = []
    for place in DataLoader(dataset, batch_size=None, num_workers=2, in_order=False):
        got.append(place)
        if len(got) == 4:
            others.set()
    assert sorted(got) == list(range(6))
    assert got.index(0) >= 4  # only what its worker had before is later


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_other_start_methods(context):
    dataset = torch.utils.data.TensorDataset(torch.arange(5.0))
    loader = DataLoader(dataset, 2, num_workers=1, multiprocessing_context=context)
    assert [batch[0].tolist() for batch in loader] == [[0, 1], [2, 3], [4]]


def test_worker_init_fn_and_worker_info():
    def note(number):
        get_worker_info().dataset.noted = number + 100

    dataset = Numbers(4, None)
    dataset.get = lambda place: 0
    dataset.__class__ = type("Noted", (Numbers,), {"__getitem__": lambda s, place: s.noted})
    loader = DataLoader(dataset, num_workers=2, worker_init_fn=note)
    assert [batch.item() for batch in loader] == [100, 101, 100, 101]
    assert get_worker_info() is None


def test_seeds_follow_from_the_generator_and_differ_between_workers():
    def draw(_):
        theirs = numpy.random.rand()  # noqa: NPY002 (the global stream is what is seeded)
        return get_worker_info().seed, random.random(), theirs, torch.rand(1).item()

    def drawn(seed):
        generator = torch.Generator().manual_seed(seed)
        return list(
            DataLoader(Numbers(2, draw), batch_size=None, num_workers=2, generator=generator)
        )

    first, second = drawn(1)
    assert second[0] == first[0] + 1
    assert all(a != b for a, b in zip(first, second, strict=True))
    assert drawn(1) == [first, second]
    assert drawn(2) != [first, second]


def test_persistent_workers_are_the_same_processes_in_each_epoch():
    loader = DataLoader(Numbers(4, lambda _: os.getpid()), num_workers=2, persistent_workers=True)
    first = {batch.item() for batch in loader}
    assert {batch.item() for batch in loader} == first
    assert len(first) == 2
    next(iter(loader))  # left early: the next epoch starts anew
    assert len(list(loader)) == 4
    del loader


def test_persistent_workers_draw_on_and_start_iterables_anew():
    loader = DataLoader(Stream(4), batch_size=2, num_workers=2, persistent_workers=True)
    assert lists(loader) == lists(loader) == [[0, 2], [1, 3]]
    drawn = DataLoader(
        Numbers(1, lambda _: (get_worker_info().seed, torch.rand(1).item())),
        batch_size=None,
        num_workers=1,
        persistent_workers=True,
    )
    (first,), (second,) = list(drawn), list(drawn)
    assert first[0] == second[0]
    assert first[1] != second[1]


# What goes wrong --------------------------------------------------------------------------------


def fail(place):
    if place == 3:
        raise KeyError("three is missing")
    return place


def test_an_error_is_raised_again_with_the_workers_traceback():
    loader = iter(DataLoader(Numbers(5, fail), batch_size=None, num_workers=1))
    assert [next(loader) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError) as caught:
        next(loader)
    text = str(caught.value)
    assert "three is missing" in text
    assert "in fail" in text
    assert "worker 0" in text
    assert next(loader) == 4  # the worker goes on, as in torch


class OddError(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)


def test_errors_that_take_no_message_become_runtime_errors():
    def odd(_):
        raise OddError(1, 2)

    with pytest.raises(RuntimeError, match="Odd"):
        list(DataLoader(Numbers(1, odd), num_workers=1))


def test_errors_that_cannot_travel_or_would_end_the_loop_become_runtime_errors():
    class LocalError(Exception):
        pass

    for kind in (LocalError, StopIteration):

        def get(_, kind=kind):
            raise kind("inside")

        with pytest.raises(RuntimeError, match=f"{kind.__name__} in worker 0"):
            list(DataLoader(Numbers(1, get), num_workers=1))


def test_errors_of_init_fn_and_of_iter_are_raised():
    def broken(_):
        raise ValueError("no start")

    with pytest.raises(ValueError, match="no start"):
        list(DataLoader(range(2), num_workers=1, worker_init_fn=broken))

    class Broken(IterableDataset):
        def __iter__(self):
            raise OSError("no file")

    with pytest.raises(OSError, match="no file"):
        list(DataLoader(Broken(), num_workers=1))


def test_batches_that_do_not_pickle_are_an_error_of_their_own():
    with pytest.raises((AttributeError, TypeError, RuntimeError), match="pickle"):
        list(DataLoader(Numbers(1, lambda _: lambda: 0), batch_size=None, num_workers=1))


@pytest.mark.parametrize("how", [lambda: os._exit(3), lambda: os.kill(os.getpid(), 9)])
def test_a_worker_that_dies_is_an_error_and_the_others_are_stopped(how, monkeypatch):
    monkeypatch.setattr("pullback.utils.data.workers.MP_STATUS_CHECK_INTERVAL", 60.0)

    def die(place):
        if place == 1:
            how()
        return place

    began = time.monotonic()
    with pytest.raises(RuntimeError, match=r"code 3|SIGKILL"):
        list(DataLoader(Numbers(6, die), num_workers=2))
    assert time.monotonic() - began < 30  # not the time after which workers are ended


def test_a_timeout_stops_the_workers():
    loader = DataLoader(
        Numbers(2, lambda _: time.sleep(30)), batch_size=None, num_workers=1, timeout=0.2
    )
    with pytest.raises(RuntimeError, match=r"0\.2 seconds"):
        next(iter(loader))


def test_leaving_early_ends_the_workers_at_once(monkeypatch):
    monkeypatch.setattr("pullback.utils.data.workers.MP_STATUS_CHECK_INTERVAL", 60.0)
    dataset = Numbers(10_000, lambda place: torch.zeros(64, 1024))
    loader = iter(DataLoader(dataset, batch_size=4, num_workers=2))
    next(loader)
    pids = [worker.process.pid for worker in loader._workers]
    began = time.monotonic()
    del loader
    assert time.monotonic() - began < 30  # not the time after which workers are ended
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_stubborn_workers_are_killed(monkeypatch):
    monkeypatch.setattr("pullback.utils.data.workers.MP_STATUS_CHECK_INTERVAL", 0.1)

    def stubborn(place):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if place:
            time.sleep(60)
        return place

    loader = iter(DataLoader(Numbers(4, stubborn), num_workers=1))
    next(loader)
    time.sleep(0.1)
    del loader


def run(program, **options):
    text = textwrap.dedent(program)
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, **options)


# Processes that a shell starts in the background ignore interrupts, and their children do, too.
HEAD = """
import os, signal, sys, time, warnings
signal.signal(signal.SIGINT, signal.default_int_handler)
warnings.simplefilter("ignore")
from pullback.utils.data import DataLoader
class Slow:
    def __len__(self): return 1000
    def __getitem__(self, place):
        if place == 0: return os.getpid()
        time.sleep(0.05)
        return place
loader = iter(DataLoader(Slow(), batch_size=None, num_workers=2))
next(loader), next(loader)  # both workers are at work
print(*(w.process.pid for w in loader._workers), flush=True)
"""


def gone(pids, within=30):
    end = time.monotonic() + within
    alive = list(pids)
    while alive and time.monotonic() < end:
        alive = [pid for pid in alive if Path(f"/proc/{pid}").exists() and running(pid)]
        time.sleep(0.05)
    return not alive


def running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("signal_name", ["SIGINT", "SIGKILL", "SIGTERM"])
def test_workers_end_when_the_main_process_is_interrupted_or_killed(signal_name):
    process = run(HEAD + "for batch in loader: pass\n", stderr=subprocess.PIPE)
    pids = [int(word) for word in process.stdout.readline().split()]
    process.send_signal(getattr(signal, signal_name))
    _, errors = process.communicate(timeout=20)
    assert process.returncode != 0
    assert (b"KeyboardInterrupt" in errors) == (signal_name == "SIGINT")
    assert gone(pids)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_ctrl_c_in_the_whole_group_prints_one_traceback():
    process = run(
        HEAD + "for batch in loader: pass\n", stderr=subprocess.PIPE, start_new_session=True
    )
    pids = [int(word) for word in process.stdout.readline().split()]
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert errors.count(b"Traceback") == 1
    assert gone(pids)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_a_program_may_end_with_a_loader_half_way():
    process = run(HEAD + "next(loader)\n", stderr=subprocess.PIPE)
    out, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert errors == b""
    assert gone([int(word) for word in out.split()])

"""spawn: a function in several processes, and what is heard of their failures."""

import glob
import os
import pickle
import signal
import tempfile
import time

import pytest

import pullback as torch
from pullback import multiprocessing as mp


@pytest.fixture(autouse=True)
def no_reports_left_behind():
    pattern = os.path.join(tempfile.gettempdir(), "pullback-spawn-*")
    before = set(glob.glob(pattern))
    yield
    assert set(glob.glob(pattern)) <= before


def fill(rank, tensor):
    tensor[rank] = rank + 1


def fail_second(rank):
    if rank == 1:
        raise ValueError("the second fails")
    time.sleep(30)


def die_second(rank, how):
    if rank == 1:
        os._exit(5) if how == "exit" else os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(30)


def test_each_process_has_its_rank():
    x = torch.zeros(2).share_memory_()
    assert mp.spawn(fill, (x,), nprocs=2, start_method="fork") is None
    assert x.tolist() == [1, 2]


def test_a_failure_stops_the_others_and_is_raised_with_its_traceback():
    began = time.monotonic()
    with pytest.raises(mp.ProcessRaisedException, match="the second fails") as caught:
        mp.start_processes(fail_second, nprocs=2, start_method="fork")
    assert "in fail_second" in str(caught.value)
    assert caught.value.error_index == 1
    assert time.monotonic() - began < 25  # the others would sleep for 30


@pytest.mark.parametrize(("how", "code", "name"), [("exit", 5, None), ("kill", -9, "SIGKILL")])
def test_a_death_is_raised_with_its_code(how, code, name):
    with pytest.raises(mp.ProcessExitedException) as caught:
        mp.start_processes(die_second, (how,), nprocs=2, start_method="fork")
    assert (caught.value.exit_code, caught.value.signal_name) == (code, name)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.exit_code, again.error_pid) == (code, caught.value.error_pid)


def test_without_join_a_context_is_returned():
    x = torch.zeros(2).share_memory_()
    context = mp.start_processes(fill, (x,), nprocs=2, join=False, start_method="fork")
    assert len(context.pids()) == 2
    while not context.join(timeout=10):
        pass
    assert x.tolist() == [1, 2]
    assert context.join()

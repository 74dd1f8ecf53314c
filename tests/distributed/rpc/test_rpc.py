"""Calls on other workers: values, errors with their type, references, and death."""

import threading
import time

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed import rpc


def workers(count, first, **options):
    def main():
        rpc.init_rpc(f"worker{dist.get_rank()}", **options)
        try:
            return first() if dist.get_rank() == 0 else None
        finally:
            rpc.shutdown()

    return dist.threads.run(main, count, timeout=20.0)[0]


def whoami(*args, **kwargs):
    return dist.get_rank(), rpc.get_worker_info().name, args, kwargs


def broken():
    raise KeyError("not there")


def test_calls_run_on_their_worker():
    """B-40."""

    def first():
        assert rpc.rpc_sync("worker1", whoami, (1,), {"k": 2}) == (1, "worker1", (1,), {"k": 2})
        assert rpc.rpc_sync(2, whoami)[1] == "worker2"
        info = rpc.get_worker_info("worker2")
        assert info == rpc.WorkerInfo("worker2", 2)
        futures = [rpc.rpc_async(info, whoami, (k,)) for k in range(5)]
        assert [future.wait()[2] for future in futures] == [(k,) for k in range(5)]
        with pytest.raises(ValueError, match="no worker 'nobody'; there are worker0, worker1"):
            rpc.rpc_sync("nobody", whoami)
        with pytest.raises(TypeError, match="a function is called, got int"):
            rpc.rpc_sync("worker1", 3)

    workers(3, first)


def change(tensor):
    tensor += 1
    return tensor


def test_sparse_tensors_go_there_and_back():

    def first():
        s = torch.sparse_coo_tensor(torch.tensor([[0, 2]]), torch.tensor([1.0, 2.0]), (3,))
        for worker in ("worker0", "worker1"):
            total = rpc.rpc_sync(worker, torch.add, (s, s))
            assert total.layout == torch.sparse_coo
            assert total.to_dense().tolist() == [2.0, 0.0, 4.0]
        assert rpc.rpc_sync("worker1", change, (torch.zeros(1),)).item() == 1.0

    workers(2, first)


def test_tensors_are_copied():
    def first():
        x = torch.zeros(2)
        assert rpc.rpc_sync("worker1", change, (x,)).tolist() == [1.0, 1.0]
        assert x.tolist() == [0.0, 0.0]

    workers(2, first)


def test_errors_keep_their_type_and_tell_where():
    """B-40."""

    def first():
        with pytest.raises(KeyError, match="not there") as caught:
            rpc.rpc_sync("worker1", broken)
        assert "On worker 'worker1'" in caught.value.__notes__[0]
        assert "in broken" in caught.value.__notes__[0]
        assert rpc.rpc_sync("worker1", whoami)[0] == 1

    workers(2, first)


def test_a_call_that_takes_too_long_is_an_error():
    over = threading.Event()

    def slow():
        assert over.wait(20)

    def first():
        started = time.monotonic()
        with pytest.raises(RuntimeError, match=r"slow\(\) on 'worker1' was not answered .* 0\.1"):
            rpc.rpc_sync("worker1", slow, timeout=0.1)
        assert time.monotonic() - started < 5
        over.set()

    workers(2, first)


class Counter:
    def __init__(self, start):
        self.value = start

    def add(self, amount):
        self.value += amount
        return self.value


def read(rref):
    return rref.local_value().value if rref.is_owner() else rref.to_here().value


def test_references_stay_where_they_are():
    """B-40."""

    def first():
        counter = rpc.remote("worker1", Counter, (10,))
        assert counter.rpc_sync().add(5) == 15
        assert counter.rpc_async().add(1).wait() == 16
        assert counter.remote().add(1).to_here() == 17
        assert counter.owner_name() == "worker1"
        assert not counter.is_owner()
        counter._get_future().wait()
        assert counter.confirmed_by_owner()
        assert rpc.rpc_sync("worker1", read, (counter,)) == 17
        assert rpc.rpc_sync("worker2", read, (counter,)) == 17
        with pytest.raises(RuntimeError, match="is for the owner, 'worker1'"):
            counter.local_value()
        own = rpc.RRef([1, 2])
        assert own.local_value() is own.to_here()
        with pytest.raises(KeyError, match="not there"):
            rpc.remote("worker1", broken).to_here()

    workers(3, first)


def back_and_forth(n):
    if n == 0:
        return []
    other = (dist.get_rank() + 1) % dist.get_world_size()
    return [dist.get_rank(), *rpc.rpc_sync(other, back_and_forth, (n - 1,))]


def test_calls_may_call_back():
    assert workers(2, lambda: rpc.rpc_sync(1, back_and_forth, (5,))) == [1, 0, 1, 0, 1]


def test_a_worker_that_dies_fails_the_calls_that_wait_for_it():
    """B-52."""
    started, over = threading.Event(), threading.Event()

    def slow():
        started.set()
        assert over.wait(20)

    def main():
        rpc.init_rpc(f"worker{dist.get_rank()}")
        if dist.get_rank() == 1:
            assert started.wait(20)
            raise OSError("power cut")
        began = time.monotonic()
        with pytest.raises(RuntimeError, match="worker 'worker1' died"):
            rpc.rpc_sync("worker1", slow)
        with pytest.raises(RuntimeError, match="worker 'worker1' is gone"):
            rpc.rpc_sync("worker1", whoami)
        assert time.monotonic() - began < 5
        over.set()
        rpc.shutdown(graceful=False)

    with pytest.raises(dist.RankErrors, match="power cut") as caught:
        dist.threads.run(main, 2)
    assert set(caught.value.errors) == {1}


def test_wrong_beginnings_are_refused():
    with pytest.raises(RuntimeError, match=r"init_rpc\(\) first"):
        rpc.rpc_sync("worker1", whoami)

    def main():
        with pytest.raises(ValueError, match="a name of its own"):
            rpc.init_rpc("same")
        with pytest.raises(ValueError, match=r"this is rank \d of 2, not 7"):
            rpc.init_rpc("a", rank=7)
        rpc.init_rpc(f"w{dist.get_rank()}")
        with pytest.raises(RuntimeError, match="was called already"):
            rpc.init_rpc("again")
        rpc.shutdown()

    dist.threads.run(main, 2)
    dist.init_process_group("fake", rank=0, world_size=2)
    try:
        with pytest.raises(NotImplementedError, match="are nobody that could be called"):
            rpc.init_rpc("a")
    finally:
        dist.destroy_process_group()


def test_the_limit_of_calls_can_be_changed_later():

    def first():
        rpc._set_rpc_timeout(0.2)
        assert rpc.get_rpc_timeout() == 0.2
        with pytest.raises(RuntimeError, match=r"within 0\.2 s"):
            rpc.rpc_sync("worker1", time.sleep, (1.0,))
        rpc._set_rpc_timeout(20.0)
        assert rpc.rpc_sync("worker1", whoami)[1] == "worker1"

    workers(2, first)

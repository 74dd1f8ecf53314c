"""Tensors in memory that several processes see: queues, pipes, share_memory_(), start methods."""

import gc
import os
import warnings
from pathlib import Path

import numpy
import pytest

import pullback as torch
from pullback import multiprocessing as mp
from pullback.core.memory import shared
from pullback.multiprocessing.reductions import StorageWeakRef


def write(queue, done):
    tensor = queue.get()
    tensor[0] = 7
    done.set()


def double(tensor):
    tensor.mul_(2)


def describe(tensor):
    return type(tensor).__name__, tensor.requires_grad, tensor.tolist(), tensor.stride()


def echo(inbox, outbox):
    while (tensor := inbox.get()) is not None:
        outbox.put(describe(tensor))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_tensor_given_to_a_process_is_the_same_memory(method):
    context = mp.get_context(method)
    x = torch.ones(3).share_memory_()
    process = context.Process(target=double, args=(x,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert x.tolist() == [2, 2, 2]
    process.close()


def test_what_a_receiver_writes_the_sender_sees():
    context = mp.get_context("fork")
    queue, done = context.Queue(), context.Event()
    process = context.Process(target=write, args=(queue, done))
    process.start()
    x = torch.zeros(2)
    queue.put(x)
    assert done.wait(10)
    process.join()
    assert x.is_shared()
    assert x.tolist() == [7, 0]
    process.close()
    queue.close()
    queue.join_thread()


def test_layout_class_and_flags_arrive():
    context = mp.get_context("fork")
    inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=echo, args=(inbox, outbox))
    process.start()
    base = torch.arange(12.0).reshape(3, 4)
    sent = [
        base.t(),
        base[1:, ::2],
        torch.nn.Parameter(torch.ones(2)),
        torch.ones(2, requires_grad=True),
        torch.empty(0, 3),
        torch.tensor(5),
        torch.ones(1).expand(3),
        torch.tensor([1 + 2j]),
    ]
    for tensor in sent:
        inbox.put(tensor)
        assert outbox.get() == describe(tensor)
    inbox.put(None)
    process.join()
    process.close()


def test_views_stay_with_their_base_when_one_is_sent():
    """The receiver gets a copy then: an array cannot move under its views."""
    context = mp.get_context("fork")
    queue = context.SimpleQueue()
    base = torch.zeros(4)
    view = base[1:]
    queue.put(view)
    got = queue.get()
    base[1] = 3
    assert view[0] == 3
    assert got[0] == 0
    assert got.is_shared()
    queue.close()


def test_share_memory_moves_and_keeps_values_layout_and_gradients():
    x = torch.arange(6.0).reshape(2, 3).t()
    y = x.clone().requires_grad_()
    for tensor in (x, y):
        before = tensor.tolist(), tensor.stride()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert tensor.share_memory_() is tensor
        assert (tensor.tolist(), tensor.stride()) == before
        assert tensor.is_shared()
    (y * y).sum().backward()
    assert y.grad.tolist() == (2 * x).tolist()
    assert y[0].is_shared()
    assert not (y + 1).is_shared()


def test_share_memory_warns_of_views_that_stay_behind():
    x = torch.zeros(3)
    y = x[1:]
    with pytest.warns(UserWarning, match="keep the old memory"):
        x.share_memory_()
    x.fill_(1)
    assert y.tolist() == [0, 0]
    x.share_memory_()  # a second time there is nothing to do


def test_modules_share_their_parameters_and_buffers():
    module = torch.nn.BatchNorm1d(2)
    assert module.share_memory() is module
    assert all(tensor.is_shared() for tensor in module.state_dict().values())
    context = mp.get_context("fork")
    process = context.Process(target=lambda: module.weight.data.fill_(5))
    process.start()
    process.join()
    assert module.weight.tolist() == [5, 5]
    process.close()


def test_a_history_cannot_be_sent():
    queue = mp.get_context("fork").SimpleQueue()
    x = torch.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="detach"):
        queue.put(x)
    queue.put(x.detach())
    assert queue.get().tolist() == [2, 2]
    queue.close()


def test_meta_tensors_arrive_without_data():
    queue = mp.get_context("fork").SimpleQueue()
    queue.put(torch.empty(2, 3, device="meta"))
    got = queue.get()
    assert got.is_meta
    assert got.shape == (2, 3)
    queue.close()


def test_pools_send_tensors_both_ways():
    with mp.get_context("fork").Pool(2) as pool:
        results = pool.map(torch.neg, [torch.full((3,), float(n)) for n in range(4)])
    assert [result.tolist() for result in results] == [[-n] * 3 for n in range(4)]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts file descriptors in /proc")
def test_blocks_go_with_their_last_tensor_and_have_no_name():
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    kept = [torch.zeros(1000).share_memory_() for _ in range(5)]
    views = [tensor[3:] for tensor in kept]
    del kept
    assert len(os.listdir("/proc/self/fd")) > before
    # Nothing in /dev/shm, which a killed process could leave behind.
    block = shared.block_of(views[0]._array)
    assert os.readlink(f"/proc/self/fd/{block.fd}") == "/memfd:pullback (deleted)"
    del block
    del views
    assert len(os.listdir("/proc/self/fd")) == before


def test_blocks_without_memfd_are_files_without_a_name(monkeypatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    block = shared.Block(100)
    array = numpy.ndarray(100, numpy.uint8, block)
    assert not array.any()
    assert os.fstat(block.fd).st_nlink == 0


def test_the_standard_module_is_all_here():
    import multiprocessing

    assert set(multiprocessing.__all__) <= set(dir(mp))
    assert mp.Queue is not None
    assert mp.reducer is multiprocessing.reducer
    assert torch.multiprocessing is mp


def test_both_strategies_of_torch_are_words_that_are_taken():
    """Training scripts and set-ups of tests say "file_system" against too many open files."""
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    before = mp.get_sharing_strategy()
    try:
        for word in sorted(mp.get_all_sharing_strategies()):
            mp.set_sharing_strategy(word)
            assert mp.get_sharing_strategy() == word
    finally:
        mp.set_sharing_strategy(before)
    with pytest.raises(AssertionError, match="no strategy 'by post'"):
        mp.set_sharing_strategy("by post")


def test_the_modules_of_pools_and_queues_are_pythons():
    from multiprocessing.pool import Pool as Theirs

    from pullback.multiprocessing.pool import Pool
    from pullback.multiprocessing.queue import SimpleQueue

    assert Pool is Theirs
    queue = SimpleQueue(ctx=mp.get_context("fork"))
    queue.put(torch.ones(2))
    assert queue.get().is_shared()
    queue.close()


def test_weak_references_to_storages_tell_memory_apart_and_keep_none():
    x, y = torch.zeros(4), torch.zeros(4)
    known = StorageWeakRef(x.untyped_storage())
    same = [StorageWeakRef(one) for one in (x[1:].untyped_storage(), x.untyped_storage())]
    assert all(one == known and hash(one) == hash(known) for one in same)
    assert known not in {StorageWeakRef(y.untyped_storage())}
    del x
    assert known.expired()
    assert known == same[0]

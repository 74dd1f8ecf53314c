"""One pass on several threads: the same bits, the same order, the same failures."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
import threading
import time
import weakref

import pytest

import pullback as torch
from pullback.autograd import Function, get_backward_threads, set_backward_threads
from pullback.engine import parallel
from tests.autograd.graph.test_order import logging_hooks, random_graph, watched
from tests.engine.everything import Everything
from tests.engine.test_failures import (
    Steps,
    StopHereError,
    assert_nothing_left_behind,
    interrupted,
)

THREADS = [2, 3, 8]


@pytest.fixture
def started(monkeypatch):
    """The passes that ran on several threads."""
    passes = []
    run = parallel.Pass.run

    def noted(self, helpers):
        passes.append(helpers)
        return run(self, helpers)

    monkeypatch.setattr(parallel.Pass, "run", noted)
    return passes


def grads(leaves):
    return [None if one.grad is None else one.grad.numpy().tobytes() for one in leaves]


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("seed", range(25))
def test_every_bit_is_that_of_one_thread(seed, threads, started):
    """E-67"""
    leaves, loss, _ = random_graph(seed)
    loss.backward()
    expected = grads(leaves)
    leaves, loss, _ = random_graph(seed)
    with set_backward_threads(threads):
        loss.backward()
    assert grads(leaves) == expected
    assert len(started) == 1


@pytest.mark.parametrize("seed", range(10))
def test_pruned_passes_agree_too(seed):
    """E-69, E-70"""
    results = []
    for threads in (1, 3):
        leaves, loss, pool = random_graph(seed)
        inputs = [leaves[1], pool[6], pool[9]]
        with set_backward_threads(threads):
            found = torch.autograd.grad(loss, inputs, allow_unused=True, retain_graph=True)
            loss.backward(inputs=[one for one in inputs if one.requires_grad])
        results.append([None if g is None else g.numpy().tobytes() for g in found])
        results[-1] += [None if one.grad is None else one.grad.tolist() for one in inputs]
    assert results[0] == results[1]


@pytest.mark.parametrize("seed", range(10))
def test_hooks_come_in_the_promised_order_in_the_calling_thread(seed):
    """E-63, E-99, E-143"""
    logs = []
    for threads in (1, 3):
        _, loss, pool = random_graph(seed)
        log = logging_hooks(loss, [one for one in pool[::3] if not one.is_leaf], [])
        idents = set()
        loss.register_hook(lambda g, idents=idents: idents.add(threading.get_ident()))
        with set_backward_threads(threads):
            loss.backward()
        logs.append(log)
        assert idents == {threading.get_ident()}
    assert logs[0] == logs[1]


def test_nodes_without_user_code_do_run_side_by_side():
    """Two branches that are slow outside the interpreter's lock overlap in time."""
    x = torch.randn(600, 600, requires_grad=True)
    w = torch.randn(600, 600)
    loss = (x @ w).sum() + (x @ w).sum() + (x @ w).sum()
    products = [node for node in _nodes(loss) if type(node).__name__ == "MmBackward0"]
    cls = type(products[0])
    run, entries, threads = cls._run, itertools.count(), set()
    both = threading.Barrier(2, timeout=20)  # breaks where they run one after another

    def meeting(node, g, edges):
        threads.add(threading.get_ident())
        if next(entries) < 2:
            both.wait()
        return run(node, g, edges)

    cls._run = meeting
    try:
        with set_backward_threads(3):
            loss.backward()
    finally:
        cls._run = run
    assert len(threads) > 1


def _nodes(loss):
    return [step.node for step in torch.autograd.graph.plan(loss)]


def test_a_hook_sees_what_it_would_see_on_one_thread():
    """E-63, E-115: complete leaves are filled, later nodes have not run and are not freed."""
    seen = []
    for threads in (1, 4):
        x, y = (torch.full((3,), 0.5, requires_grad=True) for _ in range(2))
        branches = [(x * k).exp() for k in range(1, 6)]
        late = (y * 2).sin()
        middle = branches[2] * 1
        loss = sum(branches).sum() + middle.sum() + late.sum()

        def hook(g, x=x, y=y, branches=branches):
            freed = []
            for one in branches:
                try:
                    freed.append(one.grad_fn._saved_result is None)
                except RuntimeError:
                    freed.append(True)
            seen.append((x.grad, y.grad.tolist() if y.grad is not None else None, freed))

        middle.register_hook(hook)
        with set_backward_threads(threads):
            loss.backward()
    assert seen[0] == seen[1]


class Fails(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        raise StopHereError


def test_the_failure_that_comes_first_in_the_order_wins():
    """E-127, E-129"""
    for threads in (1, 4):
        x, y = (torch.ones(3, requires_grad=True) for _ in range(2))
        a, b = x.exp(), x.log()
        c = y.exp()
        loss = a.sum() + b.sum() + c.sum()
        with torch.no_grad():
            a.mul_(2)  # both will find that what they saved was changed
            x.add_(1)
        with set_backward_threads(threads), pytest.raises(RuntimeError) as caught:
            loss.backward()
        assert "LogBackward0" in str(caught.value)
        assert any("LogBackward0" in note for note in caught.value.__notes__)
        assert y.grad is not None
        assert x.grad is None
        assert b.grad_fn._raw_saved_self is not None
        assert_nothing_left_behind()


def test_nodes_after_a_failure_keep_their_values():
    """E-127"""
    x = torch.ones(3, requires_grad=True)
    a = x.exp()
    b = Fails.apply(x)
    c = x.exp()
    with set_backward_threads(4), pytest.raises(StopHereError):
        (a + b + c).sum().backward()
    assert a.grad_fn._saved_result is not None
    with pytest.raises(RuntimeError, match="retain_graph"):
        c.grad_fn._saved_result


@pytest.mark.parametrize("how", ["backward", "inputs", "grad"])
def test_a_failure_at_every_step(how):
    """E-120, E-126, E-127"""
    counted = Steps()
    with set_backward_threads(3):
        expected = Everything(counted, on_leaves=False).run(how)
        for at in range(1, counted.done + 1):
            with pytest.raises(StopHereError):
                Everything(Steps(fail_at=at), on_leaves=False).run(how)
            assert_nothing_left_behind()
        assert Everything(Steps(), on_leaves=False).run(how) == expected
    assert Everything(Steps(), on_leaves=False).run(how) == expected


def test_an_interrupt_stops_all_threads():
    """E-126, E-127"""
    gc.collect()  # a leaf with hooks, left in some traceback's cycle, has every pass run in order

    def work():
        leaves, loss, _ = random_graph(7)
        with set_backward_threads(3):
            loss.backward()
        return grads(leaves)

    expected = work()
    came = 0
    for at in range(1, 4000, 37):
        if not interrupted(work, at):
            break
        came += 1
        set_backward_threads(1)  # the interrupt may come before a block has begun
        assert_nothing_left_behind(locks=False)
        assert work() == expected
    assert came > 10
    assert_nothing_left_behind()
    limit = time.monotonic() + 30
    while parallel._pool._work_queue.qsize() and time.monotonic() < limit:
        time.sleep(0.01)
    assert parallel._pool._work_queue.qsize() == 0


def test_an_interrupt_between_nodes_reaches_the_caller(monkeypatch):
    """E-126: also where no node has failed."""

    def interrupted_there(self):
        raise KeyboardInterrupt

    _, loss, _ = random_graph(7)
    monkeypatch.setattr(parallel.Pass, "_wait_for_node", interrupted_there)
    with set_backward_threads(3), pytest.raises(KeyboardInterrupt):
        loss.backward()


def test_nodes_with_hooks_of_any_sort_are_left_to_the_calling_thread():
    """E-63: each sort by itself, beside nodes that anybody may run."""
    x = torch.ones(2, requires_grad=True)
    plain, hooked, before, after, retaining = (x * 2 for _ in range(5))
    hooked.register_hook(lambda g: None)
    before.grad_fn.register_prehook(lambda gradients: None)
    after.grad_fn.register_hook(lambda results, gradients: None)
    retaining.retain_grad()
    assert not parallel._runs_users_code(plain.grad_fn)
    for one in (hooked, before, after, retaining):
        assert parallel._runs_users_code(one.grad_fn)


def test_nan_made_by_a_helping_thread_are_found():
    x = torch.zeros(2, requires_grad=True)
    y = x.sqrt()
    loss = (y * torch.zeros(2)).sum() + x.exp().sum() + x.sin().sum()
    with (
        set_backward_threads(3),
        torch.autograd.detect_nan(),
        pytest.raises(FloatingPointError, match="SqrtBackward0 made 2 NaN"),
    ):
        loss.backward()


def test_the_order_of_nodes_is_that_of_one_thread_where_it_can_be_seen():
    _, loss, _ = random_graph(4)
    order = _nodes(loss)
    log = watched(loss)
    with set_backward_threads(4):
        loss.backward()
    assert log == [node for node in order if node in set(log)]


def test_passes_of_several_threads_use_several_threads_each():
    """E-144"""
    x = torch.ones(4, dtype=torch.float64, requires_grad=True)

    def work():
        for _ in range(30):
            sum((x * k) for k in range(1, 6)).sum().backward()

    with set_backward_threads(3):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert x.grad.tolist() == [4 * 30 * 15.0] * 4


def test_one_thread_where_threads_are_forbidden_or_cannot_help(started):
    """E-147, E-148"""
    x = torch.ones(2, requires_grad=True)
    with set_backward_threads(2):
        with torch.autograd.set_multithreading_enabled(False):
            (x * 2).sum().backward()
        torch.autograd.grad((x * 2).sum(), x, create_graph=True)
        assert started == []
        (x * 2).sum().backward()
        assert started == [1]


def test_nothing_of_the_graph_is_held_afterwards():
    """E-120, E-121"""
    x = torch.ones(2, requires_grad=True)
    for fails in (False, True):
        y = x.exp()
        loss = (y.sin() + y.cos() + (Fails.apply(y) if fails else y)).sum()
        nodes = [weakref.ref(loss.grad_fn), weakref.ref(y.grad_fn)]
        with set_backward_threads(3):
            if fails:
                with pytest.raises(StopHereError):
                    loss.backward()
            else:
                loss.backward()
        del y, loss
        if fails:
            gc.collect()  # the traceback, and what it led to
        assert [one() for one in nodes] == [None, None]


def test_the_number_of_threads_is_a_whole_one_from_1():
    assert get_backward_threads() == 1
    set_backward_threads(2)
    assert get_backward_threads() == 2
    set_backward_threads(1)
    with set_backward_threads(5):
        assert get_backward_threads() == 5
    assert get_backward_threads() == 1
    for wrong in (True, 1.5, "2"):
        with pytest.raises(TypeError, match="int"):
            set_backward_threads(wrong)
    with pytest.raises(ValueError, match="at least 1"):
        set_backward_threads(0)


def run_program(*lines):
    program = "\n".join(["import os, sys, pullback as torch", *lines])
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=120)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_starts_threads_of_its_own():
    """E-162"""
    run_program(
        "x = torch.ones(2, requires_grad=True)",
        "torch.autograd.set_backward_threads(2)",
        "(x.exp() + x.sin()).sum().backward()",
        "child = os.fork()",
        "x.grad = None",
        "(x.exp() + x.sin()).sum().backward()",
        "assert x.grad is not None",
        "os._exit(0) if child == 0 else None",
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))",
    )


def test_nothing_is_loaded_for_one_thread():
    run_program(
        "x = torch.ones(1, requires_grad=True)",
        "(x * 2).backward()",
        "assert 'pullback.engine.parallel' not in sys.modules",
    )


@pytest.mark.parametrize("threads", THREADS)
def test_gradients_of_broadcast_operands_are_summed_on_each_thread(threads, started):
    def program():
        row = torch.arange(3.0, requires_grad=True)
        column = torch.arange(2.0).reshape(2, 1).requires_grad_()
        wide = row.exp() * column.sin() + row * column
        return [row, column], (wide * wide + row).sum() + (wide - column).exp().sum()

    leaves, loss = program()
    loss.backward()
    expected = grads(leaves)
    leaves, loss = program()
    with set_backward_threads(threads):
        loss.backward()
    assert started
    assert grads(leaves) == expected
    assert [tuple(one.grad.shape) for one in leaves] == [(3,), (2, 1)]

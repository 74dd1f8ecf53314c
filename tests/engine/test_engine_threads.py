"""Passes inside passes, passes side by side, and forks (rows E-138 to E-149, E-162, E-163)."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading

import numpy as np
import pytest

import pullback as torch
from pullback.autograd import Function, grad
from tests.leaves import double_leaf as leaf


def in_threads(count, work):
    """Run `work(number)` in threads; whatever they raise."""
    errors = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return errors


@pytest.mark.usefixtures("both_passes")
def test_passes_nest_in_functions_hooks_and_unpack_hooks():
    """E-138, E-142"""
    x, other = leaf(2.0), leaf(1.0)
    calls = []

    def nested(*_):
        calls.append(1)
        with torch.enable_grad():
            (x * 10).backward()
            assert grad(other * 3, other)[0].item() == 3

    class Nests(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            nested()
            return g * 2

    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: nested() or t):
        y = x * x
    z = Nests.apply(y)
    z.register_hook(nested)
    z.backward()
    assert len(calls) >= 3
    assert x.grad.item() == 8 + 10 * len(calls)


@pytest.mark.usefixtures("both_passes")
def test_a_nested_pass_frees_for_the_outer_one():
    """E-139"""
    x = leaf(2.0)
    y = x * x
    z = y * 3
    z.register_hook(lambda g: y.backward())
    with pytest.raises(RuntimeError, match="retain_graph"):
        z.backward()


def test_two_thousand_levels_nest():
    """E-140, E-141"""
    depth = [0]

    def go(g):
        depth[0] += 1
        assert not torch.is_grad_enabled()
        if depth[0] < 2000:
            with torch.enable_grad():
                y = leaf(1.0) * 1.0
                y.register_hook(go)
            y.backward()

    before = threading.active_count()
    for _ in range(2):  # the second time on the same threads
        depth[0] = 0
        y = leaf(1.0) * 1.0
        y.register_hook(go)
        y.backward()
        assert depth[0] == 2000
    assert threading.active_count() - before < 90


@pytest.mark.usefixtures("both_passes")
def test_nodes_run_in_the_calling_thread_and_no_lock_is_held():
    """E-143"""
    barrier = threading.Barrier(2, timeout=30)
    shared = leaf(1.0)
    idents = []

    def work(number):
        y = shared * 2

        def hook(g):
            barrier.wait()
            idents.append(threading.get_ident() == me)

        me = threading.get_ident()
        y.register_hook(hook)
        y.backward()

    assert in_threads(2, work) == []
    assert idents == [True, True]
    assert shared.grad.item() == 4


@pytest.mark.usefixtures("both_passes")
@pytest.mark.filterwarnings("ignore:backward.create_graph")
def test_shared_leaves_lose_nothing_whatever_the_pass():
    """E-98, E-144"""
    x = torch.zeros(50, dtype=torch.float64, requires_grad=True)

    def work(number):
        for k in range(20):
            (x * 1.0).sum().backward(create_graph=(number + k) % 5 == 0)

    assert in_threads(4, work) == []
    np.testing.assert_array_equal(x.grad.detach().numpy(), np.full(50, 80.0))
    x.grad = None


@pytest.mark.usefixtures("both_passes")
def test_one_retained_graph_runs_in_many_threads():
    """E-145, E-146"""
    x = leaf(1.0, 2.0)
    base = x * 2
    base[0] = base[1] * 3
    loss = (base.exp() * 0.001).sum()
    (expected,) = grad(loss, x, retain_graph=True)

    def work(number):
        for _ in range(20):
            (g,) = grad(loss, x, retain_graph=True)
            assert g.tolist() == expected.tolist()

    assert in_threads(4, work) == []


@pytest.mark.usefixtures("both_passes")
def test_threads_on_one_freed_graph_fail_cleanly():
    """E-145"""
    for _ in range(5):
        x = leaf(1.0)
        y = x
        for _ in range(50):
            y = y * 1.5
        errors = in_threads(4, lambda _, y=y: y.backward())
        assert len(errors) < 4
        assert all("retain_graph" in str(error) for error in errors)


def test_multithreading_switch():
    """E-147, E-148, E-149"""
    enabled = torch.autograd.is_multithreading_enabled
    switch = torch.autograd.set_multithreading_enabled
    assert enabled()
    with switch(False):
        assert not enabled()
        seen = []
        assert in_threads(1, lambda _: seen.append((enabled(), torch.is_grad_enabled()))) == []
        assert seen == [(True, True)]
        x = leaf(2.0)
        y = x * x
        y.register_hook(lambda g: seen.append(enabled()))
        y.backward()
        assert seen[1:] == [False]
        assert x.grad.item() == 4
    assert enabled()
    switch(False)
    assert not enabled()
    switch(True)

    @switch(False)
    def inside():
        return enabled()

    assert enabled()
    assert inside() is False


def random_graph(numbers, leaves, depth=0):
    """A random program over shared leaves; some nodes have hooks, some start other passes."""
    pool = [numbers.choice(leaves) * 1.0 for _ in range(3)]
    for _ in range(12):
        a, b = numbers.choice(pool), numbers.choice(pool)
        out = numbers.choice([a + b, a - b * 2, a * 0.5, (a + 1) * 0.25, a.view(4).clone()])
        if numbers.random() < 0.3:
            out.register_hook(lambda g: g * 1.0)
        if depth == 0 and numbers.random() < 0.05:
            inner_seed = numbers.random()

            def nest(g, seed=inner_seed):
                with torch.enable_grad():
                    inner = random_graph(random.Random(seed), leaves, 1)
                inner.backward()

            out.register_hook(nest)
        pool[numbers.randrange(3)] = out
    return (pool[0] + pool[1] + pool[2]).sum()


def test_stress_of_random_graphs_gives_the_serial_sums():
    """E-144"""
    threads, graphs = 8, 25

    def run(leaves, number):
        for k in range(graphs):
            random_graph(random.Random(number * 1000 + k), leaves).backward()

    serial = [torch.ones(4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    shared = [torch.ones(4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    for number in range(threads):
        run(serial, number)
    assert in_threads(threads, lambda number: run(shared, number)) == []
    for one, other in zip(serial, shared, strict=True):
        np.testing.assert_allclose(other.grad.numpy(), one.grad.numpy(), rtol=1e-12)


FORK = """
import os, sys, threading, warnings
warnings.simplefilter("ignore")
import pullback as torch
if sys.argv[1] == "threads":
    from pullback.engine.threads import _threads
    _threads().submit(int).result()
held = torch.ones(1, requires_grad=True)
(held * 2).backward()
child = os.fork()
if child == 0:
    try:
        (held * 2).backward()
        os._exit(0 if held.grad.item() == 4 else 3)
    except RuntimeError as error:
        os._exit(7 if "fork" in str(error) else 4)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(("started", "answer"), [("none", "0"), ("threads", "7")])
def test_forked_children_work_or_say_why_not(started, answer):
    """E-162, E-163"""
    done = subprocess.run(
        [sys.executable, "-c", FORK, started],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == answer

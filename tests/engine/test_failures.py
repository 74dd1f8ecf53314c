"""A failure or an interrupt anywhere in a pass leaves the engine as it was (E-120 to E-128)."""

from __future__ import annotations

import _thread
import dis
import functools
import gc
import signal
import sys
import threading
import time
import weakref

import pytest

import pullback as torch
from pullback import _C
from pullback.core import node, passes
from pullback.engine import request as entry
from pullback.engine import threads
from tests.engine.everything import WAYS, Everything

pytestmark = pytest.mark.usefixtures("both_passes", "interrupts")


@pytest.fixture
def interrupts():
    """Interrupts raise KeyboardInterrupt, also where the tests were started with them ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class StopHereError(Exception):
    pass


class Steps:
    """Counts steps, and fails at one of them."""

    def __init__(self, fail_at=None):
        self.done = 0
        self.fail_at = fail_at

    def __call__(self):
        self.done += 1
        if self.done == self.fail_at:
            raise StopHereError(self.done)


def assert_nothing_left_behind(*, locks=True):
    assert torch.is_grad_enabled()
    assert _C._current_graph_task_id() == -1
    assert _C._current_autograd_node() is None
    assert passes.running.get() is None
    assert threads.running_levels() == 0
    if locks:
        assert_no_lock_held()


def assert_no_lock_held():
    """Seen from another thread, where re-entrance does not help."""
    held = []

    def look():
        for lock in (*node.LOCKS, node._making_accumulator, threads._pool_lock):
            if lock.acquire(blocking=False):
                lock.release()
            else:
                held.append(lock)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join(30)
    assert not held


def assert_clean_pass_works(how, on_leaves, expected):
    assert Everything(lambda: None, on_leaves=on_leaves).run(how) == expected


@pytest.mark.parametrize("on_leaves", [False, True])
@pytest.mark.parametrize("how", WAYS)
def test_a_failure_at_every_step(how, on_leaves):
    """E-120, E-126, E-127"""
    counted = Steps()
    expected = Everything(counted, on_leaves=on_leaves).run(how)
    assert counted.done > 20
    threads_before = threading.active_count()
    alive = []
    for at in range(1, counted.done + 1):
        steps = Steps(fail_at=at)
        graph = Everything(steps, on_leaves=on_leaves)
        with pytest.raises(StopHereError) as caught:
            graph.run(how)
        assert caught.value.args == (at,)
        assert steps.done == at
        assert_nothing_left_behind()
        assert_clean_pass_works(how, on_leaves, expected)
        alive += map(weakref.ref, (graph.x, graph.loss, graph.loss.grad_fn, *graph.kept))
    del graph, caught, steps
    gc.collect()  # hooks close over the graph that they are in
    assert [one() for one in alive if one() is not None] == []
    assert threading.active_count() == threads_before


class _Trip:
    """Negation marks a SIGINT as arrived, to be handled when the interpreter next looks.

    The interpreter looks after calls, so a call would have it handled at once, inside the tracer.
    From Python 3.14 on a `partial` in a class is a method; static, it is handed nobody's self.
    """

    __neg__ = staticmethod(functools.partial(_thread.interrupt_main))


TRIP = _Trip()


@functools.cache
def looking(code):
    """Offsets of the instructions with which the interpreter looks for signals."""
    looks = {"CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD", "RESUME"}
    return {one.offset for one in dis.get_instructions(code) if one.opname in looks}


class Interrupt:
    """Has a KeyboardInterrupt arrive at the nth instruction of ours that looks for one."""

    def __init__(self, at):
        self.left = at

    def __call__(self, frame, event, arg):
        code = frame.f_code
        if "pullback" not in code.co_filename or "tests" in code.co_filename:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode" and frame.f_lasti in looking(code):
            self.left -= 1
            if self.left == 0:
                -TRIP
                return None
        return self


def interrupted(run, at):
    """Whether the interrupt came before the end; in a finaliser, Python swallows it.

    After an exception from a tracer Python 3.13 tells the next one of fewer places, once or twice.
    """
    for _ in range(3):
        before = sys.gettrace()
        tracer = Interrupt(at)
        sys.settrace(tracer)
        try:
            run()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        if tracer.left <= 0:
            return True
    return False


def places_in(run):
    """How many places an interrupt can come to; from the second run on Python 3.12 tells of all."""
    for _ in range(2):
        tracer = Interrupt(10**9)
        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            run()
        finally:
            sys.settrace(before)
    return 10**9 - tracer.left


def small_graph(on_leaves):
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    y = (x * 2).exp()
    y.register_hook(lambda g: None)
    if on_leaves:
        x.register_post_accumulate_grad_hook(lambda leaf: None)
    return x, (y * x).sum()


@pytest.mark.parametrize("how", ["backward", "nested", "create_graph"])
@pytest.mark.parametrize("on_leaves", [False, True])
def test_an_interrupt_wherever_one_can_arrive(how, on_leaves):
    """E-126, E-127: all places where a pass begins and ends, every fifth of its loop."""
    if on_leaves and entry.always_ordered:
        pytest.skip("hooks on leaves lead to the ordered pass anyway")

    def work():
        x, loss = small_graph(on_leaves)
        if how == "nested":
            inner = torch.ones(1, requires_grad=True) * 1
            inner.register_hook(lambda g: loss.backward())
            inner.backward()
        elif how == "create_graph":
            return torch.autograd.grad(loss, x, create_graph=True)[0].tolist()
        else:
            loss.backward()
        return x.grad.tolist()

    expected = work()
    places = places_in(work)
    ends = {*range(1, 60), *range(places - 60, places)}
    for at in sorted(ends | set(range(60, places - 60, 5))):
        assert interrupted(work, at)
        assert_nothing_left_behind(locks=at % 50 == 0)
        assert work() == expected


@pytest.mark.parametrize("on_leaves", [False, True])
@pytest.mark.parametrize("how", ["backward", "create_graph"])
def test_an_interrupt_in_a_graph_with_everything(how, on_leaves):
    """E-126, E-127"""
    expected = Everything(lambda: None, on_leaves=on_leaves).run(how)
    at, came = 100, 0
    assert places_in(lambda: Everything(lambda: None, on_leaves=on_leaves).run(how)) > 1000
    while True:
        if not interrupted(lambda: Everything(lambda: None, on_leaves=on_leaves).run(how), at):
            break
        came += 1
        assert_nothing_left_behind()
        assert_clean_pass_works(how, on_leaves, expected)
        at += 97
    assert came > 10


def test_an_interrupt_reaches_the_thread_on_which_a_deep_pass_works():
    """E-126, E-140: it is not the one that the signal comes to."""
    stopped = []

    def go_deeper(levels):
        def hook(g):
            if levels:
                go_deeper(levels - 1)
                return
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            try:
                while True:
                    time.sleep(0.01)
            finally:
                stopped.append(threading.get_ident())

        with torch.enable_grad():
            y = torch.ones(1, requires_grad=True) * 1
        y.register_hook(hook)
        y.backward()

    def raise_interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, raise_interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            go_deeper(2 * threads.LEVELS_PER_THREAD + 5)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(stopped) == 1
    assert stopped != [threading.get_ident()]
    assert_nothing_left_behind()
    x = torch.ones(1, requires_grad=True)
    (x * 2).backward()
    assert x.grad.item() == 2


@pytest.mark.filterwarnings("ignore:backward.create_graph=True. stores gradients")
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("wrong", range(3))
def test_an_error_says_which_gradient_fits_nowhere(both_passes, wrong, create_graph):
    class Three(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *given):
            return sum(given)

        @staticmethod
        def backward(ctx, g):
            return tuple(g.new_ones(3 if at == wrong else 2) for at in range(3))

    given = [torch.ones(2, requires_grad=True) for _ in range(3)]
    with pytest.raises(RuntimeError, match=f"ThreeBackward .*at index {wrong}:"):
        Three.apply(*given).sum().backward(create_graph=create_graph)

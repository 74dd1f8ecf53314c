"""What a user sees when something goes wrong in a pass, and what a debugger sees."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

import pullback as torch
from pullback.autograd import Function
from pullback.engine import request as entry
from pullback.engine import threads

WAYS = ["plain", "ordered", "recorded", "nested", "deep", "threads", "anomaly"]


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    monkeypatch.setattr(entry, "always_ordered", request.param == "ordered")
    with torch.autograd.set_backward_threads(3 if request.param == "threads" else 1):
        yield request.param


def run(way, loss, leaf):
    """A pass over `loss`, in each way there is."""
    if way == "recorded":
        torch.autograd.grad(loss, leaf, create_graph=True)
    elif way == "nested":
        inside(1, loss)
    elif way == "deep":
        inside(threads.LEVELS_PER_THREAD + 5, loss)
    elif way == "anomaly":
        with warnings.catch_warnings(), torch.autograd.set_detect_anomaly(True):
            warnings.simplefilter("ignore")
            loss.backward()
    else:
        loss.backward()


def inside(levels, loss):
    """The pass inside so many others."""
    if levels == 0:
        loss.backward()
        return

    def go_on(g):
        inside(levels - 1, loss)

    with torch.enable_grad():
        outer = torch.ones(1, requires_grad=True) * 1
    outer.register_hook(go_on)
    outer.backward()


class ForwardOnly(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        raise ZeroDivisionError("in backward")


def frames_of(error):
    names, traceback = [], error.__traceback__
    while traceback is not None:
        names.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    return names


def test_an_exception_carries_a_note_with_the_forward_line(way):
    """E-126: as a note, so that type and text stay the user's own."""
    x = torch.ones(2, requires_grad=True)
    y = ForwardOnly.apply(x)  # the forward line
    loss = (y + x.exp()).sum()
    with pytest.raises(ZeroDivisionError) as caught:
        run(way, loss, x)
    assert str(caught.value) == "in backward"
    notes = [note for note in caught.value.__notes__ if "ForwardOnlyBackward" in note]
    with open(__file__) as source:
        line = next(n for n, text in enumerate(source, 1) if "# the forward line" in text)
    assert notes == [
        f"in the backward of ForwardOnlyBackward, recorded at test_debugging.py:{line}"
    ]
    assert frames_of(caught.value)[-1] == "backward"


def test_a_rule_that_fails_carries_the_note_too(way):
    """E-131"""
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    z = y.exp()
    loss = z.sum() + x.sin().sum()
    with torch.no_grad():
        z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace") as caught:
        run(way, loss, x)
    assert caught.value.__notes__[0].startswith("in the backward of ExpBackward0, recorded at")


def test_a_hook_that_fails_carries_the_note_of_its_node(way):
    """E-126"""
    x = torch.ones(2, requires_grad=True)
    y = x.exp()

    def fail(g):
        raise KeyError("hook")

    y.register_hook(fail)
    with pytest.raises(KeyError) as caught:
        run(way, y.sum(), x)
    assert caught.value.__notes__[0].startswith("in the backward of ExpBackward0")
    assert frames_of(caught.value)[-1] == "fail"


def stack():
    """Names of the functions on this thread's stack."""
    names, frame = [], sys._getframe(1)
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


def users_call(loss, leaf, way):
    return run(way, loss, leaf)


@pytest.mark.parametrize("way", ["plain", "ordered", "recorded", "nested", "threads"])
def test_a_debugger_in_user_code_has_the_users_frames_in_sight(way, monkeypatch):
    """A breakpoint in a custom backward, a hook or an unpack hook can go up to the caller."""
    monkeypatch.setattr(entry, "always_ordered", way == "ordered")
    seen = {}

    class Stops(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen["custom backward"] = stack()
            return g * 2

    def unpack(t):
        seen["unpack hook"] = stack()
        return t

    x = torch.ones(2, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        y = x.exp()
    z = Stops.apply(y)
    z.register_hook(lambda g: seen.update({"hook": stack()}))
    z.grad_fn.register_prehook(lambda g: seen.update({"pre-hook": stack()}))
    z.grad_fn.register_hook(lambda i, o: seen.update({"post-hook": stack()}))
    with torch.autograd.set_backward_threads(3 if way == "threads" else 1):
        users_call(z.sum(), x, way)
    assert set(seen) == {"custom backward", "unpack hook", "hook", "pre-hook", "post-hook"}
    for names in seen.values():
        assert "users_call" in names


def test_a_debugger_in_a_rule_has_the_users_frames_in_sight(monkeypatch):
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    cls = type(y.grad_fn)
    run_rule, seen = cls._run, []

    def stopping(node, g, edges):
        seen.append(stack())
        return run_rule(node, g, edges)

    monkeypatch.setattr(cls, "_run", stopping)
    users_call(y.sum(), x, "plain")
    assert "users_call" in seen[0]


def test_pdb_stops_in_a_custom_backward_and_goes_up_to_the_caller(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import pullback as torch\n"
        "class Stops(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        return x * 2\n"
        "    @staticmethod\n"
        "    def backward(ctx, g):\n"
        "        breakpoint()\n"
        "        return g * 2\n"
        "def caller():\n"
        "    marker = 'seen from above'\n"
        "    x = torch.ones(1, requires_grad=True)\n"
        "    Stops.apply(x).backward()\n"
        "    print('grad', x.grad.item())\n"
        "caller()\n"
    )
    ran = subprocess.run(
        [sys.executable, str(program)],
        input="where\np g.tolist()\ncontinue\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert "caller()" in ran.stdout
    assert "[1.0]" in ran.stdout
    assert "grad 2.0" in ran.stdout


def test_a_graph_that_never_ends_can_be_stopped():
    """A hook that always starts another pass goes on until something stops it, and no further."""
    levels = [0]

    def again(g):
        levels[0] += 1
        if levels[0] == 3000:
            raise InterruptedError
        with torch.enable_grad():
            y = torch.ones(1, requires_grad=True) * 1
        y.register_hook(again)
        y.backward()

    y = torch.ones(1, requires_grad=True) * 1
    y.register_hook(again)
    with pytest.raises(InterruptedError):
        y.backward()
    assert levels[0] == 3000
    assert threads.running_levels() == 0
    x = torch.ones(1, requires_grad=True)
    (x * 2).backward()
    assert x.grad.item() == 2


def test_a_graph_that_never_ends_is_a_recursion_error(monkeypatch):
    monkeypatch.setattr(threads, "MOST_LEVELS", 300)
    levels = [0]

    def again(g):
        levels[0] += 1
        with torch.enable_grad():
            y = torch.ones(1, requires_grad=True) * 1
        y.register_hook(again)
        y.backward()

    y = torch.ones(1, requires_grad=True) * 1
    y.register_hook(again)
    with pytest.raises(RecursionError, match="inside one another"):
        y.backward()
    assert levels[0] == 301
    assert threads.running_levels() == 0


def test_callbacks_that_queue_callbacks_do_not_grow_the_stack():
    """E-133"""
    from pullback.autograd import Variable

    queue = Variable._execution_engine.queue_callback
    count = [0]

    def again():
        count[0] += 1
        if count[0] < 20_000:
            queue(again)

    x = torch.ones(1, requires_grad=True)
    y = x * 1
    y.register_hook(lambda g: queue(again))
    y.backward()
    assert count[0] == 20_000


def test_a_hook_that_extends_the_graph_does_not_change_the_running_pass():
    """E-60: next edges never change, so a pass over a graph that grows still ends."""
    x = torch.ones(1, requires_grad=True)
    tip = [x * 1]

    def grow(g):
        with torch.enable_grad():
            for _ in range(100):
                tip[0] = tip[0] * 1
                tip[0].register_hook(grow)

    tip[0].register_hook(grow)
    tip[0].backward()
    assert x.grad.item() == 1


def test_deep_recursion_in_user_code_is_a_recursion_error_not_a_crash():
    def endless(g):
        return endless(g)

    x = torch.ones(1, requires_grad=True)
    y = x * 1
    y.register_hook(endless)
    with pytest.raises(RecursionError):
        y.backward()
    (x * 3).backward()
    assert x.grad.item() == 3


def test_warnings_of_a_deep_pass_reach_the_caller_before_it_returns():
    """E-125"""
    idents = []

    class Warns(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            idents.append(threading.get_ident())
            warnings.warn("from a node", stacklevel=1)
            return g

    x = torch.ones(1, requires_grad=True)
    with pytest.warns(UserWarning, match="from a node"):
        inside(threads.LEVELS_PER_THREAD + 5, Warns.apply(x))
    assert idents != [threading.get_ident()]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="from a node"):
            inside(threads.LEVELS_PER_THREAD + 5, Warns.apply(x))

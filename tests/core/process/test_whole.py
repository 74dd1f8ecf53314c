"""Contexts are entered whole or not at all: a failure at every step of every one of them.

A trace function raises before the n-th line that the package runs while a context is entered and
left, for each n. Afterwards all is as it was before, and the context works.
"""

import ast
import inspect
import linecache
import mmap
import sys
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy
import pytest

import pullback as torch
from pullback import serialization
from pullback.amp.compositions import compositions
from pullback.autograd import forward_ad, graph, profiler
from pullback.autograd.profile import recorder
from pullback.core import autocast, forward, mode, nesting
from pullback.core.explain import anomaly
from pullback.core.process.whole import Reentrant, Whole
from pullback.engine import node_observers, parallel
from pullback.library.call import calling
from pullback.operators.dispatch import observers
from pullback.operators.running import inplace
from pullback.overrides import TorchFunctionMode
from pullback.transforms import batched
from pullback.transforms.mapping import mapped
from pullback.transforms.pushing import Pushing
from pullback.transforms.reverse import Recording
from pullback.utils._python_dispatch import TorchDispatchMode
from pullback.utils.checkpoint import (
    GraphExecGroup,
    groups,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
    settings,
)

X = torch.ones(3, requires_grad=True)
PLAIN = torch.ones(3)


class Functions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


CONTEXTS = {
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "set_grad_enabled": lambda: torch.set_grad_enabled(False),
    "inference_mode": torch.inference_mode,
    "view tracking": lambda: torch.autograd.grad_mode._force_original_view_tracking(True),
    "multithreading": lambda: torch.autograd.set_multithreading_enabled(False),
    "backward threads": lambda: torch.autograd.set_backward_threads(2),
    "anomaly": lambda: torch.autograd.set_detect_anomaly(True),
    "dual level": forward_ad.dual_level,
    "forward off": lambda: forward_ad._set_fwd_grad_enabled(False),
    "saved hooks": lambda: graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    "save on cpu": graph.save_on_cpu,
    "hooks forbidden": lambda: graph.disable_saved_tensors_hooks("no"),
    "mutation": graph.allow_mutation_on_saved_tensors,
    "detect nan": lambda: torch.autograd.detect_nan(inf=True),
    "profile": profiler.profile,
    "profiler": torch.profiler.profile,
    "record function": lambda: profiler.record_function("x"),
    "function mode": Functions,
    "dispatch mode": Dispatch,
    "device": lambda: torch.device("meta"),
    "autocast": lambda: torch.autocast("cpu"),
    "below autograd": calling.below_autograd,
    "group": GraphExecGroup,
    "early stop": lambda: set_checkpoint_early_stop(False),
    "debug": lambda: set_checkpoint_debug_enabled(True),
    "print options": lambda: torch.printoptions(precision=2),
    "safe globals": lambda: serialization.safe_globals([Functions]),
    "skip data": serialization.skip_data,
    "map": lambda: serialization.set_default_mmap_options(mmap.MAP_SHARED),
    "Recording": lambda: Recording("grad", [X]),
    "Pushing": lambda: Pushing("jvp", [PLAIN], [PLAIN]),
    "mapped": lambda: mapped(3),
}


# These switch when they are made; entered, they only promise to go back.
AT_ONCE = {
    *("set_grad_enabled", "view tracking", "multithreading", "backward threads", "anomaly"),
    *("forward off", "map"),
}


def state():
    """Everything that contexts of the package change."""
    return {
        "mode": mode.get_mode(),
        "fast": (mode.fast.plain, mode.fast.reasons, mode.fast.unrecorded),
        "forward": (list(forward.LEVELS), forward.open_levels(), forward_ad._open),
        "derivatives": (nesting.running.get(), nesting.pass_depth.get()),
        "anomaly": (anomaly.state.enabled, anomaly.state.check_nan),
        "observers": (list(observers._observers), observers.observers.active),
        "profiler": (
            list(recorder.active()),
            node_observers.observer,
            list(node_observers._observers),
        ),
        "nan": (numpy.geterr(), numpy.geterrcall()),
        "device": torch.get_default_device(),
        "threads": parallel.side_by_side.threads,
        "writes": list(inplace.before_write),
        "autocast": (autocast.now().enabled, calling.below.get(), set(compositions._active)),
        "checkpoint": (groups._sharing.get(), settings.early_stop.get(), settings.debug.get()),
        "printing": torch.get_printoptions() if hasattr(torch, "get_printoptions") else None,
        "files": (
            serialization.get_safe_globals(),
            serialization.options.is_skipping(),
            serialization.get_default_mmap_options(),
        ),
        "mapped": set(batched.differentiated),
    }


class Injected(Exception):  # noqa: N818 (no error: a failure put in)
    pass


def _is_beyond_help(frame, body_is_over, visited):
    """Where no line of ours could do something about it: `__exit__` begins, a lock is let go.

    Python itself does not look for a Ctrl-C at the second, nor at a `try:`, which does nothing: an
    error that is raised there leaves a `with` around it without ending that.
    """
    generator = frame.f_code.co_flags & inspect.CO_GENERATOR
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    if body_is_over and (frame.f_code.co_name == "__exit__" or generator):
        trying = id(frame), "try:"
        begun = trying in visited and not generator
        visited.update([trying] if line == "try:" else [])
        if not begun:
            return True
    if line == "try:":
        return True
    if not line.startswith("with "):
        return line.endswith((".acquire()", ".release()"))
    place = id(frame), frame.f_lineno
    again = place in visited
    visited.add(place)
    return again


@contextmanager
def failing_at(number, error, over):
    """Raise before the `number`-th line that the package runs."""
    seen, visited = [0], set()

    def lines(frame, event, arg):
        if event == "line":
            if _is_beyond_help(frame, over[0], visited):
                return lines
            seen[0] += 1
            if seen[0] == number:
                raise error
        return lines

    def calls(frame, event, arg):
        return lines if "/pullback/" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(calls)
    try:
        yield seen
    finally:
        sys.settrace(before)


def attempt(make, number, error, *, at_once=False):
    """Enter and leave a context with a failure on the way; whether there were so many lines."""
    over = [False]
    if at_once:
        context = make()
        context.__enter__()
    try:
        if at_once:
            over[0] = True
            with failing_at(number, error, over) as seen:
                context.__exit__(None, None, None)
        else:
            with failing_at(number, error, over) as seen, make():
                over[0] = True
    except error:
        return True
    return seen[0] >= number


def works():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4]
    assert not x.detach().requires_grad


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_failure_at_any_step_leaves_nothing_changed(name):
    make = CONTEXTS[name]
    for _ in range(2):  # what is made when first used is there
        with make():
            pass
    works()
    before = state()
    number = 0
    for error in (Injected, KeyboardInterrupt):
        number = 1
        while attempt(make, number, error, at_once=name in AT_ONCE):
            assert state() == before, f"{error.__name__} before line {number}"
            # Entering a mode goes through all public functions: thousands of lines of one loop.
            number += 1 if number < 60 else number // 8
    assert number > 1
    works()
    with make():
        pass
    assert state() == before


def test_leaving_twice_is_leaving_once():
    for name in ("Recording", "Pushing", "mapped", "no_grad", "dual level", "detect nan"):
        before = state()
        context = CONTEXTS[name]()
        with context:
            pass
        if isinstance(context, Whole):
            context._leave()
        assert state() == before


def test_contexts_can_be_entered_again_inside_themselves():
    for name in ("detect nan", "function mode", "dispatch mode"):
        before = state()
        context = CONTEXTS[name]()
        assert isinstance(context, Reentrant)
        with context, context:
            pass
        assert state() == before


def test_a_user_s_failure_in_a_transform_leaves_nothing_open():
    before = state()

    def fails(x):
        raise Injected

    for run in (
        lambda: torch.func.jvp(fails, (PLAIN,), (PLAIN,)),
        lambda: torch.func.grad(fails)(PLAIN),
        lambda: torch.func.hessian(fails)(PLAIN),
        lambda: torch.func.vmap(torch.func.jacfwd(fails))(torch.ones(2, 3)),
    ):
        with pytest.raises(Injected):
            run()
        assert state() == before
    works()


def test_nothing_is_set_before_the_block_that_puts_it_back():
    """An interrupt right after `variable.set(...)` must find itself inside the `try`."""
    found = []
    for path in Path(torch.__file__).parent.rglob("*.py"):
        for holder in ast.walk(ast.parse(path.read_text())):
            for field in ("body", "orelse", "finalbody"):
                block = getattr(holder, field, None)
                for one, after in pairwise(block) if isinstance(block, list) else ():
                    simple = isinstance(one, ast.Expr | ast.Assign)
                    if simple and _puts_back(after) and ".set(" in ast.unparse(one):
                        found.append(f"{path}:{one.lineno}")
    assert not found


def _puts_back(statement):
    if not isinstance(statement, ast.Try):
        return False
    last = "\n".join(map(ast.unparse, statement.finalbody))
    return ".set(" in last or ".reset(" in last

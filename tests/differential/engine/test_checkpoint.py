"""Checkpointing next to torch's: the same calls in the same order, gradients and errors."""

import contextlib
import gc
import importlib

import pytest

import pullback

torch = pytest.importorskip("torch")


def tools(lib):
    return importlib.import_module(f"{lib.__name__}.utils.checkpoint")


def leaf(lib, *values):
    return lib.tensor(values or (1.0, 2.0), dtype=lib.float64, requires_grad=True)


def shown(tensor):
    if tensor is None:
        return None
    return [round(float(v), 10) for v in tensor.detach().reshape(-1)]


def nested(lib, depth, reentrant, early):
    """Calls of each level, for operators before and after the inner level."""
    ck, calls = tools(lib), [0] * depth

    def level(k):
        def function(t):
            calls[k] += 1
            t = t.exp() * 0.1
            if k + 1 < depth:
                t = ck.checkpoint(level(k + 1), t, use_reentrant=reentrant)
            return t.sin() + t

        return function

    x = leaf(lib)
    with ck.set_checkpoint_early_stop(early):
        y = ck.checkpoint(level(0), x, use_reentrant=reentrant)
    y.sum().backward(retain_graph=not reentrant)
    if not reentrant:
        y.sum().backward()
    return calls, shown(x.grad)


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_reruns_are_counted_alike(depth, early):
    """G-74, G-78, G-89, G-90."""
    assert nested(pullback, depth, False, early) == nested(torch, depth, False, early)


@pytest.mark.filterwarnings("ignore:None of the inputs")
@pytest.mark.filterwarnings("ignore:checkpoint.use_reentrant=True")
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_reentrant_reruns_are_counted_alike(depth):
    """G-89, G-91."""
    assert nested(pullback, depth, True, True) == nested(torch, depth, True, True)


def inner_pass(lib, early, retain):
    ck, calls = tools(lib), []

    def function(t):
        calls.append(1)
        a = t.sin()
        (g,) = lib.autograd.grad(a.exp().sum(), t, retain_graph=retain)
        return (t * t).cos() * g.detach()

    x = leaf(lib)
    ck.checkpoint(function, x, use_reentrant=False, early_stop=early).sum().backward()
    return len(calls), shown(x.grad)


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("retain", [True, False])
def test_passes_inside_agree(early, retain):
    """G-87."""
    assert inner_pass(pullback, early, retain) == inner_pass(torch, early, retain)


def second_order(lib):
    x, weight = leaf(lib), leaf(lib, 3.0, 4.0)
    y = tools(lib).checkpoint(
        lambda t, *, w: (t * w).sin().exp() * t, x, w=weight, use_reentrant=False
    )
    g = lib.autograd.grad(y.sum(), [x, weight], create_graph=True)
    gg = lib.autograd.grad((g[0] * g[1]).sum(), [x, weight])
    return [shown(t) for t in (*g, *gg)]


def partial(lib):
    x, calls = leaf(lib), []

    def function(t):
        calls.append(1)
        return t.sin().exp(), (t * t).cos()

    a, b = tools(lib).checkpoint(function, x, use_reentrant=False)
    a.sum().backward()
    b.sum().backward()
    c, d = tools(lib).checkpoint(function, x, use_reentrant=False)
    with tools(lib).GraphExecGroup():
        c.sum().backward()
        d.sum().backward()
    return len(calls), shown(x.grad)


def hooks_around(lib):
    x, log = leaf(lib), []
    hooks = lib.autograd.graph.saved_tensors_hooks(
        lambda t: log.append("pack") or t, lambda t: log.append("unpack") or t
    )
    with hooks:
        y = tools(lib).checkpoint(lambda t: t.sin().exp(), x, use_reentrant=False)
    y.sum().backward()
    return log, shown(x.grad)


def sequential(lib):
    x, calls = leaf(lib), []

    def step(k):
        return lambda t: calls.append(k) or t.sin() * (k + 1)

    y = tools(lib).checkpoint_sequential([step(k) for k in range(7)], 3, x, use_reentrant=False)
    y.sum().backward()
    return calls, shown(x.grad)


@pytest.mark.parametrize("program", [second_order, partial, hooks_around, sequential])
def test_programs_agree(program):
    """G-73, G-77, G-88, G-102, G-104."""
    assert program(pullback) == program(torch)
    gc.collect()


def _changing(*functions):
    turns = iter(functions)
    return lambda t: next(turns)(t)


def _ran(lib, function, **options):
    options.setdefault("use_reentrant", False)
    tools(lib).checkpoint(function, leaf(lib), **options).sum().backward()


def _asked(lib):
    x = leaf(lib)
    lib.autograd.grad(tools(lib).checkpoint(lib.exp, x, use_reentrant=True).sum(), x)


def _nothing_requires_grad(lib):
    _ran(lib, lambda t: t.detach() * 2, use_reentrant=True)


def _overlap(lib):
    y = tools(lib).checkpoint(lambda t: t.sin().exp(), leaf(lib), use_reentrant=False).sum()
    with tools(lib).GraphExecGroup():
        y.backward(retain_graph=True)
        y.backward()


def _nested_groups(lib):
    group = tools(lib).GraphExecGroup
    with group(), group():
        pass


def _suppressed(lib):
    def fails(t):
        raise KeyError

    context = contextlib.suppress(KeyError)
    _ran(lib, fails, context_fn=lambda: (context, context))


def _sequence(lib, count, segments, **options):
    tools(lib).checkpoint_sequential(
        [lib.sin] * count, segments, leaf(lib), use_reentrant=False, **options
    )


ERRORS = {
    "fewer": lambda lib: _ran(lib, _changing(lambda t: t.sin().exp(), lambda t: t.sin())),
    "more": lambda lib: _ran(
        lib, _changing(lambda t: t.sin(), lambda t: t.sin().exp()), early_stop=False
    ),
    "another dtype": lambda lib: _ran(lib, _changing(lambda t: t.sin(), lambda t: t.float().sin())),
    "another check": lambda lib: _ran(lib, lib.sin, determinism_check="some"),
    "debug and contexts": lambda lib: _ran(
        lib, lib.sin, debug=True, context_fn=lambda: (contextlib.nullcontext(),) * 2
    ),
    "debug and reentrant": lambda lib: _ran(lib, lib.sin, debug=True, use_reentrant=True),
    "keywords and reentrant": lambda lib: _ran(lib, lib.sin, scale=2, use_reentrant=True),
    "inputs and reentrant": _asked,
    "nothing requires grad": _nothing_requires_grad,
    "overlap": _overlap,
    "nested groups": _nested_groups,
    "too many segments": lambda lib: _sequence(lib, 2, 3),
    "no segments": lambda lib: _sequence(lib, 2, 0),
    "unknown argument": lambda lib: _sequence(lib, 2, 1, scale=2),
    "list to detach": lambda lib: tools(lib).detach_variable([leaf(lib)]),
}


@pytest.mark.parametrize("program", ERRORS.values(), ids=ERRORS)
def test_errors_have_torchs_type(program):
    """G-71, G-80, G-81, G-83, G-92, G-94, G-95, G-96, G-102, G-103, G-104."""
    with pytest.raises(Exception) as theirs:  # noqa: PT011 (its type is what is asked for)
        program(torch)
    with pytest.raises(Exception) as ours:  # noqa: PT011 (two libraries, two sentences)
        program(pullback)
    assert type(ours.value).__name__ == type(theirs.value).__name__
    gc.collect()

"""The engine next to torch's: the same program gives the same log of hooks, values and errors."""

from __future__ import annotations

import random

import pytest

import pullback
from pullback.engine import request as entry

torch = pytest.importorskip("torch")


@pytest.fixture(params=["plain", "ordered"], autouse=True)
def both_passes(request, monkeypatch):
    monkeypatch.setattr(entry, "always_ordered", request.param == "ordered")


def program(lib, seed, *, leaf_hooks, inputs, fails):
    """A random graph with hooks everywhere; the log of what fired, and the gradients."""
    numbers = random.Random(seed)
    leaves = [
        lib.tensor([0.5 + k, 1.5 - k], dtype=lib.float64, requires_grad=True) for k in range(3)
    ]
    log = []
    pool = [(f"leaf{k}", t) for k, t in enumerate(leaves)]
    made = []
    for index in range(14):
        (_, a), (_, b) = numbers.choice(pool), numbers.choice(pool)
        kind = numbers.randrange(7)
        if kind == 0:
            out = a * b
        elif kind == 1:
            out = a + b * 2
        elif kind == 2:
            out = a.sin() - b
        elif kind == 3:
            out = lib.stack(list((a * 1).unbind(0))[::-1])
        elif kind == 4:
            out = a.clone()
            out[0] = b[1]
        elif kind == 5:
            out = a.view(1, 2).sum(0)
        else:
            out = (a * 1).mul_(b)
        made.append((f"t{index}", out))
        pool.append(made[-1])
    for name, t in made:
        what = numbers.random()
        if what < 0.3:
            t.register_hook(lambda g, name=name: log.append((name, g.tolist())))
        elif what < 0.5:
            t.grad_fn.register_prehook(lambda o, name=name: log.append((name, "pre")))
        elif what < 0.6:
            t.grad_fn.register_hook(
                lambda i, o, name=name: log.append((name, [g is None for g in i]))
            )
        elif what < 0.7:
            t.register_hook(lambda g: g * 2)
        elif what < 0.8:
            t.retain_grad()
    if leaf_hooks:
        for k, t in enumerate(leaves):
            t.register_hook(lambda g, k=k: log.append(("leaf", k, g.tolist())))
            t.register_post_accumulate_grad_hook(lambda p, k=k: log.append(("done", k)))
    if fails:

        def fail(g):
            raise ValueError("stop")

        made[numbers.randrange(len(made))][1].register_hook(fail)
    loss = sum((t for _, t in made[-4:]), start=leaves[0] * 0).sum()
    asked = [numbers.choice(leaves), numbers.choice(made)[1]] if inputs else None
    try:
        if asked and seed % 2:
            given = lib.autograd.grad(loss, asked, allow_unused=True)
            log.append([None if g is None else g.tolist() for g in given])
        else:
            loss.backward(inputs=asked)
    except ValueError:
        log.append("stopped")
    kept = [None if t.grad is None else t.grad.tolist() for t in leaves]
    retained = [t.grad.tolist() for _, t in made if t.retains_grad and t.grad is not None]
    return log, kept, retained


def close(ours, theirs):
    if isinstance(ours, float):
        return ours == pytest.approx(theirs, rel=1e-9, abs=1e-9)
    if isinstance(ours, list | tuple):
        return len(ours) == len(theirs) and all(map(close, ours, theirs))
    return ours == theirs


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("inputs", [False, True])
@pytest.mark.parametrize("leaf_hooks", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_same_log_gradients_and_retained_values(seed, inputs, leaf_hooks, fails):
    """E-62 to E-127"""
    chosen = {"leaf_hooks": leaf_hooks, "inputs": inputs, "fails": fails}
    theirs = program(torch, seed, **chosen)
    ours = program(pullback, seed, **chosen)
    assert close(ours, theirs), (ours, theirs)

"""What user code sees in the middle of a pass, next to torch: leaves, nodes, freed values."""

from __future__ import annotations

import random

import pytest

import pullback
from pullback.engine import request as entry
from pullback.engine.threads import side_by_side

torch = pytest.importorskip("torch")


@pytest.fixture(params=["plain", "ordered", "threads"], autouse=True)
def way(request, monkeypatch):
    monkeypatch.setattr(entry, "always_ordered", request.param == "ordered")
    monkeypatch.setattr(side_by_side, "threads", 3 if request.param == "threads" else 1)


def seen(t):
    return None if t.grad is None else t.grad.tolist()


def program(lib, seed, *, nested, resets):
    """A random graph whose hooks and unpack hooks look at the leaves, and may change them."""
    numbers = random.Random(seed)
    leaves = [
        lib.tensor([0.5 + k, 1.5 - k], dtype=lib.float64, requires_grad=True) for k in range(4)
    ]
    log = []

    def look(name):
        def hook(*_):
            log.append((name, [seen(one) for one in leaves]))

        return hook

    def unpack(t):
        look("unpack")()
        return t

    pool = list(leaves)
    for index in range(12):
        a, b = numbers.choice(pool[-6:]), numbers.choice(pool)
        kind = numbers.randrange(5)
        if kind == 0:
            with lib.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
                made = a * b
        elif kind == 1:
            made = a + b * 2
        elif kind == 2:
            made = a.sin() - b
        elif kind == 3:
            made = lib.stack(list((a * 1).unbind(0))[::-1])
        else:
            made = (a * 1).mul_(b)
        if numbers.random() < 0.5:
            made.register_hook(look(f"tensor {index}"))
        if numbers.random() < 0.3:
            made.grad_fn.register_hook(look(f"post {index}"))
        pool.append(made)

    chosen = pool[numbers.randrange(6, 16)]
    if nested:

        def nest(g):
            with lib.enable_grad():
                (leaves[0] * leaves[1]).sum().backward()
            look("after nested")()

        chosen.register_hook(nest)
    if resets:

        def reset(g):
            leaves[2].grad = None
            leaves[3].grad = lib.ones_like(leaves[3])

        chosen.register_hook(reset)
    loss = sum(pool[-3:], start=leaves[3] * 1).sum()
    loss.backward()
    return log, [seen(one) for one in leaves]


def close(ours, theirs):
    if isinstance(ours, float):
        return ours == pytest.approx(theirs, rel=1e-9, abs=1e-9)
    if isinstance(ours, list | tuple):
        return len(ours) == len(theirs) and all(map(close, ours, theirs))
    return ours == theirs


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("resets", [False, True])
def test_hooks_see_the_same_leaves_at_the_same_time(seed, nested, resets):
    """E-63, E-99, E-138, E-142"""
    theirs = program(torch, seed, nested=nested, resets=resets)
    ours = program(pullback, seed, nested=nested, resets=resets)
    assert close(ours, theirs), (ours, theirs)

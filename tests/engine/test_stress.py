"""Many threads, random graphs, shared leaves, hooks and nested passes: nothing is lost (E-144)."""

from __future__ import annotations

import random
import threading

import pytest

import pullback as torch
from pullback.autograd import Function

THREADS, GRAPHS = 8, 200


class Doubled(Function):
    """Its backward runs another pass, over the leaf that all threads share."""

    @staticmethod
    def forward(ctx, x, shared):
        ctx.shared = shared
        return x * 2

    @staticmethod
    def backward(ctx, g):
        with torch.enable_grad():
            (ctx.shared * 3).sum().backward()
        return g * 2, None


def random_graph(numbers, leaves, fired):
    """A sum over a random graph of small whole numbers, so that every order gives the same sum."""
    pool = list(leaves)
    for _ in range(numbers.randrange(2, 7)):
        a, b = numbers.choice(pool), numbers.choice(pool)
        kind = numbers.randrange(6)
        if kind == 0:
            made = a + b
        elif kind == 1:
            made = a * numbers.randrange(1, 3)
        elif kind == 2:
            made = Doubled.apply(a, numbers.choice(leaves))
        elif kind == 3:
            made = torch.stack(list(a.unbind(0))[::-1])
        elif kind == 4:
            made = a.clone()
            made[0] = b[1]
        else:
            made = (a * 1).mul_(2)
        if numbers.random() < 0.4:
            made.register_hook(lambda g: fired.append(1))
        if numbers.random() < 0.2:
            made.register_hook(lambda g: g * 2)
        pool.append(made)
    return sum(pool[-3:]).sum()


def passes_of(number, leaves, fired):
    numbers = random.Random(number)
    for _ in range(GRAPHS):
        random_graph(numbers, leaves, fired).backward()


def shared_leaves(on_leaves, fired):
    leaves = [torch.ones(2, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    if on_leaves:
        for leaf in leaves:
            leaf.register_hook(lambda g: fired.append(1))
            leaf.register_post_accumulate_grad_hook(lambda leaf: fired.append(1))
    return leaves


def sums(leaves):
    return [leaf.grad.tolist() for leaf in leaves]


@pytest.mark.parametrize("on_leaves", [False, True])
def test_sums_of_concurrent_passes_equal_the_serial_ones(on_leaves):
    """E-98, E-140, E-144"""
    fired = []
    leaves = shared_leaves(on_leaves, fired)
    for number in range(THREADS):
        passes_of(number, leaves, fired)
    expected, expected_fired = sums(leaves), len(fired)

    fired = []
    leaves = shared_leaves(on_leaves, fired)
    errors = []

    def work(number):
        try:
            passes_of(number, leaves, fired)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert errors == []
    assert sums(leaves) == expected
    assert len(fired) == expected_fired

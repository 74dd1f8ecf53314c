"""Whose memory a gradient is in: sums are made where nobody else looks, whatever the program."""

from __future__ import annotations

import random
from sys import getrefcount

import numpy as np
import pytest

import pullback as torch
from pullback.autograd import Function, set_backward_threads
from pullback.engine import request as entry
from pullback.engine.ownership import is_sole_reference


class Kept:
    """What a user's code saw on the way, and what it was when it was seen."""

    def __init__(self):
        self.seen = []

    def keep(self, g):
        self.seen.append((g, g.tolist()))

    def assert_unchanged(self):
        for g, values in self.seen:
            assert g.tolist() == values


class Shared(Function):
    """Hands one gradient to both inputs."""

    @staticmethod
    def forward(ctx, a, b):
        return a + b

    @staticmethod
    def backward(ctx, g):
        return g, g


class Program:
    """A random program of sums: of each tensor is known how often each leaf is in it.

    Most rules hand on the very gradient that came (`+`), a view of it (`reshape`), or one array to
    several inputs; others make one in new memory. That, and who keeps what, is all that decides
    which memory a sum may be made in.
    """

    def __init__(self, seed, size=3):
        self.draw = random.Random(seed)
        self.kept = Kept()
        self.size = size
        self.leaves = [torch.ones(size, dtype=torch.float64, requires_grad=True) for _ in range(3)]
        self.pool = [(leaf, np.eye(3)[i]) for i, leaf in enumerate(self.leaves)]
        for _ in range(self.draw.randint(4, 14)):
            self._step()
        results = self.draw.sample(self.pool, k=3)
        self.result = sum((one for one, _ in results[1:]), results[0][0] * 1)
        self.counts = sum(count for _, count in results)

    def _step(self):
        draw = self.draw
        (a, counts_a), (b, counts_b) = draw.choice(self.pool), draw.choice(self.pool)
        kind = draw.randrange(8)
        if kind == 0:
            new = a * 2, counts_a * 2
        elif kind == 1:
            new = a.reshape(1, -1).reshape(-1), counts_a
        elif kind == 2:
            new = Shared.apply(a, b), counts_a + counts_b
        elif kind == 3:
            one, other = torch.stack([a, b]).unbind()
            new = one + other, counts_a + counts_b
        elif kind == 4:
            new = a - b, counts_a - counts_b
        else:
            new = a + b, counts_a + counts_b
        if draw.random() < 0.5:
            watched = new[0]
            if draw.random() < 0.5:
                watched.register_hook(self.kept.keep)
            if draw.random() < 0.3:
                watched.grad_fn.register_prehook(lambda gs: self.kept.keep(gs[0]))
            if draw.random() < 0.3:
                watched.grad_fn.register_hook(self._keep_results)
            if draw.random() < 0.3:
                watched.retain_grad()
        self.pool.append(new)

    def _keep_results(self, results, gradients):
        for g in (*results, *gradients):
            if g is not None:
                self.kept.keep(g)

    def assert_right(self, root, times=1):
        """Gradients, and that nobody's memory was written to or is shared with a `.grad`."""
        for leaf, count in zip(self.leaves, self.counts, strict=True):
            if leaf.grad is None:
                assert count == 0
            else:
                assert leaf.grad.tolist() == [times * count] * self.size
        self.kept.assert_unchanged()
        assert root.tolist() == [1] * self.size
        own = [leaf.grad.numpy() for leaf in self.leaves if leaf.grad is not None]
        known = [root.numpy(), *(g.numpy() for g, _ in self.kept.seen)]
        inside = [t for t, _ in self.pool if not t.is_leaf and t.retains_grad]
        known += [t.grad.numpy() for t in inside if t.grad is not None]
        for i, grad in enumerate(own):
            assert grad.flags.writeable
            assert not any(np.shares_memory(grad, other) for other in [*known, *own[:i]])


def passes():
    return pytest.mark.parametrize("kind", ["plain", "ordered", "threads"])


def run(kind, program, root, monkeypatch, **options):
    monkeypatch.setattr(entry, "always_ordered", kind == "ordered")
    if kind != "threads":
        program.result.backward(root, **options)
        return
    with set_backward_threads(2):
        program.result.backward(root, **options)


@passes()
@pytest.mark.parametrize("seed", range(60))
def test_no_sum_is_made_in_memory_that_somebody_else_knows(seed, kind, monkeypatch):
    program = Program(seed)
    root = torch.ones(program.size, dtype=torch.float64)
    run(kind, program, root, monkeypatch, retain_graph=True)
    program.assert_right(root)
    before = [leaf.grad for leaf in program.leaves]
    run(kind, program, root, monkeypatch)  # into the stored ones
    program.assert_right(root, times=2)
    assert all(a is None or a is b.grad for a, b in zip(before, program.leaves, strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_captured_gradients_are_not_added_to_afterwards(seed):
    program = Program(seed)
    inside = [t for t, _ in program.pool if not t.is_leaf]
    root = torch.ones(program.size, dtype=torch.float64)
    ask = {"allow_unused": True, "retain_graph": True}
    found = torch.autograd.grad(program.result, [*inside, *program.leaves], root, **ask)
    alone = [torch.autograd.grad(program.result, one, root, **ask)[0] for one in inside]
    for several, single in zip(found, alone, strict=False):
        assert (several is None) == (single is None)
        assert several is None or several.tolist() == single.tolist()
    program.kept.assert_unchanged()
    assert root.tolist() == [1] * program.size


@passes()
@pytest.mark.parametrize("watched", [True, False])
def test_what_a_rule_hands_on_is_not_added_into(watched, kind, monkeypatch):
    """`s` hands what it gets, in new memory, to both `p` and `q`, and each of them gets more."""
    monkeypatch.setattr(entry, "always_ordered", kind == "ordered")
    kept = Kept()
    x = torch.ones(4, requires_grad=True)
    p, q = x * 1, x * 1
    s = p + q
    if watched:
        s.register_hook(kept.keep)
    loss = (p * 3).sum() + (q * 3).sum() + (s * s).sum()
    with set_backward_threads(2 if kind == "threads" else 1):
        loss.backward()
    assert x.grad.tolist() == [14] * 4
    kept.assert_unchanged()
    assert [values for _, values in kept.seen] == [[4] * 4] * watched


@passes()
def test_what_a_hook_after_a_node_has_seen_is_not_added_into(kind, monkeypatch):
    """The rules of a product make new memory, but the hook holds it still."""
    monkeypatch.setattr(entry, "always_ordered", kind == "ordered")
    kept = Kept()
    x = torch.ones(4, requires_grad=True)
    p, q, r = x * 1, x * 2, x * 3
    s = p * q * r
    s.grad_fn.register_hook(lambda results, _: [kept.keep(g) for g in results] and None)
    s.grad_fn.next_functions[0][0].register_hook(
        lambda results, _: [kept.keep(g) for g in results] and None
    )
    loss = (p * 3).sum() + (q * 5).sum() + (r * 7).sum() + s.sum()
    with set_backward_threads(2 if kind == "threads" else 1):
        loss.backward()
    assert x.grad.tolist() == [3 + 10 + 21 + 18] * 4
    kept.assert_unchanged()
    assert [values for _, values in kept.seen] == [[3] * 4, [2] * 4, [6] * 4, [3] * 4]


@passes()
def test_what_goes_to_two_leaves_is_not_added_into(kind, monkeypatch):
    """The same of leaves: the second gradient of one is the first of the other."""
    monkeypatch.setattr(entry, "always_ordered", kind == "ordered")
    a, b = (torch.ones(4, requires_grad=True) for _ in range(2))
    kept = Kept()
    s = a + b  # made first, so its gradient comes last
    s.register_hook(kept.keep)
    loss = (a * 3).sum() + (b * 5).sum() + (s * s).sum()
    with set_backward_threads(2 if kind == "threads" else 1):
        loss.backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([7] * 4, [9] * 4)
    kept.assert_unchanged()


@passes()
def test_what_a_users_rule_made_is_not_added_into(kind, monkeypatch):
    """New to the engine, but the user's code holds it still."""
    monkeypatch.setattr(entry, "always_ordered", kind == "ordered")
    kept = Kept()

    class Keeps(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            made = g * 2
            kept.keep(made)
            return made

    x = torch.ones(4, requires_grad=True)
    y = x * 1
    z = Keeps.apply(y)
    loss = (y * 3).sum() + (x * 3).sum() + z.sum() + Keeps.apply(x).sum()
    with set_backward_threads(2 if kind == "threads" else 1):
        loss.backward()
    assert x.grad.tolist() == [10] * 4
    kept.assert_unchanged()


def is_ours(make):
    """Whether an array that `make` returns may be kept by who holds it in one name."""
    array = make()
    references = getrefcount(array)  # a statement of its own: a call would hold it too
    return is_sole_reference(array, references)


def test_memory_is_ours_where_one_name_holds_all_of_it_and_it_can_be_written():
    held = np.ones((2, 3))
    ours = {
        "new": lambda: np.ones(3),
        "all of an array that nobody else holds": lambda: np.ones((2, 3)).T,
    }
    not_ours = {
        "held by another name": lambda: held,
        "of memory that another name holds": lambda: held.T,
        "each element is the same one": lambda: np.broadcast_to(np.ones(1), (3,)),
        "the base has more": lambda: np.ones(6)[::2],
        "a read-only view": lambda: np.lib.stride_tricks.as_strided(np.ones(3), writeable=False),
        "all of it, but one place again and again": lambda: np.ndarray(
            (3,), buffer=np.ones(3), strides=(0,)
        ),
        "all of an array that is a view itself": lambda: np.ndarray(
            (1,), buffer=np.frombuffer(bytearray(8))
        ),
        "a number": lambda: np.float64(1.0),
        "of bytes": lambda: np.frombuffer(bytearray(8)),
    }
    assert {name: is_ours(make) for name, make in ours.items()} == dict.fromkeys(ours, True)
    assert {name: is_ours(make) for name, make in not_ours.items()} == dict.fromkeys(
        not_ours, False
    )

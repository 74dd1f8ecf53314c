"""Writes to parts of memory: native stores, in place where nobody reads what was there."""

import random

import numpy as np
import pytest

import pullback as torch
from pullback.compiled.counting import counters

pytest.importorskip("llvmlite")


def kernels(f):
    """Names of the eager kernels in a function's programs."""
    programs = [program for entry in f.entries for program in entry.programs()]
    return [between.kernel.name for one in programs for *_, between in one.parts if between]


def compared(function, *tensors):
    """The compiled function, after results and gradients agreed with eager's."""
    counters.clear()
    f = torch.compile(function, backend="llvm")
    for _ in range(3):
        results = []
        for one in (function, f):
            made = one(*tensors)
            outs = list(made) if isinstance(made, tuple) else [made]
            wanted = [x for x in tensors if x.requires_grad]
            roots = [x.square().sum() for x in outs if x.requires_grad]
            results.append([*outs, *(torch.autograd.grad(roots, wanted) if roots else ())])
        for ours, eager in zip(*results, strict=True):
            a, b = ours.detach().numpy(), eager.detach().numpy()
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
    assert not counters["errors"]
    return f


def test_windows_that_are_added_to_are_stored_in_place():
    """One buffer for a hundred writes, no copy and no eager kernel; adjoints vanish."""

    def windows(v):
        buffer = torch.zeros(3 * 100 + 16)
        for n in range(100):
            buffer[3 * n : 3 * n + 16] += v * (n * 0.01)
        return (buffer * buffer).sum()

    f = compared(windows, torch.randn(16, requires_grad=True))
    assert not kernels(f)
    (program,) = f.entries[0].programs()
    puts = [v for v in program.plan.values if v.op == "put"]
    assert len(puts) == 100  # of the backward none: what they write is there already
    assert len(program.plan.over) == 100


def test_a_value_that_is_read_later_is_not_written_over():
    def work(x):
        a = x * 2
        b = a.clone()
        b[1:3] = x[:2].sin()
        c = b.clone()
        c[0] += a[3]
        return a.tanh() + b * c, b.sum()

    compared(work, torch.randn(5, 4, requires_grad=True))


def test_what_is_written_may_lie_where_it_is_written_to():
    """A part that is a view of the whole is copied before it is lost."""

    def shifted(x):
        y = x * 2
        y[1:] = y[:-1].clone()
        y[:, 1:] = y[:, :-1] + 1
        return y

    compared(shifted, torch.randn(6, 5, requires_grad=True))
    compared(lambda x: shifted(x.t()), torch.randn(6, 5, requires_grad=True))


@pytest.mark.parametrize("seed", range(40))
def test_random_writes_give_what_eager_gives(seed):
    rng = random.Random(seed)
    steps = []
    for _ in range(rng.randint(2, 9)):
        place = rng.choice([
            (slice(rng.randint(0, 3), rng.randint(4, 7)),), (rng.randint(0, 6),),
            (slice(None), slice(rng.randint(0, 2), rng.randint(3, 5))),
            (slice(None, None, rng.randint(2, 3)), rng.randint(0, 4)),
            (slice(1, -1), slice(1, -1)), (...,),
        ])  # fmt: skip
        steps.append((place, rng.choice("=+*zsvtk")))

    def work(x, y):
        buffer = (x * 1.5 + y).clone()
        kept = []
        for place, how in steps:
            view = buffer[place]
            if how == "=":
                buffer[place] = (y * 0.5)[place]
            elif how == "+":
                buffer[place] += x[place].sin()
            elif how == "*":
                view.mul_(0.7)
            elif how == "z":
                view.zero_()
            elif how == "s":
                buffer[place] = buffer.flip(0)[place]
            elif how == "v":
                view.copy_(view.tanh() + 0.1)
            elif how == "t":
                buffer = buffer.t().clone().t().clone()
            else:
                kept.append(buffer.sum(0))
        return (buffer, *kept) if kept else buffer

    x = torch.randn(7, 5, requires_grad=seed % 2 == 0)
    compared(work, x, torch.randn(7, 5, requires_grad=seed % 3 == 0))


def test_parts_of_an_argument_are_written_where_they_lie():
    """A cache that is written to by slices is never copied."""

    def step(cache, x):
        cache[:, 1:3] = x * 2
        cache[:, 4] += x[:, 0]
        return (cache * 3).sum(1)

    ours, eager = torch.zeros(4, 6, 5), torch.zeros(4, 6, 5)
    f = torch.compile(step, backend="llvm")
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(4, 2, 5)
            assert torch.allclose(f(ours, x), step(eager, x))
            assert torch.equal(ours, eager)
    (program,) = f.entries[0].programs()
    assert len(program.in_place) == 1
    assert len(program.plan.over) == 2


@pytest.mark.parametrize("how", ["before", "after", "between", "itself", "returned"])
def test_an_argument_that_is_read_besides_its_writes(how):
    def step(cache, x):
        old = cache.sin() if how in ("before", "after") else 0
        cache[1:3] = x[:2]
        kept = cache.clone() if how == "between" else 0
        cache[2:5] = cache[:3].flip(0) if how == "itself" else x[:3]
        late = old * 2 if how == "after" else old
        result = cache.cos() + late + kept
        return (result, cache) if how == "returned" else result

    ours, eager = torch.randn(6, 5), None
    eager = ours.clone()
    f = torch.compile(step, backend="llvm")
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(6, 5)
            made, wanted = f(ours, x), step(eager, x)
            if how == "returned":
                assert made[1] is ours
                made, wanted = made[0], wanted[0]
            assert torch.allclose(made, wanted, rtol=1e-4, atol=1e-5)
            assert torch.equal(ours, eager)

"""Random programs on torch and on pullback: shapes, broadcasts, views, writes, reductions, dtypes.

A program is a list of steps, each of which makes a new tensor from earlier ones or writes to one.
Both sides run it; values, dtypes, shapes and the gradients of the leaves must agree, and where one
side raises, so must the other. A program that disagrees is made shorter step by step for as long as
it does, and printed.
"""

from __future__ import annotations

import functools
import random
import re
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

import pullback
from stress.report import Report

SINGLE, DOUBLE = 1e-4, 1e-9  # how much values may differ, of programs with float32 and without


class Step(NamedTuple):
    """One line: `name = text`, where the text's tensors are those made before."""

    text: str
    uses: tuple[int, ...]


# What a step may do to `a` (and `b`); {i}, {j} are small numbers that may or may not fit.
_OF_ONE = """
    a.exp() a.sin() a.abs() a.neg() a.tanh() a.relu() a.clamp(-1,1) a.square() a.sigmoid() a*2.5
    a+1 1-a a/3 a**2 a.t() a.reshape(-1) a.flatten() a.unsqueeze({i}) a.squeeze()
    a.transpose({i},{j}) a.sum() a.sum({i}) a.mean({i},keepdim=True) a.amax({i}) a.max({i})[0]
    a.cumsum({i}) a.flip({i}) a[{i}] a[...,{i}:] a[::2] a[None] a[a>0] a.diagonal()
    a.narrow({i},0,1) a.expand(2,*a.shape) a.contiguous() a.clone() a.double() a.float()
    a.roll(1,{i}) a.sort({i})[0] a.var({i},correction=0) a.softmax({i}) a.logsumexp({i}) a.prod({i})
    a.norm() a.repeat(2,1) a.chunk(2,{i})[0] a.mT a.triu() a.masked_fill(a>0,0.5)
    a.index_select({i},torch.tensor([0,0])) a.unfold({i},1,1) a.floor() a.sign()
"""
_OF_TWO = """
    a+b a-b a*b a/(b.abs()+1) torch.maximum(a,b) torch.where(a>b,a,b) a@b torch.atan2(a,b)
    torch.cat([a,b],{i}) torch.stack([a,b],{i}) a.lerp(b,0.3) torch.addcmul(a,b,b) a.expand_as(b)
    torch.einsum('...i,...i->...',a,b) a.remainder(b.abs()+1) torch.outer(a.flatten(),b.flatten())
"""
_WRITING = """
    a.add_(1) a.mul_(2) a.sin_() a.zero_() a.clamp_(-1,1) a[0].mul_(3) a.t().exp_() a.neg_()
    a[...,:1].fill_(2) a.masked_fill_(a>0,0.1) a.relu_() a.squeeze().add_(1)
"""
UNARY, BINARY, WRITES = _OF_ONE.split(), _OF_TWO.split(), _WRITING.split()
WRITES_OF_TWO = ["a.add_(b)", "a.mul_(b)", "a.copy_(b)", "a[0].copy_(b)", "a.sub_(b.t())"]
# Steps at which the sides differ and we mean it, where one of the sides refuses.
EXPLAINED = {
    "a.roll(": "torch does not look at the dimension of a roll of nothing",
    "torch.einsum(": "torch mixes dtypes where a summed dimension has one element, and only there",
    "a.masked_fill_(": "torch still writes to an expanded tensor here, and warns of it",
    "a.copy_(": "torch lets a tensor be copied to itself whatever its memory",
}
SHAPES = ((), (3,), (1,), (2, 3), (3, 2), (2, 1), (3, 3), (2, 3, 2), (0, 3), (1, 3))


def drawn(draw: random.Random) -> tuple[list[Any], list[Step]]:
    """Leaves as arrays, and the steps on them."""
    count = draw.randrange(1, 4)
    seed = numpy.random.default_rng(draw.randrange(2**31))
    leaves = [
        numpy.asarray(seed.normal(size=draw.choice(SHAPES))).astype(draw.choice(("f4", "f8")))
        for _ in range(count)
    ]
    steps: list[Step] = []
    for number in range(draw.randrange(1, 8)):
        last = count + number
        a, b = (draw.choice([draw.randrange(last), last - 1]) for _ in range(2))
        text = draw.choice(draw.choices((UNARY, BINARY, WRITES, WRITES_OF_TWO), (6, 4, 2, 1))[0])
        text = text.replace("{i}", str(draw.randrange(-1, 3))).replace(
            "{j}", str(draw.randrange(2))
        )
        steps.append(Step(text, (a, b)))
    return leaves, steps


class Outcome(NamedTuple):
    """What each step made, and the gradients; or the number of the step that failed."""

    values: list[Any]
    failed: int | None


def ran(library: Any, leaves: list[Any], steps: list[Step]) -> Outcome:
    """Run a program on one side."""
    starts = [library.tensor(array, requires_grad=True) for array in leaves]
    # Not the leaves themselves: those may not be written to.
    made = [start * 1 for start in starts]
    values: list[Any] = []
    for number, step in enumerate(steps):
        a, b = (made[use] for use in step.uses)
        try:
            result = eval(step.text, {"torch": library, "a": a, "b": b})
        except Exception:
            return Outcome(values, number)
        made.append(result)
        values.append(_plain(result))
    try:
        total = sum((one.double() * 1).sum() for one in made)
        grads = library.autograd.grad(total, starts, allow_unused=True)
    except Exception:
        return Outcome(values, len(steps))
    return Outcome([*values, *(None if g is None else _plain(g) for g in grads)], None)


def _plain(tensor: Any) -> tuple[Any, str]:
    # A copy: a later step may write to it.
    return numpy.array(tensor.detach().numpy()), str(tensor.dtype).rsplit(".", 1)[-1]


def disagreement(torch: Any, leaves: list[Any], steps: list[Step]) -> str | None:
    """In what the two sides differ; None if in nothing."""
    ours, theirs = ran(pullback, leaves, steps), ran(torch, leaves, steps)
    if ours.failed != theirs.failed:
        return f"step {ours.failed} fails here, step {theirs.failed} in torch"
    single = any(array.dtype == "f4" for array in leaves) or any(
        ".float()" in step.text for step in steps
    )
    bound = SINGLE if single else DOUBLE
    for number, (one, other) in enumerate(zip(ours.values, theirs.values, strict=True)):
        what = f"step {number}" if number < len(steps) else f"gradient {number - len(steps)}"
        if one is None or other is None:
            if one is not other:
                return f"{what} is None on one side"
            continue
        if one[1] != other[1] or one[0].shape != other[0].shape:
            return f"{what}: {one[1]} {one[0].shape}, in torch {other[1]} {other[0].shape}"
        if not numpy.allclose(one[0], other[0], bound, bound, equal_nan=True):
            return f"{what}: other values"
    return None


def shortened(torch: Any, leaves: list[Any], steps: list[Step]) -> list[Step]:
    """Fewer steps that still disagree: each is left away, where later ones do not need it."""
    count = len(leaves)
    for number in reversed(range(len(steps))):
        gone = count + number
        later = steps[number + 1 :]
        if any(gone in step.uses for step in later):
            continue
        moved = [Step(step.text, tuple(use - (use > gone) for use in step.uses)) for step in later]
        fewer = [*steps[:number], *moved]
        if fewer and disagreement(torch, leaves, fewer) is not None:
            steps = fewer
    return steps


def explained(leaves: list[Any], steps: list[Step], found: str) -> bool:
    """Whether the sides may differ so: what EXPLAINED has, and writes where memory is shared."""
    last = steps[-1]
    if "fails" in found and last.text.startswith(tuple(EXPLAINED)):
        return True
    if last.text not in (*WRITES, *WRITES_OF_TWO):
        return False
    if any(".expand" in step.text for step in steps):
        return "fails" in found  # torch writes to what is repeated, and then has no gradient
    made = [pullback.tensor(array) * 1 for array in leaves]
    for step in steps[:-1]:
        a, b = (made[use] for use in step.uses)
        made.append(eval(step.text, {"torch": pullback, "a": a, "b": b}))
    a, b = (made[use].numpy() for use in last.uses)
    # An operand that is a part of the target: torch reads what it has just written, also where it
    # is the target's own transpose, which it refuses for dense memory alone. One element and its
    # transpose: strides of dimensions of one element are an overlap to torch.
    apart = a is not b or a.size == 1 or ".t()" in last.text
    return last.text in WRITES_OF_TWO and apart and bool(numpy.shares_memory(a, b))


def _shown(leaves: list[Any], steps: list[Step]) -> str:
    starts = [f"x{i} = {array.dtype}{array.shape}" for i, array in enumerate(leaves)]
    lines = []
    for number, step in enumerate(steps):
        a, b = (f"x{use}" for use in step.uses)
        text = functools.reduce(
            lambda text, pair: _renamed(text, *pair), (("a", a), ("b", b)), step.text
        )
        lines.append(f"x{len(leaves) + number} = {text}")
    return "; ".join([*starts, *lines])


def _renamed(text: str, name: str, other: str) -> str:
    return re.sub(rf"(?<![\w.']){name}\b(?!['(=])", other, text)


def run(seconds: float, seed: int, calls: int | None = None) -> Report:
    """Compare programs until the time, or their number, is over."""
    report = Report("programs", seed)
    try:
        import torch
    except ImportError:
        report.counts["torch is not installed: nothing compared"] = 1
        return report
    end = time.monotonic() + seconds
    number = 0
    judge: Callable[..., str | None] = functools.partial(disagreement, torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while time.monotonic() < end and (calls is None or number < calls):
            leaves, steps = drawn(random.Random(f"{seed}:{number}"))
            what = judge(leaves, steps)
            report.counts["steps"] += len(steps)
            if not what:
                report.counts["agree"] += 1
            else:
                fewer = shortened(torch, leaves, steps)
                found = judge(leaves, fewer) or what
                if explained(leaves, fewer, found):
                    report.counts["differ as explained"] += 1
                    number += 1
                    continue
                report.counts["disagree"] += 1
                texts = ", ".join(step.text for step in fewer)
                report.found(f"{found}: {texts}", f"{_shown(leaves, fewer)}  # program {number}")
            number += 1
    report.counts["programs"] = number
    return report

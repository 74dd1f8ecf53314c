"""Custom Functions drawn at random, differentiated in every way, against the same in operators.

Each computes a product, and maybe a sine beside it: in new memory or in that of an argument, which
may be a part of another tensor; with ctx in forward or after it; its derivatives from what it was
given or from its own result. Whichever way a derivative is computed, it must be that of the
operators. A way may refuse a Function; what it computes is right.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

import pullback as torch
from pullback.autograd import Function, forward_ad
from stress.report import Report

CLOSE = 1e-9


class Kind(NamedTuple):
    """What a Function is like."""

    split: bool  # forward without ctx
    written: bool  # the product is in the memory of the first factor
    part: bool  # the first factor is a part of another tensor
    result: bool  # the second slope is computed from the product, which is saved
    zeros: bool  # what has no gradient comes as zeros, not as None
    several: bool  # there is a sine, too
    rule: bool  # vmap maps it by itself


KINDS = [Kind(*chosen) for chosen in itertools.product((False, True), repeat=len(Kind._fields))]


def added(one: Any, other: Any) -> Any:
    """The sum; None is nothing."""
    return other if one is None else one if other is None else one + other


def times(one: Any, other: Any) -> Any:
    """The product; None with anything is None."""
    return None if one is None else one * other


def made(kind: Kind) -> Any:
    """A Function of two tensors."""

    def computed(x: Any, y: Any) -> Any:
        product = x.mul_(y) if kind.written else x * y
        return (product, y.sin()) if kind.several else product

    def staged(ctx: Any, inputs: Any, output: Any) -> None:
        x, y = inputs
        product = output[0] if kind.several else output
        if kind.written:
            ctx.mark_dirty(x)
        ctx.set_materialize_grads(kind.zeros)
        kept = (y, product) if kind.result or kind.written else (y, x)
        ctx.save_for_backward(*kept)
        ctx.save_for_forward(*kept)

    def slope(ctx: Any) -> tuple[Any, Any]:
        y, kept = ctx.saved_tensors
        return y, kept / y if kind.result or kind.written else kept

    class Drawn(Function):
        """What is tried."""

        generate_vmap_rule = kind.rule

        @staticmethod
        def backward(ctx: Any, g: Any, g_sine: Any = None) -> Any:
            y, x = slope(ctx)
            return times(g, y), added(times(g, x), times(g_sine, y.cos()))

        @staticmethod
        def jvp(ctx: Any, d_x: Any, d_y: Any) -> Any:
            y, x = slope(ctx)
            moved = added(times(d_x, y), times(d_y, x))
            if kind.written and d_x is not None:
                moved = d_x.copy_(moved)
            sine = torch.zeros_like(y) if d_y is None else d_y * y.cos()
            return (moved, sine) if kind.several else moved

    def whole(ctx: Any, x: Any, y: Any) -> Any:
        output = computed(x, y)
        staged(ctx, (x, y), output)
        return output

    Drawn.forward = staticmethod(computed if kind.split else whole)  # type: ignore[method-assign]  # drawn
    if kind.split:
        Drawn.setup_context = staticmethod(staged)  # type: ignore[method-assign]  # drawn
    return Drawn


def program(kind: Kind, call: Callable[..., Any], constant: bool) -> Callable[[Any], Any]:
    """A number of a vector, through `call`; `constant`: the first factor has no derivative."""

    def of(p: Any) -> Any:
        x = torch.ones_like(p) if constant else p * 1
        whole = torch.cat([x, x])
        outputs = call(whole[: len(p)] if kind.part else x, p.cos() + 2)
        outputs = outputs if kind.several else (outputs,)
        return sum((one**2 * (number + 1)).sum() for number, one in enumerate(outputs))

    return of


def in_operators(kind: Kind) -> Callable[..., Any]:
    """The same as the Function."""
    return lambda x, y: (x * y, y.sin()) if kind.several else x * y


def _plain(f: Any, p: Any, d: Any, again: bool = True) -> Any:
    p = p.clone().requires_grad_()
    (g,) = torch.autograd.grad(f(p), p, create_graph=again)
    return torch.autograd.grad(g @ d, p)[0] if again else g


def _dual(f: Any, p: Any, d: Any) -> Any:
    with forward_ad.dual_level():
        x = forward_ad.make_dual(p.clone().requires_grad_(), d)
        (g,) = torch.autograd.grad(f(x), x, create_graph=True)
        return forward_ad.unpack_dual(g).tangent.detach().clone()


def _packed(f: Any, p: Any, d: Any) -> Any:
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.detach().clone(), lambda x: x):
        return _dual(f, p, d)


def _checkpointed(f: Any, p: Any, d: Any) -> Any:
    return _plain(lambda x: torch.utils.checkpoint.checkpoint(f, x, use_reentrant=False), p, d)


t = torch.func
# Each gives the gradient (the first) or the second derivative in the direction `d`.
WAYS: dict[str, Callable[..., Any]] = {
    "gradient": lambda f, p, d: _plain(f, p, d, again=False),
    "grad": lambda f, p, d: t.grad(f)(p),
    "jacfwd": lambda f, p, d: t.jacfwd(f)(p),
    "vmap of grad": lambda f, p, d: t.vmap(t.grad(f))(torch.stack([p + 1, p]))[1],
    "twice": _plain,
    "dual": _dual,
    "dual, packed": _packed,
    "checkpointed": _checkpointed,
    "jvp of grad": lambda f, p, d: t.jvp(t.grad(f), (p,), (d,))[1],
    "grad of jvp": lambda f, p, d: t.grad(lambda x: t.jvp(f, (x,), (d,))[1])(p),
    "grad of grad": lambda f, p, d: t.grad(lambda x: t.grad(f)(x) @ d)(p),
    "hessian": lambda f, p, d: t.hessian(f)(p) @ d,
    "jacrev of jacrev": lambda f, p, d: t.jacrev(t.jacrev(f))(p) @ d,
}
FIRST = frozenset(("gradient", "grad", "jacfwd", "vmap of grad"))


def difference(kind: Kind, way: str, constant: bool, seed: int) -> str | None:
    """What is wrong with a derivative; "refused" if there is none."""
    numbers = numpy.random.default_rng(seed).uniform(0.3, 1.5, (2, 3))
    p, d = (torch.from_numpy(row) for row in numbers)
    compute = WAYS[way]
    expected = _plain(program(kind, in_operators(kind), constant), p, d, again=way not in FIRST)
    try:
        found = compute(program(kind, made(kind).apply, constant), p, d)
    except RuntimeError:
        return "refused"
    apart = numpy.abs(found.detach().numpy() - expected.detach().numpy()).max()
    return None if apart < CLOSE else f"{found.tolist()} and not {expected.tolist()}"


def run(seconds: float, seed: int, calls: int | None = None) -> Report:
    """Try Functions until the time, or their number, is over."""
    report, end = Report("functions", seed), time.monotonic() + seconds
    draw = random.Random(seed)
    number = 0
    while time.monotonic() < end and (calls is None or number < calls):
        kind, way, constant = draw.choice(KINDS), draw.choice(list(WAYS)), draw.random() < 0.3
        told = difference(kind, way, constant, number)
        outcome = told if told == "refused" else "right" if told is None else "wrong"
        report.counts[outcome] += 1
        if outcome == "wrong":
            report.found(f"{way}: another derivative", f"{kind}, constant={constant}: {told}")
        number += 1
    return report

"""The loss of class indices: the indices are checked first, by the eager kernel's own words."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.values import Val
from pullback.compiled.lower.rules import NotLowered, constant, floating, lower
from pullback.operators.nn.loss import classes

__all__ = ["classes_out_of_range"]


def classes_out_of_range(target: Any, classes: int, ignored: int) -> bool:
    """Whether some index names no class."""
    if not target.size:
        return False
    low, high = int(target.min()), int(target.max())
    if low >= 0 and high < classes:
        return False
    return bool(((target < 0) | (target >= classes))[target != ignored].any())


def _parts(
    b: Builder, input: Val, target: Val, weight: Any, ignore_index: int, reduction: str
) -> tuple[Val, Val, Val]:
    """Which class each row has (as ones), which rows count, and how many do."""
    floating(input)
    if len(input.shape) != 2 or target.dtype != "i8" or weight is not None:
        raise NotLowered
    column = b.reshape(target, (*target.shape, 1))
    hot = b.ew("eq", b.iota(input.shape[1]), column)
    counted = b.ew("ne", column, b.const(ignore_index, "i8"))
    ones = b.ew("cast", counted, dtype=input.dtype)
    return hot, ones, b.reduce("sum", ones, (0, 1), keep=True)


@lower(classes.cross_entropy_of_indices)
def _cross_entropy(
    b: Builder, input: Val, target: Val, weight: Any, ignore_index: int, reduction: str
) -> Val:
    hot, ones, count = _parts(b, input, target, weight, ignore_index, reduction)
    top = b.reduce("max", input, (1,), keep=True)
    z = b.ew("exp", b.ew("sub", input, top))
    total = b.ew("log", b.reduce("sum", z, (1,), keep=True))
    zero = constant(b, 0, input)
    picked = b.reduce("sum", b.ew("where", hot, b.ew("sub", input, top), zero), (1,), keep=True)
    losses = b.ew("where", b.ew("ne", ones, zero), b.ew("sub", total, picked), zero)
    if reduction == "none":
        return b.squeeze(losses, (1,))
    made = b.reduce("sum", losses, (0, 1), keep=True)
    if reduction == "mean":
        made = b.ew("div", made, count)
    return b.reshape(made, ())


@lower(classes._cross_entropy_adjoint)
def _cross_entropy_adjoint(
    b: Builder, gradient: Val, input: Val, target: Val, weight: Any, ignore_index: int,
    reduction: str,
) -> Val:  # fmt: skip
    floating(gradient, input)
    hot, ones, count = _parts(b, input, target, weight, ignore_index, reduction)
    top = b.reduce("max", input, (1,), keep=True)
    z = b.ew("exp", b.ew("sub", input, top))
    share = b.ew("mul", z, b.ew("recip", b.reduce("sum", z, (1,), keep=True)))
    zero, one = constant(b, 0, input), constant(b, 1, input)
    slope = b.ew("sub", share, b.ew("where", hot, one, zero))
    if reduction == "none":
        scale = b.ew("mul", b.reshape(gradient, (*gradient.shape, 1)), ones)
    elif reduction == "mean":
        scale = b.ew("mul", b.ew("div", b.reshape(gradient, (1, 1)), count), ones)
    else:
        scale = b.ew("mul", b.reshape(gradient, (1, 1)), ones)
    counted = b.ew("ne", ones, zero)
    return b.ew("where", counted, b.ew("mul", slope, scale), zero)


def check_kernel(call: Any) -> Any:
    """What runs before a lowered loss: raises as the eager kernel does where a class is wrong."""
    arguments = call.kwargs
    classes = arguments["input"].shape[1]
    ignored = arguments["ignore_index"]

    def check(target: Any, score: Any) -> tuple[()]:
        if classes_out_of_range(target, classes, ignored):
            scores = numpy.zeros((len(target), classes), score.dtype)
            call.kernel(numpy, input=scores, target=target, weight=None, ignore_index=ignored,
                        reduction=arguments["reduction"])  # fmt: skip
            raise IndexError(f"{call.name}: a target names none of the {classes} classes.")
        return ()

    return check

"""Losses of classification by class index: nll, and cross entropy without log_softmax between.

Scores have classes in dimension 1 (0 if there is no batch), targets are their shape without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy

from pullback.core.dtype import from_numpy_dtype
from pullback.core.promotion import is_half
from pullback.operators.arrays import programs
from pullback.operators.arrays.blocks import BLOCK, ONES, pieces
from pullback.operators.arrays.native import MANY, by_machine_code
from pullback.operators.arrays.rows import FEW, row_sums
from pullback.operators.arrays.sums import few_sums, ones, sums, totals
from pullback.operators.arrays.threads import each
from pullback.operators.conditions import (
    above,
    at_least,
    at_most,
    contiguous,
    floating,
    given,
    host,
    matrix,
    not_empty,
    says,
)
from pullback.operators.declare import Array, Namespace, kernel, primitive
from pullback.operators.linalg.products import total
from pullback.operators.nn.activation.softmax import (
    SAFE_SQUARES,
    exponentials_of,
    softmax,
    softmax_adjoint,
    softmax_of,
)
from pullback.operators.nn.loss import batch as batch_layers
from pullback.operators.reduce.sums import sum

__all__ = ["cross_entropy_of_indices", "nll_of_indices"]


class Chosen(NamedTuple):
    """Where the target classes are, and what each counts."""

    key: tuple[Array, ...]  # of the chosen scores, in an array of (batch, classes[, rest])
    weights: Array | None  # of the chosen scores; None where all count 1
    ignored: Array | None  # which are to be left out; None where none are
    total: Any  # the sum of the weights


def class_dim(ndim: int) -> int:
    """The dimension of the classes."""
    return 0 if ndim == 1 else 1


def _layout(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape as (batch, classes), or (batch, classes, rest)."""
    if len(shape) == 2:
        return shape
    return (1, *shape) if len(shape) == 1 else (shape[0], shape[1], math.prod(shape[2:]))


_COUNT = numpy.arange(4096)


def _numbered(xp: Namespace, count: int) -> Array:
    """The numbers below `count`, not to be written to."""
    return _COUNT[:count] if count <= 4096 and xp is numpy else xp.arange(count)


def _is_outside(xp: Namespace, index: Array, classes: int) -> bool:
    """Whether any number is none of a class."""
    if index.size < 32:
        listed = index.tolist() if index.ndim == 1 else index.ravel().tolist()
        return bool(listed) and not (min(listed) >= 0 and max(listed) < classes)
    # Read as unsigned, negative numbers are large: one pass finds all that is out of the ordinary.
    return bool(xp.maximum.reduce(index.view(xp.uint64), None) >= classes)


def _chosen(
    xp: Namespace,
    target: Array,
    weight: Array | None,
    ignore_index: int,
    layout: tuple[int, ...],
    dtype: Any,
) -> Chosen:
    classes = layout[1]
    index = (
        target if len(layout) == 2 == target.ndim + 1 else target.reshape(layout[:1] + layout[2:])
    )
    if index.dtype.itemsize != 8:
        index = index.astype(xp.int64)
    ignored = None
    if 0 <= ignore_index < classes or _is_outside(xp, index, classes):
        ignored = index == ignore_index
        index = xp.where(ignored, 0, index)
        if _is_outside(xp, index, classes):
            worst = index[(index < 0) | (index >= classes)].flat[0]
            raise IndexError(
                f"Target {worst} is out of bounds: classes are numbered 0 to {classes - 1}."
            )
    batch = _numbered(xp, layout[0])
    if len(layout) == 2:
        key: tuple[Array, ...] = (batch, index)
    else:
        key = (batch[:, None], index, _numbered(xp, layout[2]))
    weights = None if weight is None else weight[index]
    if ignored is not None:
        weights = (~ignored).astype(dtype) if weights is None else weights * ~ignored
    total = dtype.type(index.size) if weights is None else sums(xp, weights, None, keepdim=False)
    return Chosen(key, weights, ignored, total)


def _reduced(xp: Namespace, losses: Array, chosen: Chosen, reduction: str, shape: Any) -> Array:
    """Losses of the chosen scores, weighted, as the user wants them; `losses` is new."""
    if chosen.weights is not None:
        losses *= chosen.weights
    if chosen.ignored is not None:
        losses[chosen.ignored] = 0
    if reduction == "none":
        dim = class_dim(len(shape))
        return losses.reshape(shape[:dim] + shape[dim + 1 :])
    if is_half(losses.dtype):
        wide = xp.add.reduce(losses, None, xp.float32)
        count = losses.size if chosen.weights is None else chosen.total
        wide = wide if reduction == "sum" else wide / xp.float32(count)
        return xp.asarray(wide).astype(losses.dtype)
    few = losses.ndim == 1 and 0 < losses.size <= FEW and losses.dtype.char in "fd"
    total = few_sums(xp, losses, None, False) if few else xp.add.reduce(losses, None)
    return total if reduction == "sum" else total / chosen.total


def _coefficients(xp: Namespace, g: Array, chosen: Chosen, reduction: str) -> Array:
    """What each chosen loss counts in the end, times `g`; a single number if that is the same."""
    if reduction == "none":
        g = g.reshape(chosen.key[1].shape)
    elif reduction == "mean":
        g = g / chosen.total
    if chosen.weights is None:
        return g
    made = chosen.weights * g
    if chosen.ignored is not None:
        made[chosen.ignored] = 0
    return made


# One class for each row, all of which count the same.
_plain = host & floating & says("target_dtype.char in 'lq'") & given(weight=None)
_one_number = says("reduction != 'none'")
_few = _plain & _one_number & matrix & not_empty & at_most(FEW)
_many = _plain & matrix & at_least(MANY) & says("target_ndim == 1")


def _few_places(target: Array, ignored: int, rows: int, classes: int) -> Array | None:
    """Where the chosen scores are, counted over all; None where not every row has a class."""
    if 0 <= ignored < classes or _is_outside(numpy, target, classes):
        return None
    return target + _starts(rows, classes)


def _has_classes(scores: Array, target: Array, ignored: int) -> bool:
    """Whether every row has a class."""
    low, high = numpy.minimum.reduce(target), numpy.maximum.reduce(target)
    fits = len(target) == len(scores) and low >= 0 and high < scores.shape[1]
    return bool(fits and not low <= ignored <= high)


@lru_cache(256)
def _starts(rows: int, classes: int) -> Array:
    return numpy.arange(rows) * classes


@lru_cache(256)
def _shares(count: int, reduction: str, dtype: Any) -> tuple[Array, Array]:
    """What each of the chosen counts, and minus that for all of them."""
    share = numpy.array(1 / count if reduction == "mean" else 1, dtype)
    return share, numpy.full(count, -share)


# nll ----------------------------------------------------------------------------------------------


@primitive(
    batch=batch_layers.by_class,
    input=lambda g, target, weight, input_shape, ignore_index, reduction: _nll_adjoint(
        g, target, weight, input_shape, ignore_index, reduction
    ),
    jvp=lambda d_input, target, weight, ignore_index, reduction: nll_of_indices(
        d_input, target, weight, ignore_index, reduction
    ),
    name="nll_loss",
    space="nn.functional",
    has_out=False,
    aten="",
)
def nll_of_indices(
    xp: Namespace,
    input: Array,
    target: Array,
    weight: Array | None,
    ignore_index: int,
    reduction: str,
) -> Array:
    """Minus the scores of the target classes."""
    layout = _layout(input.shape)
    chosen = _chosen(xp, target, weight, ignore_index, layout, input.dtype)
    losses = -input.reshape(layout)[chosen.key]
    return _reduced(xp, losses, chosen, reduction, input.shape)


@kernel(nll_of_indices, when=_few, declines=True)
def _by_dot(
    input: Array, input_shape: Any, target: Array, ignore_index: int, reduction: str
) -> Array | None:
    places = _few_places(target, ignore_index, *input_shape)
    if places is None:
        return None
    return input.ravel()[places].dot(_shares(places.size, reduction, input.dtype)[1])


@primitive(
    batch=batch_layers.by_class_adjoint,
    gradient=lambda g, target, weight, ignore_index, reduction: nll_of_indices(
        g, target, weight, ignore_index, reduction
    ),
    jvp=lambda d_gradient, target, weight, shape, ignore_index, reduction: _nll_adjoint(
        d_gradient, target, weight, shape, ignore_index, reduction
    ),
    node="NllLossBackwardBackward0",
    has_out=False,
)
def _nll_adjoint(
    xp: Namespace,
    gradient: Array,
    target: Array,
    weight: Array | None,
    shape: Any,
    ignore_index: int,
    reduction: str,
) -> Array:
    """Zeros, with minus the coefficient at the place of each target class."""
    layout = _layout(tuple(shape))
    out = xp.zeros(layout, gradient.dtype)
    chosen = _chosen(xp, target, weight, ignore_index, layout, gradient.dtype)
    out[chosen.key] = -_coefficients(xp, gradient, chosen, reduction)
    return out.reshape(shape)


@kernel(
    _nll_adjoint,
    when=_plain
    & _one_number
    & says("target_size", "len(shape) == 2")
    & at_most(FEW, "shape[0] * shape[1]"),
    declines=True,
)
def _few_shares(
    gradient: Array, target: Array, shape: Any, ignore_index: int, reduction: str
) -> Array | None:
    places = _few_places(target, ignore_index, *shape)
    if places is None:
        return None
    out = numpy.zeros(shape, gradient.dtype)
    out.ravel()[places] = _shares(places.size, reduction, gradient.dtype)[1] * gradient
    return out


# cross entropy ------------------------------------------------------------------------------------


def _tangent(
    d_input: Any, input: Any, target: Any, weight: Any, ignore_index: int, reduction: str
) -> Any:
    dim = class_dim(input.ndim)
    mean = sum(d_input * softmax(input, dim), dim, keepdim=True)
    return nll_of_indices(d_input - mean, target, weight, ignore_index, reduction)


@primitive(
    batch=batch_layers.by_class,
    input=lambda g, input, target, weight, ignore_index, reduction: _cross_entropy_adjoint(
        g, input, target, weight, ignore_index, reduction
    ),
    jvp=_tangent,
    name="cross_entropy",
    space="nn.functional",
    node="NllLossBackward0",
    has_out=False,
    aten="",
)
def cross_entropy_of_indices(
    xp: Namespace,
    input: Array,
    target: Array,
    weight: Array | None,
    ignore_index: int,
    reduction: str,
) -> Any:
    """Minus the log-probabilities of the target classes."""
    return _entropy(xp, _losses, input, target, weight, ignore_index, reduction)


def _entropy(
    xp: Namespace,
    losses_of: Callable[..., Array],
    input: Array,
    target: Array,
    weight: Array | None,
    ignore_index: int,
    reduction: str,
) -> Array:
    half = input.dtype if input.dtype.itemsize == 2 else None
    if half is not None:
        input, weight = _in_single(xp, input, weight)
    layout = _layout(input.shape)
    scores = input.reshape(layout)
    chosen = _chosen(xp, target, weight, ignore_index, layout, input.dtype)
    losses = losses_of(xp, scores, scores[chosen.key])
    made = _reduced(xp, losses, chosen, reduction, input.shape)
    return made if half is None else made.astype(half)


@kernel(cross_entropy_of_indices, when=_few, declines=True)
def _few_losses(
    input: Array, input_shape: Any, target: Array, ignore_index: int, reduction: str
) -> Array | None:
    places = _few_places(target, ignore_index, *input_shape)
    if places is None or not (flat := input.ravel()).dot(flat) < SAFE_SQUARES:
        return None
    exponentials = numpy.exp(input)
    likely = exponentials.ravel()[places]
    likely /= exponentials.dot(ones(numpy, input_shape[1], input.dtype))
    return numpy.log(likely, likely).dot(_shares(places.size, reduction, input.dtype)[1])


# 512 rows of 40 classes (float32): the losses take 23 us and not 37, their gradient 23 and not 65.
@kernel(cross_entropy_of_indices, when=_many, machine_code=True)
def _many_losses(input: Array, target: Array, ignore_index: int, reduction: str) -> Array | None:
    if not _has_classes(input, target, ignore_index):
        return None
    made = by_machine_code(programs.CLASS_LOSSES, (input, target), ignore_index)
    if made is None:
        return None
    all_alike = Chosen((), None, None, input.dtype.type(len(target)))
    return _reduced(numpy, made[0], all_alike, reduction, input.shape)


def _in_single(xp: Namespace, *arrays: Array | None) -> Any:
    return [None if array is None else array.astype(xp.float32) for array in arrays]


# Differences of scores up to this have exponentials whose sum is far from overflow, also in single.
_SAFE = 60.0


def _losses(xp: Namespace, scores: Array, chosen: Array) -> Array:
    """`log(sum(exp(scores - chosen)))`: shifted by the chosen score, no digits of it are lost."""
    if _are_close(xp, scores):
        exponentials = scores - chosen[:, None]
        xp.exp(exponentials, out=exponentials)
        return xp.log(_totals(xp, exponentials))
    top = scores.max(1)
    exponentials = scores - top[:, None]
    xp.exp(exponentials, out=exponentials)
    return xp.log(_totals(xp, exponentials)) + (top - chosen)


@kernel(cross_entropy_of_indices, when=host & above(BLOCK))
def _in_blocks(
    input: Array, target: Array, weight: Array | None, ignore_index: int, reduction: str
) -> Array:
    return _entropy(numpy, _losses_in_blocks, input, target, weight, ignore_index, reduction)


def _losses_in_blocks(xp: Namespace, scores: Array, losses: Array) -> Array:
    def work(block: slice) -> None:
        losses[block] = _losses(xp, scores[block], losses[block])

    each(work, pieces(len(scores), scores.size // len(scores)))
    return losses


def _totals(xp: Namespace, x: Array) -> Array:
    """Sums over the classes."""
    return totals(xp, x) if x.ndim == 2 else sums(xp, x, (1,), keepdim=False)


def _are_close(xp: Namespace, scores: Array) -> bool:
    """Whether all scores are so close to one another that any may be the shift of a row."""
    if scores.size <= FEW:
        flat = scores.ravel()
        if flat.dot(flat) < _SAFE * _SAFE / 4:  # then each is within half of it
            return True
    largest = xp.maximum.reduce(scores, None, initial=-xp.inf)
    return bool(largest - xp.minimum.reduce(scores, None, initial=xp.inf) < _SAFE)


def _second_gradient(
    g: Any, input: Any, target: Any, weight: Any, ignore_index: int, reduction: str
) -> Any:
    dim = class_dim(input.ndim)
    mean = sum(g * softmax(input, dim), dim, keepdim=True)
    return nll_of_indices(g - mean, target, weight, ignore_index, reduction)


def _second_input(
    g: Any, gradient: Any, input: Any, target: Any, weight: Any, ignore_index: int, reduction: str
) -> Any:
    dim = class_dim(input.ndim)
    shape = tuple(input.shape)
    at_targets = _nll_adjoint(gradient, target, weight, shape, ignore_index, reduction)
    slope = softmax_adjoint(g, softmax(input, dim), dim)
    return slope * -sum(at_targets, dim, keepdim=True)


def _adjoint_tangent(
    d_gradient: Any,
    d_input: Any,
    gradient: Any,
    input: Any,
    target: Any,
    weight: Any,
    ignore_index: int,
    reduction: str,
) -> Any:
    options = (target, weight, ignore_index, reduction)
    return total(
        d_gradient is not None and _cross_entropy_adjoint(d_gradient, input, *options),
        # The Hessian is symmetric.
        d_input is not None and _second_input(d_input, gradient, input, *options),
    )


@primitive(
    batch=batch_layers.by_class_adjoint,
    gradient=_second_gradient,
    input=_second_input,
    jvp=_adjoint_tangent,
    node="NllLossBackwardBackward0",
    has_out=False,
)
def _cross_entropy_adjoint(
    xp: Namespace,
    gradient: Array,
    input: Array,
    target: Array,
    weight: Array | None,
    ignore_index: int,
    reduction: str,
) -> Array:
    """Probabilities, less 1 at the target classes, times the coefficients."""
    half = input.dtype if input.dtype.itemsize == 2 else None
    if half is not None:
        gradient, input, weight = _in_single(xp, gradient, input, weight)
    layout = _layout(input.shape)
    scores = input.reshape(layout)
    chosen = _chosen(xp, target, weight, ignore_index, layout, input.dtype)
    factors = _coefficients(xp, gradient, chosen, reduction)
    out = xp.empty(layout, input.dtype)

    def work(block: slice) -> None:
        part = out[block]
        exponentials_of(xp, scores[block], part)
        part *= (factors[block][:, None] if factors.ndim else factors) / row_sums(xp, part)

    each(work, pieces(len(scores), scores.size // max(len(scores), 1)))
    out[chosen.key] -= factors
    out = out.reshape(input.shape)
    return out if half is None else out.astype(half)


@kernel(_cross_entropy_adjoint, when=_few.of("input") & contiguous.of("input"), declines=True)
def _few_slopes(
    gradient: Array,
    input: Array,
    input_shape: Any,
    target: Array,
    ignore_index: int,
    reduction: str,
) -> Array | None:
    places = _few_places(target, ignore_index, *input_shape)
    if places is None:
        return None
    out = softmax_of(numpy, input, 1)
    out.ravel()[places] -= ONES[input.dtype]
    out *= gradient * _shares(places.size, reduction, input.dtype)[0]
    return out


@kernel(
    _cross_entropy_adjoint,
    when=_many.of("input") & _one_number & says("gradient_dtype is input_dtype"),
    machine_code=True,
)
def _many_slopes(
    gradient: Array, input: Array, target: Array, ignore_index: int, reduction: str
) -> Array | None:
    if not _has_classes(input, target, ignore_index):
        return None
    if reduction == "mean":
        gradient = gradient / input.dtype.type(target.size)
    gradient = numpy.asarray(gradient, input.dtype)
    made = by_machine_code(programs.CLASS_SLOPES, (gradient, input, target), ignore_index)
    return None if made is None else made[0]


def are_classes(scores: Array, target: Array) -> bool:
    """Whether targets are the usual ones of a batch of scores; if not, `check_target` tells why."""
    return (
        target.ndim == 1
        and len(target) == len(scores)
        and target.dtype.char in "lq"
        and scores.dtype.char in "fd"
    )


def check_target(op: str, input: Any, target: Any, weight: Any) -> None:
    """Refuse targets and weights that do not fit the scores."""
    shape, got = input.shape, target.shape
    if not shape:
        raise ValueError(f"{op}: input needs a dimension of classes, got a 0-d tensor.")
    dim = class_dim(len(shape))
    wanted = shape[:dim] + shape[dim + 1 :]
    if got != wanted:
        raise _wrong_target(op, tuple(shape), tuple(got), tuple(wanted))
    if target._array.dtype.char not in "lqB":
        raise RuntimeError(
            f"{op}: class indices must be int64 (or uint8), got {target.dtype}; use .long()."
        )
    kind = input._array.dtype
    if weight is not None and (weight.shape != (shape[dim],) or weight._array.dtype != kind):
        raise RuntimeError(
            f"{op}: weight must have one element for each of {shape[dim]} classes and the dtype "
            f"of input, {input.dtype}; got shape {tuple(weight.shape)} and {weight.dtype}."
        )
    if kind.kind not in "fV":
        raise NotImplementedError(
            f"{op}: not defined for {from_numpy_dtype(kind)}; convert first, e.g. with .float()."
        )


def _wrong_target(op: str, shape: Any, got: Any, wanted: Any) -> Exception:
    if len(shape) <= 2 and len(got) > 1:
        return RuntimeError(
            f"{op}: class indices have 0 or 1 dimensions for an input of shape {shape}, got shape "
            f"{got}."
        )
    kind = ValueError if len(shape) <= 2 or shape[:1] != got[:1] else RuntimeError
    return kind(f"{op}: target must have shape {wanted} for an input of {shape}, got {got}.")

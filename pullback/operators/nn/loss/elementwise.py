"""Losses that compare two tensors element by element."""

from __future__ import annotations

import math
import warnings
from typing import Any

from pullback.core import origin
from pullback.core.arrays import is_wrong, namespace
from pullback.core.dtype import float32
from pullback.core.errors import unsupported
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor, wrap
from pullback.operators.arrays.sums import flat_total
from pullback.operators.declare import Array, Namespace, elementwise, primitive
from pullback.operators.formula.declare import pointwise
from pullback.operators.formula.formulas import formula, slope
from pullback.operators.formula.special import log1pexp, logistic
from pullback.operators.indexing.selection import where
from pullback.operators.nn.activation.smooth import in_float32
from pullback.operators.nn.loss.batch import squared_error
from pullback.operators.options import as_bool
from pullback.operators.pointwise.arithmetic import lifted
from pullback.operators.pointwise.direction import abs
from pullback.operators.pointwise.exponentials import exp, log, log1p, xlogy
from pullback.operators.pointwise.extrema import clamp_min_number as at_least
from pullback.operators.reduce.sums import mean, sum
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.arrange import broadcast_tensors
from pullback.operators.shape.reshaping import reshape
from pullback.operators.tensor.convert import widened

FOUND_IN = {
    "nn.functional": """
        binary_cross_entropy binary_cross_entropy_with_logits gaussian_nll_loss huber_loss
        kl_div l1_loss mse_loss poisson_nll_loss smooth_l1_loss
    """
}


# How losses are reduced ---------------------------------------------------------------------------


REDUCTIONS = ("mean", "sum", "none")


def reduction_of(op: str, reduction: str, size_average: Any = None, reduce: Any = None) -> str:
    """The reduction's name, checked; the two old arguments decide where they are given."""
    if size_average is None and reduce is None:
        if reduction not in REDUCTIONS:
            raise ValueError(
                f"{op}: {reduction!r} is not a valid reduction; use 'none', 'mean' or 'sum'."
            )
        return reduction
    average = size_average is None or size_average
    name = "none" if reduce is False else "mean" if average else "sum"
    warnings.warn(
        f"{op}: size_average and reduce are old names; use reduction={name!r}.",
        UserWarning,
        stacklevel=origin.stacklevel(),
    )
    return name


def reduced(losses: Any, reduction: str) -> Any:
    """The losses, their mean or their sum."""
    if reduction == "none":
        return losses
    return mean(losses) if reduction == "mean" else sum(losses)


def _aligned(op: str, input: Any, target: Any) -> tuple[Any, Any]:
    """Both with one shape, so that a 0-d one counts in full where dtypes differ."""
    if input.shape == target.shape:
        return input, target
    _warn_of_broadcast(op, input, target)
    input, target = broadcast_tensors(input, target)
    return input, target


def _warn_of_broadcast(op: str, input: Any, target: Any) -> None:
    if input.shape != target.shape:
        warnings.warn(
            f"Using a target size {tuple(target.shape)} with an input of size "
            f"{tuple(input.shape)}: {op} broadcasts them, which is rarely meant. Please ensure "
            "they have the same size.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )


def _weighted(losses: Any, weight: Any, reduction: str) -> Any:
    """Weighted losses; their mean is divided by the sum of the weights."""
    losses = losses * weight
    return sum(losses) / sum(weight) if reduction == "mean" else reduced(losses, reduction)


# Distances ----------------------------------------------------------------------------------------


def _mse_slope(input: Any, target: Any, g: Any, reduction: str) -> Any:
    difference = input - target
    count = math.prod(difference.shape) if reduction == "mean" else 1
    return difference * (g * (2 / max(count, 1)))  # of nothing, nothing depends


def _mse_tangent(d_input: Any, d_target: Any, input: Any, target: Any, reduction: str) -> Any:
    tangent = 0 if d_input is None else d_input
    tangent = tangent if d_target is None else tangent - d_target
    return reduced((input - target) * tangent * 2, reduction)


@primitive(
    batch=squared_error,
    input=lambda g, input, target, reduction: _mse_slope(input, target, g, reduction),
    target=lambda g, input, target, reduction: _mse_slope(target, input, g, reduction),
    jvp=_mse_tangent,
    name="mse_loss",
    space="nn.functional",
    promote="same",
    numbers=False,
    has_out=False,
    aten="",
)
def _mse_loss(xp: Namespace, input: Array, target: Array, reduction: str) -> Array:
    if input.dtype.kind not in "fV":
        raise unsupported("mse_loss", input)
    difference = input - target
    if reduction == "none":
        return difference * difference
    flat = difference.reshape(-1)
    if flat.dtype.itemsize == 2:  # summed in single: a sum of 256 ones is the last in bfloat16
        single = flat.astype(xp.float32)
        wide = flat_total(xp, single, single)
        wide = wide / xp.float32(flat.size) if reduction == "mean" else wide
        return wide.astype(flat.dtype)
    total = flat_total(xp, flat, flat)
    return total / flat.dtype.type(flat.size) if reduction == "mean" else total


def mse_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """Mean squared error, or by `reduction` the sum or the error of each element.

    >>> import pullback as torch
    >>> torch.nn.functional.mse_loss(torch.tensor([1.0, 3.0]), torch.zeros(2))
    tensor(5.)
    """
    name = reduction_of("mse_loss", reduction, size_average, reduce)
    input, target = _aligned("mse_loss", input, target)
    if weight is None:
        return _mse_loss(input, target, name)
    return _weighted(_mse_loss(input, target, "none"), weight, name)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """Absolute error, averaged unless `reduction` says otherwise.

    >>> import pullback as torch
    >>> torch.nn.functional.l1_loss(torch.tensor([1.0, 2.0]), torch.tensor([2.0, 4.0]))
    tensor(1.5000)
    """
    name = reduction_of("l1_loss", reduction, size_average, reduce)
    input, target = _aligned("l1_loss", input, target)
    losses = abs(input - target)
    return reduced(losses, name) if weight is None else _weighted(losses, weight, name)


def _held(xp: Any, x: Any, limit: float) -> Any:
    """`x`, kept between `-limit` and `limit`."""
    below = xp.where(x >= limit, limit, x)
    return xp.where(x <= -limit, -limit, below)


@formula(x=slope(_held))
def _bent(xp: Any, x: Any, *, limit: float) -> Any:
    """Half the square where |x| is below `limit`, a straight line beyond."""
    size = xp.absolute(x)
    near = xp.minimum(size, limit)
    return near * (size - near * 0.5)  # is both


@pointwise(called="huber_loss", node="HuberLossBackward0", has_out=False)
def _huber(xp: Namespace, input: Array, target: Array, delta: float) -> Array:
    return _bent(xp, input - target, limit=delta)


@pointwise(called="smooth_l1_loss", node="SmoothL1LossBackward0", has_out=False)
def _smooth_l1(xp: Namespace, input: Array, target: Array, beta: float) -> Array:
    return _bent(xp, input - target, limit=beta) * (1 / beta)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Any:
    """Half the square of the difference over `beta`, and a straight line where it is above that.

    >>> import pullback as torch
    >>> torch.nn.functional.smooth_l1_loss(torch.tensor([0.0, 0.0]), torch.tensor([0.5, 3.0]))
    tensor(1.3125)
    """
    name = reduction_of("smooth_l1_loss", reduction, size_average, reduce)
    input, target = _aligned("smooth_l1_loss", input, target)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss: beta must not be negative, got {beta}.")
    if beta == 0:
        return reduced(abs(input - target), name)
    return shown_as("SmoothL1LossBackward0", reduced(_smooth_l1(input, target, beta), name))


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Any = None
) -> Any:
    """Half the square of the difference where it is below `delta`, a straight line beyond.

    >>> import pullback as torch
    >>> torch.nn.functional.huber_loss(torch.tensor([0.0, 0.0]), torch.tensor([0.5, 3.0]))
    tensor(1.3125)
    """
    name = reduction_of("huber_loss", reduction)
    _warn_of_broadcast("huber_loss", input, target)
    if delta <= 0:
        raise RuntimeError(f"huber_loss: delta must be positive, got {delta}.")
    losses: Any = _huber(input, target, delta)
    if weight is not None:
        return reduced(losses * weight, name)
    return shown_as("HuberLossBackward0", reduced(losses, name))


# Probabilities ------------------------------------------------------------------------------------

_LEAST_LOG = -100.0  # torch's bound, so that a wrong certainty costs much, but not infinitely much


def _bce_slope(input: Any, target: Any) -> Any:
    # In half precision the quotient may be infinite where its product with a gradient is not.
    input, target = widened(input), widened(target)
    return (input - target) / at_least((1 - input) * input, 1e-12)


def _log_odds_against(input: Any) -> Any:
    against: Any = log1p(-input)
    return against - log(input)


@elementwise(
    input=lambda g, input, target: g * _bce_slope(input, target),
    target=lambda g, input: g * _log_odds_against(input),
    node="BinaryCrossEntropyBackward0",
    has_out=False,
)
def _bce(xp: Namespace, input: Array, target: Array) -> Array:
    if input.dtype.kind != "f":
        return in_float32("binary_cross_entropy", _bce, input, target)
    if is_wrong(~((input >= 0) & (input <= 1))):
        raise RuntimeError(
            "binary_cross_entropy: all elements of input must be between 0 and 1; apply a sigmoid, "
            "or use binary_cross_entropy_with_logits."
        )
    if is_wrong(~((target >= 0) & (target <= 1))):
        raise RuntimeError("binary_cross_entropy: all elements of target must be between 0 and 1.")
    wrong = xp.maximum(xp.log1p(-input), _LEAST_LOG)
    right = xp.maximum(xp.log(input), _LEAST_LOG)
    return (target - 1) * wrong - target * right


def binary_cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """Minus the log-probability of `target`, where `input` is the probability of 1.

    >>> import pullback as torch
    >>> torch.nn.functional.binary_cross_entropy(torch.tensor([0.9, 0.2]), torch.tensor([1.0, 0.0]))
    tensor(0.1643)
    """
    name = reduction_of("binary_cross_entropy", reduction, size_average, reduce)
    _check_equal_shapes("binary_cross_entropy", input, target)
    half = _half_of(input, target) if name == "mean" else None
    if half is not None:
        input, target = input.to(float32), target.to(float32)
    losses = _bce(input, target)
    result = reduced(losses if weight is None else losses * weight, name)
    result = result if half is None else result.to(half)
    return shown_as("BinaryCrossEntropyBackward0", result)


def _half_of(input: Any, target: Any) -> Any:
    """The dtype of both if that has 16 bits.

    Then means are taken in float32: one part in a million, which each element's gradient is
    multiplied with, has four digits left in float16, the same wrong ones for all elements.
    """
    kind = input.dtype
    both = kind is target.dtype and kind.is_floating_point and kind.itemsize == 2
    return kind if both else None


def _check_equal_shapes(op: str, input: Any, target: Any) -> None:
    if input._array.shape != target._array.shape:
        raise ValueError(
            f"{op}: target must have the shape of input, {tuple(input.shape)}, got "
            f"{tuple(target.shape)}."
        )


def _bce_logits_slope(xp: Any, input: Any, target: Any, pos_weight: Any) -> Any:
    if pos_weight is None:
        return logistic(xp, input) - target
    weighted = target * pos_weight
    return logistic(xp, input) * (weighted + 1 - target) - weighted


def _bce_logits_target(xp: Any, input: Any, pos_weight: Any) -> Any:
    if pos_weight is None:
        return -input
    return pos_weight * log1pexp(xp, -input) - log1pexp(xp, input)


@pointwise(
    input=slope(_bce_logits_slope),
    target=slope(_bce_logits_target),
    pos_weight=None,
    called="binary_cross_entropy_with_logits",
    node="BinaryCrossEntropyWithLogitsBackward0",
    has_out=False,
)
def _bce_logits(xp: Namespace, input: Array, target: Array, pos_weight: Array | None) -> Array:
    """`(1 - t) x + (1 + (p - 1) t) log(1 + exp(-x))`."""
    losses = log1pexp(xp, -input)
    if pos_weight is not None:
        losses = losses * ((pos_weight - 1) * target + 1)
    return losses + (1 - target) * input


def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    """`binary_cross_entropy` of the sigmoid of `input`, without its rounding.

    >>> import pullback as torch
    >>> torch.nn.functional.binary_cross_entropy_with_logits(
    ...     torch.tensor([2.0, -1.0]), torch.tensor([1.0, 0.0])
    ... )
    tensor(0.2201)
    """
    op = "binary_cross_entropy_with_logits"
    name = reduction_of(op, reduction, size_average, reduce)
    _check_equal_shapes(op, input, target)
    if input._array.dtype.kind not in "fV":
        raise unsupported(op, input._array)
    half = _half_of(input, target) if name == "mean" else None
    if half is not None:
        input, target = input.to(float32), target.to(float32)
    losses = _bce_logits(input, target, pos_weight)
    result = reduced(losses if weight is None else losses * weight, name)
    result = result if half is None else result.to(half)
    return shown_as("BinaryCrossEntropyWithLogitsBackward0", result)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Any:
    """`target * (log(target) - input)`; with log_target the target is a logarithm as well.

    >>> import pullback as torch
    >>> torch.nn.functional.kl_div(
    ...     torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.25, 0.75]]), reduction="batchmean"
    ... )
    tensor(0.1308)
    """
    batch = reduction == "batchmean" and size_average is None and reduce is None
    name = "sum" if batch else reduction_of("kl_div", reduction, size_average, reduce)
    if name == "mean":
        warnings.warn(
            "kl_div: reduction='mean' divides by all elements; 'batchmean' divides by the batch "
            "size, as the divergence is defined.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )
    half = _half_of(input, target)
    if half is not None:  # in single: the difference of two halves has few digits left
        input, target = input.to(float32), target.to(float32)
    if log_target:
        losses = exp(target) * (target - input)
    else:
        losses = xlogy(target, target) - target * input
    total = reduced(losses, name)
    total = total / input.shape[0] if batch and input.ndim else total
    return total if half is None else total.to(half)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """Minus the log-probability of counts `target` at rate `input` (or its exponential).

    >>> import pullback as torch
    >>> torch.nn.functional.poisson_nll_loss(torch.tensor([0.0]), torch.tensor([2.0]))
    tensor(1.)
    """
    name = reduction_of("poisson_nll_loss", reduction, size_average, reduce)
    as_bool(full, "poisson_nll_loss", "full")
    if log_input:
        losses = exp(input) - target * input
    else:
        losses = input - target * log(input + eps)
    if full:
        scale: Any = log(target * (2 * math.pi))
        stirling = target * log(target) - target + scale * 0.5
        losses = losses + where(target > 1, stirling, 0.0)
    return reduced(losses, name)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """Minus the log-density of `target` under a normal law of mean `input` and variance `var`.

    >>> import pullback as torch
    >>> torch.nn.functional.gaussian_nll_loss(
    ...     torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor([4.0])
    ... )
    tensor(1.1931)
    """
    name = reduction_of("gaussian_nll_loss", reduction)
    if isinstance(var, int | float):
        if var < 0:
            raise ValueError(f"gaussian_nll_loss: var must not be negative, got {var}.")
        var = wrap(namespace(input._array).full(input._array.shape, var, input._array.dtype))
    shape, got = tuple(input.shape), tuple(var.shape)
    if got != shape:
        if got == shape[:-1]:
            var = reshape(var, (*got, 1))
        elif got != (*shape[:-1], 1):
            raise ValueError(
                f"gaussian_nll_loss: var must have the shape of input, {shape}, or 1 or nothing "
                f"for its last size; got {got}."
            )
    # Examples of vmap have no values to look at.
    if not get_mode().levels and (var._array < 0).any():
        raise ValueError("gaussian_nll_loss: var has negative elements.")
    # The bound is no part of the function that is differentiated.
    bounded = lifted(var, eps)
    losses = (log(bounded) + (input - target) * (input - target) / bounded) * 0.5
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, name)

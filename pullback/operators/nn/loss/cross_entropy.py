"""Cross entropy in all its forms: class indices, probabilities, smoothed labels."""

from __future__ import annotations

from typing import Any

from pullback.core import errors
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor
from pullback.operators.indexing.selection import masked_fill
from pullback.operators.linalg.affine import linear
from pullback.operators.nn.activation.softmax import log_softmax
from pullback.operators.nn.loss.classes import (
    are_classes,
    check_target,
    class_dim,
    cross_entropy_of_indices,
    nll_of_indices,
)
from pullback.operators.nn.loss.elementwise import REDUCTIONS, reduced, reduction_of
from pullback.operators.options import as_int
from pullback.operators.reduce.sums import sum
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.reshaping import reshape
from pullback.operators.tensor.convert import astype

FOUND_IN = {"nn.functional": "cross_entropy linear_cross_entropy nll_loss"}


_OVER_PLACES = "NllLoss2DBackward0"


def _check_tensors(op: str, input: Any, target: Any) -> None:
    if not (isinstance(input, Tensor) and isinstance(target, Tensor)):
        got = f"{type(input).__name__} and {type(target).__name__}"
        raise TypeError(f"{op}(): input and target must be tensors, got {got}.")


def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """Minus the elements of `input`, log-probabilities, at the target classes.

    >>> import pullback as torch
    >>> torch.nn.functional.nll_loss(torch.tensor([[0.25, 0.75]]).log(), torch.tensor([1]))
    tensor(0.2877)
    """
    if input.__class__ is not Tensor or target.__class__ is not Tensor:
        _check_tensors("nll_loss", input, target)
    if type(ignore_index) is not int:
        ignore_index = as_int(ignore_index, "nll_loss", "ignore_index")
    if size_average is None and reduce is None and weight is None:
        scores, classes = input._array, target._array
        if scores.ndim == 2 and reduction in REDUCTIONS and are_classes(scores, classes):
            return nll_of_indices(input, target, None, ignore_index, reduction)
    name = reduction_of("nll_loss", reduction, size_average, reduce)
    check_target("nll_loss", input, target, weight)
    losses = nll_of_indices(input, target, weight, ignore_index, name)
    return losses if input.ndim < 3 else shown_as(_OVER_PLACES, losses)


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """The negative log-probability of the target under the logits `input`.

    The target is class indices, or probabilities in the shape of `input`.

    >>> import pullback as torch
    >>> torch.nn.functional.cross_entropy(torch.zeros(1, 2), torch.tensor([0]))
    tensor(0.6931)
    """
    if input.__class__ is not Tensor or target.__class__ is not Tensor:
        _check_tensors("cross_entropy", input, target)
    if type(ignore_index) is not int:
        ignore_index = as_int(ignore_index, "cross_entropy", "ignore_index")
    if size_average is None and reduce is None and label_smoothing == 0 and weight is None:
        scores, classes = input._array, target._array
        if scores.ndim == 2 and reduction in REDUCTIONS and are_classes(scores, classes):
            of_classes = cross_entropy_of_indices if not get_mode().dispatch else _by_steps
            return of_classes(input, target, None, ignore_index, reduction)
    name = reduction_of("cross_entropy", reduction, size_average, reduce)
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(
            f"cross_entropy: label_smoothing must be between 0 and 1, got {label_smoothing}."
        )
    if input.shape == target.shape:
        return _of_probabilities(input, target, weight, ignore_index, name, label_smoothing)
    check_target("cross_entropy", input, target, weight)
    if label_smoothing == 0:
        of_classes = cross_entropy_of_indices if not get_mode().dispatch else _by_steps
        losses = of_classes(input, target, weight, ignore_index, name)
        return losses if input.ndim < 3 else shown_as(_OVER_PLACES, losses)
    return _smoothed(input, target, weight, ignore_index, name, label_smoothing)


def _by_steps(input: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    """The same by two operators that torch has too, for who takes operators."""
    scores = log_softmax(input, class_dim(input.ndim))
    return nll_of_indices(scores, target, weight, ignore_index, reduction)


def _by_class(weight: Any, ndim: int) -> Any:
    """Weights of the classes, shaped to broadcast against the scores."""
    return reshape(weight, (weight.shape[0],) + (1,) * max(ndim - 2, 0))


def _of_probabilities(
    input: Any, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float
) -> Any:
    if not target.dtype.is_floating_point:
        raise RuntimeError(
            f"cross_entropy: a target in the shape of input holds probabilities and must be "
            f"floating point, got {target.dtype}."
        )
    if ignore_index >= 0:
        raise RuntimeError("cross_entropy: probabilities as target leave no class to ignore_index.")
    dim = class_dim(input.ndim)
    classes = input.shape[dim]
    if smoothing:
        target = target * (1 - smoothing) + smoothing / classes
    scores = log_softmax(input, dim)
    if weight is not None:
        scores = scores * _by_class(weight, input.ndim)
    losses = -sum(scores * target, dim)
    if reduction == "mean":
        return sum(losses) / (input._array.size / classes if classes else 0)
    return reduced(losses, reduction)


def _smoothed(
    input: Any, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float
) -> Any:
    dim = class_dim(input.ndim)
    scores = log_softmax(input, dim)
    chosen = nll_of_indices(scores, target, weight, ignore_index, reduction)
    spread = scores if weight is None else scores * _by_class(weight, input.ndim)
    ignored = target == ignore_index
    evenly = -masked_fill(sum(spread, dim), ignored, 0)
    if reduction == "mean":
        counted: Any = astype(~ignored, input._array.dtype)
        if weight is not None:
            counted = counted * weight.detach()[masked_fill(target, ignored, 0)]
        evenly = sum(evenly) / sum(counted)
    elif reduction == "sum":
        evenly = sum(evenly)
    return chosen * (1 - smoothing) + evenly * (smoothing / input.shape[dim])


def _check_linear(
    op: str, shape: tuple[int, ...], weight_shape: tuple[int, ...], bias: Any
) -> None:
    if len(shape) not in (1, 2) or len(weight_shape) < 2 or shape[-1] != weight_shape[-1]:
        raise RuntimeError(
            f"{op}: input must be (features) or (N, features) and linear_weight (classes, ..., "
            f"features), got shapes {shape} and {weight_shape}."
        )
    if len(weight_shape) > 2 and len(shape) == 1:
        raise RuntimeError(
            f"{op}: with a linear_weight of shape {weight_shape}, input must be (N, features), got "
            f"{shape}."
        )
    if bias is not None and tuple(bias.shape) != weight_shape[:-1]:
        raise RuntimeError(
            f"{op}: linear_bias must have the shape {weight_shape[:-1]}, got {tuple(bias.shape)}."
        )


def _scores(input: Any, weight: Any, bias: Any) -> Any:
    """Results of the layer: (N, classes, K1, ...) for a weight (classes, K1, ..., features)."""
    if weight.ndim == 2:
        return linear(input, weight, bias)
    flat = reshape(weight, (-1, weight.shape[-1]))
    made = linear(input, flat, None if bias is None else reshape(bias, (-1,)))
    return reshape(made, (input.shape[0], *weight.shape[:-1]))


def linear_cross_entropy(
    input: Any,
    linear_weight: Any,
    target: Any,
    *,
    linear_bias: Any = None,
    weight: Any = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Any:
    """`cross_entropy` of the scores that a linear layer gives to `input`.

    A weight of more dimensions, (classes, K1, ..., features), gives scores (N, classes, K1, ...).

    >>> import pullback as torch
    >>> x, weight = torch.zeros(2, 3), torch.zeros(4, 3)
    >>> torch.nn.functional.linear_cross_entropy(x, weight, torch.tensor([0, 1]))
    tensor(1.3863)
    """
    if options is not None and options != type(options)():
        raise NotImplementedError(
            "linear_cross_entropy: there is one way to compute it here; leave options away."
        )
    op = "linear_cross_entropy"
    for name, one in (("input", input), ("linear_weight", linear_weight), ("target", target)):
        if not isinstance(one, Tensor):
            raise errors.not_a_tensor(op, name, one)
    _check_linear(op, tuple(input.shape), tuple(linear_weight.shape), linear_bias)
    return cross_entropy(
        _scores(input, linear_weight, linear_bias),
        target,
        weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )

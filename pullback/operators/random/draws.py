"""Random numbers whose parameters are tensors: normal, bernoulli, poisson, binomial, multinomial.

A draw does not move with its parameters, so the gradient to them is zero.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.arrays import Array
from pullback.core.dtype import NumpyDtype, default, from_numpy_dtype
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor
from pullback.operators.create.factory import Options, Unpack, checked, one_shape
from pullback.operators.create.sizes import zeros_like
from pullback.operators.declare import Namespace, method, primitive
from pullback.operators.options import as_int
from pullback.operators.pointwise.rounding import no_derivative
from pullback.operators.random import counts
from pullback.operators.random import samplers as draw
from pullback.operators.random.generator import Generator
from pullback.operators.random.tensors import needs, sized, source_of

FOUND_IN = {"torch": "binomial multinomial normal poisson"}


def no_gradient(g: Any) -> Any:
    """The rule of draws: what comes out does not move with the parameters."""
    return zeros_like(g)


def _normal_array(shape: Any, dtype: NumpyDtype, mean: Any, std: Any, generator: Any) -> Array:
    needs("normal", dtype, "fcV")
    array = numpy.empty(shape, dtype)
    draw.normal(source_of("normal", generator), array)
    array *= std
    array += mean
    return array


def check_std(std: Any) -> None:
    """Refuse standard deviations below zero, a number's or a tensor's."""
    if type(std) is float and std >= 0:
        return
    if get_mode().levels:
        return  # examples of vmap have no values to look at
    array = getattr(std, "_array", std)
    if not numpy.all(array >= 0):  # NaN is refused too
        raise RuntimeError("normal(): std must not be negative anywhere.")


@primitive(
    mean=no_gradient, std=no_gradient, node="NormalBackward3", jvp=lambda out: zeros_like(out)
)
def _normal(xp: Namespace, mean: Array, std: Array, generator: Any) -> Array:
    """Normal numbers, mean and standard deviation element by element."""
    shape = numpy.broadcast_shapes(mean.shape, std.shape)
    return _normal_array(shape, mean.dtype, mean, std.astype(mean.dtype), generator)


@primitive(mean=no_gradient, node="NormalBackward1", jvp=lambda out: zeros_like(out))
def _normal_around(xp: Namespace, mean: Array, std: float, generator: Any) -> Array:
    """Normal numbers, one standard deviation for all."""
    return _normal_array(mean.shape, mean.dtype, mean, mean.dtype.type(std), generator)


@primitive(std=no_gradient, node="NormalBackward2", jvp=lambda out: zeros_like(out))
def _normal_about(xp: Namespace, mean: float, std: Array, generator: Any) -> Array:
    """Normal numbers, one mean for all."""
    return _normal_array(std.shape, std.dtype, std.dtype.type(mean), std, generator)


def normal(
    mean: Any,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    out: Any = None,
    **options: Unpack[Options],
) -> Tensor:
    """Normal numbers of given mean and standard deviation, each a number or a tensor.

    Two numbers need a `size`. Gradients to the parameters are zero; for others, write
    `mean + std * torch.randn_like(std)`.

    Example:
        >>> import pullback as torch
        >>> torch.normal(2.0, 0.0, (2,))
        tensor([2., 2.])
    """
    check_std(std)
    tensors = isinstance(mean, Tensor), isinstance(std, Tensor)
    if any(tensors):
        if size is not None or options:
            raise TypeError("normal(): a size and options go with two numbers only.")
        by_kind: dict[tuple[bool, bool], Callable[..., Tensor]] = {
            (True, True): _normal,
            (True, False): _normal_around,
            (False, True): _normal_about,
        }
        return by_kind[tensors](mean, std, generator, out=out)
    if size is None:
        raise TypeError("normal(): two numbers need a size; or give tensors.")
    dtype, shape = checked("normal", options, default.numpy, out), one_shape("normal", size)
    if 0 not in shape:  # as in randn
        needs("normal", dtype, "fcV")
    fill = functools.partial(draw.normal, mean=mean, std=std)
    return sized("normal", shape, fill, dtype, (generator, out, options))


def check_probabilities(op: str, array: Array) -> None:
    """Refuse elements that are no probability."""
    if not ((array >= 0) & (array <= 1)).all():  # NaN is refused too
        raise RuntimeError(f"{op}(): probabilities must lie between 0 and 1.")


def check_p(op: str, p: Any) -> None:
    """Refuse a number that is no probability."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"{op}(): p must lie between 0 and 1, got {p}.")


@primitive(input=no_gradient, jvp=lambda out: zeros_like(out))
def bernoulli(
    xp: Namespace, input: Array, p: float | None = None, *, generator: Any = None
) -> Array:
    """1 with the probabilities in `input` (or with probability `p`), else 0; gradients are zero.

    >>> import pullback as torch
    >>> torch.bernoulli(torch.tensor([0.0, 1.0, 1.0]))
    tensor([0., 1., 1.])
    """
    result = xp.empty(input.shape, input.dtype)
    if p is None:
        needs("bernoulli", input.dtype, "fV")
        check_probabilities("bernoulli", input)
        draw.bernoulli(source_of("bernoulli", generator), result, input)
    else:
        check_p("bernoulli", p)
        draw.bernoulli(source_of("bernoulli", generator), result, p)
    return result


@primitive(input=no_gradient, method=False, has_out=False, jvp=lambda out: zeros_like(out))
def poisson(xp: Namespace, input: Array, generator: Any = None) -> Array:
    """Counts of events that happen at the rates in `input`; gradients are zero.

    >>> import pullback as torch
    >>> torch.poisson(torch.tensor([0.0, 0.0]))
    tensor([0., 0.])
    """
    needs("poisson", input.dtype, "fV")
    if not (input >= 0).all():
        raise RuntimeError("poisson(): rates must not be negative.")
    return counts.poisson(source_of("poisson", generator), input).astype(input.dtype)


@primitive(
    count=lambda g: no_derivative("binomial"),
    prob=lambda g: no_derivative("binomial"),
    node="NotImplemented",
    has_out=False,
)
def _binomial(xp: Namespace, count: Array, prob: Array, generator: Any) -> Array:
    """How many of `count` trials succeed that each do with probability `prob`."""
    check_probabilities("binomial", prob)
    source = source_of("binomial", generator)
    return counts.binomial(source, *numpy.broadcast_arrays(count, prob)).astype(count.dtype)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How many of `count` trials succeed that each do with probability `prob`.

    Example:
        >>> import pullback as torch
        >>> torch.binomial(torch.tensor([5.0]), torch.tensor([1.0]))
        tensor([5.])
    """
    for name, given in (("count", count), ("prob", prob)):
        if not isinstance(given, Tensor):
            raise errors.not_a_tensor("binomial", name, given)
        if given._array.dtype.kind not in "fV":
            raise ValueError(f"binomial(): {name} must be floating point, got {given.dtype}.")
    drawn: Tensor = _binomial(count, prob, generator)
    return drawn


def _all_rows(op: Any, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    """The rows of all examples as one matrix, which is the most that it takes."""
    whole = split["input"][0]
    rows = whole if whole.ndim < 3 else whole.reshape(-1, whole.shape[-1])
    chosen = op.function(input=rows, **options)
    return chosen.reshape(*whole.shape[:-1], chosen.shape[-1])


@primitive(exact_out=True, batch=_all_rows)
def _multinomial(
    xp: Namespace, input: Array, num_samples: int, replacement: bool, generator: Any
) -> Array:
    """Column numbers, drawn for each row with the weights that `input` holds there."""
    _check_weights(input, num_samples, replacement=replacement)
    rows = input.reshape(-1, input.shape[-1])
    source = source_of("multinomial", generator)
    if rows.size == 0:
        return numpy.empty((*input.shape[:-1], num_samples), numpy.int64)
    # One draw has nothing to replace, and torch makes it the way it does without.
    several = replacement and num_samples > 1
    choose = draw.with_replacement if several else draw.without_replacement
    chosen = numpy.ascontiguousarray(choose(source, rows, num_samples))
    return chosen.reshape(*input.shape[:-1], num_samples)


@method
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Any = None,
) -> Tensor:
    """Column numbers, drawn for each row with the weights that `input` holds there.

    Example:
        >>> import pullback as torch
        >>> torch.multinomial(torch.tensor([0.0, 1.0, 0.0]), 2, replacement=True)
        tensor([1, 1])
    """
    count = as_int(num_samples, "multinomial", "num_samples")
    if not isinstance(replacement, bool):
        kind = type(replacement).__name__
        raise TypeError(f"multinomial(): replacement must be a bool, got {kind}.")
    drawn: Tensor = _multinomial(input, count, replacement, generator, out=out)
    return drawn


def _check_weights(weights: Array, count: int, *, replacement: bool) -> None:
    if weights.ndim not in (1, 2):
        raise RuntimeError(
            f"multinomial(): weights are one row or a matrix of rows, got shape {weights.shape}."
        )
    if weights.dtype.kind not in "fV":
        raise RuntimeError(
            f"multinomial(): weights must be floating point, got {from_numpy_dtype(weights.dtype)}."
        )
    columns = weights.shape[-1]
    if count <= 0:
        raise RuntimeError(f"multinomial(): num_samples must be positive, got {count}.")
    if not replacement and count > columns:
        raise RuntimeError(
            f"multinomial(): {count} samples cannot be drawn from {columns} without replacement."
        )
    if not (numpy.isfinite(weights) & (weights >= 0)).all():
        raise RuntimeError("multinomial(): weights must be finite and not negative.")
    if weights.size and not (weights.sum(-1) > 0).all():
        raise RuntimeError("multinomial(): each row needs a weight above zero.")

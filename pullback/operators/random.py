"""Tensors of random numbers. The numbers differ from torch's; what is drawn, and when, does not."""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy

from pullback.core import errors, origin
from pullback.core.arrays import Array
from pullback.core.dtype import NumpyDtype, default, from_numpy_dtype, int64
from pullback.core.layout import empty_like as empty_array_like
from pullback.core.layout import memory_format, preserve_format
from pullback.core.mode import get_mode, settle
from pullback.core.tensor import Tensor, wrap
from pullback.operators import distributions as draw
from pullback.operators.creation import empty_like, zeros_like
from pullback.operators.declare import Namespace, method, primitive
from pullback.operators.factory import (
    Options,
    Unpack,
    allocated,
    checked,
    made,
    one_shape,
    shape_argument,
)
from pullback.operators.generator import Generator, default_generator, drawn

__all__ = [
    *("bernoulli", "binomial", "multinomial", "normal", "poisson", "rand", "rand_like", "randint"),
    *("randint_like", "randn", "randn_like", "randperm"),
]

_UNSET: Any = object()
Fill = Callable[[Any, Array], None]


def source_of(op: str, generator: Any) -> Any:
    """NumPy's generator behind `generator`, or behind the default one."""
    settle()
    if generator is None:
        return default_generator.draw_from()
    if not isinstance(generator, Generator):
        raise TypeError(
            f"{op}(): generator must be a torch.Generator, got {type(generator).__name__}."
        )
    return generator.draw_from()


def needs(op: str, dtype: NumpyDtype, kinds: str) -> None:
    """Refuse dtypes whose kind is not among `kinds`."""
    if dtype.kind not in kinds:
        raise NotImplementedError(f"{op}(): not possible in {from_numpy_dtype(dtype)}.")


# From a size ------------------------------------------------------------------------------------


def _drawn(
    op: str, shape: tuple[int, ...], fill: Fill, dtype: NumpyDtype, given: tuple[Any, Any, Options]
) -> Tensor:
    generator, out, options = given

    def draw_once() -> Tensor:
        source = source_of(op, generator)
        array = allocated(op, numpy.empty, shape, dtype)
        if type(array) is numpy.ndarray:
            fill(source, array)
        return made(op, array, options, out)

    return drawn(op, draw_once)


def rand(
    *sizes: Any,
    size: Any = None,
    generator: Generator | None = None,
    out: Any = None,
    **options: Unpack[Options],
) -> Tensor:
    """Numbers between 0 (included) and 1 (not).

    Example:
        >>> import pullback as torch
        >>> x = torch.rand(2, 3)
        >>> x.shape, bool((x < 1).all())
        (torch.Size([2, 3]), True)
    """
    shape = shape_argument("rand", sizes, size)
    dtype = checked("rand", options, default.numpy, out)
    needs("rand", dtype, "fcV")
    return _drawn("rand", shape, draw.uniform, dtype, (generator, out, options))


def randn(
    *sizes: Any,
    size: Any = None,
    generator: Generator | None = None,
    out: Any = None,
    **options: Unpack[Options],
) -> Tensor:
    """Normal numbers of mean 0 and variance 1.

    Example:
        >>> import pullback as torch
        >>> torch.randn(2, 3).shape
        torch.Size([2, 3])
    """
    shape = shape_argument("randn", sizes, size)
    dtype = checked("randn", options, default.numpy, out)
    needs("randn", dtype, "fcV")
    return _drawn("randn", shape, draw.normal, dtype, (generator, out, options))


def randint(
    *bounds: Any,
    low: Any = _UNSET,
    high: Any = _UNSET,
    size: Any = _UNSET,
    generator: Generator | None = None,
    out: Any = None,
    **options: Unpack[Options],
) -> Tensor:
    """Integers from `low` (0 if not given) up to but without `high`.

    Called as `randint(high, size)` or `randint(low, high, size)`.

    Example:
        >>> import pullback as torch
        >>> torch.randint(3, 4, (2,))
        tensor([3, 3])
    """
    named = {"low": low, "high": high, "size": size}
    given = _by_name("randint", bounds, named, ("low", "high", "size"), ("high", "size"))
    shape = one_shape("randint", given["size"])
    dtype = checked("randint", options, int64.numpy, out)
    first, last = integer_bounds("randint", given.get("low", 0), given["high"], dtype)
    fill = functools.partial(draw.integers, low=first, high=last)
    return _drawn("randint", shape, fill, dtype, (generator, out, options))


def _by_name(
    op: str,
    positional: tuple[Any, ...],
    named: dict[str, Any],
    all_names: tuple[str, ...],
    needed: tuple[str, ...],
) -> dict[str, Any]:
    """Arguments by name; positional ones fill the needed names if they are just enough for them."""
    given = {name: value for name, value in named.items() if value is not _UNSET}
    open_names = [name for name in needed if name not in given]
    names = tuple(open_names) if len(positional) == len(open_names) else all_names
    taken = dict(zip(names, positional, strict=False))
    if len(positional) > len(names) or taken.keys() & given.keys():
        raise TypeError(f"{op}() takes ({', '.join(needed)}) or ({', '.join(all_names)}).")
    given |= taken
    if missing := [name for name in needed if name not in given]:
        raise TypeError(f"{op}() misses its argument {missing[0]!r}.")
    return given


def integer_bounds(op: str, low: Any, high: Any, dtype: NumpyDtype) -> tuple[int, int]:
    """Both bounds as ints that the dtype can hold."""
    for name, value in (("low", low), ("high", high)):
        if isinstance(value, float) or not hasattr(value, "__index__"):
            raise errors.not_an_int(op, name, value)
    first, last = operator.index(low), operator.index(high)
    if first >= last:
        raise RuntimeError(f"{op}(): no integer is at least {first} and less than {last}.")
    if last >= 2**63 and dtype.kind != "u":
        raise ValueError(f"{op}(): high={last} does not fit 64 bits.")
    if dtype.kind == "c":
        raise RuntimeError(f"{op}(): not possible in {from_numpy_dtype(dtype)}.")
    limits = (0, 1) if dtype.kind == "b" else None
    if dtype.kind in "iu":
        limits = (int(numpy.iinfo(dtype).min), int(numpy.iinfo(dtype).max))
    if limits and (first < limits[0] or last - 1 > limits[1]):
        raise RuntimeError(
            f"{op}(): integers from {first} to {last - 1} do not fit {from_numpy_dtype(dtype)}."
        )
    if limits is None and max(abs(first), abs(last - 1)) > exact_integers(dtype):
        warnings.warn(
            f"{op}(): {from_numpy_dtype(dtype)} cannot tell all integers from {first} to "
            f"{last - 1} apart; the numbers are rounded.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )
    return first, last


def exact_integers(dtype: NumpyDtype) -> int:
    """Up to which number a floating-point dtype holds every integer."""
    return {"float64": 2**53, "float32": 2**24, "float16": 2**11}.get(dtype.name, 2**8)


def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    out: Any = None,
    **options: Unpack[Options],
) -> Tensor:
    """The integers from 0 up to but without `n`, in random order.

    Example:
        >>> import pullback as torch
        >>> sorted(torch.randperm(4).tolist())
        [0, 1, 2, 3]
    """
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise errors.not_an_int("randperm", "n", n)
    (count,) = shape_argument("randperm", (operator.index(n),))
    dtype = checked("randperm", options, int64.numpy, out)
    needs("randperm", dtype, "iufV")
    if count:
        largest = numpy.iinfo(dtype).max if dtype.kind in "iu" else exact_integers(dtype)
        if count - 1 > largest:
            raise RuntimeError(
                f"randperm(): numbers up to {count - 1} do not fit {from_numpy_dtype(dtype)}."
            )

    def draw_once() -> Tensor:
        array = source_of("randperm", generator).permutation(count).astype(dtype)
        return made("randperm", array, options, out)

    return drawn("randperm", draw_once)


# Like another tensor ----------------------------------------------------------------------------


def _drawn_like(
    op: str, input: Any, fill: Fill, kinds: str, generator: Any, options: dict[str, Any]
) -> Tensor:
    if get_mode().levels:  # an example of vmap: its size and dtype matter, its memory does not
        example = wrap(numpy.empty(input._array.shape, input._array.dtype))
        return drawn(op, lambda: _drawn_like(op, example, fill, kinds, generator, options))
    result: Tensor = empty_like(input, **options)
    needs(op, result._array.dtype, kinds)
    if type(result._array) is numpy.ndarray:
        fill(source_of(op, generator), result._array)
    return result


def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    memory_format: memory_format = preserve_format,
    **options: Unpack[Options],
) -> Tensor:
    """As `rand`, in the input's size, dtype and order of strides."""
    kept = {"memory_format": memory_format, **options}
    return _drawn_like("rand_like", input, draw.uniform, "fcV", generator, kept)


def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    memory_format: memory_format = preserve_format,
    **options: Unpack[Options],
) -> Tensor:
    """As `randn`, in the input's size, dtype and order of strides."""
    kept = {"memory_format": memory_format, **options}
    return _drawn_like("randn_like", input, draw.normal, "fcV", generator, kept)


def randint_like(
    input: Tensor,
    *bounds: Any,
    low: Any = _UNSET,
    high: Any = _UNSET,
    generator: Generator | None = None,
    memory_format: memory_format = preserve_format,
    **options: Unpack[Options],
) -> Tensor:
    """As `randint`, in the input's size, dtype and order of strides."""
    given = _by_name("randint_like", bounds, {"low": low, "high": high}, ("low", "high"), ("high",))
    kept = {"memory_format": memory_format, **options}

    def fill(source: Any, array: Array) -> None:
        bounds = integer_bounds("randint_like", given.get("low", 0), given["high"], array.dtype)
        draw.integers(source, array, *bounds)

    return _drawn_like("randint_like", input, fill, "biufcV", generator, kept)


# From parameters that are tensors: the draw cuts the gradient, which is zero ----------------------


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
        by_kind: dict[tuple[bool, bool], Any] = {
            (True, True): _normal,
            (True, False): _normal_around,
            (False, True): _normal_about,
        }
        return by_kind[tensors](mean, std, generator, out=out)
    if size is None:
        raise TypeError("normal(): two numbers need a size; or give tensors.")
    dtype = checked("normal", options, default.numpy, out)
    needs("normal", dtype, "fcV")
    fill = functools.partial(draw.normal, mean=mean, std=std)
    return _drawn("normal", one_shape("normal", size), fill, dtype, (generator, out, options))


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
    """1 with the probabilities in `input` (or with probability `p`), else 0; gradients are zero."""
    result = empty_array_like(xp, input)
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
    """Counts of events that happen at the rates in `input`; gradients are zero."""
    needs("poisson", input.dtype, "fV")
    if not (input >= 0).all():
        raise RuntimeError("poisson(): rates must not be negative.")
    return source_of("poisson", generator).poisson(input).astype(input.dtype)


@primitive(has_out=False)
def _binomial(xp: Namespace, count: Array, prob: Array, generator: Any) -> Array:
    """How many of `count` trials succeed that each do with probability `prob`."""
    check_probabilities("binomial", prob)
    trials = count.astype(numpy.int64)
    drawn = source_of("binomial", generator).binomial(trials, prob.astype(numpy.float64))
    return numpy.asarray(drawn).astype(count.dtype)


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


@primitive()
def _multinomial(
    xp: Namespace, input: Array, num_samples: int, replacement: bool, generator: Any
) -> Array:
    """Column numbers, drawn for each row with the weights that `input` holds there."""
    _check_weights(input, num_samples, replacement=replacement)
    rows = input.reshape(-1, input.shape[-1]).astype(numpy.float64)
    source = source_of("multinomial", generator)
    if rows.size == 0:
        return numpy.empty((*input.shape[:-1], num_samples), numpy.int64)
    choose = draw.with_replacement if replacement else draw.without_replacement
    return choose(source, rows, num_samples).reshape(*input.shape[:-1], num_samples)


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
    if isinstance(num_samples, bool) or not hasattr(num_samples, "__index__"):
        raise errors.not_an_int("multinomial", "num_samples", num_samples)
    count = operator.index(num_samples)
    drawn: Tensor = _multinomial(input, count, bool(replacement), generator, out=out)
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

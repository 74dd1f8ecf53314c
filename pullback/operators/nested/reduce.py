"""Reductions of jagged tensors, softmax and norm layers: over components, or over dense dims."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from pullback.core.dtype import as_dtype, from_numpy_dtype
from pullback.core.explain import layout_errors as errors
from pullback.core.tensor import wrap
from pullback.operators.nested.array import form_of
from pullback.operators.nested.form import Jagged
from pullback.operators.nested.parts import as_padded, filled, from_rows, rows_first
from pullback.operators.nested.pointwise import wrapped
from pullback.operators.nested.primitives import repeated, segment_sum, values_of
from pullback.operators.nested.symbol import RaggedSize
from pullback.operators.options import as_dim, as_dims
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.views import unsqueeze

__all__ = ["REDUCTIONS", "layer_norm", "log_softmax", "softmax"]


def _reduction(name: str) -> Callable[..., Any]:
    """A reduction under its public signature, `dim` and `keepdim` in any spelling."""

    def reduce(
        func: Any, x: Any, dim: Any = None, keepdim: bool = False, *more: Any, **options: Any
    ) -> Any:
        if name in ("var", "std", "var_mean", "std_mean") and isinstance(dim, bool):
            dim, options = None, {**options, "correction": int(dim)}
        dim, keepdim = options.pop("axis", dim), options.pop("keepdims", keepdim)
        if more:
            raise errors.not_taken_nested(name, x.layout, " with these arguments")
        if name in ("max", "min") and getattr(dim, "is_nested", None) is not None:
            from pullback.operators.nested.pointwise import pointwise

            return pointwise(func, (x, dim), {})  # the larger of two
        if dim is None:
            return func(values_of(filled(x)), **options)
        return _over(name, func, x, as_dims(dim, x._array.ndim, name), keepdim, options)

    return reduce


def _over(name: str, func: Any, x: Any, dims: Any, keepdim: bool, options: Any) -> Any:
    form = form_of(x)
    if 0 in dims and form.dim not in dims:
        raise RuntimeError(
            f"{name}: over the batch alone components of different sizes have no result; reduce "
            f"dim {form.dim}, the ragged one, as well."
        )
    single = len(dims) == 1
    if 0 in dims:
        made = _of_values(name, func, filled(x), dims, keepdim, options, single=False)
        return unsqueeze(made, 0) if keepdim else made
    if form.dim in dims:
        others = tuple(dim for dim in dims if dim != form.dim)
        if others:
            if name not in _IN_STEPS:
                raise errors.not_taken_nested(name, x.layout, f" over dims {dims} together")
            x = _over(name, func, x, others, True, options)  # leaves ones behind
            made = _over(name, func, x, (form.dim,), True, options)
            return made if keepdim else _without(made, dims)
        return _over_components(name, func, x, keepdim, options)
    shift = 0 if keepdim else sum(dim < form.dim for dim in dims)
    made = _of_values(name, func, x, dims, keepdim, options, single=single)
    return wrapped(made, form.at(form.dim - shift))


def _without(made: Any, dims: tuple[int, ...]) -> Any:
    for dim in sorted(dims, reverse=True):
        made = made.squeeze(dim)
    return made


def _of_values(
    name: str, func: Any, x: Any, dims: Any, keepdim: bool, options: Any, *, single: bool
) -> Any:
    """The reduction of values, over dimensions of the tensor; the batch is part of the rows."""
    axes = [dim - 1 for dim in dims if dim]
    if name in _OF_ONE_DIM:
        if len(axes) > 1:
            raise errors.not_taken_nested(name, x.layout, f" over dims {dims} together")
        return func(values_of(x), axes[0], keepdim, **options)
    return func(values_of(x), axes[0] if single else tuple(axes), keepdim=keepdim, **options)


# Reductions of which several dimensions are taken one after the other, with the same result.
_IN_STEPS = frozenset(["sum", "mean", "amax", "amin", "any", "all", "nansum", "logsumexp"])
_OF_ONE_DIM = frozenset(["max", "min", "argmax", "argmin", "prod", "median", "cumsum"])


# Over components ----------------------------------------------------------------------------------


def _over_components(name: str, func: Any, x: Any, keepdim: bool, options: Any) -> Any:
    form = form_of(x)
    if name in ("sum", "mean"):
        made = _summed(name, x, options)
    elif name in ("var", "std"):
        made = _spread(name, rows_first(filled(x)), form_of(filled(x)), options)
    else:
        fill = _filling(name, x._array.dtype)
        return func(as_padded(x, fill), form.dim, keepdim, **options)
    return unsqueeze(made, form.dim) if keepdim else made


def _summed(name: str, x: Any, options: Any) -> Any:
    dtype = options.get("dtype")
    rows = rows_first(x)
    if dtype is not None:
        rows = rows.to(as_dtype(dtype))
    elif name == "sum" and x._array.dtype.kind in "biu":
        rows = rows.long()
    elif name == "mean" and x._array.dtype.kind not in "fcV":
        raise RuntimeError(f"mean: needs a floating point or complex tensor, got {x.dtype}.")
    form = form_of(x)
    made = segment_sum(rows, form.rows)
    if name == "sum":
        return shown_as("SumBackward1", made)
    return shown_as("MeanBackward1", made / _lengths(form, made))


def _lengths(form: Jagged, like: Any) -> Any:
    """How long components are, beside one row for each."""
    lengths = form.rows.lengths.reshape(-1, *[1] * (like.ndim - 1))
    return wrap(lengths).to(like.dtype)


def _spread(name: str, rows: Any, form: Jagged, options: Any) -> Any:
    correction = options.get("correction", 1)
    if "unbiased" in options:
        correction = int(options["unbiased"])
    total = segment_sum(rows, form.rows)
    lengths = _lengths(form, total)
    away = rows - repeated(total / lengths, form.rows, rows.shape[0])
    squares = (away * away.conj()).real if rows.is_complex() else away * away
    lengths = lengths.real if rows.is_complex() else lengths
    made = segment_sum(squares, form.rows) / (lengths - correction)
    if name == "var":
        return made
    none = made == 0  # where the root has no slope; the gradient is zero there
    return made.masked_fill(none, 1).sqrt().masked_fill(none, 0)


def _filling(name: str, dtype: Any) -> Any:
    """What does not change a reduction that it takes part in."""
    if name in ("prod", "all"):
        return 1
    if name in ("any", "nansum"):
        return 0
    smallest = name in ("amax", "max", "argmax", "logsumexp")
    if dtype.kind in "fV":
        return -math.inf if smallest else math.inf
    if dtype.kind == "b":
        return not smallest
    if dtype.kind in "iu":
        limits = numpy.iinfo(dtype)
        return limits.min if smallest else limits.max
    raise RuntimeError(f"{name}: {from_numpy_dtype(dtype)} has no order.")


REDUCTIONS = {
    name: _reduction(name)
    for name in (
        *("sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "prod", "any", "all"),
        *("logsumexp", "nansum", "var", "std"),
    )
}


def norm_of_all(func: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """Norms, of all elements only."""
    if kwargs.get("dim") is not None or any(
        isinstance(one, int | tuple | list) for one in args[1:]
    ):
        raise errors.not_taken_nested("norm", x.layout, " with dim")
    return func(values_of(filled(x)), *args, **kwargs)


# Softmax and norm layers --------------------------------------------------------------------------


def _along(name: str, func: Any, x: Any, dim: Any, options: Any) -> Any:
    if dim is None:
        raise RuntimeError(f"{name}: say which dim of a nested tensor to go along.")
    at = as_dim(dim, x._array.ndim, name)
    form = form_of(x)
    if at == 0:
        raise RuntimeError(
            f"{name}: along the batch components of different sizes have no result; go along "
            f"another dim than 0."
        )
    if at != form.dim:
        return wrapped(func(values_of(x), at - 1, **options), form)
    dtype = options.get("dtype")
    x = filled(x if dtype is None else x.to(as_dtype(dtype)))
    form = form_of(x)
    rows = rows_first(x)
    shifted = rows - repeated(_largest(x, form), form.rows, rows.shape[0])
    powers = shifted.exp()
    sums = segment_sum(powers, form.rows)
    if name == "softmax":
        made = powers / repeated(sums, form.rows, rows.shape[0])
    else:
        made = shifted - repeated(sums.log(), form.rows, rows.shape[0])
    node = "SoftmaxBackward0" if name == "softmax" else "LogSoftmaxBackward0"
    return shown_as(node, from_rows(made, form))


def _largest(x: Any, form: Jagged) -> Any:
    """The largest of each component, as a constant; softmax does not depend on it."""
    return REDUCTIONS["amax"](type(x).amax, x.detach(), form.dim)


def softmax(func: Any, x: Any, dim: Any = None, *more: Any, **options: Any) -> Any:
    """Softmax along a component or a dense dimension."""
    return _along("softmax", func, x, dim, _softmax_options(more, options))


def log_softmax(func: Any, x: Any, dim: Any = None, *more: Any, **options: Any) -> Any:
    """Its logarithm."""
    return _along("log_softmax", func, x, dim, _softmax_options(more, options))


def _softmax_options(more: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    options.pop("_stacklevel", None)
    dtype = options.pop("dtype", more[-1] if more else None)
    return {} if dtype is None else {"dtype": dtype}


def layer_norm(
    func: Any,
    x: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: Any = None,
    **options: Any,
) -> Any:
    """Layer norm or RMS norm over the last dimensions, the ragged one among them or not."""
    form, ndim = form_of(x), x._array.ndim
    single = isinstance(normalized_shape, int | RaggedSize)
    sizes = (normalized_shape,) if single else tuple(normalized_shape)
    if ndim - len(sizes) > form.dim:
        named = {"weight": weight, "eps": eps, **options}
        if "rms" not in func.__name__:
            named["bias"] = bias
            named["eps"] = 1e-5 if eps is None else eps
        return wrapped(func(values_of(x), sizes, **named), form)
    if len(sizes) >= ndim or sizes != tuple(x._array.shape[ndim - len(sizes) :]):
        raise RuntimeError(
            f"{func.__name__}: normalized_shape {sizes} is not how the tensor's shape "
            f"{tuple(x._array.shape)} ends."
        )
    if weight is not None or bias is not None:
        raise errors.not_taken_nested(func.__name__, x.layout, " over the ragged dim with a weight")
    return _normed(func, filled(x), len(sizes), eps)


def _normed(func: Any, x: Any, count: int, eps: Any) -> Any:
    """Over the ragged dimension and dense ones around it."""
    form, ndim = form_of(x), x._array.ndim
    dims = tuple(range(ndim - count, ndim))
    if "rms" in func.__name__:
        eps = numpy.finfo(x._array.dtype).eps if eps is None else eps
        return x * ((x * x).mean(dims, keepdim=True) + eps).rsqrt()
    away = x - x.mean(dims, keepdim=True)
    scale = (away * away).mean(dims, keepdim=True) + (1e-5 if eps is None else eps)
    made = away * scale.rsqrt()
    assert form_of(made).rows.same_lengths(form.rows)
    return shown_as("NativeLayerNormBackward0", made)

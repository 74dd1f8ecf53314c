"""Reductions, and what is made of them: softmax, norms, losses over classes."""

from __future__ import annotations

from typing import Any

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.values import Val
from pullback.compiled.lower.rules import (
    NotLowered,
    constant,
    count_over,
    dims_of,
    floating,
    lower,
)
from pullback.operators.nn.activation import softmax
from pullback.operators.nn.attention import dot_product
from pullback.operators.nn.norm import running, standardise
from pullback.operators.reduce import extremes, statistics, sums


@lower(sums._sum_dims, sums._sum_full)
def _sum(b: Builder, input: Val, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Val:
    floating(input)
    if dtype is not None and str(dtype.numpy.str[1:]) != input.dtype:
        raise NotLowered
    if not input.shape:
        return input
    return b.reduce("sum", input, dims_of(dim, len(input.shape)), keep=keepdim)


@lower(sums._mean_dims, sums._mean_full)
def _mean(b: Builder, input: Val, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Val:
    total = _sum(b, input, dim, keepdim, dtype)
    if not input.shape:
        return total
    count = count_over(input, dims_of(dim, len(input.shape)))
    return b.ew("div", total, constant(b, count, input))


@lower(extremes.amax, extremes._max_full)
def _amax(b: Builder, input: Val, dim: Any = (), keepdim: bool = False) -> Val:
    floating(input)
    if not input.shape:
        return input
    return b.reduce("max", input, dims_of(dim, len(input.shape)), keep=keepdim)


@lower(extremes.amin, extremes._min_full)
def _amin(b: Builder, input: Val, dim: Any = (), keepdim: bool = False) -> Val:
    floating(input)
    if not input.shape:
        return input
    made = b.reduce("max", b.ew("neg", input), dims_of(dim, len(input.shape)), keep=keepdim)
    return b.ew("neg", made)


@lower(statistics._var)
def _var(b: Builder, input: Val, dim: Any, correction: Any, keepdim: bool) -> Val:
    floating(input)
    if not input.shape:
        raise NotLowered
    dims = dims_of(dim, len(input.shape))
    count = count_over(input, dims)
    if count <= correction:
        raise NotLowered
    c = _centred(b, input, dims, count)
    total = b.reduce("sum", b.ew("mul", c, c), dims, keep=keepdim)
    return b.ew("div", total, constant(b, count - correction, input))


@lower(statistics._std)
def _std(b: Builder, input: Val, dim: Any, correction: Any, keepdim: bool) -> Val:
    return b.ew("sqrt", _var(b, input, dim, correction, keepdim))


def _with_mean(spread: Any) -> Any:
    def rule(b: Builder, input: Val, dim: Any, correction: Any, keepdim: bool) -> tuple[Val, Val]:
        return spread(b, input, dim, correction, keepdim), _mean(b, input, dim, keepdim)

    return rule


lower(statistics._var_mean)(_with_mean(_var))
lower(statistics._std_mean)(_with_mean(_std))


def _centred(b: Builder, x: Val, dims: tuple[int, ...], count: int) -> Val:
    mean = b.ew("mul", b.reduce("sum", x, dims, keep=True), constant(b, 1 / count, x))
    return b.ew("sub", x, mean)


# Softmax -----------------------------------------------------------------------------------------


def _exponentials(b: Builder, x: Val, dim: int) -> tuple[Val, Val, Val]:
    """exp(x - largest), their sum, and the largest."""
    top = b.reduce("max", x, (dim,), keep=True)
    z = b.ew("exp", b.ew("sub", x, top))
    return z, b.reduce("sum", z, (dim,), keep=True), top


def _one_dim(x: Val, dim: Any, dtype: Any = None) -> int:
    floating(x)
    if dtype is not None or not x.shape:
        raise NotLowered
    return int(dim) % len(x.shape)


@lower(softmax.softmax)
def _softmax(b: Builder, input: Val, dim: Any, dtype: Any = None) -> Val:
    z, total, _ = _exponentials(b, input, _one_dim(input, dim, dtype))
    return b.ew("mul", z, b.ew("recip", total))


@lower(softmax.log_softmax)
def _log_softmax(b: Builder, input: Val, dim: Any, dtype: Any = None) -> Val:
    _, total, top = _exponentials(b, input, _one_dim(input, dim, dtype))
    return b.ew("sub", b.ew("sub", input, top), b.ew("log", total))


@lower(softmax.softmax_adjoint)
def _softmax_adjoint(b: Builder, gradient: Val, output: Val, dim: Any) -> Val:
    floating(gradient, output)
    dim = _one_dim(output, dim)
    total = b.reduce("sum", b.ew("mul", gradient, output), (dim,), keep=True)
    return b.ew("mul", output, b.ew("sub", gradient, total))


@lower(softmax._log_softmax_adjoint)
def _log_softmax_adjoint(b: Builder, gradient: Val, output: Val, dim: Any) -> Val:
    floating(gradient, output)
    total = b.reduce("sum", gradient, (_one_dim(output, dim),), keep=True)
    return b.ew("sub", gradient, b.ew("mul", b.ew("exp", output), total))


@lower(sums.logsumexp)
def _logsumexp(b: Builder, input: Val, dim: Any, keepdim: bool = False) -> Val:
    floating(input)
    if not input.shape:
        raise NotLowered
    dims = dims_of(dim, len(input.shape))
    top = b.reduce("max", input, dims, keep=True)
    # Where the largest is infinite, the difference would be NaN: it is taken from 0 there.
    large = b.ew("eq", b.ew("abs", top), constant(b, float("inf"), top))
    safe = b.ew("where", large, constant(b, 0, top), top)
    z = b.ew("exp", b.ew("sub", input, safe))
    made = b.ew("add", b.ew("log", b.reduce("sum", z, dims, keep=True)), safe)
    return made if keepdim else b.squeeze(made, dims)


@lower(dot_product._attention_weights)
def _attention_weights(b: Builder, query: Val, key: Val, factor: float, causal: bool) -> Val:
    floating(query, key)
    ndim = len(key.shape)
    order = [*range(ndim - 2), ndim - 1, ndim - 2]
    products = b.ew("mul", b.dot(query, b.permute(key, order)), constant(b, factor, query))
    if causal:
        rows, columns = products.shape[-2:]
        column = b.iota(columns)
        row = b.reshape(b.copy(b.iota(rows)), (rows, 1))
        later = b.ew("gt", column, row)
        products = b.ew("where", later, constant(b, float("-inf"), products), products)
    return _softmax(b, products, ndim - 1)


# Norms -------------------------------------------------------------------------------------------


def _standardised(b: Builder, x: Val, over: Any) -> tuple[Val, Val, Val]:
    """(x - mean) / deviation, 1 / deviation, and 1 / count; `x` with groups as a dimension."""
    share = constant(b, 1 / count_over(x, over.dims), x)
    c = x
    if over.centred:
        c = b.ew("sub", x, b.ew("mul", b.reduce("sum", x, over.dims, keep=True), share))
    v = b.ew("mul", b.reduce("sum", b.ew("mul", c, c), over.dims, keep=True), share)
    r = b.ew("rsqrt", b.ew("add", v, constant(b, over.eps, x)))
    return b.ew("mul", c, r), r, share


def _grouped(shape: Any, over: Any) -> tuple[Any, Any]:
    """A shape with groups as a dimension, and that of weights beside it; None: as they are."""
    channel, groups = over.channel, over.groups
    if channel is None:
        return shape, None
    each = (shape[channel],) if groups is None else (groups, shape[channel] // groups)
    inside = shape[channel + 1 :]
    return (*shape[:channel], *each, *inside), each + (1,) * len(inside)


def _in_groups(b: Builder, x: Val, over: Any) -> Val:
    return b.reshape(x, _grouped(x.shape, over)[0])


def _aligned(b: Builder, weight: Val, x: Val, over: Any) -> Val:
    """A weight in the shape that broadcasts against the groups of `x`."""
    shape = _grouped(x.shape, over)[1]
    return weight if shape is None else b.reshape(weight, shape)


@lower(standardise.layer_standardise, standardise.batch_standardise, standardise.group_standardise)
def _layer_norm(
    b: Builder, input: Val, weight: Val | None, bias: Val | None, over: Any, known: Any = None
) -> Val:
    if known is not None:  # statistics that somebody worked out before
        raise NotLowered
    floating(input, *(one for one in (weight, bias) if one is not None))
    y, _, _ = _standardised(b, _in_groups(b, input, over), over)
    if weight is not None:
        y = b.ew("mul", y, _aligned(b, weight, input, over))
    if bias is not None:
        y = b.ew("add", y, _aligned(b, bias, input, over))
    return b.reshape(y, input.shape)


@lower(standardise.inverse_deviation)
def _inverse_deviation(b: Builder, input: Val, over: Any) -> Val:
    floating(input)
    return _standardised(b, _in_groups(b, input, over), over)[1]


@lower(running._given_standardise)
def _given_statistics(
    b: Builder, input: Val, weight: Any, bias: Any, average: Any, variance: Val, eps: float
) -> Val:
    floating(input, variance, *(one for one in (weight, bias, average) if one is not None))
    factor = b.ew("rsqrt", b.ew("add", variance, constant(b, eps, variance)))
    if weight is not None:
        factor = b.ew("mul", factor, weight)
    shift = bias
    if average is not None:
        moved = b.ew("mul", average, factor)
        shift = b.ew("neg", moved) if bias is None else b.ew("sub", bias, moved)
    beside = (1,) * (len(input.shape) - 2)
    y = b.ew("mul", input, b.reshape(factor, (*factor.shape, *beside)))
    return y if shift is None else b.ew("add", y, b.reshape(shift, (*shift.shape, *beside)))


@lower(standardise._standardise_adjoint)
def _layer_norm_adjoint(
    b: Builder, gradient: Val, input: Val, weight: Val | None, over: Any, known: Any = None
) -> Val:
    if known is not None:
        raise NotLowered
    floating(gradient, input, *(one for one in (weight,) if one is not None))
    y, r, share = _standardised(b, _in_groups(b, input, over), over)
    g = _in_groups(b, gradient, over)
    if weight is not None:
        g = b.ew("mul", g, _aligned(b, weight, input, over))
    along = b.ew("mul", b.reduce("sum", b.ew("mul", g, y), over.dims, keep=True), share)
    rest = b.ew("sub", g, b.ew("mul", y, along))
    if over.centred:
        mean = b.ew("mul", b.reduce("sum", g, over.dims, keep=True), share)
        rest = b.ew("sub", b.ew("sub", g, mean), b.ew("mul", y, along))
    return b.reshape(b.ew("mul", r, rest), input.shape)


@lower(standardise._weight_adjoint)
def _layer_norm_weight(b: Builder, gradient: Val, input: Val, shape: Any, over: Any) -> Val:
    floating(gradient, input)
    y, _, _ = _standardised(b, _in_groups(b, input, over), over)
    product = b.reshape(b.ew("mul", _in_groups(b, gradient, over), y), input.shape)
    kept = over.dims if over.channel is None else (over.channel,)
    others = tuple(d for d in range(len(input.shape)) if d not in kept)
    return b.reshape(b.reduce("sum", product, others, keep=True), shape)

"""Softmax and losses over classes: whole rows at once, and no look at the values.

The host goes through blocks that stay in cache and takes shorter ways where values allow it; a
device is given few, large pieces of work and is asked nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.operators.cuda.found import found
from pullback.operators.cuda.kernel_overrides import replace

__all__ = ["enter"]


# Softmax ------------------------------------------------------------------------------------------


def _softmax(xp: Any, x: Any, dim: int) -> Any:
    if not x.size:
        return x.copy()
    if not x.ndim:
        return xp.cupy.ones_like(x)
    if dim in (-1, x.ndim - 1) and _kernels().fits(x):
        return _kernels().softmax(x)
    out = _wide(x) - _largest(x, dim)
    xp.cupy.exp(out, out)
    out /= out.sum(dim, keepdims=True)
    return out.astype(x.dtype, copy=False)


def _kernels() -> Any:
    return found.library.rows


def _wide(x: Any) -> Any:
    """Half precision is computed in single."""
    return x.astype(numpy.float32) if x.dtype.itemsize == 2 else x


def _largest(x: Any, dim: int) -> Any:
    return _wide(x).max(dim, keepdims=True)


def _softmax_adjoint(xp: Any, gradient: Any, output: Any, dim: int) -> Any:
    if not output.size or not output.ndim:
        return gradient * 0
    if dim in (-1, output.ndim - 1) and _kernels().fits(output, gradient):
        return _kernels().softmax_adjoint(gradient, output)
    g, y = _wide(gradient), _wide(output)
    made = y * (g - (g * y).sum(dim, keepdims=True))
    return made.astype(output.dtype, copy=False)


def _log_softmax(xp: Any, input: Any, dim: int, dtype: Any = None) -> Any:
    from pullback.operators.nn.activation.softmax import prepared

    if dtype is not None or input.dtype.kind != "f":
        input = prepared("log_softmax", input, dtype)
    if not input.size:
        return input.copy()
    if not input.ndim:
        return xp.cupy.zeros_like(input)
    if dim in (-1, input.ndim - 1) and _kernels().fits(input):
        return _kernels().log_softmax(input)
    out = _wide(input) - _largest(input, dim)
    out -= xp.cupy.log(xp.cupy.exp(out).sum(dim, keepdims=True))
    return out.astype(input.dtype, copy=False)


def _log_softmax_adjoint(xp: Any, gradient: Any, output: Any, dim: int) -> Any:
    if not output.size or not output.ndim:
        return gradient * 0
    if dim in (-1, output.ndim - 1) and _kernels().fits(output, gradient):
        return _kernels().log_softmax_adjoint(gradient, output)
    g, y = _wide(gradient), _wide(output)
    made = g - xp.cupy.exp(y) * g.sum(dim, keepdims=True)
    return made.astype(output.dtype, copy=False)


# Losses over classes ------------------------------------------------------------------------------


def _losses(xp: Any, scores: Any, chosen: Any) -> Any:
    top = scores.max(1)
    sums = xp.cupy.exp(scores - top[:, None]).sum(1)
    return xp.cupy.log(sums) + (top - chosen)


def _chosen(xp: Any, target: Any, weight: Any, ignore: int, layout: Any, dtype: Any) -> Any:
    """As the host's; any target may be ignored, none is looked at."""
    from pullback.operators.nn.loss.classes import Chosen

    index = target.reshape(layout[:1] + layout[2:])
    ignored = index == ignore
    index = xp.cupy.where(ignored, 0, index)
    batch = xp.cupy.arange(layout[0])
    key: tuple[Any, ...] = (batch, index)
    if len(layout) > 2:
        key = (batch[:, None], index, xp.cupy.arange(layout[2]))
    counted = (~ignored).astype(dtype)
    weights = counted if weight is None else weight[index] * counted
    return Chosen(key, weights, ignored, weights.sum())


def _class_gradient(
    xp: Any, gradient: Any, input: Any, target: Any, weight: Any, ignore_index: int, reduction: str
) -> Any:
    """Softmax minus one at the target, times what each row counts."""
    from pullback.operators.nn.loss import classes

    if _is_plain_entropy(input, target, weight) and _kernels().fits(input, gradient):
        return _kernels().entropy_adjoint(gradient, input, target, ignore_index, reduction)
    half = input.dtype if input.dtype.itemsize == 2 else None
    if half is not None:
        gradient, input = _wide(gradient), _wide(input)
        weight = None if weight is None else _wide(weight)
    layout = classes._layout(input.shape)
    chosen = _chosen(xp, target, weight, ignore_index, layout, input.dtype)
    factor = _coefficients(xp, gradient, chosen, reduction)
    out = _softmax(xp, input.reshape(layout), 1)
    out *= factor[:, None]
    out[chosen.key] -= factor
    made = out.reshape(input.shape)
    return made if half is None else made.astype(half)


def _reduced(xp: Any, losses: Any, chosen: Any, reduction: str, shape: Any) -> Any:
    """Losses weighted as the user wants them; what is ignored counts 0, whatever it is."""
    from pullback.operators.nn.loss.classes import class_dim

    losses = xp.cupy.where(chosen.ignored, losses.dtype.type(0), losses * chosen.weights)
    if reduction == "none":
        dim = class_dim(len(shape))
        return losses.reshape(shape[:dim] + shape[dim + 1 :])
    total = _wide(losses).sum()
    total = total if reduction == "sum" else total / _wide(chosen.weights).sum()
    return total.astype(losses.dtype, copy=False)


def _coefficients(xp: Any, g: Any, chosen: Any, reduction: str) -> Any:
    """What each chosen loss counts in the end, times `g`."""
    if reduction == "none":
        g = g.reshape(chosen.key[1].shape)
    elif reduction == "mean":
        g = g / chosen.total
    return xp.cupy.where(chosen.ignored, g.dtype.type(0), chosen.weights * g)


def _is_plain_entropy(input: Any, target: Any, weight: Any) -> bool:
    """Whether scores are rows, each with the number of its class."""
    if weight is not None or input.ndim != 2 or target.dtype.char not in "lq":
        return False
    return target.ndim == 1 and target._c_contiguous if hasattr(target, "_c_contiguous") else False


def _entropy(
    xp: Any, input: Any, target: Any, weight: Any, ignore_index: int, reduction: str
) -> Any:
    from pullback.operators.nn.loss import classes

    if _is_plain_entropy(input, target, weight) and _kernels().fits(input):
        return _kernels().entropy(input, target, ignore_index, reduction)
    declared: Any = classes.cross_entropy_of_indices
    original = found.library.original(declared.op.forward)
    return original(xp, input, target, weight, ignore_index, reduction)


# Attention ----------------------------------------------------------------------------------------


def _scores_gradient(g: Any, out: Any, factor: float) -> Any:
    if _kernels().fits(out, g):
        return _kernels().softmax_adjoint(g, out, factor)
    made = _softmax_adjoint(found.library.xp, g, out, out.ndim - 1)
    return (_wide(made) * factor).astype(made.dtype, copy=False)


def _attention_weights(xp: Any, query: Any, key: Any, factor: float, causal: bool) -> Any:
    products = found.library.blas.matmul(query, key.swapaxes(-2, -1))
    if causal and _kernels().fits(products):
        return _kernels().softmax_causal(products, factor)
    products *= products.dtype.type(factor)
    if causal:
        rows, columns = products.shape[-2:]
        later = _later(xp, rows, columns)
        products = xp.cupy.where(later, products.dtype.type(-math.inf), products)
    return _softmax(xp, products, products.ndim - 1)


def _later(xp: Any, queries: int, keys: int) -> Any:
    """Which keys come after each query; kept for the shapes used last."""
    known = xp.masks.get((queries, keys))
    if known is None:
        if len(xp.masks) > 16:
            xp.masks.clear()
        places = xp.cupy.arange(keys) > xp.cupy.arange(queries)[:, None]
        known = xp.masks[queries, keys] = places
    return known


def enter() -> None:
    """Into the table."""
    from pullback.operators.nn.activation import softmax
    from pullback.operators.nn.attention import dot_product
    from pullback.operators.nn.loss import classes

    replace(
        {
            softmax.exponentials_along: _softmax,
            softmax._softmax_adjoint: _softmax_adjoint,
            softmax.log_softmax: _log_softmax,
            softmax._log_softmax_adjoint: _log_softmax_adjoint,
            classes._losses: _losses,
            classes._reduced: _reduced,
            classes._coefficients: _coefficients,
            classes.cross_entropy_of_indices: _entropy,
            classes._chosen: _chosen,
            classes._cross_entropy_adjoint: _class_gradient,
            dot_product._attention_weights: _attention_weights,
            dot_product._scores_gradient: _scores_gradient,
        }
    )

"""Softmax, norm layers and losses over classes: whole rows at once, and no look at the values.

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


# Norms --------------------------------------------------------------------------------------------


def _unit(xp: Any, x: Any, seen: Any, over: Any) -> tuple[Any, Any]:
    """The standardised input in the shape of the layout, and the inverse deviation."""
    whole = x.reshape(seen.shape)
    inverse = x.dtype.type(1 / max(seen.size, 1))
    if over.centred:
        whole = whole - whole.sum(seen.dims, keepdims=True) * inverse
    variance = (whole * whole).sum(seen.dims, keepdims=True) * inverse
    rstd = xp.cupyx.rsqrt(variance + x.dtype.type(over.eps))
    return whole * rstd, rstd


def _are_rows(seen: Any, over: Any, x: Any, *weights: Any) -> bool:
    """Whether it is a layer norm of rows, for which there is a kernel."""
    if not over.centred or seen.order is not None or seen.weights is not None:
        return False
    given = [one for one in weights if one is not None]
    return all(one.shape == seen.row for one in given) and _kernels().fits(x, *given)


def _standardise(
    xp: Any, x: Any, weight: Any, bias: Any, seen: Any, over: Any, known: Any = None
) -> Any:
    """Statistics that the caller knows are worked out again: the kernel reads the rows anyway."""
    if _are_rows(seen, over, x, weight, bias):
        return _kernels().norm(x, seen.size, weight, bias, over.eps)
    full, _ = _unit(xp, x, seen, over)
    if weight is not None:
        full *= weight if seen.weights is None else weight.reshape(seen.weights)
    if bias is not None:
        full += bias if seen.weights is None else bias.reshape(seen.weights)
    return full.reshape(x.shape)


def _layer_norm(xp: Any, input: Any, weight: Any, bias: Any, over: Any, known: Any = None) -> Any:
    """Half precision is read and written by the kernel itself."""
    from pullback.operators.nn.norm import standardise
    from pullback.operators.nn.norm.layout import layout

    if input.dtype.itemsize == 2:
        seen = layout(input.shape, over)
        if _are_rows(seen, over, input, weight, bias):
            return _kernels().norm(input, seen.size, weight, bias, over.eps)
    return found.library.original(standardise._standardise)(xp, input, weight, bias, over, known)


def _layer_gradients(
    edges: Any,
    g: Any,
    input: Any,
    weight: Any,
    weight_shape: Any,
    bias_shape: Any,
    over: Any,
    known: Any,
) -> Any:
    from pullback.operators.nn.norm import standardise
    from pullback.operators.nn.norm.layout import layout

    if g.dtype.itemsize == 2:
        seen = layout(input.shape, over)
        shapes = [one for one in (weight_shape, bias_shape) if one is not None]
        rows = all(one == seen.row for one in shapes) and _are_rows(seen, over, input, weight)
        if rows and _kernels().fits(input, g):
            how = {"wants_input": True, "wants_weights": bool(shapes)}
            made = _kernels().norm_gradients(g, input, seen.size, weight, over.eps, **how)
            return made[0], *(_shaped(one, seen.row) for one in made[1:])
    original = found.library.original(standardise._gradients)
    return original(edges, g, input, weight, weight_shape, bias_shape, over, known)


def _standard_gradients(
    xp: Any,
    g: Any,
    x: Any,
    weight: Any,
    seen: Any,
    over: Any,
    wanted: Any,
    known: Any = None,
) -> tuple[Any, Any, Any]:
    shapes = [one for one in (wanted.weight, wanted.bias) if one is not None]
    if all(one == seen.row for one in shapes) and _are_rows(seen, over, x, weight):
        g = g.reshape(x.shape)
        if _kernels().fits(x, g):
            how = {"wants_input": wanted.input, "wants_weights": bool(shapes)}
            out, of_weight, of_bias = _kernels().norm_gradients(
                g, x, seen.size, weight, over.eps, **how
            )
            return out, _shaped(of_weight, seen.row), _shaped(of_bias, seen.row)
    unit, rstd = _unit(xp, x, seen, over)
    g = g.reshape(seen.shape)
    out = of_weight = of_bias = None
    if wanted.weight is not None:
        of_weight = _added_up(g * unit, wanted.weight, seen)
    if wanted.bias is not None:
        of_bias = _added_up(g, wanted.bias, seen)
    if wanted.input:
        v = g if weight is None else g * seen.broadcast(weight)
        inverse = v.dtype.type(1 / max(seen.size, 1))
        made = v - unit * ((v * unit).sum(seen.dims, keepdims=True) * inverse)
        if over.centred:
            made -= v.sum(seen.dims, keepdims=True) * inverse
        made *= rstd
        out = made.reshape(x.shape)
    return out, of_weight, of_bias


def _shaped(array: Any, shape: tuple[int, ...]) -> Any:
    """No view without need: who keeps a gradient copies those."""
    return array if array is None or array.shape == shape else array.reshape(shape)


def _added_up(array: Any, shape: tuple[int, ...], seen: Any) -> Any:
    from pullback.operators.nn.norm.gradients import sum_to

    return sum_to(array, shape if seen.weights is None else seen.weights).reshape(shape)


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


def _number(value: float, dtype: Any) -> Any:
    """Beside arrays of a device, numbers stay numbers."""
    return dtype.type(value)


def enter() -> None:
    """Into the table."""
    from pullback.operators.nn.activation import softmax
    from pullback.operators.nn.attention import dot_product
    from pullback.operators.nn.loss import classes
    from pullback.operators.nn.norm import gradients, kernels, standardise

    replace(
        {
            softmax.exponentials_along: _softmax,
            softmax._softmax_adjoint: _softmax_adjoint,
            softmax.log_softmax: _log_softmax,
            softmax._log_softmax_adjoint: _log_softmax_adjoint,
            kernels.standardise: _standardise,
            kernels.number: _number,
            gradients.gradients: _standard_gradients,
            standardise._standardise: _layer_norm,
            standardise._gradients: _layer_gradients,
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

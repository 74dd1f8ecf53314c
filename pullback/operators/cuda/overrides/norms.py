"""Norm layers: rows and channels by kernels of their own, others step by step."""

from __future__ import annotations

from typing import Any

from pullback.operators.cuda.channels import Grouping, grouping
from pullback.operators.cuda.found import found
from pullback.operators.cuda.kernel_overrides import replace

__all__ = ["enter"]


def _kernels() -> Any:
    return found.library.rows


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


def _by_channel(x: Any, seen: Any, over: Any, *others: Any) -> Grouping | None:
    """How channels share statistics, where the kernels of channels take such arrays."""
    if over.channel is None or not found.library.channels.fits(x, *others):
        return None
    return grouping(x.shape, seen, over)


def _known(x: Any, channels: Grouping, over: Any, known: Any) -> Any:
    return found.library.channels.statistics(x, channels, over.eps) if known is None else known


def _of_channels(x: Any, weight: Any, bias: Any, channels: Grouping, over: Any, known: Any) -> Any:
    known = _known(x, channels, over, known)
    return found.library.channels.scaled(x, channels, known, weight, bias)


def _gradients_of_channels(
    g: Any, x: Any, weight: Any, channels: Grouping, over: Any, known: Any, wanted: Any
) -> tuple[Any, Any, Any]:
    known = _known(x, channels, over, known)
    wants_input, of_weight, of_bias = wanted
    made = found.library.channels.gradients(
        g,
        x,
        channels,
        known,
        weight,
        wants_input=wants_input,
        wants_weights=of_weight is not None or of_bias is not None,
    )
    shaped = [
        None if shape is None else _shaped(one, shape)
        for one, shape in zip(made[1:], (of_weight, of_bias), strict=True)
    ]
    return made[0], shaped[0], shaped[1]


def _standardise(
    xp: Any, x: Any, weight: Any, bias: Any, seen: Any, over: Any, known: Any = None
) -> Any:
    """Known statistics of rows are worked out again: the kernel reads the rows anyway."""
    if _are_rows(seen, over, x, weight, bias):
        return _kernels().norm(x, seen.size, weight, bias, over.eps)
    channels = _by_channel(x, seen, over)
    if channels is not None:
        return _of_channels(x, weight, bias, channels, over, known)
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
        channels = _by_channel(input, seen, over)
        if channels is not None:
            return _of_channels(input, weight, bias, channels, over, known)
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
        channels = _by_channel(input, seen, over, g)
        if channels is not None:
            return _gradients_of_channels(
                g, input, weight, channels, over, known, (True, weight_shape, bias_shape)
            )
    original = found.library.original(standardise._gradients)
    return original(edges, g, input, weight, weight_shape, bias_shape, over, known)


def _standard_gradients(
    xp: Any, g: Any, x: Any, weight: Any, seen: Any, over: Any, wanted: Any, known: Any = None
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
    channels = _by_channel(x, seen, over, g)
    if channels is not None:
        return _gradients_of_channels(g, x, weight, channels, over, known, wanted)
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


def _number(value: float, dtype: Any) -> Any:
    """Beside arrays of a device, numbers stay numbers."""
    return dtype.type(value)


def enter() -> None:
    """Into the table."""
    from pullback.operators.nn.norm import gradients, kernels, standardise

    replace(
        {
            kernels.standardise: _standardise,
            kernels.number: _number,
            gradients.gradients: _standard_gradients,
            standardise._standardise: _layer_norm,
            standardise._gradients: _layer_gradients,
        }
    )

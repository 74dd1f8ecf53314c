"""The operators under all norm layers: take the mean away, divide by the deviation, scale, shift.

Layer, group, batch, instance and RMS norm differ in the dimensions over which they do that, in
whether the mean is taken away, and in what the weights belong to: the last dimensions, or one of
channels. That is their one option, `over` (see layout.py). With x' the standardised input
and r the inverse deviation, everything follows from the symmetric derivative

    dx' = J dx,   J v = r (v - mean(v) - x' mean(x' v)),   dr = -r^2 mean(x' dx).

Mean and deviation are computed again where they are needed: in cache that costs less than keeping
them, and leaves each operator a function of its inputs alone. The arithmetic is in
kernels.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core.arrays import namespace
from pullback.core.errors import unsupported
from pullback.operators.arrays import native, programs
from pullback.operators.arrays.formats import in_format_of
from pullback.operators.arrays.native import by_machine_code
from pullback.operators.arrays.reductions import MANY
from pullback.operators.arrays.rows import FEW, SHORT
from pullback.operators.conditions import (
    at_least,
    at_most,
    fact,
    floating,
    given,
    host,
    not_empty,
    says,
)
from pullback.operators.declare import Array, Namespace, kernel, primitive
from pullback.operators.linalg.products import total
from pullback.operators.nn.norm import batch as batched
from pullback.operators.nn.norm import gradients, kernels
from pullback.operators.nn.norm.layout import Layout, Over, layout
from pullback.operators.reduce.sums import sum, sum_to_size
from pullback.operators.shape.reshaping import reshape

__all__ = ["batch_standardise", "group_standardise", "inverse_deviation", "layer_standardise"]


def _in_single(xp: Namespace, function: Any, arrays: list[Any], *options: Any) -> Array:
    """Half precision is computed in single."""
    single = [array if array is None else array.astype(xp.float32) for array in arrays]
    return function.op.forward(xp, *single, *options).astype(arrays[0].dtype)


def _laid_out(input: Array, made: Array, over: Over) -> Array:
    """Batch and group norm keep channels last in memory; as torch's, layer and instance do not."""
    by_channel = over.channel == 1 and (over.groups is not None or over.dims[:1] == (0,))
    if not by_channel or input.flags.c_contiguous:
        return made
    return in_format_of(input, made, by_elements=over.groups is None)


# Weights in rules ---------------------------------------------------------------------------------


def shaped(weight: Any, ndim: int, channel: int | None) -> Any:
    """A weight shaped to broadcast against `ndim` dimensions."""
    if channel is None or channel == ndim - 1:
        return weight
    return reshape(weight, (-1,) + (1,) * (ndim - 1 - channel))


def scaled(a: Any, weight: Any, channel: int | None) -> Any:
    """`a` times the weight, if there is one."""
    return a if weight is None else a * shaped(weight, a.ndim, channel)


def summed(g: Any, channel: int | None) -> Any:
    """What weights get of `g`: sums by channel. Other weights broadcast; the engine adds up."""
    if channel is None:
        return g
    shape = tuple(g.shape)
    if math.prod(shape) > MANY and channel < len(shape) - 1:
        # First what lies together in memory: a quarter of the time.
        g = sum(reshape(g, (*shape[: channel + 1], -1)), -1)
    return sum(g, tuple(d for d in range(g.ndim) if d != channel))


def _average(a: Any, dims: Any) -> Any:
    return sum(a, dims, keepdim=True) / math.prod(a.shape[dim] for dim in dims)


# Forward ------------------------------------------------------------------------------------------


def _tangent(d_input: Any, d_weight: Any, d_bias: Any, input: Any, weight: Any, over: Over) -> Any:
    return total(
        d_input is not None
        and scaled(_standardise_adjoint(d_input, input, None, over), weight, over.channel),
        d_weight is not None
        and scaled(layer_standardise(input, None, None, over), d_weight, over.channel),
        d_bias is not None and shaped(d_bias, input.ndim, over.channel),
    )


def _gradients(
    edges: Any,
    g: Any,
    input: Any,
    weight: Any,
    weight_shape: Any,
    bias_shape: Any,
    over: Over,
    known: Any,
) -> Any:
    """All of them at once, on arrays: mean, deviation and sums are worked out but once."""
    half = g.dtype if g.dtype.itemsize == 2 else None
    if half is not None:
        g, input, weight = (a if a is None else a.astype("f") for a in (g, input, weight))
    wanted = gradients.Wanted(
        True,  # by name, these take twice as long
        None if edges[1] is None else weight_shape,
        None if edges[2] is None else bias_shape,
    )
    seen = layout(input.shape, over)
    made = gradients.gradients(namespace(g), g, input, weight, seen, over, wanted, known)
    made = _laid_out(input, made[0], over), made[1], made[2]
    if half is None:
        return made
    # Those of weights stay in single: they may be float32 themselves, and are cast once otherwise.
    return made[0] if made[0] is None else made[0].astype(half), made[1], made[2]


_RULES: dict[str, Any] = {
    "input": lambda g, input, weight, over, known: _standardise_adjoint(
        g, input, weight, over, known
    ),
    "weight": lambda g, input, weight_shape, over: _weight_adjoint(g, input, weight_shape, over),
    "bias": lambda g, bias_shape, over: summed(g, over.channel),
    "fused_backward": _gradients,
    "jvp": _tangent,
    "batch": batched.standardised,
    "has_out": False,
    "method": False,
}


def _standardise(
    xp: Namespace,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    over: Over,
    known: Any = None,
) -> Any:
    """`(input - mean) / deviation * weight + bias`, with mean and deviation over `dims`.

    `known` are those statistics, of channels, where the caller has them; arrays, and no inputs: the
    rules differentiate as if they were worked out here.
    """
    if input.dtype.char not in "fd":
        if input.dtype.kind not in "fV":
            raise unsupported("layer_norm", input)
        return _in_single(xp, layer_standardise, [input, weight, bias], over)
    seen = layout(input.shape, over)
    made = kernels.standardise(xp, input, weight, bias, seen, over, known)
    return _laid_out(input, made, over)


def _named(name: str) -> Any:
    """The operator of one norm: they differ in the names that the graph shows."""
    declared = primitive(
        **_RULES,
        name=f"{name.lower()}_standardise",
        aten="",
        meta="lengths kept" if name == "Layer" else "",
        node=f"Native{name}NormBackward0",
    )
    return declared(_standardise)


layer_standardise = _named("Layer")
batch_standardise = _named("Batch")
group_standardise = _named("Group")


# Kernels ------------------------------------------------------------------------------------------

_NORMS = layer_standardise, batch_standardise, group_standardise
_seen = fact("seen", "layout(input_shape, over)", layout=layout)
_known = host & floating & _seen & says("known is not None")
_elements = host & floating & given(known=None) & not_empty & _seen
_rows = _elements & says("are_rows(weight, bias, seen)", are_rows=kernels.are_rows)


@kernel(batch_standardise, when=_known & at_least(native.MANY) & says(
    "weight is not None", "bias is not None", "seen.run > 1"
), machine_code=True)  # fmt: skip
def _many_by_statistics(
    input: Array, weight: Array, bias: Array, over: Over, known: Any
) -> Array | None:
    given = (input, known[0], known[1], weight, bias)
    made = by_machine_code(programs.STANDARDISED_CHANNELS, given)
    return None if made is None else _laid_out(input, made[0], over)


@kernel(batch_standardise, when=_known)
def _by_statistics(
    input: Array, seen: Layout, weight: Any, bias: Any, over: Over, known: Any
) -> Array:
    made = kernels.scaled_channels(numpy, input, weight, bias, seen, known[:2])
    return made if input.flags.c_contiguous else _laid_out(input, made, over)


@kernel(*_NORMS, when=_elements & at_most(FEW) & at_most(SHORT, "seen.size"))
def _few(input: Array, seen: Layout, weight: Any, bias: Any, over: Over) -> Array:
    made = kernels.standardised_few(input, weight, bias, seen, over)
    return made if input.flags.c_contiguous else _laid_out(input, made, over)


@kernel(*_NORMS, when=_rows & at_least(native.MANY), machine_code=True)
def _many_rows(input: Array, seen: Layout, weight: Any, bias: Any, over: Over) -> Array | None:
    made = kernels.rows_by_machine_code(input, weight, bias, seen, over)
    return None if made is None else _laid_out(input, made, over)


@kernel(*_NORMS, when=_rows)
def _in_blocks(input: Array, seen: Layout, weight: Any, bias: Any, over: Over) -> Array:
    made = kernels.standardised_rows(numpy, input, weight, bias, seen, over)
    return made if input.flags.c_contiguous else _laid_out(input, made, over)


@kernel(*_NORMS, when=_elements & says("seen.run > 1"))
def _by_runs(input: Array, seen: Layout, weight: Any, bias: Any, over: Over) -> Array:
    known = kernels.run_statistics(numpy, input, seen, over)
    made = kernels.scaled_channels(numpy, input, weight, bias, seen, known)
    return made if input.flags.c_contiguous else _laid_out(input, made, over)


@kernel(*_NORMS, when=_elements & says("seen.order is None"))
def _rows_apart(input: Array, seen: Layout, weight: Any, bias: Any, over: Over) -> Array:
    plain = Over(seen.dims, over.eps, over.centred)  # groups apart, and weights afterwards
    forward: Any = layer_standardise.op.forward
    full = forward(numpy, numpy.ascontiguousarray(input).reshape(seen.shape), None, None, plain)
    made = kernels.weighted(full, weight, bias, seen).reshape(input.shape)
    return made if input.flags.c_contiguous else _laid_out(input, made, over)


# Derivatives --------------------------------------------------------------------------------------


def _second_input(g: Any, gradient: Any, input: Any, weight: Any, over: Over) -> Any:
    """The input's gradient of `<g, J v>`, where v is `gradient * weight`."""
    shape = tuple(input.shape)
    grouped = over.channel is not None
    if grouped:  # weights beside what they belong to, and groups apart
        seen = layout(shape, over)
        g, gradient, input = (reshape(one, seen.shape) for one in (g, gradient, input))
        weight = None if weight is None else reshape(weight, seen.weights)
        over = over._replace(channel=None, groups=None)
    x = layer_standardise(input, None, None, over)
    v = scaled(gradient, weight, None)
    jv = _standardise_adjoint(gradient, input, weight, over)
    jg = _standardise_adjoint(g, input, None, over)
    dims = over.dims
    along = x * _average(g * jv, dims) + jg * _average(v * x, dims) + jv * _average(g * x, dims)
    made = -inverse_deviation(input, over) * along
    return reshape(made, shape) if grouped else made


def _adjoint_tangent(
    d_gradient: Any, d_input: Any, d_weight: Any, gradient: Any, input: Any, weight: Any, over: Over
) -> Any:
    # J is symmetric, so is its derivative: the input's tangent goes the way its gradient came.
    return total(
        d_gradient is not None and _standardise_adjoint(d_gradient, input, weight, over),
        d_weight is not None and _standardise_adjoint(gradient, input, d_weight, over),
        d_input is not None and _second_input(d_input, gradient, input, weight, over),
    )


@primitive(
    batch=batched.standardised_adjoint,
    gradient=lambda g, input, weight, over: scaled(
        _standardise_adjoint(g, input, None, over), weight, over.channel
    ),
    input=_second_input,
    weight=lambda g, gradient, input, over: summed(
        gradient * _standardise_adjoint(g, input, None, over), over.channel
    ),
    jvp=_adjoint_tangent,
    node="NativeLayerNormBackwardBackward0",
    has_out=False,
)
def _standardise_adjoint(
    xp: Namespace,
    gradient: Array,
    input: Array,
    weight: Array | None,
    over: Over,
    known: Any = None,
) -> Array:
    """J applied to `gradient * weight`."""
    if gradient.dtype.itemsize == 2:
        return _in_single(xp, _standardise_adjoint, [gradient, input, weight], over)
    seen = layout(input.shape, over)
    wanted = gradients.Wanted(input=True)
    made = gradients.gradients(xp, gradient, input, weight, seen, over, wanted, known)[0]
    return _laid_out(input, made, over)


def _weight_tangent(
    d_gradient: Any, d_input: Any, gradient: Any, input: Any, shape: Any, over: Over
) -> Any:
    terms = []
    if d_gradient is not None:
        terms.append(_weight_adjoint(d_gradient, input, shape, over))
    if d_input is not None:
        moved: Any = gradient * _standardise_adjoint(d_input, input, None, over)
        terms.append(
            sum_to_size(moved, shape) if over.channel is None else summed(moved, over.channel)
        )
    return total(*terms)


@primitive(
    batch=batched.standardised_weight,
    gradient=lambda g, input, over: scaled(
        layer_standardise(input, None, None, over), g, over.channel
    ),
    input=lambda g, gradient, input, over: _standardise_adjoint(gradient, input, g, over),
    jvp=_weight_tangent,
    has_out=False,
)
def _weight_adjoint(xp: Namespace, gradient: Array, input: Array, shape: Any, over: Over) -> Array:
    """The sum of `gradient * x'` over all that share a weight."""
    if gradient.dtype.itemsize == 2:
        gradient, input = gradient.astype(xp.float32), input.astype(xp.float32)
    seen = layout(input.shape, over)
    wanted = gradients.Wanted(weight=tuple(shape))
    return gradients.gradients(xp, gradient, input, None, seen, over, wanted)[1]


@primitive(
    batch=batched.inverse_deviation,
    input=lambda g, out, input, over: (
        (-g * out * out * layer_standardise(input, None, None, over))
        / math.prod(input.shape[dim] for dim in over.dims)
    ),
    jvp=lambda d_input, out, input, over: (
        -out * out * _average(d_input * layer_standardise(input, None, None, over), over.dims)
    ),
    has_out=False,
    method=False,
    aten="",
)
def inverse_deviation(xp: Namespace, input: Array, over: Over) -> Array:
    """1 over the root of the mean square (about the mean, if centred) plus `eps`."""
    if input.dtype.itemsize == 2:
        return _in_single(xp, inverse_deviation, [input], over)
    return kernels.statistics(xp, input, layout(input.shape, over), over)[1]

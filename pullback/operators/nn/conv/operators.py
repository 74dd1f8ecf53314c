"""The operators behind every convolution.

`convolution` and its two adjoints (`transposed_convolution` with respect to the input,
`convolution_weight` with respect to the weight) are each other's derivatives: the circle closes at
every order, for any number of dimensions. The public forms are in functions.py, the arithmetic in
kernels.py and adjoint.py; quicker ways to it are entered by quick.py and flipped.py.
"""

from __future__ import annotations

from typing import Any

from pullback.core import errors
from pullback.core.memory.meta import MetaArray
from pullback.operators.arrays.formats import in_format_of, was_laid_out
from pullback.operators.arrays.windows import Pads, Sizes
from pullback.operators.declare import Array, Namespace, multilinear, primitive
from pullback.operators.linalg.products import total
from pullback.operators.nn.conv.adjoint import spread
from pullback.operators.nn.conv.batch import batch_of_channels, batch_of_weights
from pullback.operators.nn.conv.kernels import correlated, weight_gradient
from pullback.operators.pointwise.arithmetic import conj
from pullback.operators.reduce.sums import sum

__all__ = ["convolution", "convolution_weight", "laid_out", "transposed_convolution"]


def _in_single(xp: Namespace, kernel: Any, arrays: list[Any], *options: Any) -> Array:
    """Half precision is computed in single."""
    single = [array if array is None else array.astype(xp.float32) for array in arrays]
    return kernel.op.forward(xp, *single, *options).astype(arrays[0].dtype)


def laid_out(made: Array, input: Array, weight: Array) -> Array:
    """With the channels last in memory, if one of the two has them."""
    if input.flags.c_contiguous and weight.flags.c_contiguous:
        return made
    return in_format_of(input if was_laid_out(input) else weight, made)


def _is_half(dtype: Any) -> bool:
    return dtype.itemsize == 2 and dtype.kind in "fV"


# The operator and its adjoints --------------------------------------------------------------------


def _bias_gradient(g: Any) -> Any:
    return sum(g, (0, *range(2, g.ndim)))


def _tangent(
    d_input: Any,
    d_weight: Any,
    d_bias: Any,
    input: Any,
    weight: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    geometry = stride, padding, dilation, groups
    return total(
        d_input is not None and convolution(d_input, weight, None, *geometry),
        d_weight is not None and convolution(input, d_weight, None, *geometry),
        d_bias is not None and _over_channels(d_bias, input.ndim - 2),
    )


def _over_channels(bias: Any, dims: int) -> Any:
    return bias.reshape((-1, *(1,) * dims))


@primitive(
    input=lambda g, weight, input_shape, stride, padding, dilation, groups: transposed_convolution(
        g, conj(weight), None, input_shape[2:], stride, padding, dilation, groups
    ),
    weight=lambda g, input, weight_shape, stride, padding, dilation, groups: convolution_weight(
        g, conj(input), weight_shape[2:], stride, padding, dilation, groups
    ),
    bias=_bias_gradient,
    jvp=_tangent,
    batch=batch_of_channels,
    has_out=False,
    method=False,
)
def convolution(
    xp: Namespace,
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Array:
    """Correlate `input` (n, channels, *size) with filters (outputs, channels / groups, *kernel)."""
    options = stride, padding, dilation, groups
    if _is_half(input.dtype):
        return _in_single(xp, convolution, [input, weight, bias], *options)
    return laid_out(correlated(xp, input, weight, bias, *options), input, weight)


def _transposed_tangent(
    d_input: Any,
    d_weight: Any,
    d_bias: Any,
    input: Any,
    weight: Any,
    size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    geometry = size, stride, padding, dilation, groups
    return total(
        d_input is not None and transposed_convolution(d_input, weight, None, *geometry),
        d_weight is not None and transposed_convolution(input, d_weight, None, *geometry),
        d_bias is not None and _over_channels(d_bias, input.ndim - 2),
    )


def _first_places(out: Any, shape: Any) -> Any:
    """Without the windows that fit only thanks to output padding."""
    if tuple(out.shape) == tuple(shape):
        return out
    return out[(..., *map(slice, shape[2:]))]


@primitive(
    input=lambda g, weight, input_shape, stride, padding, dilation, groups: _first_places(
        convolution(g, conj(weight), None, stride, padding, dilation, groups), input_shape
    ),
    weight=lambda g, input, weight_shape, stride, padding, dilation, groups: convolution_weight(
        conj(input), g, weight_shape[2:], stride, padding, dilation, groups
    ),
    bias=_bias_gradient,
    jvp=_transposed_tangent,
    batch=batch_of_channels,
    has_out=False,
    method=False,
    node="ConvolutionBackward0",
)
def transposed_convolution(
    xp: Namespace,
    input: Array,
    weight: Array,
    bias: Array | None,
    size: Sizes,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Array:
    """The adjoint of `convolution` with respect to its input, whose size was `size`."""
    if type(weight) is MetaArray is not type(input):  # added into zeros, which do not show it
        raise errors.devices_differ("conv_transpose", "input")
    options = size, stride, padding, dilation, groups
    if _is_half(input.dtype):
        return _in_single(xp, transposed_convolution, [input, weight, bias], *options)
    return laid_out(spread(xp, input, weight, bias, *options), input, weight)


@multilinear(
    gradient=lambda g, input, gradient_shape, stride, padding, dilation, groups: _first_places(
        convolution(conj(input), g, None, stride, padding, dilation, groups), gradient_shape
    ),
    input=lambda g, gradient, input_shape, stride, padding, dilation, groups: (
        transposed_convolution(
            conj(gradient), g, None, input_shape[2:], stride, padding, dilation, groups
        )
    ),
    batch=batch_of_weights,
    has_out=False,
    method=False,
    node="ConvolutionBackwardBackward0",
    aten="",
)
def convolution_weight(
    xp: Namespace,
    gradient: Array,
    input: Array,
    kernel: Sizes,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Array:
    """The adjoint of `convolution` with respect to its weight, whose kernel was `kernel`."""
    options = kernel, stride, padding, dilation, groups
    if _is_half(input.dtype):
        return _in_single(xp, convolution_weight, [gradient, input], *options)
    return weight_gradient(xp, gradient, input, *options)

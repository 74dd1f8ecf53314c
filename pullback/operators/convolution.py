"""The operators behind every convolution: copied windows and one matrix product.

`convolution` and its two adjoints (`transposed_convolution` with respect to the input,
`convolution_weight` with respect to the weight) are each other's derivatives: the circle closes at
every order, for any number of dimensions. The public forms are in conv.py.
"""

from __future__ import annotations

from typing import Any

from pullback.operators.arithmetic import conj
from pullback.operators.conv_batch import batch_of_channels, batch_of_weights
from pullback.operators.declare import Array, Namespace, multilinear, primitive
from pullback.operators.products import total
from pullback.operators.reduction import sum
from pullback.operators.windows import (
    Pads,
    Sizes,
    add_windows,
    blocks,
    counts,
    inner,
    padded,
    points,
    volume,
    windows,
)

__all__ = ["convolution", "convolution_weight", "transposed_convolution"]


# Kernels ------------------------------------------------------------------------------------------

# With fewer places than this, the examples share one product: a product for each would read all
# weights again. 16 images of 256 x 3 x 3 and 256 filters: 0.3 ms together, 0.7 ms one by one.
_FEW_PLACES = 32


def _times(xp: Namespace, weight: Array, x: Array, rows: int, out: Array | None = None) -> Array:
    """`weight` (groups, a, b) times `x` (n, groups, *b, *places), as (n, groups, a, places).

    The dimensions `b` of x are `rows` in number; x may be a view of windows, it is copied here.
    """
    n, groups = x.shape[:2]
    length = volume(x.shape[2 + rows :])
    if length >= _FEW_PLACES or n == 1:
        return xp.matmul(weight, x.reshape(n, groups, weight.shape[2], length), out=out)
    order = (*range(1, 2 + rows), 0, *range(2 + rows, x.ndim))
    together = x.transpose(order).reshape(groups, weight.shape[2], n * length)
    made = xp.matmul(weight, together).reshape(groups, weight.shape[1], n, length)
    made = made.transpose(2, 0, 1, 3)
    if out is None:
        return made
    out[...] = made
    return out


def _grouped(x: Array, groups: int) -> Array:
    """(n, channels, ...) as (n, groups, channels / groups, ...)."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])


def _in_single(xp: Namespace, function: Any, arrays: list[Any], *options: Any) -> Array:
    """Half precision is computed in single."""
    single = [array if array is None else array.astype(xp.float32) for array in arrays]
    return function.op.forward(xp, *single, *options).astype(arrays[0].dtype)


def _spread(
    xp: Namespace,
    weight: Array,
    x: Array,
    out: Array,
    kernel: Sizes,
    stride: Sizes,
    dilation: Sizes,
) -> None:
    """Add `weight` (groups, channels and kernel, b) times `x` (n, groups, b, *places) to `out`."""
    n, channels, number = x.shape[0], out.shape[1], x.shape[3:]
    if _adds_lines(stride, number, out.shape[2:]):
        _spread_lines(xp, weight, x, out, kernel, dilation)
        return
    parts = _times(xp, weight, x, 1).reshape(n, channels, *kernel, *number)
    add_windows(out, parts, kernel, stride, dilation)


def _adds_lines(stride: Sizes, number: Sizes, size: Sizes) -> bool:
    """Whether rows should be lengthened to those of the output: more to multiply, longer to add."""
    return set(stride) == {1} and volume(size[1:]) < 1.5 * volume(number[1:])


def _spread_lines(
    xp: Namespace, weight: Array, x: Array, out: Array, kernel: Sizes, dilation: Sizes
) -> None:
    """As `_spread` where windows start one apart.

    With zeros behind the rows of `x`, a point of all windows is one run of memory in `out`.
    Measured on 16 images of 16 x 10 x 10 with kernels 3 x 3: 226 us instead of 386.
    """
    n, groups, rows, *number = x.shape
    channels, *size = out.shape[1:]
    whole = xp.zeros((n, groups, rows, number[0], *size[1:]), x.dtype)
    whole[(..., *map(slice, number))] = x
    steps = [volume(size[dim + 1 :]) for dim in range(len(size))]
    length = 1 + _dot([places - 1 for places in number], steps)
    lines = whole.reshape(n, groups, rows, volume(whole.shape[3:]))[..., :length]
    parts = _times(xp, weight, lines, 1).reshape(n, channels, volume(kernel), length)
    flat = out.reshape(n, channels, volume(size))
    for number_of_point, (point, _) in enumerate(points(kernel, number, number, dilation)):
        start = _dot([p * d for p, d in zip(point, dilation, strict=True)], steps)
        flat[..., start : start + length] += parts[:, :, number_of_point]


def _dot(a: Any, b: Any) -> int:
    result = 0
    for left, right in zip(a, b, strict=True):
        result += left * right
    return result


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
    if input.dtype.itemsize == 2 and input.dtype.kind in "fV":
        arrays = [input, weight, bias]
        return _in_single(xp, convolution, arrays, stride, padding, dilation, groups)
    outputs, kernel = weight.shape[0], weight.shape[2:]
    image = padded(xp, input, padding)
    number = counts(image.shape[2:], kernel, stride, dilation)
    out = xp.empty((len(input), outputs, *number), input.dtype)
    filters = weight.reshape(groups, outputs // groups, volume(weight.shape[1:]))
    seen = _grouped(windows(image, kernel, number, stride, dilation), groups)
    result = out.reshape(len(input), groups, outputs // groups, volume(number))
    for block in blocks(len(input), volume(seen.shape[1:])):
        _times(xp, filters, seen[block], 1 + len(kernel), result[block])
        if bias is not None:
            result[block] += bias.reshape(groups, -1, 1)
    return out


def _flipped(
    xp: Namespace,
    input: Array,
    weight: Array,
    bias: Array | None,
    size: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Array:
    """The adjoint for windows one apart: a convolution with flipped filters."""
    channels, kernel = weight.shape[1], weight.shape[2:]
    filters = weight.reshape(groups, len(weight) // groups, channels, *kernel).swapaxes(1, 2)
    filters = filters[(..., *(slice(None, None, -1),) * len(kernel))]
    # Contiguous, since BLAS does not take what runs backwards.
    filters = xp.ascontiguousarray(
        filters.reshape(groups * channels, len(weight) // groups, *kernel)
    )
    pads = []
    for n, s, (before, _), k, d in zip(
        input.shape[2:], size, padding, kernel, dilation, strict=True
    ):
        reach = d * (k - 1)
        pads.append((reach - before, s + before - n))
    one = (1,) * len(kernel)
    forward = convolution.op.forward  # type: ignore[attr-defined]
    return forward(xp, input, filters, bias, one, tuple(pads), dilation, groups)


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
    if input.dtype.itemsize == 2 and input.dtype.kind in "fV":
        arrays = [input, weight, bias]
        return _in_single(
            xp, transposed_convolution, arrays, size, stride, padding, dilation, groups
        )
    if set(stride) == {1} and len(weight) <= weight.shape[1] * groups:
        return _flipped(xp, input, weight, bias, size, padding, dilation, groups)
    n, channels, kernel = len(input), weight.shape[1] * groups, weight.shape[2:]
    whole = tuple(s + before + after for s, (before, after) in zip(size, padding, strict=True))
    cut = whole != tuple(size)
    out = (xp.empty if cut else xp.zeros)((n, channels, *size), input.dtype)
    filters = weight.reshape(groups, len(weight) // groups, volume(weight.shape[1:]))
    filters = filters.swapaxes(1, 2)
    places = volume(kernel) * volume(input.shape[2:]) * channels
    for block in blocks(n, places):
        target = xp.zeros((len(input[block]), channels, *whole), out.dtype) if cut else out[block]
        _spread(xp, filters, _grouped(input[block], groups), target, kernel, stride, dilation)
        if cut:
            out[block] = target[inner(padding, size)]
        if bias is not None:
            out[block] += _over_channels(bias, len(kernel))
    return out


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
    if input.dtype.itemsize == 2 and input.dtype.kind in "fV":
        arrays = [gradient, input]
        return _in_single(xp, convolution_weight, arrays, kernel, stride, padding, dilation, groups)
    n, outputs, *number = gradient.shape
    image = padded(xp, input, padding)
    if groups == outputs == input.shape[1] and n and input.dtype.kind == "f":
        sums = [
            xp.vecdot(image[place], gradient).sum((0, *range(2, gradient.ndim - 1)))
            for _, place in points(kernel, tuple(number), stride, dilation)
        ]
        return xp.stack(sums, 1).reshape(outputs, 1, *kernel)
    seen = _grouped(windows(image, kernel, tuple(number), stride, dilation), groups)
    parts = gradient.reshape(n, groups, outputs // groups, volume(tuple(number)))
    rows, dims = volume(seen.shape[2 : 3 + len(kernel)]), seen.ndim
    order = (*range(1, 3 + len(kernel)), 0, *range(3 + len(kernel), dims))
    result = None
    for block in blocks(n, volume(seen.shape[1:])):
        places = len(seen[block]) * parts.shape[3]
        columns = seen[block].transpose(order).reshape(groups, rows, places)
        lines = parts[block].transpose(1, 2, 0, 3).reshape(groups, outputs // groups, places)
        product = xp.matmul(lines, columns.swapaxes(1, 2))
        result = product if result is None else xp.add(result, product, out=result)
    if result is None:
        result = xp.zeros((groups, outputs // groups, rows), input.dtype)
    return result.reshape(outputs, input.shape[1] // groups, *kernel)

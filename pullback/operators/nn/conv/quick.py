"""Quicker ways to a convolution and to the gradient of its filters, as kernels of the operators.

Few windows are looked up, many are read where they lie by machine code; others go by rows or by
lines, which copy less than all windows (shifted.py, lines.py).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy

from pullback.core.arrays import Array, Namespace
from pullback.operators.arrays import windows
from pullback.operators.arrays.windows import Pads, Sizes, counts, padded, volume, whole_size
from pullback.operators.conditions import at_least, below, floating, given, host, says
from pullback.operators.declare import kernel as quicker
from pullback.operators.nn.conv import native
from pullback.operators.nn.conv.kernels import Layout, layout_of
from pullback.operators.nn.conv.lines import correlated_lines, lines_of, weight_of_lines
from pullback.operators.nn.conv.operators import convolution, convolution_weight, laid_out
from pullback.operators.nn.conv.shifted import correlated_rows, rows_of, weight_of_rows

_wide = host & says("input_dtype.itemsize > 2", "weight_dtype is input_dtype")
_one_apart = says("max(stride) == 1", max=max)
_many = _wide & given(groups=1) & at_least(native.LEAST, "input_size * weight_size")

# Elements of few windows are looked up in one go, at up to so many in a third of the time of a view
# and its copy; nor is any other way asked whether it pays.
_FEW = 2048
_FEW_EXAMPLES = 4


@lru_cache(256)
def _few_windows(
    shape: Sizes, filters: Sizes, stride: Sizes, padding: Pads, *rest: Any
) -> tuple[Layout, Array, bool] | None:
    """Where the elements of all columns are, and whether some are padding; None if they are many.

    Padding is the element behind the last. `rest` is that of a layout.
    """
    layout = layout_of(shape, filters, stride, padding, *rest)
    if not 0 < layout.size <= _FEW or layout.examples > _FEW_EXAMPLES:
        return None
    behind = volume(shape)
    places = padded(numpy, numpy.arange(behind).reshape(shape), padding, behind)
    seen = windows.windows(places, *layout.geometry).reshape(layout.columns)
    return layout, numpy.ascontiguousarray(seen), bool((seen == behind).any())


def _few_columns(input: Array, table: Array, is_padded: bool) -> Array:
    flat = input.ravel()
    if is_padded:
        behind = flat.size
        flat, given = numpy.zeros(behind + 1, flat.dtype), flat
        flat[:behind] = given
    return flat[table]


@quicker(convolution, when=_wide & below(native.LEAST, "input_size * weight_size"), declines=True)
def _looked_up(
    xp: Namespace,
    input: Array,
    input_shape: Sizes,
    weight: Array,
    weight_shape: Sizes,
    bias: Array | None,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Array | None:
    few = _few_windows(input_shape, weight_shape, stride, padding, dilation, groups)
    if few is None:
        return None
    layout, *where = few
    columns, filters = _few_columns(input, *where), weight.reshape(layout.filters)
    out = filters.dot(columns) if columns.ndim == 2 else xp.matmul(filters, columns)
    if bias is not None:
        out += bias.reshape(layout.bias)
    return laid_out(out.reshape(layout.out), input, weight)


@quicker(convolution, when=_many & floating, machine_code=True, ulp=16)
def _by_machine_code(
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Array | None:
    made = native.convolved(input, weight, bias, stride, padding, dilation, groups)
    return None if made is None else laid_out(made, input, weight)


@lru_cache(512)
def _number(shape: Sizes, filters: Sizes, stride: Sizes, padding: Pads, dilation: Sizes) -> Sizes:
    """How many windows there are along each dimension."""
    return counts(whole_size(shape[2:], padding), filters[2:], stride, dilation)


@quicker(convolution, when=_many & _one_apart, declines=True, ulp=16)
def _by_rows(
    xp: Namespace,
    input: Array,
    input_shape: Sizes,
    weight: Array,
    weight_shape: Sizes,
    bias: Array | None,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Array | None:
    number = _number(input_shape, weight_shape, stride, padding, dilation)
    rows = rows_of(input, weight, weight_shape, stride, padding, dilation, groups, number)
    if rows is None:
        return None
    return laid_out(correlated_rows(xp, rows, input, weight, bias), input, weight)


@quicker(convolution, when=_wide & _one_apart, declines=True, ulp=16)
def _by_lines(
    xp: Namespace,
    input: Array,
    input_shape: Sizes,
    weight: Array,
    weight_shape: Sizes,
    bias: Array | None,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Array | None:
    number = _number(input_shape, weight_shape, stride, padding, dilation)
    lines = lines_of(input_shape, weight_shape, stride, padding, dilation, groups, number)
    if lines is None:
        return None
    return laid_out(correlated_lines(xp, lines, input, weight, bias), input, weight)


# With respect to the weight -----------------------------------------------------------------------

_both = host & says("input_dtype.itemsize > 2", "gradient_dtype is input_dtype")


def _filters(gradient: Sizes, input: Sizes, kernel: Sizes, groups: int) -> Sizes:
    return (gradient[1], input[1] // groups, *kernel)


@quicker(
    convolution_weight,
    when=_both & says("input_shape[0] == groups == 1") & below(native.LEAST, "input_size"),
    declines=True,
)
def _looked_up_for_weight(
    gradient: Array,
    gradient_shape: Sizes,
    input: Array,
    input_shape: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Array | None:
    filters = _filters(gradient_shape, input_shape, kernel, groups)
    if volume(input_shape) * volume(filters) >= native.LEAST:
        return None
    options = stride, padding, dilation, groups, gradient_shape[2:]
    few = _few_windows(input_shape, filters, *options)
    if few is None:
        return None
    layout, *where = few
    lines = gradient.reshape(filters[0], layout.places)
    return lines.dot(_few_columns(input, *where).T).reshape(filters)


@quicker(convolution_weight, when=_both & floating & given(groups=1), machine_code=True, ulp=16)
def _weight_by_machine_code(
    gradient: Array,
    input: Array,
    kernel: Sizes,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Array | None:
    return native.weight_gradient(gradient, input, kernel, stride, padding, dilation, groups)


@quicker(convolution_weight, when=_both & given(groups=1) & _one_apart, declines=True, ulp=16)
def _weight_by_rows(
    xp: Namespace,
    gradient: Array,
    gradient_shape: Sizes,
    input: Array,
    input_shape: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Array | None:
    filters = _filters(gradient_shape, input_shape, kernel, groups)
    options = stride, padding, dilation, groups, gradient_shape[2:]
    rows = rows_of(input, gradient, filters, *options)
    return None if rows is None else weight_of_rows(xp, rows, gradient, input)


@quicker(convolution_weight, when=_both & _one_apart, declines=True, ulp=16)
def _weight_by_lines(
    xp: Namespace,
    gradient: Array,
    gradient_shape: Sizes,
    input: Array,
    input_shape: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Array | None:
    filters = _filters(gradient_shape, input_shape, kernel, groups)
    if groups == filters[0] == input_shape[1] and input_shape[0]:  # each channel by itself
        return None
    options = stride, padding, dilation, groups, gradient_shape[2:]
    lines = lines_of(input_shape, filters, *options)
    if lines is None:
        return None
    return xp.ascontiguousarray(weight_of_lines(xp, lines, gradient, input).reshape(filters))

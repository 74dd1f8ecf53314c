"""The borders between nested tensors and their values, and steps over rows, with their adjoints.

Everything else about nested tensors is composed of these and of dense operators. Rows are the
first dimension of what the steps take.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core import overriding
from pullback.core.addresses import as_counts
from pullback.core.arrays import Array, Namespace
from pullback.core.tensor import Tensor
from pullback.core.version import INFERENCE_CELL, own_cell
from pullback.operators.declare import linear, primitive
from pullback.operators.nested.array import NestedArray, form_of
from pullback.operators.nested.form import Shapes

__all__ = ["described", "from_values", "padded", "repeated", "segment_sum", "unpadded", "values_of"]


# Between nested tensors and their values ----------------------------------------------------------


@linear(
    input=lambda g, pattern: _nested_from_values(g, pattern),
    aten="",
    has_out=False,
    shifts=False,
    node="NestedGetValuesBackward0",
)
def _nested_values(xp: Namespace, input: Array, pattern: Any) -> Array:
    """The values of a nested tensor; the gradient is nested, of its form."""
    return input.values


@linear(
    values=lambda g, pattern, values_shape: _values_at(g, pattern, values_shape),
    aten="",
    has_out=False,
    shifts=False,
    makes_layout=True,
    node="NestedViewFromJaggedBackward0",
)
def _nested_from_values(xp: Namespace, values: Array, pattern: Any) -> Array:
    """A nested tensor of these values."""
    return NestedArray(pattern, values)


def _values_at(g: Any, pattern: Any, shape: Any) -> Any:
    """The gradient of values: zero where a view leaves some of them out."""
    if isinstance(pattern, Shapes) and not form_of(g).is_same(pattern):
        return _laid_out(g, pattern, shape)
    return values_of(g) if isinstance(g, Tensor) else g.values


@linear(
    input=lambda g, pattern: _nested_from_values(g, pattern),
    aten="",
    has_out=False,
    shifts=False,
    node="NestedGetValuesBackward0",
)
def _laid_out(xp: Namespace, input: Array, pattern: Any, shape: Any) -> Array:
    """Components where another form of the same sizes has them, in zeros."""
    out = numpy.zeros(tuple(shape), input.dtype)
    for place, one in zip(pattern.components(out), input.components(), strict=True):
        place[...] = one
    return out


def values_of(input: Any) -> Any:
    """The values of a nested tensor, with its history and its version counter."""
    made = overriding.unasked(_nested_values, input, form_of(input))
    if made._cell is not INFERENCE_CELL:
        made._cell = own_cell(input)  # writes to either are writes to both
    return made


def from_values(values: Any, pattern: Any) -> Tensor:
    """A nested tensor of a form on values, whose version counter it shares."""
    made: Tensor = _nested_from_values(values, pattern)
    if made._cell is not INFERENCE_CELL:
        made._cell = own_cell(values)
    return made


# Rows ---------------------------------------------------------------------------------------------


@linear(
    input=lambda g, rows, input_shape: _repeated(g, rows, input_shape[0]),
    aten="",
    has_out=False,
    shifts=False,
    node="SumBackward1",
)
def _segment_sum(xp: Namespace, input: Array, rows: Any) -> Array:
    """The sum of the rows of each component; zero of none."""
    if not rows.fills(len(input)):
        input = input[rows.places]
    filled, begun = rows.segments
    out = numpy.zeros((rows.count, *input.shape[1:]), input.dtype)
    if len(begun) and input.size:
        out[filled] = numpy.add.reduceat(input, as_counts(begun), axis=0, dtype=input.dtype)
    return out


@linear(
    input=lambda g, rows: _segment_sum(g, rows),
    aten="",
    has_out=False,
    shifts=False,
    node="ExpandBackward0",
)
def _repeated(xp: Namespace, input: Array, rows: Any, length: int) -> Array:
    """Row i of the input at all rows of component i; zeros at rows of none."""
    if rows.fills(length):
        return numpy.repeat(input, as_counts(rows.lengths), axis=0)
    out = numpy.zeros((length, *input.shape[1:]), input.dtype)
    out[rows.places] = numpy.repeat(input, as_counts(rows.lengths), axis=0)
    return out


@linear(
    input=lambda g, rows, input_shape: _placed(g, rows, input_shape[0]),
    aten="",
    has_out=False,
    shifts=False,
    node="CloneBackward0",
)
def _described(xp: Namespace, input: Array, rows: Any) -> Array:
    """The rows that belong to components, one component behind the other."""
    return input[rows.places]


@linear(input=lambda g, rows: _described(g, rows), aten="", has_out=False, shifts=False)
def _placed(xp: Namespace, input: Array, rows: Any, length: int) -> Array:
    """The adjoint: rows where they belong, zeros at rows of no component."""
    out = numpy.zeros((length, *input.shape[1:]), input.dtype)
    numpy.add.at(out, rows.places, input)
    return out


@primitive(
    input=lambda g, rows, input_shape: _unpadded(g, rows, input_shape[0]),
    jvp=lambda d_input, rows, length: _padded(d_input, rows, 0, length),
    aten="",
    has_out=False,
    shifts=False,
    node="ToPaddedTensorBackward0",
)
def _padded(xp: Namespace, input: Array, rows: Any, padding: Any, length: int) -> Array:
    """Components side by side, each padded, or cut off, to one length; padding gets no gradient."""
    out = numpy.full((rows.count, length, *input.shape[1:]), padding, input.dtype)
    numbers, positions, places = rows.numbers, rows.positions, rows.places
    if length < rows.longest:
        kept = positions < length
        numbers, positions, places = numbers[kept], positions[kept], places[kept]
    out[numbers, positions] = input[places]
    return out


@linear(
    input=lambda g, rows, input_shape: _padded(g, rows, 0, input_shape[1]),
    aten="",
    has_out=False,
    shifts=False,
    node="NestedFromPaddedBackward0",
)
def _unpadded(xp: Namespace, input: Array, rows: Any, count: int) -> Array:
    """The rows of padded components, where they belong among `count` rows."""
    out = numpy.zeros((count, *input.shape[2:]), input.dtype)
    numbers, positions, places = rows.numbers, rows.positions, rows.places
    if input.shape[1] < rows.longest:
        kept = positions < input.shape[1]
        numbers, positions, places = numbers[kept], positions[kept], places[kept]
    out[places] = input[numbers, positions]
    return out


segment_sum, repeated, described, padded, unpadded = (
    _segment_sum,
    _repeated,
    _described,
    _padded,
    _unpadded,
)

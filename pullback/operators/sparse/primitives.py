"""The borders between sparse tensors and their values, and products, each with its adjoint.

Everything else about sparse tensors is composed of these and of dense operators. A rule's gradient
may be sparse itself or dense; `_values_at` reads either.
"""

from __future__ import annotations

from typing import Any

from pullback.core.arrays import Array, Namespace
from pullback.core.explain import layout_errors as errors
from pullback.core.tensor import Tensor
from pullback.core.version import INFERENCE_CELL, own_cell
from pullback.operators.batching import front
from pullback.operators.declare import linear, multilinear, primitive
from pullback.operators.linalg.products import mm
from pullback.operators.pointwise.arithmetic import conj, mul
from pullback.operators.running.writes import scalar_of
from pullback.operators.shape.reshaping import reshape
from pullback.operators.shape.views import expand_view, transpose
from pullback.operators.sparse import array as arrays
from pullback.operators.sparse import kernels
from pullback.operators.sparse.array import SparseArray, is_sparse, pattern_of
from pullback.operators.sparse.pattern import Pattern, repeated

__all__ = ["as_dense", "at_places", "from_values", "times", "values_of"]


# Between sparse tensors and their values ----------------------------------------------------------


@linear(
    input=lambda g, pattern: _on_places(g, pattern), aten="", has_out=False, node="ValuesBackward0"
)
def _values_of(xp: Namespace, input: Array, pattern: Any) -> Array:
    """The values of a sparse tensor; the gradient is sparse, at its places."""
    return input.values


def _of_each_example(op: Any, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    """A tensor of all examples, the mapped dimension the first of the sparse ones."""
    pattern = options["pattern"]
    if pattern.stored is None:
        raise errors.not_taken("vmap of", pattern.layout)
    many = repeated(pattern, size)
    return _from_values(reshape(front(*split["values"]), many.values_shape), many)


@linear(
    values=lambda g, pattern: _values_at(g, pattern),
    aten="",
    has_out=False,
    makes_layout=True,
    batch=_of_each_example,
)
def _from_values(xp: Namespace, values: Array, pattern: Any) -> Array:
    """A sparse tensor of these values."""
    return SparseArray(pattern, values)


def _on_places(g: Any, pattern: Pattern) -> Any:
    """The gradient of values as that of their tensor.

    Values at one place are added up by all that reads them, so have one gradient; it stands once.
    """
    unique, first = pattern.without_duplicates
    return _from_values(g if first is None else _rows_at(g, first), unique)


@linear(
    input=lambda g, input_shape, places: _rows_put(g, input_shape, places), aten="", has_out=False
)
def _rows_at(xp: Namespace, input: Array, places: Any) -> Array:
    """Some of the rows, given by a bare array of numbers."""
    return input[places]


@linear(input=lambda g, places: _rows_at(g, places), aten="", has_out=False)
def _rows_put(xp: Namespace, input: Array, shape: Any, places: Any) -> Array:
    """Zeros, with rows added where they came from."""
    out = xp.zeros(shape, input.dtype)
    xp.add.at(out, places, input)
    return out


def _values_at(g: Any, pattern: Pattern) -> Any:
    """What a gradient, dense or sparse, says at the places of a pattern; in the shape of values."""
    if is_sparse(g):
        return _sparse_at(g, pattern_of(g), pattern)
    return _dense_at(g, pattern)


@linear(input=lambda g, own, pattern: _sparse_at_adjoint(g, own, pattern), aten="", has_out=False)
def _sparse_at(xp: Namespace, input: Array, own: Any, pattern: Any) -> Array:
    """The elements of a sparse tensor at the places of another pattern, zero where it has none."""
    return arrays.values_at(input, pattern).reshape(pattern.values_shape)


def _sparse_at_adjoint(g: Any, own: Pattern, pattern: Pattern) -> Any:
    unique = own.without_duplicates[0]
    return _from_values(_sparse_at(_from_values(g, pattern), pattern, unique), unique)


@linear(input=lambda g, pattern: _scattered(g, pattern), aten="", has_out=False)
def _dense_at(xp: Namespace, input: Array, pattern: Any) -> Array:
    """The elements of a dense tensor at the places of a pattern."""
    return arrays.values_at(input, pattern).reshape(pattern.values_shape)


@linear(
    values=lambda g, pattern: _values_at(g, pattern),
    aten="",
    has_out=False,
    node="ToDenseBackward0",
)
def _scattered(xp: Namespace, values: Array, pattern: Any) -> Array:
    """A dense tensor with these values added at their places."""
    return arrays.scattered(values.reshape(pattern.flat_shape), pattern)


# The names that the rest of the family uses ------------------------------------------------------


def values_of(input: Any) -> Any:
    """The values of a sparse tensor, with its history and its version counter."""
    return _values_by(input, pattern_of(input))


def _values_by(input: Any, pattern: Pattern) -> Any:
    made = _values_of(input, pattern)
    if isinstance(made, Tensor) and made._cell is not INFERENCE_CELL:
        made._cell = own_cell(input)  # writes to either are writes to both
    return made


def rows_of(input: Any) -> Any:
    """The same as rows, one for each column of the pattern's indices."""
    return rows_by(input, pattern_of(input))


def rows_by(input: Any, pattern: Pattern) -> Any:
    """The same, for who has the tensor's pattern already."""
    values = _values_by(input, pattern)
    if pattern.values_shape == pattern.flat_shape:
        return values
    return reshape(values, pattern.flat_shape)


def from_values(values: Any, pattern: Pattern) -> Tensor:
    """A sparse tensor of values in the shape of the pattern's, or of rows."""
    if tuple(values.shape) != pattern.values_shape:
        values = reshape(values, pattern.values_shape)
    made: Tensor = _from_values(values, pattern)
    return made


def times(input: Any, factor: Any) -> Any:
    """A multiple of a dense or sparse tensor; 0 times whatever it holds, infinite or not, is 0."""
    if factor != 0:
        return input if factor == 1 else input * factor
    if input._layout is None:
        return _nothing_of(input)
    return from_values(_nothing_of(values_of(input)), pattern_of(input))


@linear(input=lambda g: _nothing_of(g), aten="", has_out=False, node="MulBackward0")
def _nothing_of(xp: Namespace, input: Array) -> Array:
    """Zeros of the same shape, which the gradient is too."""
    return xp.zeros(input.shape, input.dtype)


def at_places(input: Any, pattern: Pattern) -> Any:
    """The elements of a dense or sparse tensor at places, in the shape of values."""
    return _values_at(input, pattern)


def as_dense(input: Any) -> Any:
    """All elements; the gradient is sparse, at the specified ones."""
    pattern = pattern_of(input)
    return _scattered(_values_by(input, pattern), pattern)


# Whole gradients: not only at the places of the input ---------------------------------------------


@linear(
    input=lambda g, pattern: _everywhere(g, pattern),
    aten="",
    has_out=False,
    node="ToDenseBackward0",
)
def _whole(xp: Namespace, input: Array, pattern: Any) -> Array:
    """All elements; the gradient has all of them too, in the input's layout."""
    return arrays.dense_of(input)


def _everywhere(g: Any, pattern: Pattern) -> Any:
    if is_sparse(g):
        return g
    from pullback.operators.sparse.layouts import full_pattern

    full = full_pattern(pattern)
    return _from_values(_dense_at(g, full), full)


@linear(input=lambda g, pattern: _spread(g, pattern), aten="", has_out=False, node="SumBackward0")
def _total(xp: Namespace, input: Array, pattern: Any) -> Array:
    """The sum of all elements; its gradient is dense."""
    return input.values.sum(dtype=input.values.dtype)


def _spread(g: Any, pattern: Pattern) -> Any:
    return expand_view(g, pattern.shape)


@primitive(
    dense=lambda g: g,
    input=lambda g, alpha: g if alpha == 1 else g * conj(alpha),
    jvp=lambda d_dense, d_input, alpha: d_dense + d_input * alpha,
    aten="",
    has_out=False,
    node="AddBackward0",
)
def _dense_plus(xp: Namespace, dense: Array, input: Array, alpha: Any = 1) -> Array:
    """A dense tensor plus a multiple of a sparse one; both gradients are dense."""
    out = dense.copy()
    arrays.add_into(out, input if alpha == 1 else input * scalar_of("add", alpha, input.dtype))
    return out


@multilinear(
    input=lambda g, other: mul(g, conj(other)),
    other=lambda g, input: mul(g, conj(input)),
    aten="",
    has_out=False,
    makes_layout=True,
    node="MulBackward0",
)
def _times_sparse(xp: Namespace, input: Array, other: Array) -> Array:
    """Two sparse tensors of one shape, element by element; gradients are where the factor is."""
    return arrays.multiplied(input, other)


@linear(
    input=lambda g, pattern, dim0, dim1: _moved_back(g, pattern, dim0, dim1),
    aten="",
    has_out=False,
    makes_layout=True,
    node="TransposeBackward0",
)
def _swapped(xp: Namespace, input: Array, pattern: Any, dim0: int, dim1: int) -> Array:
    """Two dimensions swapped, values in the same order; a dense gradient stays whole."""
    values = input.values if pattern.stored is None else input.values.copy()  # as in torch
    return SparseArray(arrays.swapped(pattern, dim0, dim1), values)


def _moved_back(g: Any, pattern: Pattern, dim0: int, dim1: int) -> Any:
    if not is_sparse(g):
        return transpose(g, dim0, dim1)
    return _on_places(_values_at(g, arrays.swapped(pattern, dim0, dim1)), pattern)


# Products -----------------------------------------------------------------------------------------


@multilinear(
    values=lambda g, dense, pattern: _dots(g, conj(dense), pattern),
    dense=lambda g, values, pattern: _product(conj(values), g, pattern.matrix.transposed),
    aten="",
    has_out=False,
    node="SparseAddmmBackward0",
)
def _product(xp: Namespace, values: Array, dense: Array, pattern: Any) -> Array:
    """A sparse matrix, given by rows of values, times a dense one."""
    return kernels.product(values, dense, pattern)


@multilinear(
    left=lambda g, right, pattern: _product(g, conj(right), pattern),
    right=lambda g, left, pattern: _product(g, conj(left), pattern.matrix.transposed),
    aten="",
    has_out=False,
)
def _dots(xp: Namespace, left: Array, right: Array, pattern: Any) -> Array:
    """At each place (i, j), row i of `left` times row j of `right`."""
    return kernels.rowwise_dots(left, right, pattern)


@multilinear(
    input=lambda g, dense: mm(g, conj(transpose(dense, 0, 1))),
    dense=lambda g, input: _product(conj(rows_of(input)), g, pattern_of(input).matrix.transposed),
    aten="",
    has_out=False,
    node="MmBackward0",
)
def _product_whole(xp: Namespace, input: Array, dense: Array) -> Array:
    """A sparse matrix times a dense one; the gradient of the sparse one is dense."""
    return kernels.product(arrays.flat_values(input), dense, input.pattern)


@multilinear(
    dense=lambda g, input: transpose(
        _product(conj(rows_of(input)), transpose(g, 0, 1), pattern_of(input).matrix), 0, 1
    ),
    input=lambda g, dense: mm(conj(transpose(dense, 0, 1)), g),
    aten="",
    has_out=False,
    node="MmBackward0",
)
def _times_whole(xp: Namespace, dense: Array, input: Array) -> Array:
    """A dense matrix times a sparse one, whose gradient is dense."""
    flipped = input.pattern.matrix.transposed
    return kernels.product(arrays.flat_values(input), dense.swapaxes(0, 1), flipped).swapaxes(0, 1)


@multilinear(
    left=lambda g, right, left_pattern, right_pattern, onto: _sparse_product(
        g, conj(right), onto, right_pattern.matrix.transposed, left_pattern
    ),
    right=lambda g, left, left_pattern, right_pattern, onto: _sparse_product(
        conj(left), g, left_pattern.matrix.transposed, onto, right_pattern
    ),
    aten="",
    has_out=False,
    node="SparseSparseMatmulBackward0",
)
def _sparse_product(
    xp: Namespace,
    left: Array,
    right: Array,
    left_pattern: Any,
    right_pattern: Any,
    onto: Any,
    known: Any = None,
) -> Array:
    """The product of two sparse matrices, given by rows of values, at the places of a third.

    `known` has two factors and their product, where whoever looked for the places came by it;
    tangents and gradients are other factors.
    """
    if known is not None and known[0] is left and known[1] is right:
        return known[2]
    return kernels.product_at(left, right, left_pattern, right_pattern, onto)

"""Elementwise operators on sparse tensors: on values, where zeros stay zeros."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.dtype import from_numpy_dtype
from pullback.core.explain import layout_errors as errors
from pullback.core.layout import sparse_coo
from pullback.core.promotion import result_dtype
from pullback.core.tensor import Tensor, wrap
from pullback.operators.declare import Op
from pullback.operators.pointwise.arithmetic import mul, true_divide
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.joining import cat
from pullback.operators.shape.reshaping import broadcast_to
from pullback.operators.sparse import convert
from pullback.operators.sparse.array import pattern_of, union
from pullback.operators.sparse.pattern import coordinates, same_places
from pullback.operators.sparse.primitives import (
    _dense_plus,
    _times_sparse,
    at_places,
    from_values,
    values_of,
)
from pullback.operators.tensor.convert import astype

__all__: list[str] = []

# Operators of one tensor that take 0 to 0; linear ones need no coalescing first.
LINEAR = "neg _conj _conj_physical _to_copy _to_fixed _real _imag clone deg2rad rad2deg"
ZERO_STAYS = """
    abs angle asin asinh atan atanh ceil erf erfinv expm1 floor frac isinf isnan isneginf isposinf
    log1p nan_to_num relu round sgn sign signbit sin sinh sqrt tan tanh trunc pow.Tensor_Scalar
"""


def on_values(op: Op, *, linear: bool) -> Any:
    """An operator of one tensor, applied to the values."""

    def run(input: Any, **options: Any) -> Any:
        if op.name == "pow.Tensor_Scalar" and not options["exponent"] > 0:
            raise RuntimeError("pow: of a sparse tensor only positive powers keep zeros zero.")
        x = input if linear or input._layout is not sparse_coo else convert.coalesce(input)
        options.pop("memory_format", None)
        made = op.function(values_of(x), **options)
        return shown_as(op.node_name, from_values(made, pattern_of(x)))

    return run


def _scale(x: Any, alpha: Any) -> Any:
    return x if alpha == 1 else mul(x, alpha)


def add(input: Any, other: Any, alpha: Any = 1) -> Any:
    """A sum: sparse of two sparse ones, dense as soon as one is dense."""
    for one in (input, other):
        if not isinstance(one, Tensor):
            raise errors.not_taken("add", _kind_of(input, other), " with a number")
    if input._layout is None:
        return _with_dense(input, other, alpha)
    other = _scale(other, alpha)
    if other._layout is None:
        return _with_dense(other, input, 1)
    if input._layout is not other._layout:
        raise errors.not_taken("add", other._layout, f" together with {input._layout}")
    return shown_as("AddBackward0", _added(*_one_dtype(input, other)))


def _kind_of(*operands: Any) -> Any:
    return next(
        one._layout for one in operands if isinstance(one, Tensor) and one._layout is not None
    )


def _one_dtype(a: Any, b: Any) -> tuple[Any, Any]:
    wanted = result_dtype([_stand_in(a), _stand_in(b)])
    return _cast(a, wanted), _cast(b, wanted)


def _stand_in(x: Any) -> Any:
    """An array of a tensor's dtype and kind, for promotion."""
    if not isinstance(x, Tensor):
        return x
    return numpy.empty((0,) if x.ndim else (), x._array.dtype)


def _cast(x: Any, dtype: Any) -> Any:
    if not isinstance(x, Tensor) or x._array.dtype == dtype:
        return x
    return x.to(from_numpy_dtype(dtype)) if x._layout is not None else astype(x, dtype)


def _with_dense(dense: Any, sparse: Any, alpha: Any) -> Any:
    dense, sparse = _one_dtype(dense, sparse)
    if tuple(dense.shape) != tuple(sparse.shape):
        if dense.ndim > sparse.ndim:
            raise RuntimeError(
                f"add: a sparse tensor of shape {tuple(sparse.shape)} is not stretched to "
                f"{tuple(dense.shape)}; call to_dense() on it first."
            )
        dense = broadcast_to(dense, tuple(sparse.shape))
    return _dense_plus(dense, sparse, alpha)


def _added(a: Any, b: Any) -> Any:
    one, other = pattern_of(a), pattern_of(b)
    if one.shape != other.shape:
        raise RuntimeError(f"add: shapes {one.shape} and {other.shape} of sparse tensors differ.")
    if same_places(one, other):
        return from_values(values_of(a) + values_of(b), one)
    if not (one.count and other.count) and one.stored is not None:
        fuller = one if one.count or one.dense_dim > other.dense_dim else other
        return from_values(at_places(a, fuller) + at_places(b, fuller), fuller)
    if one.stored is None or one.sparse_shape != other.sparse_shape:
        both = union(one, other)
        return from_values(at_places(a, both) + at_places(b, both), both)
    indices = numpy.concatenate([one.stored, other.stored], 1)
    joined = from_values(
        cat([values_of(a), values_of(b)]), coordinates(indices, one.shape, one.dense_dim)
    )
    return convert.coalesce(joined) if one.coalesced and other.coalesced else joined


def sub(input: Any, other: Any, alpha: Any = 1) -> Any:
    """A difference, as `add`."""
    return shown_as("SubBackward0", add(input, other, -alpha))


def multiply(input: Any, other: Any) -> Any:
    """A product: the places of the sparse factor; those of both, where both are sparse."""
    if not isinstance(input, Tensor) or input._layout is None:
        input, other = other, input
    if isinstance(other, Tensor) and other._layout is not None:
        return shown_as("MulBackward0", _multiplied(input, other))
    return shown_as("MulBackward0", scaled(mul, input, other))


def _multiplied(a: Any, b: Any) -> Any:
    if not b.ndim or not a.ndim:
        a, b = (a, b) if a.ndim else (b, a)
        return scaled(mul, a, b.to_dense())
    if a._layout is not b._layout:
        raise errors.not_taken("mul", b._layout, f" together with {a._layout}")
    a, b = _one_dtype(*_one_shape(a, b))
    if a._layout is sparse_coo:
        a, b = convert.coalesce(a), convert.coalesce(b)
    return _times_sparse(a, b)


def _one_shape(a: Any, b: Any) -> tuple[Any, Any]:
    """Two factors with their dense dimensions stretched; sparse ones must be the same."""
    if tuple(a.shape) == tuple(b.shape):
        return a, b
    first, second = pattern_of(a), pattern_of(b)
    alike = first.sparse_shape == second.sparse_shape and first.dense_dim == second.dense_dim
    if not alike or first.stored is None:
        raise RuntimeError(
            f"mul: shapes {first.shape} and {second.shape} of sparse tensors differ; dense "
            "dimensions of as many broadcast, sparse ones do not."
        )
    dense = numpy.broadcast_shapes(first.dense_shape, second.dense_shape)
    return _stretched(a, dense), _stretched(b, dense)


def _stretched(x: Any, dense: tuple[int, ...]) -> Any:
    pattern = pattern_of(x)
    shape = (*pattern.sparse_shape, *dense)
    made = coordinates(pattern.stored, shape, len(dense), coalesced=pattern.coalesced)
    return from_values(broadcast_to(values_of(x), made.values_shape), made)


def scaled(function: Any, x: Any, factor: Any) -> Any:
    """Each value and the number, or the dense element at its place, through a function."""
    pattern = pattern_of(x)
    if isinstance(factor, Tensor) and factor.ndim:
        factor = at_places(broadcast_to(factor, pattern.shape), pattern)
    return from_values(function(values_of(x), factor), pattern)


def divide(input: Any, other: Any) -> Any:
    """Division by a number, a 0-d tensor, or by dense elements."""
    if isinstance(other, Tensor) and other._layout is not None:
        raise errors.not_taken("div", other._layout, " as a divisor")
    if not isinstance(input, Tensor) or input._layout is None:
        raise errors.not_taken("div", _kind_of(other))
    return shown_as("DivBackward0", scaled(true_divide, input, other))


def rounded(op: Op) -> Any:
    """Division with rounding by numbers: of sums, so coalesced first."""

    def run(input: Any, other: Any, **options: Any) -> Any:
        if isinstance(other, Tensor) and (other._layout is not None or other.ndim):
            raise errors.not_taken(op.name.strip("_"), _kind_of(input, other), " with a tensor")
        x = convert.coalesce(input) if input._layout is sparse_coo else input
        return from_values(op.function(values_of(x), other, **options), pattern_of(x))

    return run


def any_of(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether any element is not zero."""
    if dim is not None:
        raise errors.not_taken("any", input._layout, " with dim")
    return wrap(numpy.asarray(bool(convert_values(input).any())))


def convert_values(input: Any) -> Any:
    """The values of an array of sums."""
    x = convert.coalesce(input) if input._layout is sparse_coo else input
    return x._array.values

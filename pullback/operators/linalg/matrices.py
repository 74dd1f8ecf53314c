"""Functions of whole matrices that are no plain product: several factors, trace, Kronecker, cross.

Decompositions live elsewhere.
"""

from __future__ import annotations

import math
import warnings
from builtins import sum as added
from collections.abc import Sequence
from typing import Any

from pullback.core import errors, origin
from pullback.core.dtype import from_numpy_dtype
from pullback.core.errors import unsupported
from pullback.core.promotion import is_half
from pullback.core.tensor import Tensor
from pullback.operators.arrays.reductions import MANY
from pullback.operators.arrays.row_major import in_order
from pullback.operators.arrays.sums import few_sums
from pullback.operators.conditions import (
    at_least,
    at_most,
    below,
    contiguous,
    floating,
    host,
    matrix,
    not_empty,
    says,
)
from pullback.operators.declare import Array, Dim, Namespace, kernel, linear, method, multilinear
from pullback.operators.linalg import batch as batch_products
from pullback.operators.linalg.products import delivered, in_one_dtype, mm, times_conjugate
from pullback.operators.options import as_dim, numpy_spelled
from pullback.operators.pointwise.arithmetic import conj
from pullback.operators.reduce.sums import sum
from pullback.operators.running.naming import shown_as
from pullback.operators.running.overlap import check_read_apart
from pullback.operators.shape import batch as batch_shapes
from pullback.operators.shape.reshaping import clone, permute, reshape
from pullback.operators.shape.views import diagonal_adjoint

FOUND_IN = {"torch": "chain_matmul cross kron", "linalg": "cross=linalg_cross multi_dot vecdot"}


# So many elements have a diagonal that Python adds up sooner than NumPy: 0.6 us, by a product 0.9.
_FEW = 64


@linear(
    batch=batch_shapes.traced,
    input=lambda g, input_shape: diagonal_adjoint(g[..., None], input_shape, 0, 0, 1),
    has_out=False,
)
def trace(xp: Namespace, input: Array) -> Array:
    """The sum of a matrix's diagonal.

    >>> import pullback as torch
    >>> torch.trace(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5.)
    """
    if input.ndim != 2:
        raise RuntimeError(f"trace: needs a matrix, got shape {input.shape}.")
    if input.dtype.kind == "b":
        raise unsupported("trace", input)
    if is_half(input.dtype):
        return xp.asarray(input.trace(dtype=xp.float32)).astype(input.dtype)
    wide = xp.int64 if input.dtype.kind in "iub" else input.dtype
    return input.trace(dtype=wide)


_some = host & matrix & floating & not_empty


@kernel(trace, when=_some & at_most(_FEW))
def _few_by_python(xp: Namespace, input: Array, input_dtype: Any) -> Array:
    return xp.array(added(input.diagonal().tolist()), input_dtype)  # numbers in double


@kernel(trace, when=_some & below(MANY) & contiguous)
def _by_steps(xp: Namespace, input: Array, input_shape: Any) -> Array:
    height, width = input_shape
    count = height if height < width else width
    return few_sums(xp, input.ravel()[: count * (width + 1) : width + 1], None, False)


@numpy_spelled
def vecdot(x: Any, y: Any, *, dim: int = -1, out: Any = None) -> Any:
    """The dot products of the vectors along `dim`; those of `x` are conjugated.

    >>> import pullback as torch
    >>> torch.linalg.vecdot(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    if x.dtype != y.dtype:
        raise RuntimeError(
            f"linalg.vecdot: x and y must have one dtype, got {x.dtype} and {y.dtype}; convert one."
        )
    if x._array.dtype.kind not in "fcV":
        raise RuntimeError(
            f"linalg.vecdot: needs floating-point or complex vectors, got {x.dtype}; convert them."
        )
    return delivered("linalg.vecdot", sum(conj(x) * y, dim), out)


def _paired(g: Any, sizes: Any, others: Any) -> Any:
    """The gradient of a Kronecker product as a matrix: elements of `input` by those of `other`."""
    sizes, others = _equally_long(sizes, others)
    ndim = len(sizes)
    apart = reshape(g, tuple(size for pair in zip(sizes, others, strict=True) for size in pair))
    order = (*range(0, 2 * ndim, 2), *range(1, 2 * ndim, 2))
    return reshape(permute(apart, order), (math.prod(sizes), math.prod(others)))


def _equally_long(sizes: Any, others: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    ndim = max(len(sizes), len(others))
    return (1,) * (ndim - len(sizes)) + tuple(sizes), (1,) * (ndim - len(others)) + tuple(others)


def _kron_input(g: Any, input_shape: Any, other: Any) -> Any:
    pairs = _paired(g, input_shape, other.shape)
    return reshape(times_conjugate(pairs, reshape(other, (pairs.shape[1],))), tuple(input_shape))


def _kron_other(g: Any, input: Any, other_shape: Any) -> Any:
    pairs = _paired(g, input.shape, other_shape).mT
    return reshape(times_conjugate(pairs, reshape(input, (pairs.shape[1],))), tuple(other_shape))


@multilinear(
    casts_out=True,
    batch=batch_products.kron,
    input=_kron_input,
    other=_kron_other,
    promote="same",
    numbers=False,
    node="UnsafeViewBackward0",
)
def _kron(xp: Namespace, input: Array, other: Array) -> Array:
    sizes, others = _equally_long(input.shape, other.shape)
    shape = [n * m for n, m in zip(sizes, others, strict=True)]
    a, b = input.reshape(sizes), other.reshape(others)
    return (a.reshape(_spread(sizes)) * b.reshape(_copies(others))).reshape(shape)


_LARGE = 4096  # elements of the result


@kernel(
    _kron, when=at_least(_LARGE, "input_size * other_size") & says("(input_ndim or other_ndim)")
)
def _filled_in_first(xp: Namespace, input: Array, other: Array) -> Array:
    """Along the last dimension, since NumPy is slow where it broadcasts along a short one.

    Two matrices of 31 by 31 take 0.2 ms, not 0.7.
    """
    sizes, others = _equally_long(input.shape, other.shape)
    shape = [n * m for n, m in zip(sizes, others, strict=True)]
    n, m = sizes[-1], others[-1]
    a, b = input.reshape(sizes).repeat(m, -1), xp.tile(other.reshape(others), n)
    a = a.reshape(*_spread(sizes[:-1]), n * m)
    return (a * b.reshape(*_copies(others[:-1]), n * m)).reshape(shape)


def _spread(sizes: tuple[int, ...]) -> list[int]:
    return [size for n in sizes for size in (n, 1)]


def _copies(sizes: tuple[int, ...]) -> list[int]:
    return [size for n in sizes for size in (1, n)]


@method
def kron(input: Any, other: Any, *, out: Any = None) -> Any:
    """The Kronecker product: a copy of `other` for each element of `input`, scaled by it.

    >>> import pullback as torch
    >>> torch.kron(torch.eye(2), torch.tensor([1.0, 2.0]))
    tensor([[1., 2., 0., 0.],
            [0., 0., 1., 2.]])
    """
    if input.dtype is not other.dtype:  # 0-d tensors count as much as others
        input, other = in_one_dtype(input, other)
    return _kron(input, other) if out is None else _kron(input, other, out=out)


# Cross products -----------------------------------------------------------------------------------


@multilinear(
    batch=batch_shapes.crossed,
    input=lambda g, other, dim: _linalg_cross(conj(other), g, dim),
    other=lambda g, input, dim: _linalg_cross(g, conj(input), dim),
    node="LinalgCrossBackward0",
    aten="linalg_cross.default(input other * dim)",
)
def _linalg_cross(xp: Namespace, input: Array, other: Array, dim: Dim) -> Array:
    if input.dtype != other.dtype:
        raise RuntimeError(
            f"cross: both tensors must have one dtype, got {from_numpy_dtype(input.dtype)} and "
            f"{from_numpy_dtype(other.dtype)}; convert one of them."
        )
    first = xp.moveaxis(input, dim, 0)
    second = xp.moveaxis(other, dim, 0)
    shape = xp.broadcast_shapes(first.shape[1:], second.shape[1:])
    out = xp.empty((3, *shape), input.dtype)
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        out[i] = first[j] * second[k]
        out[i] -= first[k] * second[j]
    return in_order(xp.moveaxis(out, 0, dim))


@numpy_spelled
def linalg_cross(input: Any, other: Any, *, dim: int = -1, out: Any = None) -> Any:
    """The cross product of vectors of 3 elements along `dim`; other dimensions broadcast.

    >>> import pullback as torch
    >>> torch.linalg.cross(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    first, second = tuple(input.shape), tuple(other.shape)
    if len(first) != len(second):
        raise RuntimeError(
            f"linalg.cross: shapes {first} and {second} must have the same number of dimensions."
        )
    at = as_dim(dim, len(first), "linalg.cross")
    if not first or first[at] != 3 or second[at] != 3:
        raise RuntimeError(
            f"linalg.cross: dimension {dim} must have 3 elements in both tensors, got shapes "
            f"{first} and {second}."
        )
    result = _linalg_cross(input, other, at)
    if isinstance(out, Tensor):
        check_read_apart("linalg.cross", out._array, input._array, other._array)
    return delivered("linalg.cross", result, out)


@method
@numpy_spelled
def cross(input: Any, other: Any, dim: int | None = None, *, out: Any = None) -> Any:
    """As `linalg.cross`; without `dim` (deprecated) along the first dimension of 3 elements.

    >>> import pullback as torch
    >>> torch.cross(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0]), dim=0)
    tensor([0., 0., 1.])
    """
    if dim is None:
        shape = tuple(input.shape)
        if 3 not in shape:
            raise RuntimeError(f"cross: no dimension of shape {shape} has 3 elements.")
        dim = shape.index(3)
        warnings.warn(
            f"cross without dim takes the first dimension of 3 elements (here {dim}), linalg.cross "
            "the last one. Pass dim, or use linalg.cross.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )
    return linalg_cross(input, other, dim=dim, out=out)


# Several factors ----------------------------------------------------------------------------------


def multi_dot(tensors: Sequence[Any], *, out: Any = None) -> Any:
    """The product of several matrices, in the order of multiplication that costs least.

    The first and the last may be vectors.

    >>> import pullback as torch
    >>> torch.linalg.multi_dot([torch.ones(2, 3), torch.ones(3, 4), torch.ones(4, 1)])
    tensor([[12.],
            [12.]])
    """
    factors = list(tensors)
    if len(factors) < 2:
        raise RuntimeError(f"linalg.multi_dot: needs at least 2 tensors, got {len(factors)}.")
    for one in factors:
        if not isinstance(one, Tensor):
            raise errors.not_a_tensor("linalg.multi_dot", "tensors", one)
    row, column = factors[0].ndim == 1, factors[-1].ndim == 1
    if row:
        factors[0] = factors[0][None, :]
    if column:
        factors[-1] = factors[-1][:, None]
    for number, factor in enumerate(factors):
        if factor.ndim != 2:
            raise RuntimeError(
                f"linalg.multi_dot: tensor {number} must be a matrix, got shape "
                f"{tuple(factor.shape)}; only the first and the last may be vectors."
            )
    result = _multiplied(factors, _cheapest_splits(factors), 0, len(factors) - 1)
    if row or column:
        rows = () if row else (result.shape[0],)
        result = reshape(result, rows if column else (*rows, result.shape[1]))
    return delivered("linalg.multi_dot", shown_as("ViewBackward0", result), out)


def _cheapest_splits(factors: list[Any]) -> dict[tuple[int, int], int]:
    """Where to split the product of factors i to j: the textbook recursion, over growing spans."""
    sizes = [factors[0].shape[0], *(factor.shape[1] for factor in factors)]
    cost: dict[tuple[int, int], int] = {(i, i): 0 for i in range(len(factors))}
    splits: dict[tuple[int, int], int] = {}
    for span in range(1, len(factors)):
        for i in range(len(factors) - span):
            j = i + span
            costs = {
                k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                for k in range(i, j)
            }
            splits[i, j] = min(costs, key=lambda k: costs[k])
            cost[i, j] = costs[splits[i, j]]
    return splits


def _multiplied(factors: list[Any], splits: dict[tuple[int, int], int], i: int, j: int) -> Any:
    if i == j:
        return factors[i]
    k = splits[i, j]
    return mm(_multiplied(factors, splits, i, k), _multiplied(factors, splits, k + 1, j))


def chain_matmul(*matrices: Any, out: Any = None) -> Any:
    """The old name of `linalg.multi_dot`; takes matrices only.

    >>> import pullback as torch
    >>> torch.chain_matmul(torch.ones(1, 2), torch.ones(2, 3), torch.ones(3, 1))
    tensor([[6.]])
    """
    warnings.warn(
        "chain_matmul is deprecated; use linalg.multi_dot, which takes a sequence.",
        UserWarning,
        stacklevel=origin.stacklevel(),
    )
    if len(matrices) == 1 and isinstance(matrices[0], Sequence):
        matrices = tuple(matrices[0])
    for number, one in enumerate(matrices):
        if not isinstance(one, Tensor):
            raise errors.not_a_tensor("chain_matmul", f"matrices[{number}]", one)
        if one.ndim != 2:
            raise RuntimeError(
                f"chain_matmul: tensor {number} must be a matrix, got shape {tuple(one.shape)}."
            )
    return clone(matrices[0], out=out) if len(matrices) == 1 else multi_dot(matrices, out=out)

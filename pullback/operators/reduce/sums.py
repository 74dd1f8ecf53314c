"""Sums, means and products over all elements or some dimensions.

A rule gets the reduced gradient and puts it back with `unreduce`. Where torch tells the full
reduction from the one over dimensions by the node's name, two declarations are behind one function.
"""

from __future__ import annotations

import math
from typing import Any

import numpy
from numpy import ndarray

from pullback.core import errors
from pullback.core.arrays import F32, namespace
from pullback.core.dtype import from_numpy_dtype, numpy_dtype
from pullback.core.tensor import Tensor
from pullback.operators.arrays import reductions as kernels
from pullback.operators.arrays.log_sums import log_total_exp
from pullback.operators.arrays.reductions import NOT_GIVEN, kept_shape, reduced_count
from pullback.operators.arrays.row_major import in_order
from pullback.operators.arrays.sorting import has_nan
from pullback.operators.arrays.sums import (
    PIECE,
    SHORT,
    SHORT32,
    SHORT64,
    few_sums,
    few_total,
    total,
)
from pullback.operators.conditions import (
    above,
    at_most,
    below,
    flat,
    floating,
    given,
    has_dims,
    host,
    not_empty,
    says,
)
from pullback.operators.declare import (
    REQUIRED,
    Array,
    Dim,
    Dims,
    Namespace,
    kernel,
    linear,
    method,
    primitive,
    quick,
)
from pullback.operators.options import as_shape, check_tensor, numpy_named, numpy_spelled, operand
from pullback.operators.pointwise.arithmetic import conj, is_complex, keep_where, true_divide
from pullback.operators.pointwise.comparison import isnan
from pullback.operators.pointwise.exponentials import exp
from pullback.operators.reduce.scan import exclusive_cumprod
from pullback.operators.shape.reshaping import expand, reshape
from pullback.operators.shape.tiling import flip
from pullback.operators.tensor.convert import astype

FOUND_IN = {"torch": "mean nanmean prod sum", "special": "logsumexp"}

# What rules share --------------------------------------------------------------------------------


def unreduce(g: Any, input_shape: Any, dim: Any, keepdim: Any) -> Any:
    """A reduced gradient put back: each element gets that of the result it went into."""
    is_tensor = isinstance(g, Tensor)
    # A number goes everywhere as it is; a tensor's history has the step all the same, as torch's.
    apart = not keepdim and dim is not None and (is_tensor or g.ndim)
    if apart and g.shape != input_shape:
        g = g.reshape(kept_shape(input_shape, dim))
    if is_tensor:
        return expand(g, tuple(input_shape)) if input_shape else g
    xp = numpy if g.__class__ is ndarray else namespace(g)
    if math.prod(input_shape) > kernels.MANY:  # a view of stride 0, as torch has it
        return expand(xp.asarray(g), tuple(input_shape))
    whole = xp.empty(input_shape, g.dtype)
    whole[...] = g
    return whole


def restored(reduced: Any, shape: Any, dim: Any, keepdim: Any) -> Any:
    """A reduced tensor with its dims back as ones of size 1, so that it broadcasts."""
    return reduced if keepdim or not shape else reshape(reduced, kept_shape(shape, dim))


def in_dtype(input: Any, dtype: Any) -> Any:
    """`input`, converted first where the dtype to reduce in has other gradients, or none."""
    wanted = numpy_dtype(dtype)
    if wanted.kind in "fV":
        return astype(input, wanted) if is_complex(input) else input
    return input if wanted.kind == "c" and is_complex(input) else astype(input, wanted)


def _less_usual(
    op: str, full: Any, over_dims: Any, input: Any, dim: Any, keepdim: Any, dtype: Any, out: Any
) -> Any:
    """`sum` and its like with a dtype or `out`, or with a `keepdim` that is none."""
    if dim is NOT_GIVEN and keepdim is not False:
        raise errors.not_an_int(op, "dim", None)
    if dim is NOT_GIVEN and out is None:
        return full(input, dtype=dtype)
    kernels.check_keepdim(op, keepdim)
    dim = None if dim is NOT_GIVEN else dim
    if out is None:  # rules on arrays call this too, where there is no `out`
        return over_dims(input, dim, keepdim, dtype=dtype)
    return over_dims(input, dim, keepdim, dtype=dtype, out=out)


# Sums ---------------------------------------------------------------------------------------------


def _sum(
    xp: Namespace, input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None
) -> Array:
    if dtype is not None:
        return total(xp, kernels.converted(input, dtype), dim, keepdim)
    if input.dtype.kind in "biu":
        return kernels.reduced(xp.add, input, kernels.axis_of(dim, input.ndim), xp.int64, keepdim)
    return total(xp, input, dim, keepdim)


_sum_full = linear(
    input=unreduce,
    name="sum.full",
    casts_out=True,
    aten="sum.default(input * dtype)",
    meta="lengths kept",
    node="SumBackward0",
    method=False,
    has_out=False,
)(_sum)
_sum_dims = linear(
    input=unreduce,
    name="sum",
    casts_out=True,
    aten="sum.dim_IntList",
    meta="lengths kept",
    node="SumBackward1",
    method=False,
)(_sum)


_everything = given(dim=None, keepdim=False, dtype=None)
_few = _everything & host & at_most(PIECE) & floating


@kernel(_sum_full, _sum_dims, when=_few & flat & at_most(SHORT))
def _short_by_dot(input: Array, input_dtype: Any, input_size: int) -> Array:
    return input.dot((SHORT32 if input_dtype is F32 else SHORT64)[input_size])


@kernel(_sum_full, _sum_dims, when=_few & has_dims)
def _few_by_dot(input: Array) -> Array:
    return few_total(input)


@kernel(_sum_full, _sum_dims, when=given(dtype=None) & floating & below(kernels.MANY) & has_dims)
def _few_by_dims(xp: Namespace, input: Array, dim: Any, keepdim: bool) -> Array:
    return few_sums(xp, input, dim, keepdim)


@kernel(_sum_full, _sum_dims, when=_everything & says("input_dtype.kind == 'b'"))
def _truths_counted(xp: Namespace, input: Array) -> Array:
    return xp.asarray(xp.count_nonzero(input), xp.int64)


# Written out, as are `max` and `min`: made by one function, `sum` and `mean` would close over what
# they call, and take 2 to 5 % longer.
@method
@quick
@numpy_named
def sum(
    input: Any = REQUIRED,
    dim: Any = NOT_GIVEN,
    keepdim: bool = False,
    x: Any = None,
    a: Any = None,
    x1: Any = None,
    *,
    dtype: Any = None,
    out: Any = None,
    axis: Any = None,
    keepdims: Any = None,
) -> Any:
    """The sum of all elements, or over the dimensions `dim`; integers are summed in int64.

    >>> import pullback as torch
    >>> torch.sum(torch.tensor([[1, 2], [3, 4]]), 0)
    tensor([4, 6])
    """
    if x is not None or a is not None or x1 is not None:
        input = operand("sum", "input", input, x=x, a=a, x1=x1)
    if dtype is None and out is None and axis is None and keepdims is None:
        if dim is NOT_GIVEN and keepdim is False:
            return _sum_full(input)
        if dim is not NOT_GIVEN and (keepdim is False or keepdim is True):
            return _sum_dims(input, dim, keepdim)
    dim, keepdim = kernels.numpy_names(dim, keepdim, axis, keepdims)
    input = input if dtype is None else in_dtype(input, dtype)
    return _less_usual("sum", _sum_full, _sum_dims, input, dim, keepdim, dtype, out)


def _put_back_numbers(g: Any, input: Any, dim: Any, keepdim: Any) -> Any:
    return keep_where(unreduce(g, input.shape, dim, keepdim), ~isnan(input))


@primitive(
    casts_out=True,
    input=_put_back_numbers,
    jvp=lambda d_input, input, dim, keepdim, dtype: sum(
        keep_where(d_input, ~isnan(input)), dim, keepdim, dtype=dtype
    ),
    meta="lengths kept",
)
def nansum(
    xp: Namespace, input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None
) -> Array:
    """As `sum`, with NaN counted as 0.

    >>> import pullback as torch
    >>> torch.nansum(torch.tensor([1.0, float("nan"), 3.0]))
    tensor(4.)
    """
    kernels.check_keepdim("nansum", keepdim)
    if input.dtype.kind == "c":
        raise RuntimeError("nansum: not defined for complex tensors; sum real and imaginary parts.")
    if has_nan(xp, input):
        input = xp.where(xp.isnan(input), input.dtype.type(0), input)
    return _sum_dims.op.forward(xp, input, dim, keepdim, dtype=dtype)  # type: ignore[attr-defined]  # declared


# Means --------------------------------------------------------------------------------------------


def _mean(
    xp: Namespace, input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None
) -> Array:
    input = kernels.converted(input, dtype)
    if input.dtype.kind in "biu":
        raise RuntimeError(
            "mean: defined for floating-point and complex tensors, not "
            f"{from_numpy_dtype(input.dtype)}; convert first, or pass such a dtype."
        )
    count = reduced_count(input.shape, dim)
    if input.dtype.itemsize == 2:
        return (total(xp, input.astype(xp.float32), dim, keepdim) / count).astype(input.dtype)
    return total(xp, input, dim, keepdim) / count


def spread_mean(g: Any, input_shape: Any, dim: Any, keepdim: Any) -> Any:
    """The gradient of a mean put back: each element gets its share."""
    count = reduced_count(input_shape, dim)
    if count > 1 and not isinstance(g, Tensor) and g.dtype.itemsize == 2:
        # The count may be larger than any float16.
        g = (g.astype(numpy.float32) / count).astype(g.dtype)
    elif count:
        g = g / count
    return unreduce(g, input_shape, dim, keepdim)


_mean_full = linear(
    input=spread_mean,
    name="mean.full",
    casts_out=True,
    aten="mean.default(input * dtype)",
    meta="lengths kept",
    node="MeanBackward0",
    method=False,
    has_out=False,
)(_mean)
_mean_dims = linear(
    input=spread_mean,
    name="mean",
    casts_out=True,
    aten="mean.dim",
    meta="lengths kept",
    node="MeanBackward1",
    method=False,
)(_mean)


@kernel(
    *(_mean_full, _mean_dims),
    when=given(dtype=None) & floating & below(kernels.MANY) & not_empty & has_dims,
)
def _few_means(xp: Namespace, input: Array, dim: Any, keepdim: bool, input_dtype: Any) -> Array:
    sums = few_sums(xp, input, dim, keepdim)
    count = input.size // sums.size
    return sums / kernels.number(count, input_dtype) if sums.ndim else sums / count


@method
@quick
@numpy_named
def mean(
    input: Any = REQUIRED,
    dim: Any = NOT_GIVEN,
    keepdim: bool = False,
    x: Any = None,
    a: Any = None,
    x1: Any = None,
    *,
    dtype: Any = None,
    out: Any = None,
    axis: Any = None,
    keepdims: Any = None,
) -> Any:
    """The mean of all elements, or over the dimensions `dim`.

    >>> import pullback as torch
    >>> torch.mean(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), 1)
    tensor([1.5000, 3.5000])
    """
    if x is not None or a is not None or x1 is not None:
        input = operand("mean", "input", input, x=x, a=a, x1=x1)
    if dtype is None and out is None and axis is None and keepdims is None:
        if dim is NOT_GIVEN and keepdim is False:
            return _mean_full(input)
        if dim is not NOT_GIVEN and (keepdim is False or keepdim is True):
            return _mean_dims(input, dim, keepdim)
    dim, keepdim = kernels.numpy_names(dim, keepdim, axis, keepdims)
    input = input if dtype is None else in_dtype(input, dtype)
    return _less_usual("mean", _mean_full, _mean_dims, input, dim, keepdim, dtype, out)


@method
@numpy_spelled
def nanmean(
    input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Any:
    """The mean of the elements that are not NaN.

    >>> import pullback as torch
    >>> torch.nanmean(torch.tensor([1.0, float("nan"), 3.0]))
    tensor(2.)
    """
    if not isinstance(input, Tensor):
        raise errors.not_a_tensor("nanmean", "input", input)
    if not input.dtype.is_differentiable:
        raise RuntimeError(f"nanmean: defined for floating-point tensors, not {input.dtype}.")
    count = sum(~isnan(input), dim, keepdim)
    return true_divide(nansum(input, dim, keepdim, dtype=dtype), count, out=out)


# Products -----------------------------------------------------------------------------------------


def _others(input: Any, dim: int) -> Any:
    """At every place along `dim` the product of all others: those before times those after."""
    after = flip(exclusive_cumprod(flip(input, (dim,)), dim), (dim,))
    return exclusive_cumprod(input, dim) * after


def _slopes(input: Any, dim: Any) -> Any:
    """The derivative of the product by each element."""
    if not input.shape:
        return input * 0 + 1
    if dim is not None:
        return _others(input, dim)
    return reshape(_others(reshape(input, (-1,)), 0), tuple(input.shape))


_FEW = 32


def _prod(
    xp: Namespace,
    input: Array,
    dim: Dim = None,  # type: ignore[assignment]  # the annotation says the kind of option
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Array:
    axis = dim if input.ndim else None
    if input.dtype.kind in "biu" and dtype is None:
        return xp.multiply.reduce(input, axis, xp.int64, None, keepdim)
    if input.dtype.itemsize == 2 and input.dtype.kind in "fV":
        return xp.multiply.reduce(input, axis, xp.float32, None, keepdim).astype(input.dtype)
    made = xp.multiply.reduce(input, axis, input.dtype, None, keepdim)
    return made if axis is None or made.ndim < 2 else in_order(made)


def _prod_adjoint(g: Any, input: Any, out: Any, dim: Any, keepdim: Any) -> Any:
    dims = None if dim is None else (dim,)
    g = restored(g, input.shape, dims, keepdim)
    if not isinstance(input, Tensor) and (
        kernels.is_moderate(out) or (input.size > kernels.MANY and input.all())
    ):
        # Without a zero the others' product is a quotient; where it is differentiated, never.
        return g * conj(restored(out, input.shape, dims, keepdim)) / conj(input)
    return g * conj(_slopes(input, dim))


def _prod_tangent(d_input: Any, input: Any, dim: Any, keepdim: Any) -> Any:
    return sum(d_input * _slopes(input, dim), dim, keepdim)


_prod_full = primitive(
    input=_prod_adjoint,
    jvp=_prod_tangent,
    name="prod.full",
    casts_out=True,
    aten="prod.default(input * dtype)",
    meta="lengths kept",
    node="ProdBackward0",
    method=False,
)(_prod)
_prod_dim = primitive(
    input=_prod_adjoint,
    jvp=_prod_tangent,
    name="prod",
    casts_out=True,
    aten="prod.dim_int",
    meta="lengths kept",
    node="ProdBackward1",
    method=False,
)(_prod)


@kernel(
    _prod_full,
    _prod_dim,
    when=host & at_most(_FEW) & floating & says("(dim is None or not input_ndim)"),
)
def _few_in_double(xp: Namespace, input: Array, keepdim: bool, input_dtype: Any) -> Array:
    """Rounded once, in half of the time that `reduce` takes."""
    values = input if input.ndim == 1 else input.reshape(-1)
    product = xp.array(math.prod(values.tolist()), input_dtype)
    return product.reshape((1,) * input.ndim) if keepdim else product


@kernel(_prod_dim, when=host & floating & says("dim == input_ndim - 1") & above(kernels.MANY))
def _long_rows_halved(xp: Namespace, input: Array, dim: int, keepdim: bool) -> Array:
    made = xp.multiply.reduce(kernels.halved_product(xp, input), dim, None, None, keepdim)
    return made if made.flags.c_contiguous else in_order(made)


@kernel(_prod_dim, when=host & floating & has_dims & says("input_ndim < 3"))
def _reduced(xp: Namespace, input: Array, dim: Any, keepdim: bool) -> Array:
    return xp.multiply.reduce(input, dim, None, None, keepdim)


@kernel(_prod_dim, when=host & floating & has_dims)
def _reduced_in_order(xp: Namespace, input: Array, dim: Any, keepdim: bool) -> Array:
    made = xp.multiply.reduce(input, dim, None, None, keepdim)
    return made if made.flags.c_contiguous else in_order(made)


@method
@quick
@numpy_named
def prod(
    input: Any = REQUIRED,
    dim: Any = NOT_GIVEN,
    keepdim: bool = False,
    x: Any = None,
    a: Any = None,
    x1: Any = None,
    *,
    dtype: Any = None,
    out: Any = None,
    axis: Any = None,
    keepdims: Any = None,
) -> Any:
    """The product of all elements, or along the dimension `dim`; integers multiply in int64.

    >>> import pullback as torch
    >>> torch.prod(torch.tensor([2.0, 3.0, 0.0]))
    tensor(0.)
    """
    if x is not None or a is not None or x1 is not None:
        input = operand("prod", "input", input, x=x, a=a, x1=x1)
    if dtype is None and out is None and axis is None and keepdims is None:
        if dim is NOT_GIVEN and keepdim is False:
            return _prod_full(input)
        if dim.__class__ is int and (keepdim is False or keepdim is True):
            return _prod_dim(input, dim, keepdim)
    dim, keepdim = kernels.numpy_names(dim, keepdim, axis, keepdims)
    if dim is None:
        raise errors.not_an_int("prod", "dim", dim)
    if dtype is not None:
        check_tensor(input, "prod", "input")
        input = astype(input, dtype)
    return _less_usual("prod", _prod_full, _prod_dim, input, dim, keepdim, dtype, out)


# Logarithms of sums -------------------------------------------------------------------------------


def _shares(input: Any, out: Any, dim: Any, keepdim: Any) -> Any:
    """How much of the sum each element is: the softmax."""
    return exp(input - restored(out, input.shape, dim, keepdim))


@primitive(
    casts_out=True,
    input=lambda g, input, out, dim, keepdim: (
        restored(g, input.shape, dim, keepdim) * conj(_shares(input, out, dim, keepdim))
    ),
    jvp=lambda d_input, input, out, dim, keepdim: sum(
        d_input * _shares(input, out, dim, keepdim), dim, keepdim
    ),
    promote="float",
    numbers=False,
    meta="lengths kept",
)
def logsumexp(xp: Namespace, input: Array, dim: Dims, keepdim: bool = False) -> Array:
    """The logarithm of the sum of exponentials over `dim`, without overflow.

    >>> import pullback as torch
    >>> torch.logsumexp(torch.tensor([1000.0, 0.0]), 0)
    tensor(1000.)
    """
    if keepdim is not False:
        kernels.check_keepdim("logsumexp", keepdim)
    return log_total_exp(xp, input, dim, keepdim)


# Undoing an expansion -----------------------------------------------------------------------------


@method
def sum_to_size(input: Tensor, *sizes: Any, size: Any = None) -> Tensor:
    """The sum over the dimensions that expanding `size` to this tensor's shape would stretch.

    >>> import pullback as torch
    >>> torch.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    if (size is None) == (not sizes):
        raise TypeError("sum_to_size() takes one size, as ints or as a tuple.")
    given = size if size is not None else sizes[0] if len(sizes) == 1 else sizes
    wanted = as_shape(given, 0, "sum_to_size")
    shape = tuple(input.shape)
    extra = len(shape) - len(wanted)
    full = (1,) * extra + wanted
    if extra < 0 or [n for n, m in zip(shape, full, strict=True) if m not in (1, n)]:
        raise RuntimeError(
            f"sum_to_size: size {wanted} does not expand to the tensor's shape {shape}, so no sum "
            "leads back to it."
        )
    dims = tuple(i for i, n in enumerate(shape) if i < extra or (full[i] == 1 and n != 1))
    result = sum(input, dims, keepdim=True) if dims else input
    return reshape(result, wanted) if extra else result

"""The largest and smallest elements, and where they are.

Values alone (`amax`, `max()`) share their gradient among equal elements; with an index (`max(dim)`)
it goes to the one that was chosen.
"""

from __future__ import annotations

from typing import Any

from pullback.core import errors
from pullback.core.arrays import F32
from pullback.core.tensor import Tensor
from pullback.operators.arrays import reductions as kernels
from pullback.operators.arrays.reductions import NOT_GIVEN
from pullback.operators.arrays.row_major import in_order
from pullback.operators.arrays.sorting import has_nan
from pullback.operators.arrays.sums import total
from pullback.operators.batching import filled, ndim_of, together
from pullback.operators.conditions import below, flat, not_empty, says
from pullback.operators.declare import (
    REQUIRED,
    Array,
    Dim,
    Dims,
    Namespace,
    Op,
    kernel,
    method,
    primitive,
    quick,
)
from pullback.operators.indexing.picking import kept, pick, put_back
from pullback.operators.options import numpy_named, operand
from pullback.operators.pointwise.extrema import maximum, minimum
from pullback.operators.reduce.sums import restored
from pullback.operators.results import result_class

FOUND_IN = {"torch": "aminmax max min"}

# Ties ---------------------------------------------------------------------------------------------


def _lines(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    """As `together`; numbers become lines of one element, so that there is a `dim` to name."""
    if any(ndim_of(pair) for pair in split.values()):
        return together(op, size, split, options)
    lines = {name: filled(pair, size).reshape((size, 1)) for name, pair in split.items()}
    return op.function(**lines, **{**options, "dim": (1,)}).reshape((size,))


def _ties(xp: Namespace, input: Array, reached: Array, nan: bool) -> Array:
    ties = input == reached
    if nan and has_nan(xp, reached):
        ties |= (input != input) & (reached != reached)
    return ties


@primitive(
    batch=_lines,
    g=lambda g, input, reached, dim, nan: mean_of_ties(g, input, reached, dim, nan),
    jvp=lambda d_g, input, reached, dim, nan: share(d_g, input, reached, dim, nan),
    method=False,
    has_out=False,
)
def share(
    xp: Namespace, g: Array, input: Array, reached: Array, dim: Dims = None, nan: bool = False
) -> Array:
    """`g` in equal parts to the elements over `dim` that equal `reached`; both have those as ones.

    NaN equals nothing, and 0 / 0 makes its gradient NaN; with `nan` it equals NaN.
    """
    ties = _ties(xp, input, reached, nan)
    whole = ties.astype(g.dtype)
    part = g / total(xp, whole, dim, keepdim=True)
    # A product makes NaN of a part that is infinite or NaN, as torch does; a choice does not.
    if nan:
        return xp.where(ties, part, 0)
    return xp.multiply(whole, part, whole) if whole.ndim else whole * part


@primitive(
    batch=_lines,
    input=lambda g, input, like, reached, dim, nan: share(g, like, reached, dim, nan),
    jvp=lambda d_input, like, reached, dim, nan: mean_of_ties(d_input, like, reached, dim, nan),
    method=False,
    has_out=False,
)
def mean_of_ties(
    xp: Namespace, input: Array, like: Array, reached: Array, dim: Dims = None, nan: bool = False
) -> Array:
    """The adjoint of `share`: the mean over `dim` of `input` where `like` equals `reached`."""
    ties = _ties(xp, like, reached, nan)
    whole = ties.astype(input.dtype)
    chosen = xp.where(ties, input, 0) if nan else input * whole
    counts = total(xp, whole, dim, keepdim=True)
    return total(xp, chosen, dim, keepdim=True) / counts


def share_extreme(g: Any, input: Any, out: Any, dim: Any, keepdim: Any) -> Any:
    """The rule of `amax` and its like."""
    shape = input.shape
    g, out = restored(g, shape, dim, keepdim), restored(out, shape, dim, keepdim)
    return share(g, input, out, dim, False)


def extreme_tangent(d_input: Any, input: Any, out: Any, dim: Any, keepdim: Any) -> Any:
    """The tangent of `amax` and its like."""
    reached = restored(out, input.shape, dim, keepdim)
    return mean_of_ties(d_input, input, reached, dim, False).reshape(out.shape)


# Values alone -------------------------------------------------------------------------------------


@primitive(input=share_extreme, jvp=extreme_tangent, meta="lengths kept")
def amax(xp: Namespace, input: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    """The largest elements over `dim`; equal ones share the gradient.

    >>> import pullback as torch
    >>> torch.amax(torch.tensor([[1.0, 4.0], [3.0, 2.0]]), 1)
    tensor([4., 3.])
    """
    return kernels.extreme(xp, "amax", input, dim, keepdim, xp.maximum)


@primitive(input=share_extreme, jvp=extreme_tangent, meta="lengths kept")
def amin(xp: Namespace, input: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    """The smallest elements over `dim`; equal ones share the gradient.

    >>> import pullback as torch
    >>> torch.amin(torch.tensor([[3.0, 1.0], [2.0, 4.0]]), dim=1)
    tensor([1., 2.])
    """
    return kernels.extreme(xp, "amin", input, dim, keepdim, xp.minimum)


def _aminmax_adjoint(
    g_min: Any, g_max: Any, input: Any, min: Any, max: Any, dim: Any, keepdim: Any
) -> Any:
    dims = None if dim is None else (dim,)
    low = share_extreme(g_min, input, min, dims, keepdim)
    return low + share_extreme(g_max, input, max, dims, keepdim)


def _aminmax_tangent(d_input: Any, input: Any, min: Any, max: Any, dim: Any, keepdim: Any) -> Any:
    dims = None if dim is None else (dim,)
    return tuple(extreme_tangent(d_input, input, out, dims, keepdim) for out in (min, max))


@primitive(
    input=_aminmax_adjoint,
    jvp=_aminmax_tangent,
    outputs="min max",
    exact_out=True,
    name="aminmax",
    method=False,
)
def _aminmax(
    xp: Namespace,
    input: Array,
    *,
    dim: Dim = None,  # type: ignore[assignment]  # the annotation says the kind of option
    keepdim: bool = False,
) -> Any:
    dims = None if dim is None else (dim,)
    least = kernels.extreme(xp, "aminmax", input, dims, keepdim, xp.minimum)
    most = kernels.extreme(xp, "aminmax", input, dims, keepdim, xp.maximum)
    return in_order(least), in_order(most)


_AminmaxResult = result_class("aminmax", "min max")


@method
def aminmax(
    input: Any,
    *,
    dim: int | None = None,
    keepdim: bool = False,
    out: Any = None,
    axis: int | None = None,
    keepdims: bool | None = None,
) -> Any:
    """Smallest and largest elements in one call.

    >>> import pullback as torch
    >>> torch.aminmax(torch.tensor([3.0, 1.0, 2.0]))
    torch.return_types.aminmax(
    min=tensor(1.),
    max=tensor(3.))
    """
    dim, keepdim = kernels.numpy_names(dim, keepdim, axis, keepdims)
    return _AminmaxResult.of(_aminmax(input, dim=dim, keepdim=keepdim, out=out))


# Over everything ----------------------------------------------------------------------------------


def share_full(g: Any, input: Any, out: Any, dim: Any) -> Any:
    """The rule of `max()` and its like, where NaN counts as equal to NaN."""
    shape = input.shape
    g, out = restored(g, shape, dim, False), restored(out, shape, dim, False)
    return share(g, input, out, dim, True)


def full_tangent(d_input: Any, input: Any, out: Any, dim: Any) -> Any:
    """The tangent of `max()` and its like."""
    reached = restored(out, input.shape, dim, False)
    return mean_of_ties(d_input, input, reached, dim, True).reshape(out.shape)


def of_all(op: str) -> dict[str, Any]:
    """What is declared of an operator that chooses one of all elements; ties share its gradient."""
    return {
        "input": share_full,
        "jvp": full_tangent,
        "name": f"{op}.full",
        "method": False,
        "aten": f"{op}.default(input)",
        "meta": "lengths kept",
    }


@primitive(casts_out=True, **of_all("max"), node="MaxBackward1")
def _max_full(xp: Namespace, input: Array, dim: Dims = None) -> Array:
    return kernels.extreme(xp, "max", input, dim, False, xp.maximum)


@primitive(casts_out=True, **of_all("min"), node="MinBackward1")
def _min_full(xp: Namespace, input: Array, dim: Dims = None) -> Array:
    return kernels.extreme(xp, "min", input, dim, False, xp.minimum)


# `extreme` in line: a quarter of the time is calls.
_short = says("@_dtype is F32", F32=F32) & flat & not_empty & below(kernels.MANY)


@kernel(_max_full, when=_short, inline=True)
def _largest(input: Array) -> Array:
    return input[input.argmax()]


@kernel(_min_full, when=_short, inline=True)
def _smallest(input: Array) -> Array:
    return input[input.argmin()]


# Along a dimension --------------------------------------------------------------------------------


def put_back_chosen(g_values: Any, indices: Any, input_shape: Any, dim: int, keepdim: Any) -> Any:
    """The gradient of chosen elements at the places they were chosen from."""
    size = input_shape[dim] if input_shape else 1
    g = kept(g_values, dim, input_shape, keepdim=keepdim)
    return put_back(g, kept(indices, dim, input_shape, keepdim=keepdim), size, dim)


def pick_chosen(d_input: Any, indices: Any, input_shape: Any, dim: int, keepdim: Any) -> Any:
    """The tangents of chosen elements; the indices have none."""
    chosen = pick(d_input, kept(indices, dim, input_shape, keepdim=keepdim), dim)
    if not keepdim and input_shape:
        chosen = chosen.squeeze(dim)
    return chosen, None


# What is declared of operators that choose elements along a dimension.
CHOSEN: dict[str, Any] = {
    "input": put_back_chosen,
    "jvp": pick_chosen,
    "outputs": "values indices",
    "fixed": "indices",
    "method": False,
}


@primitive(**CHOSEN, name="max", aten="max.dim", meta="lengths kept")
def _max_along(xp: Namespace, input: Array, dim: Dim, keepdim: bool = False) -> Any:
    return kernels.extreme_along(xp, "max", input, dim, keepdim)


@primitive(**CHOSEN, name="min", aten="min.dim", meta="lengths kept")
def _min_along(xp: Namespace, input: Array, dim: Dim, keepdim: bool = False) -> Any:
    return kernels.extreme_along(xp, "min", input, dim, keepdim)


_MaxResult = result_class("max", "values indices")
_MinResult = result_class("min", "values indices")


@method
@quick
@numpy_named
def max(
    input: Any = REQUIRED,
    dim: Any = NOT_GIVEN,
    keepdim: bool = False,
    x: Any = None,
    a: Any = None,
    x1: Any = None,
    *,
    other: Any = None,
    x2: Any = None,
    out: Any = None,
    axis: Any = None,
    keepdims: Any = None,
) -> Any:
    """The largest element; with `dim`, those along it and their indices; with a tensor, `maximum`.

    >>> import pullback as torch
    >>> torch.max(torch.tensor([[1.0, 4.0], [3.0, 2.0]]), 1).indices
    tensor([1, 0])
    """
    if x is not None or a is not None or x1 is not None:
        input = operand("max", "input", input, x=x, a=a, x1=x1)
    if x2 is not None:
        other = operand("max", "other", REQUIRED if other is None else other, x2=x2)
    if keepdim is False and out is None and other is None and axis is None and keepdims is None:
        if dim is NOT_GIVEN:
            return _max_full(input)
        if dim.__class__ is int:
            found = _max_along(input, dim)
            return _MaxResult.of(found) if found.__class__ is tuple else found
    dim, keepdim = kernels.numpy_names(dim, keepdim, axis, keepdims)
    return _chosen(_LARGEST, input, dim, keepdim, other, out)


@method
@quick
@numpy_named
def min(
    input: Any = REQUIRED,
    dim: Any = NOT_GIVEN,
    keepdim: bool = False,
    x: Any = None,
    a: Any = None,
    x1: Any = None,
    *,
    other: Any = None,
    x2: Any = None,
    out: Any = None,
    axis: Any = None,
    keepdims: Any = None,
) -> Any:
    """The smallest element; with `dim` those along it and indices; with a tensor `minimum`.

    >>> import pullback as torch
    >>> torch.min(torch.tensor([[3.0, 1.0], [2.0, 4.0]]), dim=1)
    torch.return_types.min(
    values=tensor([1., 2.]),
    indices=tensor([1, 0]))
    """
    if x is not None or a is not None or x1 is not None:
        input = operand("min", "input", input, x=x, a=a, x1=x1)
    if x2 is not None:
        other = operand("min", "other", REQUIRED if other is None else other, x2=x2)
    if keepdim is False and out is None and other is None and axis is None and keepdims is None:
        if dim is NOT_GIVEN:
            return _min_full(input)
        if dim.__class__ is int:
            found = _min_along(input, dim)
            return _MinResult.of(found) if found.__class__ is tuple else found
    dim, keepdim = kernels.numpy_names(dim, keepdim, axis, keepdims)
    return _chosen(_SMALLEST, input, dim, keepdim, other, out)


# What the three forms of max and min call: for all, along a dim with its result, with a tensor.
_LARGEST = ("max", _max_full, _max_along, _MaxResult, maximum)
_SMALLEST = ("min", _min_full, _min_along, _MinResult, minimum)


def _chosen(forms: Any, input: Any, dim: Any, keepdim: Any, other: Any, out: Any) -> Any:
    op, full, along, result, of_two = forms
    if dim is NOT_GIVEN and other is None:
        if keepdim is not False:
            raise errors.not_an_int(op, "dim", None)
        return full(input, out=out)
    if other is not None or isinstance(dim, Tensor):
        if keepdim is not False:  # no dimension is reduced, so nothing could be kept
            raise errors.not_an_int(op, "dim", dim)
        if other is not None and dim is not NOT_GIVEN:
            raise TypeError(f"{op}() got dim and another tensor, of which it takes one.")
        return of_two(input, dim if other is None else other, out=out)
    kernels.check_keepdim(op, keepdim)
    return result.of(along(input, dim, keepdim, out=out))


# Indices alone ------------------------------------------------------------------------------------


@primitive(meta="lengths kept", exact_out=True)
def argmax(
    xp: Namespace,
    input: Array,
    dim: Dim = None,  # type: ignore[assignment]  # the annotation says the kind of option
    keepdim: bool = False,
) -> Array:
    """The index of the (first) largest element, along `dim` or in the flattened tensor.

    >>> import pullback as torch
    >>> torch.argmax(torch.tensor([[1.0, 5.0], [7.0, 2.0]]), dim=1)
    tensor([1, 0])
    """
    return kernels.index_of_extreme(xp, "argmax", input, dim, keepdim)


@primitive(meta="lengths kept", exact_out=True)
def argmin(
    xp: Namespace,
    input: Array,
    dim: Dim = None,  # type: ignore[assignment]  # the annotation says the kind of option
    keepdim: bool = False,
) -> Array:
    """The index of the (first) smallest element, along `dim` or in the flattened tensor.

    >>> import pullback as torch
    >>> torch.argmin(torch.tensor([[1.0, 5.0], [7.0, 2.0]]), dim=1)
    tensor([0, 1])
    """
    return kernels.index_of_extreme(xp, "argmin", input, dim, keepdim)

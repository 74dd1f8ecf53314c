"""Finite differences and the integrals that undo them."""

from __future__ import annotations

import numbers
from typing import Any

from pullback.core import errors
from pullback.core.promotion import dtype_with_number
from pullback.core.tensor import Tensor
from pullback.operators.declare import Array, Namespace, linear, method
from pullback.operators.linalg.products import delivered
from pullback.operators.options import as_dim, as_dims, as_int, as_number, check_int, numpy_spelled
from pullback.operators.pointwise.arithmetic import sub
from pullback.operators.pointwise.comparison import ne
from pullback.operators.reduce.scan import cumsum
from pullback.operators.reduce.sums import sum
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.joining import cat
from pullback.operators.shape.reshaping import clone, reshape, squeeze
from pullback.operators.shape.views import slice_along

FOUND_IN = {"torch": "cumulative_trapezoid diff gradient trapezoid trapz=trapezoid"}


def _part(input: Any, dim: int, start: int, stop: int) -> Any:
    """Elements `start` to `stop` along `dim`; a negative stop counts from the end."""
    size = input.shape[dim]
    stop = size + stop if stop < 0 else stop
    return slice_along(input, dim, start, max(stop, start))


# Differences --------------------------------------------------------------------------------------


@method
@numpy_spelled
def diff(
    input: Any,
    n: int = 1,
    dim: int = -1,
    prepend: Any = None,
    append: Any = None,
    *,
    out: Any = None,
) -> Any:
    """The differences of neighbours along `dim`, taken `n` times.

    >>> import pullback as torch
    >>> torch.diff(torch.tensor([1, 3, 2]))
    tensor([ 2, -1])
    """
    if not isinstance(input, Tensor):
        raise errors.not_a_tensor("diff", "input", input)
    n = as_int(n, "diff", "n")
    if input.ndim == 0:
        raise RuntimeError("diff: a 0-d tensor has no neighbours; it needs at least 1 dimension.")
    if n < 0:
        raise RuntimeError(f"diff: n must not be negative, got {n}.")
    at = as_dim(dim, input.ndim, "diff")
    around = [part for part in (prepend, input, append) if part is not None]
    for part in around:
        if not isinstance(part, Tensor):
            what = "prepend" if part is prepend else "append"
            raise errors.not_a_tensor("diff", what, part)
        if part.ndim != input.ndim:
            raise RuntimeError(
                f"diff: prepend and append must have the input's {input.ndim} dimensions, got "
                f"{part.ndim}."
            )
    result = cat(around, at) if len(around) > 1 and n else input
    result = _diff(result, min(n, result.shape[at]), at)
    return delivered("diff", result, out)


def _diff(input: Any, n: int, dim: int) -> Any:
    if n == 0:
        return clone(input)
    subtract = ne if input._array.dtype.kind == "b" else sub
    for _ in range(n):
        size = input.shape[dim]
        input = subtract(_part(input, dim, 1, size), _part(input, dim, 0, max(size - 1, 0)))
    return input


# Gradients of sampled functions -------------------------------------------------------------------


@numpy_spelled
def gradient(
    input: Any, *, spacing: Any = None, dim: Any = None, edge_order: int = 1
) -> tuple[Any, ...]:
    """The derivative along each of `dim`, estimated from neighbours `spacing` apart.

    >>> import pullback as torch
    >>> torch.gradient(torch.tensor([1.0, 4.0, 9.0, 16.0]))
    (tensor([3., 4., 6., 7.]),)
    """
    dims = as_dims(dim, input.ndim, "gradient")
    dims = tuple(range(input.ndim)) if dims is None else dims
    check_int(edge_order, "gradient", "edge_order")
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient: edge_order must be 1 or 2, got {edge_order}.")
    for at in dims:
        if input.shape[at] <= edge_order:
            raise RuntimeError(
                f"gradient: dim {at} has {input.shape[at]} elements; edge_order {edge_order} "
                f"needs at least {edge_order + 1}."
            )
    if input._array.dtype.char in "B?":
        raise RuntimeError(
            "gradient: differences of bool or uint8 are not numbers that it knows; convert."
        )
    if not input.dtype.is_differentiable:
        input = input / 1
    spacings = _spacings(spacing, dims)
    return tuple(
        _slopes(input, at, step, edge_order) for at, step in zip(dims, spacings, strict=True)
    )


def _spacings(spacing: Any, dims: tuple[int, ...]) -> list[Any]:
    """A number, or a tensor of coordinates, for each dimension."""
    if spacing is None or isinstance(spacing, numbers.Number):
        return [1 if spacing is None else spacing] * len(dims)
    if not isinstance(spacing, tuple | list):
        raise TypeError(
            f"gradient(): spacing must be a number, or a list of numbers or tensors, got "
            f"{type(spacing).__name__}."
        )
    if len(spacing) != len(dims):
        raise RuntimeError(
            f"gradient: {len(spacing)} spacings for {len(dims)} dims; give one number for all, or "
            "one each."
        )
    return list(spacing)


def _slopes(input: Any, dim: int, spacing: Any, edge_order: int) -> Any:
    size = input.shape[dim]
    if isinstance(spacing, numbers.Number):
        steps: Any = spacing
        inner = (_part(input, dim, 2, size) - _part(input, dim, 0, -2)) / (2 * steps)
    else:
        if tuple(spacing.shape) != (size,):
            raise RuntimeError(
                f"gradient: one coordinate for each of the {size} elements of dim {dim}, got shape "
                f"{tuple(spacing.shape)}."
            )
        places = reshape(_diff(spacing, 1, 0), (-1,) + (1,) * (input.ndim - 1 - dim))
        steps, inner = places, _uneven(input, dim, places)
    ends = [_edge(input, dim, steps, edge_order, first=first) for first in (True, False)]
    return cat([ends[0], inner, ends[1]], dim)


def _uneven(input: Any, dim: int, steps: Any) -> Any:
    """Inner slopes where the steps before and after an element differ: a parabola through three."""
    size = input.shape[dim]
    before, after = _part(steps, 0, 0, size - 2), _part(steps, 0, 1, size - 1)
    low, mid, high = (
        _part(input, dim, 0, size - 2),
        _part(input, dim, 1, size - 1),
        _part(input, dim, 2, size),
    )
    return (
        low * (-after / (before * (before + after)))
        + mid * ((after - before) / (before * after))
        + high * (before / (after * (before + after)))
    )


def _step(steps: Any, at: int) -> Any:
    return steps if isinstance(steps, numbers.Number) else _part(steps, 0, at, at + 1)


def _edge(input: Any, dim: int, steps: Any, order: int, *, first: bool) -> Any:
    """The slope at an end: along the last step, or of a parabola through three elements."""
    size = input.shape[dim]
    a, b = (_part(input, dim, i, i + 1) for i in ((0, 1) if first else (size - 1, size - 2)))
    outer = _step(steps, 0 if first else size - 2)
    if order == 1:
        return (b - a) / outer if first else (a - b) / outer
    inner = _step(steps, 1 if first else size - 3)
    third = 2 if first else size - 3
    c = _part(input, dim, third, third + 1)
    whole = outer + inner
    slope = (
        a * (-(outer + whole) / (outer * whole))
        + b * (whole / (outer * inner))
        - c * (outer / (inner * whole))
    )
    return slope if first else -slope


# Integrals ----------------------------------------------------------------------------------------


def _checked(op: str, y: Any, x: Any, dx: Any, dim: int) -> tuple[Any, int]:
    """The step if steps are equal (else None), and the dimension to integrate along."""
    if x is not None and dx is not None:
        raise TypeError(f"{op}(): give `x` or `dx`, not both.")
    for name, one in (("y", y), ("x", x)):
        if not isinstance(one, Tensor) and not (name == "x" and one is None):
            raise errors.not_a_tensor(op, name, one)
    if y.ndim == 0:
        raise IndexError(f"{op}: a 0-d tensor has no dimension {dim} to integrate along.")
    if any(one is not None and one._array.dtype.kind == "b" for one in (y, x)):
        raise RuntimeError(f"{op}: not defined for torch.bool; convert first.")
    at = as_dim(dim, y.ndim, op)
    if x is None:
        step = as_number(dx, op, "dx") if isinstance(dx, Tensor) else dx
        if step is not None and not isinstance(step, numbers.Real):
            raise RuntimeError(f"{op}: dx must be a real number, got {dx!r}.")
        return 1 if step is None else step, at
    along = 0 if x.ndim == 1 else at + x.ndim - y.ndim  # dimensions that x lacks come first
    if not 0 < x.ndim <= y.ndim or along < 0 or x.shape[along] != y.shape[at]:
        raise RuntimeError(
            f"{op}: one x for each sample point of y, but their shapes are {tuple(x.shape)} and "
            f"{tuple(y.shape)} along dim {at}."
        )
    return None, at


@linear(
    input=lambda g, factor: _times(g, factor),
    method=False,
    has_out=False,
    node="MulBackward1",
    aten="",
)
def _times(xp: Namespace, input: Array, factor: float) -> Array:
    """A product with a number, which the graph keeps: backward may run again."""
    dtype = dtype_with_number(input.dtype, factor)
    return xp.multiply(input.astype(dtype, copy=False), dtype.type(factor))


def _neighbours(y: Any, dim: int) -> Any:
    """Sums of neighbours along `dim`."""
    size = y.shape[dim]
    return _part(y, dim, min(1, size), size) + _part(y, dim, 0, max(size - 1, 0))


def _areas(y: Any, x: Any, dim: int) -> Any:
    """Twice the areas between neighbours."""
    along = 0 if x.ndim == 1 else dim + x.ndim - y.ndim
    steps = _diff(x, min(1, y.shape[dim]), along)
    if x.ndim == 1:
        steps = reshape(steps, (-1,) + (1,) * (y.ndim - 1 - dim))
    return steps * _neighbours(y, dim)


@numpy_spelled
def trapezoid(y: Any, x: Any = None, *, dx: float | None = None, dim: int = -1) -> Any:
    """The integral of `y` over `x` (or steps of `dx`) along `dim`, by trapezoids.

    >>> import pullback as torch
    >>> torch.trapezoid(torch.tensor([1.0, 2.0, 3.0]), dx=2)
    tensor(8.)
    """
    step, at = _checked("trapezoid", y, x, dx, dim)
    if step is None:
        return shown_as("DivBackward1", sum(_areas(y, x, at), at) / 2)
    if y.shape[at] == 0:
        return _times(sum(y, at), float(step))
    ends = _part(y, at, 0, 1) + _part(y, at, y.shape[at] - 1, y.shape[at])
    return _times(sum(y, at) - _times(squeeze(ends, at), 0.5), step)


@numpy_spelled
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: float | None = None, dim: int = -1) -> Any:
    """Running integrals: those of `trapezoid` up to each sample but the first.

    >>> import pullback as torch
    >>> torch.cumulative_trapezoid(torch.tensor([1.0, 2.0, 3.0]))
    tensor([1.5000, 4.0000])
    """
    step, at = _checked("cumulative_trapezoid", y, x, dx, dim)
    if step is None:
        return shown_as("DivBackward1", cumsum(_areas(y, x, at), at) / 2)
    return cumsum(_times(_neighbours(y, at), step / 2), at)

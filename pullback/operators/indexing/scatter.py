"""scatter: elements written at positions along one dimension, or combined with what is there."""

from __future__ import annotations

from typing import Any

from pullback.core import errors
from pullback.core.tensor import Tensor, wrap
from pullback.operators.arrays.scatter import few_places, write_along
from pullback.operators.batching import together
from pullback.operators.declare import REQUIRED, Array, Dim, Namespace, method, primitive
from pullback.operators.indexing.gather import (
    check_along,
    cleared,
    corner,
    fill_along,
    fill_along_,
    gathered,
    lined_up,
    scatter_add,
    scatter_add_,
)
from pullback.operators.indexing.scatter_reduce import scatter_reduce, scatter_reduce_
from pullback.operators.pointwise.arithmetic import zeros_of
from pullback.operators.running.writes import number_array, writing
from pullback.operators.shape.reshaping import expand

FOUND_IN = {"torch": "scatter"}


def _write_scatter(xp: Namespace, input: Array, dim: int, index: Array, src: Array) -> None:
    if src.dtype is input.dtype and src.shape == index.shape:
        places = few_places("scatter", xp, input, dim, index)
        if places is not None:
            input.ravel()[places] = src
            return
    if not index.size:
        return
    check_along("scatter", input, dim, index, src)
    lines, flat = lined_up(input, index)
    write_along(xp, lines, dim, flat, corner(src, flat))


def _scatter_tangent(d_input: Any, d_src: Any, input: Any, dim: int, index: Any, src: Any) -> Any:
    d_input = zeros_of(input) if d_input is None else d_input
    return _scatter(d_input, dim, index, zeros_of(src) if d_src is None else d_src)


@primitive(
    batch=together,
    input=lambda g, dim, index: cleared(g, dim, index),
    src=lambda g, dim, index, src_shape: gathered(g, dim, index, src_shape),
    jvp=_scatter_tangent,
    node="ScatterBackward0",
    aten="scatter.src",
)
def _scatter(xp: Namespace, input: Array, dim: Dim, index: Array, src: Array) -> Array:
    out = xp.array(input, order="C")  # not .copy(): in a pass 0-d arrays may be NumPy scalars
    _write_scatter(xp, out, dim, index, src)
    return out


_scatter_into = writing(_scatter, _write_scatter, "scatter_")


@method
def scatter(
    input: Any,
    dim: Any = REQUIRED,
    index: Any = REQUIRED,
    given: Any = REQUIRED,
    *,
    src: Any = None,
    value: Any = None,
    reduce: str | None = None,
    out: Any = None,
    axis: int | None = None,
) -> Any:
    """A copy of `input` with values of `src`, a tensor or a number, written at `index` along `dim`.

    Places that come twice get one of the values. `reduce`, "add" or "multiply", combines with what
    is there instead; unlike in torch that has a gradient.

    >>> import pullback as torch
    >>> torch.zeros(3).scatter(0, torch.tensor([0, 2]), 5.0)
    tensor([5., 0., 5.])
    """
    plainly = given is not REQUIRED and src is None and value is None
    source = given if plainly else _source(given, src, value)
    at = dim if axis is None else axis
    if reduce is not None:
        function, source, extra = _reducing(input, index, source, reduce, in_place=False)
        return function(input, at, index, source, *extra, out=out)
    scattering = _scatter if isinstance(source, Tensor) else fill_along
    return scattering(input, at, index, source, out=out)


@method
def scatter_(
    input: Any,
    dim: Any = REQUIRED,
    index: Any = REQUIRED,
    given: Any = REQUIRED,
    *,
    src: Any = None,
    value: Any = None,
    reduce: str | None = None,
    axis: int | None = None,
) -> Any:
    """In-place form of `scatter`: changes the tensor itself."""
    plainly = given is not REQUIRED and src is None and value is None
    source = given if plainly else _source(given, src, value)
    at = dim if axis is None else axis
    if reduce is not None:
        function, source, extra = _reducing(input, index, source, reduce, in_place=True)
        return function(input, at, index, source, *extra)
    scattering = _scatter_into if isinstance(source, Tensor) else fill_along_
    return scattering(input, at, index, source)


def _source(given: Any, src: Any, value: Any) -> Any:
    """What is scattered, not by position alone: a tensor or a number, each of them by its name."""
    if given is not REQUIRED or (src is None) == (value is None):
        raise TypeError("scatter(): give either `src` or `value`.")
    if value is None:
        if not isinstance(src, Tensor):
            raise errors.not_a_tensor("scatter", "src", src)
        return src
    if isinstance(value, Tensor):
        if value._array.ndim:
            raise TypeError("scatter(): `value` must be a number; give a tensor as `src`.")
        return value._array.item()
    return value


def _reducing(
    input: Any, index: Any, src: Any, reduce: str, *, in_place: bool
) -> tuple[Any, Any, tuple[Any, ...]]:
    """The operator behind `reduce=`, its source as a tensor, and its further arguments."""
    if reduce not in ("add", "multiply"):
        raise RuntimeError(f"scatter: reduce must be 'add' or 'multiply', got {reduce!r}.")
    if not isinstance(src, Tensor):
        number = wrap(number_array("scatter", src, input._array.dtype))
        src = expand(number, tuple(index.shape))
    if reduce == "add":
        return scatter_add_ if in_place else scatter_add, src, ()
    return scatter_reduce_ if in_place else scatter_reduce, src, ("prod",)

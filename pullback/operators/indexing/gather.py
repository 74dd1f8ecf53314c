"""gather and its adjoint scatter_add: single elements by their position along one dimension.

The index has the input's number of dimensions. Each of its elements is a position along `dim`; all
other positions are the element's own. It may be smaller than the tensors it is used with; then it
covers their leading corner.
"""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from pullback.core import errors
from pullback.core.arrays import F32, F64
from pullback.core.dtype import from_numpy_dtype
from pullback.core.promotion import is_half
from pullback.core.tensor import Tensor
from pullback.operators.arrays.scatter import (
    FEW_ELEMENTS,
    INT64,
    check_bounds,
    check_index_dtype,
    few_places,
    read_along,
    reduce_along,
    write_along,
)
from pullback.operators.batching import shifted, together
from pullback.operators.conditions import below, floating, host, says
from pullback.operators.declare import (
    Array,
    Dim,
    Namespace,
    Shape,
    kernel,
    linear,
    method,
    primitive,
)
from pullback.operators.indexing import batch as batch_indexing
from pullback.operators.indexing.picking import clear, pick
from pullback.operators.options import as_dim
from pullback.operators.pointwise.arithmetic import zeros_of
from pullback.operators.running.writes import number_array, writing
from pullback.operators.shape.reshaping import expand, reshape

FOUND_IN = {"torch": "take_along_dim"}


# Checks and corners ------------------------------------------------------------------------------


def check_along(op: str, input: Array, dim: int, index: Array, src: Array | None = None) -> None:
    """Refuse an index that does not fit the tensors it is used with."""
    if index.dtype is not INT64:
        check_index_dtype(op, index)
    shape = index.shape
    if shape != input.shape:
        _check_covers(op, shape, "input", input.shape, dim)
    if src is not None:
        if shape != src.shape:
            _check_covers(op, shape, "src", src.shape, -1)
        if src.dtype != input.dtype:
            raise RuntimeError(
                f"{op}: input is {from_numpy_dtype(input.dtype)}, src is "
                f"{from_numpy_dtype(src.dtype)}; they must be equal. Convert one of them with "
                ".to()."
            )
    check_bounds(op, index, input.shape[dim] if input.ndim else 1, dim)


def _check_covers(op: str, index: Any, name: str, shape: Any, free: int) -> None:
    """The index must have as many dims as the tensor, and be no larger but along `free`."""
    if len(shape or (1,)) != len(index or (1,)):
        raise RuntimeError(
            f"{op}: the index has shape {index}, {name} has shape {shape}; they must have the same "
            "number of dimensions."
        )
    for dim, (n, size) in enumerate(zip(index, shape or (1,), strict=False)):
        if n > size and dim != free:
            apart = "" if free < 0 else f" apart from dimension {free}"
            raise RuntimeError(
                f"{op}: the index of shape {index} must be no larger than {name} of shape {shape}"
                f"{apart}."
            )


def lined_up(input: Array, index: Array) -> tuple[Array, Array]:
    """A tensor of no dimensions is a line of one element."""
    return (input if input.ndim else input.reshape(1)), (index if index.ndim else index.reshape(1))


def corner(src: Any, index: Any) -> Any:
    """The part of `src` that the index covers."""
    if tuple(src.shape) == tuple(index.shape):
        return src
    return src.reshape(tuple(src.shape) or (1,))[tuple(map(slice, index.shape))]


@linear(input=lambda g, input_shape: g[tuple(map(slice, input_shape))], has_out=False)
def _enlarge(xp: Namespace, input: Array, shape: Shape) -> Array:
    whole = xp.zeros(shape, input.dtype)
    whole[tuple(map(slice, input.shape))] = input
    return whole


def enlarged(part: Any, shape: Any) -> Any:
    """Zeros of `shape` with `part` in the leading corner: the adjoint of `corner`."""
    if tuple(part.shape) == tuple(shape):
        return part
    if len(shape) != len(part.shape):  # an empty index, or a line for no dimensions
        part = reshape(part, tuple(shape) if 0 not in part.shape else (0,) * len(shape))
    return _enlarge(part, tuple(shape))


# On tensors the rules below leave torch's nodes; on arrays an index need not be checked twice.


def gathered(g: Any, dim: int, index: Any, shape: Any) -> Any:
    """What comes back to a `src` of `shape` through an index."""
    if isinstance(g, Tensor) or not (g.ndim and index.ndim):
        return enlarged(gather(g, dim, index), shape)
    return enlarged(pick(g, index, dim), shape)


def cleared(g: Any, dim: int, index: Any) -> Any:
    """What comes back to a tensor that was written to where an index points."""
    if isinstance(g, Tensor) or not (g.ndim and index.ndim):
        return fill_along(g, dim, index, 0)
    return clear(g, index, dim)


def _sparse_gradient(g: Any, input_shape: Any, dim: int, index: Any) -> Any:
    from pullback.operators.sparse.gradients import element_gradient  # which few need

    return element_gradient(g, input_shape, dim, index)


# Gathering ---------------------------------------------------------------------------------------


@linear(
    exact_out=True,
    batch=batch_indexing.gathered,
    input=lambda g, input_shape, dim, index, sparse_grad: (
        _sparse_gradient(g, input_shape, dim, index)
        if sparse_grad and input_shape
        else _gather_adjoint(g, input_shape, dim, index)
        if input_shape
        else g.sum()
    ),
    meta="lengths kept",
)
def gather(
    xp: Namespace, input: Array, dim: Dim, index: Array, *, sparse_grad: bool = False
) -> Array:
    """Pick the elements of `input` at the positions `index` along `dim`.

    With `sparse_grad=True` the gradient is a sparse tensor of the elements that were read.

    >>> import pullback as torch
    >>> x = torch.tensor([[1, 2], [3, 4]])
    >>> torch.gather(x, 1, torch.tensor([[1], [0]]))
    tensor([[2],
            [3]])
    """
    places = few_places("gather", xp, input, dim, index)
    if places is not None:
        return input.ravel()[places]
    if not index.size:
        return xp.empty(index.shape, input.dtype)
    check_along("gather", input, dim, index)
    if input.ndim and index.ndim:
        return read_along(xp, input, dim, index)
    lines, flat = lined_up(input, index)
    return read_along(xp, lines, dim, flat).reshape(index.shape)


@linear(
    batch=shifted(("dim",), ("shape",)),
    input=lambda g, dim, index: gather(g, dim, index),
    node="ScatterAddBackward0",
    has_out=False,
)
def _gather_adjoint(xp: Namespace, input: Array, shape: Shape, dim: int, index: Array) -> Array:
    whole = xp.zeros(shape, input.dtype)
    if index.size:
        _add_along(xp, whole, dim, index, input)
    return whole


def _add_along(xp: Namespace, input: Array, dim: int, index: Array, src: Array) -> None:
    if is_half(input.dtype):  # summed in single, rounded once
        wide = input.astype(xp.float32)
        _add_along(xp, wide, dim, index, src.astype(xp.float32))
        input[...] = wide.astype(input.dtype)
        return
    if not (input.ndim and index.ndim):
        input, index = lined_up(input, index)
        src = src.reshape(src.shape or (1,))
    reduce_along(xp, xp.add, input, dim, index, src)


@method
def take_along_dim(
    input: Any, indices: Any, dim: int | None = None, *, out: Any = None, axis: int | None = None
) -> Any:
    """As `gather`, with `input` and `indices` broadcast; without a dim from all elements.

    >>> import pullback as torch
    >>> x = torch.tensor([[3, 1], [2, 4]])
    >>> torch.take_along_dim(x, x.argsort(1), 1)
    tensor([[1, 3],
            [2, 4]])
    """
    if not isinstance(indices, Tensor):
        raise errors.not_a_tensor("take_along_dim", "indices", indices)
    if indices._array.dtype.char not in "lq":
        raise RuntimeError(f"take_along_dim: the indices must be int64, got {indices.dtype}.")
    if axis is not None:
        if dim is not None:
            raise TypeError("take_along_dim() got 'dim' twice, under two names.")
        dim = axis
    if dim is None:  # as torch has it: places of all elements do not start again at the front
        flat, places = reshape(input, (-1,)), reshape(indices, (-1,))
        return gather(flat, 0, places) if out is None else gather(flat, 0, places, out=out)
    if input._array.ndim != indices._array.ndim:
        raise RuntimeError(
            f"take_along_dim: input has shape {tuple(input.shape)}, indices "
            f"{tuple(indices.shape)}; they must have the same number of dimensions."
        )
    shape, places = input._array.shape, indices._array.shape
    if not shape:
        raise errors.bad_dim("take_along_dim", dim, 0)
    dim = as_dim(dim, len(shape), "take_along_dim")
    if shape != places and (shape[:dim], shape[dim + 1 :]) != (places[:dim], places[dim + 1 :]):
        here, there = list(shape), list(places)
        here[dim] = there[dim] = 1
        common = _broadcast("take_along_dim", here, there)
        input = expand(input, (*common[:dim], shape[dim], *common[dim + 1 :]))
        indices = expand(indices, (*common[:dim], places[dim], *common[dim + 1 :]))
    indices = _wrapped(indices, shape[dim])
    return gather(input, dim, indices) if out is None else gather(input, dim, indices, out=out)


def _wrapped(indices: Any, size: int) -> Any:
    """Indices beyond the end start again at the front, and negative ones count from the end."""
    array = indices._array
    # Under vmap, and on device "meta", there are no values to look at.
    if type(indices) is not Tensor or type(array) is not ndarray:
        return indices % max(size, 1)
    if not array.size or 0 <= array.item(array.argmin()) <= array.item(array.argmax()) < size:
        return indices
    return indices % max(size, 1)


def _broadcast(op: str, a: list[int], b: list[int]) -> list[int]:
    if any(n != m and 1 not in (n, m) for n, m in zip(a, b, strict=True)):
        raise errors.shapes_do_not_broadcast(op, tuple(a), tuple(b))
    return [m if n == 1 else n for n, m in zip(a, b, strict=True)]


# Adding -------------------------------------------------------------------------------------------


_alike = floating & says("src.dtype is input_dtype", "src_shape == index_shape")


def _write_scatter_add(xp: Namespace, input: Array, dim: int, index: Array, src: Array) -> None:
    dtype = input.dtype
    if (dtype is F32 or dtype is F64) and src.dtype is dtype and src.shape == index.shape:
        places = few_places("scatter_add", xp, input, dim, index)
        if places is not None:
            xp.add.at(input.ravel(), places.ravel(), src.ravel())
            return
    if not index.size:
        return
    check_along("scatter_add", input, dim, index, src)
    _add_along(xp, input, dim, index, src)


def _scatter_add_tangent(
    d_input: Any, d_src: Any, input: Any, dim: int, index: Any, src: Any
) -> Any:
    d_input = zeros_of(input) if d_input is None else d_input
    return d_input if d_src is None else scatter_add(d_input, dim, index, d_src)


@primitive(
    batch=together,
    input=lambda g: g,
    src=lambda g, dim, index, src_shape: gathered(g, dim, index, src_shape),
    jvp=_scatter_add_tangent,
    meta="lengths kept",
)
def scatter_add(xp: Namespace, input: Array, dim: Dim, index: Array, src: Array) -> Array:
    """`input` with the elements of `src` added where `index` says along `dim`.

    >>> import pullback as torch
    >>> torch.zeros(3).scatter_add(0, torch.tensor([0, 0, 2]), torch.tensor([1.0, 2.0, 3.0]))
    tensor([3., 0., 3.])
    """
    out = xp.array(input, order="C")  # not .copy(): in a pass 0-d arrays may be NumPy scalars
    if index.size:
        check_along("scatter_add", input, dim, index, src)
        _add_along(xp, out, dim, index, src)
    return out


@kernel(scatter_add, when=host & _alike & below(FEW_ELEMENTS, "index.size"), declines=True)
def _few_added(xp: Namespace, input: Array, dim: int, index: Array, src: Array) -> Array | None:
    out = xp.array(input, order="C")
    places = few_places("scatter_add", xp, out, dim, index)
    if places is None:
        return None
    xp.add.at(out.ravel(), places.ravel(), src.ravel())
    return out


scatter_add_ = writing(scatter_add, _write_scatter_add)


# A number -----------------------------------------------------------------------------------------


def _write_fill(xp: Namespace, input: Array, dim: int, index: Array, value: Any) -> None:
    if not index.size:
        return
    places = few_places("scatter", xp, input, dim, index)
    if places is not None:
        input.ravel()[places] = number_array("scatter", value, input.dtype)
        return
    check_along("scatter", input, dim, index)
    number = number_array("scatter", value, input.dtype)
    lines, flat = lined_up(input, index)
    write_along(xp, lines, dim, flat, number)


@primitive(
    batch=together,
    input=lambda g, dim, index: cleared(g, dim, index),
    jvp=lambda d_input, dim, index: fill_along(d_input, dim, index, 0),
    node="ScatterBackward1",
    method=False,
    aten="scatter.value",
)
def fill_along(xp: Namespace, input: Array, dim: Dim, index: Array, value: Any) -> Array:
    """`input` with a number where the index points: scatter with a number."""
    out = xp.array(input, order="C")  # not .copy(): in a pass 0-d arrays may be NumPy scalars
    _write_fill(xp, out, dim, index, value)
    return out


fill_along_ = writing(fill_along, _write_fill, "scatter_")

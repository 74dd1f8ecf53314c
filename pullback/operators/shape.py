"""Shapes: the public forms of the views, and what rearranges elements into new memory."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pullback.core.dtype import dtype
from pullback.core.origin import stacklevel
from pullback.core.promotion import common_dtype
from pullback.core.tensor import Tensor
from pullback.operators import batch_shapes
from pullback.operators.arithmetic import conj
from pullback.operators.batching import per_dim
from pullback.operators.convert import astype
from pullback.operators.declare import (
    METHODS,
    Array,
    Arrays,
    Dim,
    Dims,
    Namespace,
    Shape,
    elementwise,
    linear,
    method,
    primitive,
    view,
)
from pullback.operators.options import as_dim, as_dims, as_shape
from pullback.operators.views import (
    _expand,
    _permute,
    _reshape_alias,
    _squeeze,
    _squeeze_all,
    _unsafe_view,
    _view,
    alias,
    as_strided,
    completed_shape,
    diagonal,
    select,
    slice_along,
    t,
    transpose,
    unfold,
    unsqueeze,
)

__all__ = [
    "alias",
    "as_strided",
    "atleast_1d",
    "broadcast_to",
    "cat",
    "chunk",
    "clone",
    "contiguous",
    "diagonal",
    "expand",
    "expand_as",
    "flatten",
    "flip",
    "movedim",
    "narrow",
    "permute",
    "ravel",
    "repeat",
    "reshape",
    "reshape_as",
    "roll",
    "select",
    "slice_along",
    "split",
    "split_with_sizes",
    "squeeze",
    "stack",
    "swapaxes",
    "swapdims",
    "t",
    "tensor_split",
    "tile",
    "transpose",
    "unbind",
    "unflatten",
    "unfold",
    "unsqueeze",
    "view_as",
]

METHODS["as_strided"] = as_strided


def _sizes(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """`x.view(2, 3)` and `x.view((2, 3))` mean the same."""
    if len(sizes) == 1 and type(sizes[0]) is not int and isinstance(sizes[0], Iterable):
        sizes = tuple(sizes[0])
    return sizes


def _spread(name: str, function: Callable[..., Any]) -> None:
    """A method that takes its sizes one by one or as a sequence."""

    def called(self: Any, *sizes: Any) -> Any:
        return function(self, _sizes(sizes))

    called.__name__ = called.__qualname__ = name
    called.__doc__ = function.__doc__
    METHODS[name] = called


# Another shape -----------------------------------------------------------------------------------


def view_method(self: Any, *size: Any, **named: Any) -> Any:
    """The same memory in another shape, or its bytes read as another dtype."""
    if named:
        size = (named.get("size", named.get("dtype")),)
    if len(size) == 1 and isinstance(size[0], dtype):
        return self if size[0] is self.dtype else view_as_dtype(self, size[0])
    return _view(self, _sizes(size))


METHODS["view"] = view_method


@view(method=False, strided=False)
def view_as_dtype(xp: Namespace, input: Array, dtype: Any) -> Array:
    """The memory of `input` read as another dtype; not differentiable, as in torch."""
    try:
        return input.view(dtype.numpy)
    except ValueError as error:
        raise RuntimeError(
            f"view: memory of shape {input.shape} and {input.itemsize} bytes per element cannot "
            "be read as "
            f"{dtype}: {error}"
        ) from None


def reshape(input: Any, shape: Any) -> Any:
    """The same elements in another shape: a view where strides allow it, else a copy."""
    if not isinstance(input, Tensor):
        return input.reshape(shape)
    array = input._array
    if array.flags.c_contiguous:
        return _view(input, shape)
    shape = completed_shape("reshape", array.size, as_shape(shape, 0, "reshape"))
    in_place = _reshapes_in_place(array, shape)
    return _reshape_alias(input, shape) if in_place else _unsafe_view(input, shape)


def _reshapes_in_place(array: Array, shape: tuple[int, ...]) -> bool:
    """Whether strides alone can express the new shape: each run of merged dims must be dense."""
    dims = [(n, s) for n, s in zip(array.shape, array.strides, strict=True) if n != 1]
    if array.size == 0:
        return True
    merged: list[tuple[int, int]] = []  # runs that are dense in themselves: elements, last stride
    for n, s in dims:
        if merged and merged[-1][1] == n * s:
            merged[-1] = (merged[-1][0] * n, s)
        else:
            merged.append((n, s))
    wanted = [n for n in shape if n != 1]
    for run, _ in merged:
        filled = 1
        while filled < run and wanted:
            filled *= wanted.pop(0)
        if filled != run:
            return False
    return not wanted


_spread("reshape", reshape)


@method
def view_as(input: Any, other: Any) -> Any:
    """`input` viewed in the shape of `other`."""
    return _view(input, tuple(other.shape))


@method
def reshape_as(input: Any, other: Any) -> Any:
    """`input` in the shape of `other`."""
    return reshape(input, tuple(other.shape))


@method
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Merge the dimensions from `start_dim` to `end_dim` into one."""
    shape = tuple(input.shape)
    start, end = as_dim(start_dim, len(shape), "flatten"), as_dim(end_dim, len(shape), "flatten")
    if start > end:
        raise RuntimeError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim}.")
    if not shape:
        return reshape(input, (1,))
    if start == end:
        return input
    return reshape(input, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


@method
def ravel(input: Any) -> Any:
    """All elements in one dimension."""
    return reshape(contiguous(input), (-1,))


@method
def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """Split one dimension into several."""
    shape = tuple(input.shape)
    at = as_dim(dim, len(shape), "unflatten")
    sizes = as_shape(sizes, 0, "unflatten")
    if not sizes:
        raise RuntimeError("unflatten: sizes is empty; name at least one.")
    try:
        sizes = completed_shape("unflatten", shape[at], sizes)
    except RuntimeError as error:
        raise RuntimeError(f"{error} (dimension {at} of shape {shape})") from None
    return _view(input, (*shape[:at], *sizes, *shape[at + 1 :]))


def expand(input: Any, size: Any) -> Any:
    """Repeat dimensions of size 1 without copying; -1 keeps a size."""
    return _expand(input, as_shape(size, 0, "expand"))


def _expand_method(self: Any, *sizes: Any, implicit: bool = False) -> Any:
    """Repeat dimensions of size 1 without copying; -1 keeps a size."""
    return _expand(self, _sizes(sizes))


METHODS["expand"] = _expand_method


@method
def expand_as(input: Any, other: Any) -> Any:
    """`input` expanded to the shape of `other`."""
    return _expand(input, tuple(other.shape))


@method
def broadcast_to(input: Any, size: Any) -> Any:
    """As `expand`, under NumPy's name."""
    return _expand(input, as_shape(size, 0, "broadcast_to"))


# Order of dimensions -----------------------------------------------------------------------------


def permute(input: Any, dims: Any) -> Any:
    """The dimensions in another order."""
    return _permute(input, dims)


_spread("permute", permute)
swapaxes = swapdims = transpose


def reverse_dims(input: Any) -> Any:
    """`x.T`: the dimensions in reverse order."""
    if input.ndim not in (0, 2):
        warnings.warn(
            f"x.T on a tensor of {input.ndim} dimensions reverses them all; say x.mT for a batch "
            "of matrices, "
            "or x.permute(...) for this.",
            UserWarning,
            stacklevel=stacklevel(),
        )
    return _permute(input, tuple(reversed(range(input.ndim))))


def matrix_transpose(input: Any) -> Any:
    """`x.mT`: the last two dimensions exchanged."""
    if input.ndim < 2:
        raise RuntimeError(f"mT needs at least 2 dimensions, got shape {tuple(input.shape)}.")
    return transpose(input, -2, -1)


def conj_transpose(input: Any) -> Any:
    """`x.mH`: the last two dimensions exchanged, and conjugated."""
    if input.ndim < 2 and input.ndim != 0:
        raise RuntimeError(f"mH needs at least 2 dimensions, got shape {tuple(input.shape)}.")
    return conj(transpose(input, -2, -1) if input.ndim else input)


@method
def adjoint(input: Any) -> Any:
    """The conjugate transpose of the last two dimensions."""
    return conj_transpose(input)


@method
def movedim(input: Any, source: Any, destination: Any) -> Any:
    """Move dimensions to other places; the rest keep their order."""
    ndim = input.ndim
    taken, placed = as_dims(source, ndim, "movedim"), as_dims(destination, ndim, "movedim")
    assert taken is not None
    assert placed is not None
    if len(taken) != len(placed):
        raise RuntimeError(
            f"movedim: {len(taken)} dims to move ({source}) but {len(placed)} places "
            f"({destination})."
        )
    if ndim == 0:
        return alias(input)
    order: list[int | None] = [None] * ndim
    for dim, place in zip(taken, placed, strict=True):
        order[place] = dim
    rest = iter(dim for dim in range(ndim) if dim not in taken)
    return _permute(input, tuple(next(rest) if dim is None else dim for dim in order))


moveaxis = movedim


@method
def squeeze(input: Any, dim: Any = None) -> Any:
    """Drop dimensions of size 1: all, or the named ones."""
    return _squeeze_all(input) if dim is None else _squeeze(input, dim)


# Parts -------------------------------------------------------------------------------------------


@method
def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """`length` elements of dimension `dim`, from `start` on."""
    at = as_dim(dim, input.ndim, "narrow")
    if input.ndim == 0:
        raise RuntimeError("narrow: a 0-d tensor has no dimension to narrow.")
    size = input.shape[at]
    start = int(start)
    if not -size <= start <= size:
        raise IndexError(f"narrow: start {start} is outside of dimension {at} of size {size}.")
    first = start + size if start < 0 else start
    if length < 0 or first + length > size:
        raise RuntimeError(
            f"narrow: {length} elements from {first} on do not fit dimension {at} of size {size}."
        )
    return slice_along(input, at, first, first + length, 1)


@view(
    input=lambda g, sizes, dim: cat(g, dim),
    outputs="*",
    node="SplitWithSizesBackward0",
    method=False,
)
def _split_with_sizes(xp: Namespace, input: Array, sizes: Any, dim: Dim) -> Any:
    parts, start = [], 0
    for size in sizes:
        parts.append(input[(slice(None),) * dim + (slice(start, start + size),)])
        start += size
    return parts


@view(input=lambda g, sizes, dim: cat(g, dim), outputs="*", node="SplitBackward0", method=False)
def _split(xp: Namespace, input: Array, sizes: Any, dim: Dim) -> Any:
    return _split_with_sizes.op.forward(xp, input, sizes, dim)  # type: ignore[attr-defined]


@method
def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> Any:
    """Views of the given sizes along `dim`."""
    at = as_dim(dim, input.ndim, "split")
    sizes = as_shape(split_sizes, 0, "split")
    total = input.shape[at] if input.ndim else 1
    if sum(sizes) != total or any(n < 0 for n in sizes):
        raise RuntimeError(
            f"split: sizes {list(sizes)} add up to {sum(sizes)}, but dimension {at} has size "
            f"{total}."
        )
    return _split_with_sizes(input, sizes, at)


@method
def split(
    input: Any, split_size: Any = None, dim: int = 0, *, split_size_or_sections: Any = None
) -> Any:
    """Views along `dim`: of `split_size` each (the last may be smaller), or of the listed sizes."""
    size = split_size if split_size is not None else split_size_or_sections
    if not isinstance(size, int):
        return split_with_sizes(input, size, dim)
    if input.ndim == 0:
        raise RuntimeError("split: a 0-d tensor has no dimension to split.")
    at = as_dim(dim, input.ndim, "split")
    length = input.shape[at]
    if size < 0 or (size == 0 and length):
        raise RuntimeError(f"split: split_size must be positive, got {size}.")
    count = max(math.ceil(length / size), 1) if size else 1
    sizes = [size] * (count - 1) + [length - size * (count - 1)]
    return _split(input, tuple(sizes), at)


@method
def chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    """At most `chunks` views along `dim`, of equal size but for the last."""
    if input.ndim == 0:
        raise RuntimeError("chunk: a 0-d tensor has no dimension to split.")
    if chunks <= 0:
        raise RuntimeError(f"chunk: chunks must be positive, got {chunks}.")
    at = as_dim(dim, input.ndim, "chunk")
    length = input.shape[at]
    size = math.ceil(length / chunks)
    if size == 0:
        return _split_with_sizes(input, (0,) * chunks, at)
    return split(input, size, at)


@method
def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> Any:
    """Views along `dim`: so many of nearly equal size, or cut at the given places."""
    at = as_dim(dim, input.ndim, "tensor_split")
    if input.ndim == 0:
        raise RuntimeError("tensor_split: a 0-d tensor has no dimension to split.")
    length = input.shape[at]
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        if indices_or_sections <= 0:
            raise RuntimeError(
                f"tensor_split: sections must be positive, got {indices_or_sections}."
            )
        small, larger = divmod(length, indices_or_sections)
        sizes = [small + (i < larger) for i in range(indices_or_sections)]
        cuts = [sum(sizes[:i]) for i in range(1, len(sizes))]
    else:
        cuts = list(indices_or_sections)
    edges = [0, *cuts, length]
    return tuple(
        slice_along(input, at, start, stop, 1) for start, stop in itertools.pairwise(edges)
    )


@view(input=lambda g, dim: stack(g, dim), outputs="*")
def unbind(xp: Namespace, input: Array, dim: Dim = 0) -> Any:
    """The slices along `dim`, as a tuple of views."""
    if input.ndim == 0:
        raise IndexError("unbind: a 0-d tensor has no dimension to take apart.")
    before = (slice(None),) * dim
    return [input[(*before, i, ...)] for i in range(input.shape[dim])]


# New memory --------------------------------------------------------------------------------------


@elementwise(input=lambda g: g, inplace=False, promote=None)
def clone(xp: Namespace, input: Array, *, memory_format: Any = None) -> Array:
    """A copy with memory of its own, in the same order of dimensions."""
    return input.copy(order="K") if memory_format is None else input.copy(order="C")


@method
def contiguous(input: Any, memory_format: Any = None) -> Any:
    """The tensor itself if its memory is row-major, else a copy that is."""
    if input._array.flags.c_contiguous:
        return input
    return clone(input, memory_format="contiguous")


def _with_zeros(tangents: Any, tensors: Any) -> list[Any]:
    """Tangents of a sequence, zeros for those that have none."""
    return [
        tensor.new_zeros(tensor.shape) if tangent is None else tangent
        for tangent, tensor in zip(tangents, tensors, strict=True)
    ]


def _cat_adjoint(g: Any, tensors_shape: Any, dim: int) -> Any:
    parts: list[Any] = []
    start = 0
    for shape in tensors_shape:
        if tuple(shape) == (0,) and g.ndim != 1:  # the empty 1-d tensor that every cat accepts
            parts.append(slice_along(reshape(g, (-1,)), 0, 0, 0, 1))
            continue
        parts.append(slice_along(g, dim, start, start + shape[dim], 1))
        start += shape[dim]
    return parts


@primitive(
    batch=batch_shapes.joined,
    tensors=lambda g, tensors_shape, dim: _cat_adjoint(g, tensors_shape, dim),
    jvp=lambda d_tensors, tensors, dim: cat(_with_zeros(d_tensors, tensors), dim),
    name="cat",
    node="CatBackward0",
    method=False,
)
def _cat(xp: Namespace, tensors: Arrays, dim: int) -> Array:
    shaped = [one for one in tensors if one.shape != (0,)]
    return xp.concatenate(shaped or tensors, dim)


def cat(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Join tensors along an existing dimension."""
    tensors = tuple(tensors)
    if not tensors:
        raise ValueError("cat: expected a non-empty list of tensors.")
    shaped = [one for one in tensors if tuple(one.shape) != (0,)]
    first = shaped[0] if shaped else tensors[0]
    if first.ndim == 0:
        raise RuntimeError("cat: 0-d tensors cannot be joined; use stack.")
    at = as_dim(dim, first.ndim, "cat")
    _check_joined("cat", shaped, at)
    joined = _common(tensors)
    return _cat(joined, at, out=out) if out is not None else _cat(joined, at)


def _check_joined(op: str, tensors: Sequence[Any], dim: int) -> None:
    for number, one in enumerate(tensors):
        a, b = tuple(tensors[0].shape), tuple(one.shape)
        if len(a) != len(b) or any(a[d] != b[d] for d in range(len(a)) if d != dim):
            raise RuntimeError(
                f"{op}: sizes of tensors must match except in dimension {dim}; tensor 0 has shape "
                f"{a}, tensor "
                f"{number} has shape {b}."
            )


def _common(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """All of one dtype, as torch's cat makes them."""
    dtypes = {one.dtype for one in tensors}
    if len(dtypes) == 1:
        return tuple(tensors)
    wanted = common_dtype([getattr(one, "_array", one) for one in tensors])
    return tuple(astype(one, wanted) for one in tensors)


@primitive(
    batch=batch_shapes.joined,
    tensors=lambda g, dim: unbind(g, dim),
    jvp=lambda d_tensors, tensors, dim: stack(_with_zeros(d_tensors, tensors), dim),
    name="stack",
    node="StackBackward0",
    method=False,
)
def _stack(xp: Namespace, tensors: Arrays, dim: int) -> Array:
    where = (slice(None),) * dim + (None,)
    return xp.concatenate([one[where] for one in tensors], dim)


def stack(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Join tensors of one shape along a new dimension."""
    tensors = tuple(tensors)
    if not tensors:
        raise RuntimeError("stack: expected a non-empty list of tensors.")
    at = as_dim(dim, tensors[0].ndim + 1, "stack")
    for number, one in enumerate(tensors):
        if tuple(one.shape) != tuple(tensors[0].shape):
            raise RuntimeError(
                "stack: all tensors must have equal shapes; tensor 0 has "
                f"{tuple(tensors[0].shape)}, tensor "
                f"{number} has {tuple(one.shape)}."
            )
    return (
        _stack(_common(tensors), at, out=out) if out is not None else _stack(_common(tensors), at)
    )


@linear(
    batch=per_dim("dims"), input=lambda g, dims: _flip(g, dims), node="FlipBackward0", has_out=False
)
def _flip(xp: Namespace, input: Array, dims: Dims) -> Array:
    turned = tuple(
        slice(None, None, -1) if dim in dims else slice(None) for dim in range(input.ndim)
    )
    return input[turned].copy()


def flip(input: Any, dims: Any) -> Any:
    """Reverse the order of the elements along `dims`."""
    return _flip(input, dims)


_spread("flip", flip)


def _opposite(shifts: Any) -> Any:
    return -shifts if isinstance(shifts, int) else tuple(-shift for shift in shifts)


@linear(
    batch=batch_shapes.rolled,
    input=lambda g, shifts, dims: roll(g, _opposite(shifts), dims),
    has_out=False,
)
def roll(xp: Namespace, input: Array, shifts: Any, dims: Any = None) -> Array:
    """Shift elements along `dims`, around the end; without dims over the flattened tensor."""
    if dims is None or dims == ():
        return xp.roll(input, shifts)
    counts = [len(one) if isinstance(one, tuple | list) else 1 for one in (shifts, dims)]
    if counts[0] != counts[1]:
        raise RuntimeError(f"roll: {counts[0]} shifts for {counts[1]} dims; give one shift each.")
    return xp.roll(input, shifts, dims)


def repeat(input: Any, sizes: Any) -> Any:
    """Tile the tensor: `sizes` times along each dimension, in new memory."""
    sizes = as_shape(sizes, 0, "repeat")
    extra = len(sizes) - input.ndim
    if extra < 0:
        raise RuntimeError(
            f"repeat: {len(sizes)} counts {sizes} for a tensor of {input.ndim} dimensions; give "
            "at least one each."
        )
    return _repeat(input, sizes)


def _repeat_adjoint(g: Any, input_shape: Any, sizes: Any) -> Any:
    """Sum over the copies: fold each dimension into (copies, size) and sum the copies away."""
    extra = len(sizes) - len(input_shape)
    shape = (1,) * extra + tuple(input_shape)
    folded = [part for n, size in zip(sizes, shape, strict=True) for part in (n, size)]
    dims = tuple(range(0, 2 * len(sizes), 2))
    return g.reshape(tuple(folded)).sum(dims).reshape(tuple(input_shape))


@linear(
    batch=batch_shapes.tiled,
    input=lambda g, input_shape, sizes: _repeat_adjoint(g, input_shape, sizes),
    node="RepeatBackward0",
    has_out=False,
)
def _repeat(xp: Namespace, input: Array, sizes: Shape) -> Array:
    return xp.tile(input, sizes)


_spread("repeat", repeat)


def tile(input: Any, dims: Any) -> Any:
    """As `repeat`; missing leading counts are 1."""
    counts = as_shape(dims, 0, "tile")
    return repeat(input, (1,) * (input.ndim - len(counts)) + counts)


_spread("tile", tile)


def atleast_1d(*tensors: Any) -> Any:
    """0-d tensors become 1-d; others stay."""
    if len(tensors) == 1 and isinstance(tensors[0], tuple | list):
        tensors = tuple(tensors[0])
    made = tuple(reshape(one, (1,)) if one.ndim == 0 else one for one in tensors)
    return made[0] if len(made) == 1 else made

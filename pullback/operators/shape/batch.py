"""Batching rules of views and of what rearranges elements; see batching.py for what a rule is."""

from __future__ import annotations

import math
from typing import Any

from pullback.operators.arrays.strides import extent, geometry_of
from pullback.operators.batching import filled, front, moving, ndim_of, padded
from pullback.operators.declare import Op
from pullback.operators.options import as_dim

Split = dict[str, Any]
Options = dict[str, Any]


def _only(split: Split) -> Any:
    ((value, bdim),) = split.values()
    return front(value, bdim)


def permuted(op: Op, size: int, split: Split, options: Options) -> Any:
    """The examples stay in front."""
    value = _only(split)
    dims = [as_dim(dim, value.ndim - 1, op.name) + 1 for dim in options["dims"]]
    return op.function(value, (0, *dims))


def transposed(op: Op, size: int, split: Split, options: Options) -> Any:
    """`t` of every example."""
    value = _only(split)
    if value.ndim > 3:
        raise RuntimeError(
            f"t: expects a tensor with at most 2 dimensions, got {value.ndim - 1}; use mT or "
            "transpose."
        )
    return value.transpose(1, 2) if value.ndim == 3 else value


@moving(dim0="dim", dim1="dim")
def swapped(op: Op, size: int, split: Split, options: Options) -> Any:
    """`transpose`, which a 0-d tensor has too."""
    value = _only(split)
    ndim = value.ndim - 1
    dims = [as_dim(options[name], ndim, op.name) for name in ("dim0", "dim1")]
    return op.function(value, dims[0] + 1, dims[1] + 1) if ndim else value


@moving(dim="new dim")
def unsqueezed(op: Op, size: int, split: Split, options: Options) -> Any:
    """Counted among the dimensions of one example of the result."""
    value = _only(split)
    return op.function(value, as_dim(options["dim"], value.ndim, op.name) + 1)


def squeezed(op: Op, size: int, split: Split, options: Options) -> Any:
    """Every dimension of size 1 but that of the examples."""
    value = _only(split)
    return value.squeeze(tuple(dim for dim in range(1, value.ndim) if value.shape[dim] == 1))


@moving(dim="dim")
def squeezed_at(op: Op, size: int, split: Split, options: Options) -> Any:
    """One dimension of each example; an example without any stays as it is."""
    value = _only(split)
    if value.ndim == 1:
        if options["dim"] not in (0, -1):
            raise RuntimeError(
                f"squeeze: dim {options['dim']} of an example without dimensions; it takes 0."
            )
        return value.squeeze(())  # a view of the batch, as of any other
    return op.function(value, as_dim(options["dim"], value.ndim - 1, op.name) + 1)


@moving(size="full shape")
def expanded(op: Op, size: int, split: Split, options: Options) -> Any:
    """New dimensions come between the examples and their own."""
    ((value, bdim),) = split.values()
    sizes = tuple(options["size"])
    if value.ndim - 1 > len(sizes):
        raise RuntimeError(
            f"expand: {len(sizes)} sizes {sizes} for a tensor of {value.ndim - 1} dimensions; give "
            "at least one size per dimension."
        )
    return op.function(padded(value, bdim, len(sizes)), (size, *sizes))


def tiled(op: Op, size: int, split: Split, options: Options) -> Any:
    """One copy of the examples, `sizes` of what each holds."""
    ((value, bdim),) = split.values()
    sizes = tuple(options["sizes"])
    return op.function(padded(value, bdim, len(sizes)), (1, *sizes))


def rolled(op: Op, size: int, split: Split, options: Options) -> Any:
    """Along the shifted dimensions, or around the flattened example."""
    value = _only(split)
    shifts, dims = options["shifts"], options["dims"]
    if dims is None or dims == ():
        flat = value.reshape((size, math.prod(value.shape[1:])))
        return op.function(flat, shifts, 1).reshape(value.shape)
    listed = dims if isinstance(dims, tuple | list) else (dims,)
    moved = tuple(as_dim(dim, value.ndim - 1, op.name) + 1 for dim in listed)
    return op.function(value, shifts, moved if isinstance(dims, tuple | list) else moved[0])


def joined(op: Op, size: int, split: Split, options: Options) -> Any:
    """`cat` and `stack`."""
    tensors = filled(split["tensors"], size)
    if op.name == "cat":  # an empty 1-d tensor joins anything
        most = max(one.ndim for one in tensors)
        tensors = [one for one in tensors if one.ndim == most]
    dim = as_dim(options["dim"], tensors[0].ndim - (op.name == "cat"), op.name)
    return op.function(tuple(tensors), dim + 1)


def traced(op: Op, size: int, split: Split, options: Options) -> Any:
    """The diagonals' sums."""
    value = _only(split)
    if value.ndim != 3:
        raise RuntimeError(f"trace: needs a matrix, got shape {tuple(value.shape[1:])}.")
    return value.diagonal(0, 1, 2).sum(1)


def _spread(geometry: Any, size: int, step: int) -> Any:
    shape, strides, offset = geometry
    return ((size, *shape), (step, *strides), offset)


def strided_view(op: Op, size: int, split: Split, options: Options) -> Any:
    """The geometry of the first example, again at each of the others."""
    value = _only(split)
    whole = geometry_of(value._array)
    shape, strides, offset = options["geometry"]
    # Counted from the example's first element, since it knows of no memory before that.
    own = (shape, strides, offset - options["source"][2] + whole[2])
    return op.function(value, _spread(own, size, whole[1][0]), whole)


def restrided(op: Op, size: int, split: Split, options: Options) -> Any:
    """Memory of zeros for each example, one after another."""
    taken, given = options["taken"], options["given"]
    step = max(extent(taken), extent(given), 1)
    return op.function(_only(split), _spread(taken, size, step), _spread(given, size, step))


def strided_scatter(op: Op, size: int, split: Split, options: Options) -> Any:
    """The same places in each example."""
    whole = filled(split["input"], size).contiguous()
    step = whole[0].numel() if size else 0
    geometry = _spread(options["geometry"], size, step)
    return op.function(whole, filled(split["src"], size), geometry)


def copied(op: Op, size: int, split: Split, options: Options) -> Any:
    """What is copied, or filled in, in the shape and dtype of what it replaces."""
    (target, target_dim), (source, source_dim) = (
        split["input"],
        next(pair for name, pair in split.items() if name != "input"),
    )
    shape = list(target.shape)
    if target_dim is not None:
        del shape[target_dim]
    if source_dim is not None:
        source = padded(source, source_dim, len(shape))
    if source.dtype.is_complex and not target.dtype.is_complex:
        source = source.real
    return source.to(target.dtype).expand((size, *shape)).clone()


def flattened_unfold(op: Op, size: int, split: Split, options: Options) -> Any:
    """Windows of every example; a 0-d one has a single element."""
    value = _only(split)
    ndim = value.ndim - 1
    dim = as_dim(options["dimension"], ndim, op.name)
    line = value if ndim else value.unsqueeze(1)
    result = op.function(line, dim + 1, options["size"], options["step"])
    return result if ndim else result.squeeze(1)


def unfold_adjoint(op: Op, size: int, split: Split, options: Options) -> Any:
    """Windows of every example back in their places; a 0-d one had a single element."""
    value = _only(split)
    shape, rest = tuple(options["shape"]), (options["size"], options["step"])
    if not shape:
        return value.sum(1)
    return op.function(value, (size, *shape), options["dimension"] + 1, *rest)


def crossed(op: Op, size: int, split: Split, options: Options) -> Any:
    """Ranks are equal behind the examples, and the dimension is counted there."""
    rank = max(ndim_of(pair) for pair in split.values())
    values = {
        name: value if bdim is None else padded(value, bdim, rank)
        for name, (value, bdim) in split.items()
    }
    values = {
        name: value
        if value.ndim == rank + 1
        else value.reshape((1,) * (rank + 1 - value.ndim) + tuple(value.shape))
        for name, value in values.items()
    }
    return op.function(**values, dim=as_dim(options["dim"], rank, op.name) + 1)

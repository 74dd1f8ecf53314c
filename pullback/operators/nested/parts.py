"""Nested tensors and the tensors they consist of: taken apart, put together, padded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from pullback.core.tensor import Tensor, wrap
from pullback.operators.nested.array import form_of
from pullback.operators.nested.form import Jagged, Rows, Shapes
from pullback.operators.nested.primitives import described, from_values, padded, unpadded, values_of
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.joining import cat, narrow
from pullback.operators.shape.reshaping import movedim, reshape
from pullback.operators.shape.restriding import as_strided

__all__ = [
    *("contiguous", "filled", "from_rows", "of_components", "rows_first", "to_padded_tensor"),
    *("joined", "unbind"),
]


def rows_first(x: Any) -> Any:
    """The values of a jagged tensor with the rows of components as first dimension."""
    axis = form_of(x).axis
    values = values_of(x)
    return movedim(values, axis, 0) if axis else values


def from_rows(rows: Any, form: Jagged) -> Any:
    """A jagged tensor of rows that are the first dimension."""
    values = movedim(rows, 0, form.axis) if form.axis else rows
    return from_values(values, form)


def filled(x: Any) -> Any:
    """The same tensor without elements that belong to no component."""
    form = form_of(x)
    if form.is_filled(x._array.values):
        return x
    if isinstance(form, Shapes):
        return of_components(unbind(x))
    return from_rows(described(rows_first(x), form.rows), Jagged(form.rows.packed, form.dim))


def contiguous(x: Any, *args: Any, **kwargs: Any) -> Any:
    """Without holes, and in the order of its dimensions."""
    if not form_of(x).is_filled(x._array.values):
        return shown_as("CloneBackward0", filled(x))
    if x._array.values.flags.c_contiguous:
        return x
    return shown_as("CloneBackward0", from_values(values_of(x).contiguous(), form_of(x)))


def unbind(x: Any, dim: int = 0) -> tuple[Any, ...]:
    """The components, as views of the values."""
    if dim not in (0, -x._array.ndim):
        raise RuntimeError(
            f"unbind: nested tensors are taken apart along dim 0, the batch, not {dim}."
        )
    form, values = form_of(x), values_of(x)
    if isinstance(form, Shapes) and form.strides is not None:
        begun = values.storage_offset()
        places = zip(form.sizes, form.strides, form.starts, strict=True)
        return tuple(as_strided(values, size, steps, begun + at) for size, steps, at in places)
    if isinstance(form, Shapes):
        pieces = zip(form.offsets, form.offsets[1:], form.sizes, strict=False)
        return tuple(reshape(narrow(values, 0, a, b - a), size) for a, b, size in pieces)
    begun, lengths = form.rows.starts.tolist(), form.rows.lengths.tolist()
    return tuple(narrow(values, form.axis, a, n) for a, n in zip(begun, lengths, strict=True))


def viewed(function: Callable[[Any], Any], x: Any) -> Any:
    """What a function makes of components, on the memory of `x`; None where it makes copies."""
    values = x._array.values
    first, step = values.ctypes.data, values.itemsize
    sizes, strides, starts = [], [], []
    for one in unbind(x.detach()):
        array = function(one)._array
        if array.size and not numpy.may_share_memory(array, values):
            return None
        sizes.append(array.shape)
        strides.append(tuple(stride // step for stride in array.strides))
        starts.append((array.ctypes.data - first) // step if array.size else 0)
    form = _as_view(tuple(sizes), tuple(strides), tuple(starts), len(values))
    return from_values(values_of(x), form)


def _as_view(sizes: Any, strides: Any, starts: Any, length: int) -> Shapes:
    """A form of components at these places, packed where they are so anyway."""
    packed = Shapes(sizes)
    if packed.offsets[-1] == length and all(
        start == begun and steps == steps_of(size)
        for start, begun, steps, size in zip(starts, packed.offsets, strides, sizes, strict=False)
        if math.prod(size)
    ):
        return packed
    return Shapes(sizes, strides, starts)


def steps_of(size: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a component without gaps, in the order of its dimensions."""
    return tuple(math.prod(size[dim + 1 :]) for dim in range(len(size)))


def joined(parts: Sequence[Any], form: Jagged) -> Any:
    """A jagged tensor of components, in the form of another of their lengths."""
    return from_values(cat(list(parts), form.axis), Jagged(form.rows.packed, form.dim))


def of_components(parts: Sequence[Any]) -> Tensor:
    """A nested tensor of the strided layout, of components of one rank."""
    if not parts:
        return from_values(wrap(numpy.zeros(0, numpy.float32)), Shapes(()))
    sizes = tuple(tuple(one.shape) for one in parts)
    for index, size in enumerate(sizes):
        if len(size) != len(sizes[0]):
            raise RuntimeError(
                f"nested_tensor: tensor {index} has {len(size)} dimensions, tensor 0 has "
                f"{len(sizes[0])}; all of them must have the same number."
            )
    made = from_values(cat([reshape(one, (-1,)) for one in parts]), Shapes(sizes))
    return shown_as("NestedTensorFromTensorListBackward0", made)


def ragged(parts: Sequence[Any]) -> tuple[int, list[int]]:
    """In which dimension of the batch components differ, and how long they are there."""
    sizes = [tuple(one.shape) for one in parts]
    if any(len(size) != len(sizes[0]) for size in sizes):
        raise RuntimeError(
            "nested_tensor: all tensors must have the same number of dimensions, got "
            f"{[len(size) for size in sizes]}."
        )
    if not sizes[0]:
        raise RuntimeError(
            "nested_tensor: tensors without dimensions have none to differ in; use "
            "layout=torch.strided, or stack them."
        )
    differ = [dim for dim, lengths in enumerate(zip(*sizes, strict=True)) if len(set(lengths)) > 1]
    if len(differ) > 1:
        raise RuntimeError(
            f"nested_tensor: of layout torch.jagged tensors may differ in one dimension, these "
            f"differ in {len(differ)}: {sizes}. Use layout=torch.strided, or pad some."
        )
    dim = differ[0] if differ else 0
    return dim + 1, [size[dim] for size in sizes]


def of_rows(parts: Sequence[Any]) -> Tensor:
    """A jagged tensor of components."""
    dim, lengths = ragged(parts)
    return from_values(cat(list(parts), dim - 1), Jagged(rows_of_lengths(lengths), dim))


def rows_of_lengths(lengths: Any) -> Rows:
    """Rows of components of these lengths, one behind the other."""
    offsets = numpy.zeros(len(lengths) + 1, numpy.int64)
    numpy.cumsum(lengths, out=offsets[1:])
    return Rows(wrap(offsets))


def mapped(function: Callable[..., Any], *operands: Any) -> Any:
    """A strided nested tensor of what a function makes of components; others are passed as is."""
    parts = [unbind(one) if _is_nested(one) else None for one in operands]
    count = next(len(part) for part in parts if part is not None)
    sides = zip(operands, parts, strict=True)
    columns = [[one] * count if part is None else part for one, part in sides]
    return of_components([function(*row) for row in zip(*columns, strict=True)])


def _is_nested(one: Any) -> bool:
    return isinstance(one, Tensor) and bool(getattr(one, "is_nested", False))


# Padding ------------------------------------------------------------------------------------------


def to_padded_tensor(input: Any, padding: float, output_size: Any = None, out: Any = None) -> Any:
    """A dense tensor in which every component is padded to the size of the largest.

    With `output_size` to that; padding gets no gradient.

    Example:
        >>> import pullback as torch
        >>> x = torch.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=torch.jagged)
        >>> torch.nested.to_padded_tensor(x, 0.0)
        tensor([[1., 2.],
                [3., 0.]])
    """
    if not _is_nested(input):
        raise RuntimeError("to_padded_tensor: needs a nested tensor, got a dense one.")
    if out is not None:
        raise NotImplementedError("to_padded_tensor: out= is not taken; use what is returned.")
    made = as_padded(input, padding, output_size)
    return shown_as("ToPaddedTensorBackward0", made)


def as_padded(x: Any, padding: Any, output_size: Any = None) -> Any:
    """The same for whoever calls it."""
    form = form_of(x)
    size = None if output_size is None else tuple(output_size)
    if size is not None and len(size) != x._array.ndim:
        raise RuntimeError(
            f"to_padded_tensor: output_size {size} has {len(size)} sizes, the tensor "
            f"{x._array.ndim} dimensions."
        )
    if isinstance(form, Shapes):
        return _padded_shapes(x, form, padding, size)
    length = form.rows.longest if size is None else int(size[form.dim])
    made = padded(rows_first(x), form.rows, padding, length)  # (batch, length, other dimensions)
    made = made if form.dim == 1 else movedim(made, 1, form.dim)
    if size is not None and tuple(made.shape) != size:
        raise RuntimeError(
            f"to_padded_tensor: output_size {size} changes more than the ragged dimension of "
            f"{x._array.shape}."
        )
    return made


def _padded_shapes(x: Any, form: Shapes, padding: Any, size: Any) -> Any:
    if not form.count:
        return wrap(numpy.zeros(0, x._array.dtype))
    largest = tuple(max(lengths) for lengths in zip(*form.sizes, strict=True))
    wanted = largest if size is None else size[1:]
    if any(n < m for n, m in zip(wanted, largest, strict=True)):
        raise RuntimeError(
            f"to_padded_tensor: output_size {size} is smaller than the largest component "
            f"{largest}; nothing is cut off."
        )
    places = numpy.concatenate(
        [
            numpy.ravel_multi_index(tuple(numpy.indices(one).reshape(len(one), -1)), wanted)
            + index * int(numpy.prod(wanted))
            if one
            else numpy.array([index])
            for index, one in enumerate(form.sizes)
        ]
    )
    # Of one component as long as all that is padded, whose rows stand where elements belong.
    whole = _Elements(places)
    flat = padded(values_of(filled(x)), whole, padding, form.count * int(numpy.prod(wanted)))
    return reshape(flat, (form.count, *wanted))


class _Elements:
    """Single elements that stand at places of one long row, as `padded` asks for rows."""

    __slots__ = ("longest", "numbers", "places", "positions")

    count = 1

    def __init__(self, positions: Any) -> None:
        self.positions = positions
        self.numbers = numpy.zeros(len(positions), numpy.int64)
        self.places = numpy.arange(len(positions))
        self.longest = 0


def from_padded(dense: Any, form: Jagged, count: int) -> Any:
    """Values of a form, from a padded tensor; the inverse of `as_padded`."""
    rows = unpadded(dense if form.dim == 1 else movedim(dense, form.dim, 1), form.rows, count)
    return movedim(rows, 0, form.axis) if form.axis else rows

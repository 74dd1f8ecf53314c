"""Nested tensors in files: as torch writes them, of either layout."""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core.layout import jagged
from pullback.core.tensor import Tensor, wrap
from pullback.operators.nested.array import form_of
from pullback.operators.nested.create import nested_tensor_from_jagged
from pullback.operators.nested.form import Shapes
from pullback.operators.nested.primitives import from_values
from pullback.serialization.budget import refuse

__all__ = ["is_jagged", "jagged_rebuilt", "parts_of", "rebuilt"]


def is_jagged(tensor: Tensor) -> bool:
    """Whether it is of layout torch.jagged."""
    return tensor._layout is jagged


def parts_of(tensor: Tensor) -> tuple[Any, ...]:
    """What torch's function for such tensors is given."""
    form, values = form_of(tensor), wrap(tensor._array.packed().values)
    if isinstance(form, Shapes):
        shape = (form.count, len(form.sizes[0]) if form.count else 0)
        sizes = numpy.array(form.sizes, numpy.int64).reshape(shape)
        strides = numpy.array([_steps(one) for one in form.sizes], numpy.int64).reshape(shape)
        offsets = numpy.array(form.offsets[:-1], numpy.int64)
        return values, wrap(sizes), wrap(strides), wrap(offsets)
    return (
        {
            "values": values,
            "offsets": form.rows.offsets,
            "lengths": form.rows.given_lengths,
            "_ragged_idx": form.dim,
            "_metadata_cache": {},
            "requires_grad": tensor.requires_grad,
        },
    )


def _steps(size: tuple[int, ...]) -> list[int]:
    return [math.prod(size[dim + 1 :]) for dim in range(len(size))]


def _checked(one: Any, what: str) -> Tensor:
    if not isinstance(one, Tensor) or one._layout is not None:
        raise refuse(f"{what} of a nested tensor is no dense tensor")
    return one


def rebuilt(parts: Any) -> Tensor:
    """A tensor of the strided layout; what a file claims is checked."""
    if len(parts) != 4:
        raise refuse("a nested tensor has not the parts of one")
    buffer, sizes, strides, offsets = (_checked(one, "a part") for one in parts)
    if buffer.ndim != 1 or sizes.ndim != 2 or sizes._array.dtype.kind != "i":
        raise refuse("the parts of a nested tensor do not fit")
    shapes = tuple(tuple(row) for row in sizes._array.tolist())
    if any(n < 0 for shape in shapes for n in shape):
        raise refuse("a size of a nested tensor is negative")
    form = Shapes(shapes)
    plain = strides._array.tolist() == [_steps(one) for one in shapes]
    if not plain or offsets._array.tolist() != form.offsets[:-1] or form.offsets[-1] > len(buffer):
        raise refuse("components of a nested tensor do not lie one behind the other")
    made: Tensor = from_values(buffer[: form.offsets[-1]].detach(), form)
    return made.requires_grad_() if buffer.requires_grad else made


def jagged_rebuilt(parts: Any) -> Tensor:
    """A jagged tensor; what a file claims is checked."""
    if type(parts) is not dict or not {"values", "offsets"} <= parts.keys():
        raise refuse("a jagged tensor has no values or no offsets")
    values, offsets = (_checked(parts[name], name) for name in ("values", "offsets"))
    lengths = parts.get("lengths")
    lengths = None if lengths is None else _checked(lengths, "lengths")
    try:
        made = nested_tensor_from_jagged(
            values.detach(), offsets, lengths, jagged_dim=parts.get("_ragged_idx", 1)
        )
    except (RuntimeError, TypeError, ValueError, AssertionError) as error:
        raise refuse(f"the parts of a jagged tensor do not fit: {error}") from None
    return made.requires_grad_() if parts.get("requires_grad") is True else made

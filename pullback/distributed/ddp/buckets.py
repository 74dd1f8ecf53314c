"""Buckets: gradients that travel together, and the memory that they travel in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from pullback.autograd.grad_mode import no_grad
from pullback.core.arrays import namespace
from pullback.core.tensor import Tensor, wrap

__all__ = ["Bucket", "GradBucket", "assign"]

FIRST_BYTES = 1 << 20
# A gradient of this size travels in its own memory: copying it costs more than a message does.
ALONE_BYTES = 1 << 20


def assign(
    parameters: Sequence[Tensor], order: Sequence[int], cap: int, first_cap: int, alone: int
) -> list[list[int]]:
    """Which parameters share a bucket: in `order`, cut at `cap` bytes, one dtype each.

    The same on every rank, since it follows from shapes and dtypes alone.
    """
    done: list[list[int]] = []
    open_by_dtype: dict[Any, tuple[list[int], int]] = {}
    limit = first_cap
    for index in order:
        array = parameters[index]._array
        if array.nbytes >= alone:
            done.append([index])
            continue
        members, size = open_by_dtype.get(array.dtype, ([], 0))
        members.append(index)
        size += array.nbytes
        if size >= limit:
            done.append(members)
            open_by_dtype.pop(array.dtype, None)
            limit = cap
        else:
            open_by_dtype[array.dtype] = (members, size)
    done.extend(members for members, _ in open_by_dtype.values())
    return done


class Bucket:
    """Some parameters and the flat memory of their gradients."""

    def __init__(self, parameters: list[Tensor], indices: list[int], *, keeps: bool) -> None:
        self.parameters = parameters
        self.indices = indices
        self.dtype = parameters[0]._array.dtype
        self.sizes = [parameter._array.size for parameter in parameters]
        self.total = sum(self.sizes)
        # With one parameter its gradient's own memory serves, unless `.grad` is to be a view.
        self.alone = len(parameters) == 1 and not keeps
        self.flat: Any = None if self.alone else self.zeros()
        self.places = [] if self.alone else self._places()
        # What `.grad` becomes where it is to be a view of the bucket: one that knows it is.
        self.views = self._views() if keeps else []

    def zeros(self) -> Any:
        """Flat memory where the parameters are."""
        return namespace(self.parameters[0]._array).zeros(self.total, self.dtype)

    def _places(self) -> list[Any]:
        ends = numpy.cumsum([0, *self.sizes]).tolist()
        return [
            self.flat[start:end].reshape(parameter._array.shape)
            for parameter, start, end in zip(self.parameters, ends[:-1], ends[1:], strict=True)
        ]

    def _views(self) -> list[Tensor]:
        with no_grad():
            pieces = wrap(self.flat).split(self.sizes)
            views = [
                piece.view(parameter.shape)
                for piece, parameter in zip(pieces, self.parameters, strict=True)
            ]
        for view, place in zip(views, self.places, strict=True):
            view._array = place  # `fill` knows by it that nothing need be copied
        return views

    def fill(self, used: set[int], factor: float) -> Any:
        """The flat memory with the gradients of `used` times a factor, zeros for the others."""
        if self.alone:
            return self._fill_alone(used, factor)
        for place, parameter, index in zip(self.places, self.parameters, self.indices, strict=True):
            stored = parameter._stored_grad
            if stored is None or index not in used:
                place[...] = 0
            elif factor != 1.0:
                xp = namespace(place)
                xp.multiply(stored._array, place.dtype.type(factor), out=place)
            elif stored._array is not place:
                place[...] = stored._array
        return self.flat

    def _fill_alone(self, used: set[int], factor: float) -> Any:
        stored = self.parameters[0]._stored_grad
        if stored is None or self.indices[0] not in used:
            return self.zeros()
        array = stored._array
        if array.dtype != self.dtype or not array.flags.c_contiguous:
            array = namespace(array).ascontiguousarray(array, self.dtype)
            if array is not stored._array and factor == 1.0:
                array = array.copy()
        if factor != 1.0:
            array *= array.dtype.type(factor)
        return array.reshape(-1)

    def write(self, flat: Any, used: set[int]) -> None:
        """Give the reduced gradients to the parameters that any rank has used."""
        start = 0
        for number, (parameter, index) in enumerate(
            zip(self.parameters, self.indices, strict=True)
        ):
            end = start + self.sizes[number]
            if index in used:
                self._give(parameter, number, flat[start:end])
            start = end

    def _give(self, parameter: Tensor, number: int, piece: Any) -> None:
        shaped = piece.reshape(parameter._array.shape)
        if self.views:
            place = self.places[number]
            if not namespace(place).shares_memory(place, shaped):
                place[...] = shaped
            parameter._stored_grad = self.views[number]
            _count_write(self.views[number])
            return
        stored = parameter._stored_grad
        if stored is None:
            parameter._stored_grad = wrap(shaped.astype(self.dtype, copy=True))
            return
        if not namespace(shaped).may_share_memory(stored._array, shaped):
            stored._array[...] = shaped
        _count_write(stored)


def _count_write(tensor: Tensor) -> None:
    from pullback.core.version import INFERENCE_CELL, own_cell

    if tensor._cell is not INFERENCE_CELL:
        own_cell(tensor)[0] += 1


class GradBucket:
    """What a communication hook is given: one bucket, full, before it travels.

    Args:
        last: Whether no other bucket of this backward pass follows.
        bucket: Parameters of the bucket.
        flat: Their gradients, as one flat tensor.
    """

    def __init__(self, index: int, last: bool, bucket: Bucket, flat: Any) -> None:
        self._index, self._last, self._bucket = index, last, bucket
        self._buffer = wrap(flat)

    def index(self) -> int:
        """Its number; buckets travel in this order."""
        return self._index

    def is_last(self) -> bool:
        """Whether it is the last of this backward."""
        return self._last

    def buffer(self) -> Tensor:
        """The gradients, flat; what a hook writes here it may send."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Replace the buffer."""
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """The gradients, each in its parameter's shape, in the buffer's memory."""
        pieces = self._buffer.split(self._bucket.sizes)
        return [
            piece.view(parameter.shape)
            for piece, parameter in zip(pieces, self._bucket.parameters, strict=True)
        ]

    def parameters(self) -> list[Tensor]:
        """The parameters whose gradients these are."""
        return list(self._bucket.parameters)

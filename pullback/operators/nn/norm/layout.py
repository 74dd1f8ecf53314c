"""How norm layers see their input: which elements share statistics, and which share a weight."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy

from pullback.core.arrays import Array
from pullback.operators.arrays.rows import FEW, SHORT

Lengths = tuple[int, ...]

_FEW_NUMBERS = 512  # up to which a look-up takes less time than a row that broadcasts


class Over(NamedTuple):
    """What a norm is taken over, and how: the options of all its operators."""

    dims: Lengths  # over which statistics are taken, groups being a dimension of their own
    eps: float
    centred: bool = True  # whether the mean is taken away
    channel: int | None = None  # the dimension that weights belong to; None: the last ones
    groups: int | None = None  # into how many groups the channels are cut, before those of a group

    def moved(self) -> Over:
        """The same with one more dimension in front."""
        dims = tuple(dim + 1 for dim in self.dims)
        return self._replace(dims=dims, channel=None if self.channel is None else self.channel + 1)


class Layout(NamedTuple):
    """What there is to know about an array, from its shape and the norm's options."""

    shape: Lengths  # with the groups of channels as a dimension of their own
    dims: Lengths  # of `shape`, over which statistics are taken
    size: int  # elements behind each statistic
    rows: int  # statistics
    order: Lengths | None  # of the dimensions, so that `dims` come last; None: they do
    moved: Lengths  # the shape in that order
    back: Lengths | None  # the way back from that order
    row: Lengths  # the sizes of `dims`
    weights: Lengths | None  # the shape in which weights broadcast; None: as they are
    # A run is neighbours in memory that share a weight and all statistics: a channel's elements.
    run: int  # its elements; 0 where weights do not belong to channels
    lead: Lengths  # the shape of the runs
    lead_dims: Lengths  # its dimensions that are among `dims`
    lead_weights: Lengths  # the shape in which weights broadcast against it
    is_matrix: bool  # whether it is (rows, elements of a row) as it is
    few: bool  # whether only the number of calls counts
    weight: Lengths | None  # the shape of weights as they come; None where that may be any
    # Where there are few: for each element, in rows, the number of its weight. To look them up
    # takes half of the time of broadcasting.
    numbers: Array | None

    def in_rows(self, x: Array) -> Array:
        """`x` as (rows, elements of a row)."""
        if self.order is None:
            return x if self.is_matrix else x.reshape(self.rows, self.size)
        return x.reshape(self.shape).transpose(self.order).reshape(self.rows, self.size)

    def from_rows(self, x: Array, shape: Lengths) -> Array:
        """What `in_rows` made, as it was."""
        if self.back is None:
            return x if self.is_matrix else x.reshape(shape)
        return x.reshape(self.moved).transpose(self.back).copy().reshape(shape)

    def beside_runs(self, values: Array) -> Array:
        """Numbers of runs (or what broadcasts against those), to broadcast against `shape`."""
        inside = len(self.shape) - len(self.lead)
        return values.reshape(values.shape + (1,) * inside) if inside else values

    def broadcast(self, weight: Any) -> Any:
        """A weight or nothing, shaped to broadcast against `shape`; tensors too."""
        if weight is None or self.weights is None:
            return weight
        return weight.reshape(self.weights)

    def weights_in_rows(self, weight: Array) -> Array:
        """A weight for each element of rows, of which there are few."""
        if weight.shape == self.weight:
            if self.numbers is not None:
                return weight.ravel()[self.numbers]
            if self.weights is None:
                return weight.reshape(self.size)  # which broadcasts
        return self.in_rows(numpy.broadcast_to(self.broadcast(weight), self.shape))


@lru_cache(maxsize=4096)
def layout(shape: Lengths, over: Over) -> Layout:
    """The layout of `shape`."""
    given, dims, channel, groups = shape, over.dims, over.channel, over.groups
    run, weights, lead = 0, None, shape
    each: Lengths = ()
    if channel is not None:
        inside = shape[channel + 1 :]
        each = (shape[channel],) if groups is None else (groups, shape[channel] // groups)
        lead = (*shape[:channel], *each)
        run = math.prod(inside)
        shape = (*lead, *inside)
        weights = each + (1,) * len(inside)
    order = (*(d for d in range(len(shape)) if d not in dims), *dims)
    back = tuple(order.index(d) for d in range(len(shape)))
    # Dimensions of one element are anywhere: a batch of one image is in order.
    moved = sorted(long := [d for d in order if shape[d] != 1]) != long
    row = tuple(shape[d] for d in dims)
    size, rows = math.prod(row), math.prod(n for d, n in enumerate(shape) if d not in dims)
    few = 0 < rows * size <= FEW and size <= SHORT
    weight: Lengths | None = None
    if weights is not None:
        weight = (math.prod(each),)
    elif order == tuple(range(len(shape))):
        weight = row
    numbers = None
    if weight is not None and few and (weights is not None or rows * size <= _FEW_NUMBERS):
        wide = numpy.arange(math.prod(weight)).reshape(weights or row)
        numbers = numpy.broadcast_to(wide, shape).transpose(order).reshape(rows, size).copy()
    return Layout(
        shape=shape,
        dims=dims,
        size=size,
        rows=rows,
        order=order if moved else None,
        moved=tuple(shape[d] for d in order),
        back=back if moved else None,
        row=row,
        weights=weights,
        run=run,
        lead=lead,
        lead_dims=tuple(d for d in dims if d < len(lead)),
        lead_weights=each,
        is_matrix=given == (rows, size) and not moved,
        few=few,
        weight=weight,
        numbers=numbers,
    )

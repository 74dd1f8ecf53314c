"""`t[key]`: a chain of views for the basic part of the key, one operator for the advanced part.

Basic are ints, slices, None and `...`; index tensors and masks are advanced, and work on the result
of the basic part. Unlike in NumPy an int is never an index array: `x[0, :, index]` is `x[0][:,
index]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from pullback.core.mode import fast, get_mode
from pullback.core.overriding import Overridden
from pullback.core.ports import ports
from pullback.core.tensor import Tensor, blanks, wrap
from pullback.core.version import INFERENCE_CELL
from pullback.core.view import USUAL, View, attach
from pullback.operators.adapter import Adapter, adapted
from pullback.operators.arrays.scatter import INT64
from pullback.operators.dispatch.dispatch import any_handler
from pullback.operators.indexing.advanced import _index, index
from pullback.operators.indexing.keys import (
    BASIC,
    as_index,
    check_count,
    check_masks,
    items_of,
    numbered,
    numpy_tuple,
    plain_slice,
    spans,
)
from pullback.operators.shape.views import alias, select, slice_along, unsqueeze

__all__ = ["basic_part", "getitem"]

_FIRST, _FIRST_TWO = (0,), (0, 1)

_WHOLE = (slice(None),)

# `select` of an int, and of a slice `slice_along`: the dimension is one that a key names.
_select_at = adapted(
    select,
    Adapter(
        "$input, $dim, $index",
        [],
        "a0[$index, ...] if $dim == 0 else a0[:, $index, ...] if $dim == 1"
        " else a0[(*_WHOLE * $dim, $index, ...)]",
        is_normal=True,
    ),
    _WHOLE=_WHOLE,
)
_slice_at = adapted(
    slice_along,
    Adapter(
        "$input, $dim, $key",
        [
            "$start, $stop, $step = $key.start, $key.stop, $key.step",
            "if $step is None:",
            "    $step = 1",
            "if (",
            "    $step.__class__ is not int or $step < 1",
            "    or ($start is not None and $start.__class__ is not int)",
            "    or ($stop is not None and $stop.__class__ is not int)",
            "):",
            "    $start, $stop, $step = plain_slice($key)",
            "    $key = slice($start, $stop, $step)",
        ],
        "a0[$key] if $dim == 0 else a0[:, $key] if $dim == 1 else a0[(*_WHOLE * $dim, $key)]",
        is_normal=True,
    ),
    _WHOLE=_WHOLE,
    plain_slice=plain_slice,
)


def getitem(self: Any, key: Any, /) -> Any:
    """`t[key]`: a view for ints, slices, None and `...`; a copy as soon as a tensor indexes."""
    kind = type(key)
    if kind is int:
        return _select_at(self, 0, key)
    if kind is slice:
        if self._array.ndim == 0:
            raise IndexError("a 0-d tensor cannot be sliced; it has no dimension.")
        return _slice_at(self, 0, key)
    if kind is Tensor:
        if key._array.ndim and self._array.ndim:
            if key._array.dtype is not INT64:
                key = as_index(key)
                check_masks(self, (key,), _FIRST)
            return _index(self, _FIRST, key)
        number = numbered(key)
        if number is not key:
            return _select_at(self, 0, number)
    if key is None:
        return unsqueeze(self, 0)
    if kind is tuple:
        node = self._node
        if node is None or (node.__class__ is View and not self.requires_grad):
            view = _plain_view(self, key)
            if view is not None:
                return view
    if kind is not tuple or not BASIC.issuperset(map(type, key)):
        if kind is tuple and (basic := numbered(key)) is not key:
            return getitem(self, basic)
        if any_handler(key):
            taken, answer = ports.met_by("__getitem__", (self, key))
            if taken:
                return answer
        return _indexed(self, key)
    # A chain of views, here and not in a function of its own: each call between the user and a
    # view costs that view a twentieth.
    part, dim = self, 0
    try:
        for item in key:
            kind = type(item)
            if kind is int:
                part = _select_at(part, dim, item)
            elif kind is slice:
                start, stop, step = item.start, item.stop, item.step
                if start is None is stop and step is None:  # all of it
                    pass
                elif (start.__class__ is int and start) or (step.__class__ is int and step > 1):
                    part = _slice_at(part, dim, item)
                elif start is not None or step is not None or stop.__class__ is not int:
                    part = _sliced(part, dim, item)
                elif stop < part._array.shape[dim]:
                    part = _slice_at(part, dim, item)
                dim += 1
            elif item is None:
                part = unsqueeze(part, dim)
                dim += 1
            else:
                dim += self._array.ndim - _named(key)
    except IndexError:
        check_count(self, _named(key))
        raise
    if dim > part._array.ndim:
        check_count(self, _named(key))
    return alias(self) if part is self else part


def _named(key: tuple[Any, ...]) -> int:
    """How many dimensions a basic key names."""
    return len(key) - key.count(None) - key.count(...)


def _indexed(self: Any, key: Any) -> Any:
    """By a key with tensors, or one that needs a closer look."""
    if type(key) is tuple and len(key) == 2 and self._array.ndim > 1:
        first, second = key
        if _is_plain(first) and _is_plain(second):
            return _index(self, _FIRST_TWO, first, second)
    part, indices, dims = basic_part(self, items_of(key))
    if dims:
        return index(part, indices, dims)
    return alias(self) if part is self else part


def _is_plain(index: Any) -> bool:
    """Whether it is an index tensor as most are: of int64, with dimensions."""
    return type(index) is Tensor and index._array.dtype is INT64 and index._array.ndim > 0


def _plain_view(self: Any, key: tuple[Any, ...]) -> Any:
    """The view that a basic key names, in one step: without history no one sees the chain."""
    if get_mode() is not fast.plain:
        return None
    place = numpy_tuple(key)
    if place is None:
        return None
    try:
        array = self._plain[place]
    except (IndexError, Overridden):
        return None  # said in our words by the usual way, which also knows other classes
    view = next(blanks)
    view._array = array
    cell = self._cell
    if self._node is not None or cell is INFERENCE_CELL:
        attach(view, self, None)
        return view
    if cell.__class__ is tuple:  # `attach` in line, for most
        cell = self._cell = [*cell]
    view._cell = cell
    view._node = info = View()
    info.base, info.node, info.manner = self, None, USUAL
    info.cell, info.version = cell, cell[0]
    return view


def basic_part(tensor: Any, items: Sequence[Any]) -> tuple[Any, list[Any], list[int]]:
    """The view that a key asks for, and the index tensors with the dims they are for."""
    named = sum(map(spans, items))
    check_count(tensor, named)
    skipped = tensor._array.ndim - named
    part, dim = tensor, 0
    indices: list[Any] = []
    dims: list[int] = []
    for item in items:
        kind = type(item)
        if kind is int:
            part = select(part, dim, item)
        elif kind is slice:
            part = _sliced(part, dim, item)
            dim += 1
        elif item is Ellipsis:
            dim += skipped
        elif item is None:
            part = unsqueeze(part, dim)
            dim += 1
        elif kind is bool:
            part = unsqueeze(part, dim)
            indices.append(wrap(numpy.zeros(int(item), "i8")))
            dims.append(dim)
            dim += 1
        else:
            indices.append(item)
            dims.append(dim)
            dim += spans(item)
    if dims:
        check_masks(part, indices, dims)
    return part, indices, dims


def _sliced(tensor: Any, dim: int, item: slice) -> Any:
    """The slice along `dim`; the tensor itself if that is all of it."""
    start, stop, step = plain_slice(item)
    if step == 1 and not start:
        size = tensor._array.shape[dim]  # first of all, this refuses a dimension that is not there
        if stop is None or stop >= size:
            return tensor
    return slice_along(tensor, dim, start, stop, step)

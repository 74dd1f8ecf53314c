"""`t[key] = value`, and the table of Python's brackets.

An assignment writes into the part that the key names. By a basic key that is a view, and the
history of the write a `CopySlices`. It is entered here directly, without making the view as a
tensor: nobody would ever see it, and an assignment would take four times as long.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.arrays import F32, F64, Array, namespace
from pullback.core.captured import refuse_captured
from pullback.core.explain.cause import adopt
from pullback.core.mode import fast, get_mode
from pullback.core.nesting import running
from pullback.core.node import Leaf
from pullback.core.overriding import Overridden
from pullback.core.ports import ports
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor, new, wrap
from pullback.core.version import INFERENCE_CELL, UNWRITTEN, bump
from pullback.core.view import DEFAULT, View, edge_of, move_retention
from pullback.operators.arrays.direct import putmask
from pullback.operators.arrays.scatter import INT64
from pullback.operators.arrays.strides import Geometry, address, on_storage, relaid
from pullback.operators.create.numbers import as_number, is_number
from pullback.operators.dispatch.dispatch import QUIET, any_handler
from pullback.operators.dispatch.observers import observers
from pullback.operators.indexing.advanced import check_dtype, index_put, index_put_, put_at
from pullback.operators.indexing.keys import (
    as_index,
    check_count,
    check_masks,
    items_of,
    numbered,
    numpy_key,
)
from pullback.operators.indexing.subscript import basic_part, getitem
from pullback.operators.running import inplace
from pullback.operators.running.inplace import check_history_can_change, geometry_on
from pullback.operators.running.overlap import check_apart, check_no_partial_overlap, has_overlap
from pullback.operators.running.writes import LARGE_SINGLE, is_plain_write, number_array
from pullback.operators.shape.reshaping import clone, contiguous, expand, reshape
from pullback.operators.shape.restriding import as_strided
from pullback.operators.shape.views import unsqueeze
from pullback.operators.tensor.convert import astype
from pullback.operators.tensor.filling import copy_, fill_, store, zero_

__all__ = ["getitem", "index_put", "index_put_", "setitem"]

_NUMBERS = frozenset((int, float))
_SLICES = frozenset((slice, type(Ellipsis)))
_SPECIAL = frozenset((Leaf, View))
_FIRST = (0,)


def setitem(self: Any, key: Any, value: Any, /) -> None:
    """`t[key] = value`: writes into the tensor's memory; the value is broadcast and cast."""
    place = None if key.__class__ is Tensor else numpy_key(key)
    if place is None and (key.__class__ is tuple or key.__class__ is Tensor):
        basic = numbered(key)
        if basic is not key:
            key, place = basic, numpy_key(basic)
    if (place is None and type(key) not in QUIET and any_handler(key)) or (
        type(value) not in QUIET and any_handler(value)
    ):
        taken, _ = ports.met_by("__setitem__", (self, key, value))
        if taken:
            return
    if place is None:
        if type(value) in _NUMBERS and _fills_mask(self, key, value):
            bump(self, "__setitem__")
        elif _puts(self, key, value):
            bump(self, "index_put_")
        else:
            _assign_indexed(self, key, value)
        return
    try:
        array = self._plain
        if isinstance(value, Tensor):
            value._plain  # noqa: B018 (asks whether its class overrides calls)
    except Overridden:
        _assign(basic_part(self, items_of(key))[0], value)
        return
    if type(array) is not numpy.ndarray:  # one example of a batch is made when it is asked for
        array = self._array
    try:
        if type(value) in _NUMBERS and _holds(array.dtype, value) and is_plain_write(self):
            array[place] = value
            bump(self, "__setitem__")
            return
        part = array[place]
        if (
            value.__class__ is Tensor
            and _goes_there(array, part, value)
            and is_plain_write(self, value)
        ):
            part[...] = value._array
            bump(self, "__setitem__")
            return
    except OverflowError:
        raise IndexError(
            f"__setitem__: an index has more than 64 bits (the tensor has shape {array.shape})."
        ) from None
    except ValueError:
        if getattr(array.flags, "writeable", True):
            raise
        raise errors.read_only("__setitem__") from None
    except IndexError as error:
        check_count(self, len(place) - place.count(None) - 1)
        raise IndexError(f"{error} (the tensor has shape {array.shape})") from None
    if isinstance(value, Tensor) and _is_itself(self, part, value):
        bump(self, "__setitem__")  # `t[key] += y` has already written there
    elif part.shape == array.shape and _SLICES.issuperset(map(type, place)):
        _assign(self, value)
    elif not _assign_part(self, place, part, value):
        _assign(basic_part(self, items_of(key))[0], value)
    if isinstance(value, Tensor) and value._node is None and value._cell is not UNWRITTEN:
        adopt(self, value)


def _fills_mask(self: Any, mask: Any, value: float) -> bool:
    """Write a number where a mask of the tensor's shape holds; False: it is no such plain case."""
    if mask.__class__ is not Tensor or not is_plain_write(self):
        return False
    array, chosen = self._array, mask._array
    if type(array) is not numpy.ndarray or type(chosen) is not numpy.ndarray:
        return False
    if chosen.dtype.kind != "b" or chosen.shape != array.shape or not _holds(array.dtype, value):
        return False
    try:
        putmask(array, chosen, value)
    except ValueError:
        raise errors.read_only("__setitem__") from None
    return True


def _puts(self: Any, key: Any, value: Any) -> bool:
    """Write at the places that index tensors name, beside whole dimensions; False: no such case.

    NumPy means the same by such a key as we do.
    """
    array = self._array
    items = key if key.__class__ is tuple else (key,)
    indices, place = [], []
    for item in items:
        if item.__class__ is Tensor:
            item = item._array
            if item.dtype is not INT64 or not item.ndim or item.__class__ is not numpy.ndarray:
                return False
            indices.append(item)
        elif item.__class__ is not slice or item != _ALL:
            return False
        place.append(item)
    if not indices or array.__class__ is not numpy.ndarray or array.ndim < len(place):
        return False
    source = None
    if type(value) in _NUMBERS:
        if not _holds(array.dtype, value) or not is_plain_write(self):
            return False
    else:
        if value.__class__ is not Tensor or not is_plain_write(self, value):
            return False
        source = value = value._array
        if source.dtype is not array.dtype or source.__class__ is not numpy.ndarray:
            return False
    check_apart("index_put_", array, source, *indices)
    try:
        array[tuple(place) if len(place) > 1 else place[0]] = value
    except (IndexError, ValueError):  # which the usual way says in our words; nothing is written
        return False
    return True


_ALL = slice(None)


def _holds(dtype: numpy.dtype[Any], number: float) -> bool:
    """Whether a dtype holds the number; no for all dtypes that need a closer look."""
    return dtype is F64 or (dtype is F32 and -LARGE_SINGLE < number < LARGE_SINGLE)


def _goes_there(array: Array, part: Array, value: Tensor) -> bool:
    """Whether a value fits a part of `array` as it is, and has other memory."""
    source = value._array
    own = source.base is None and array.base is None and source is not array
    return own and source.shape == part.shape and source.dtype is part.dtype


def _is_itself(self: Any, part: Array, value: Any) -> bool:
    """Whether `value` is a view of exactly `part`, so that writing it changes nothing."""
    info, own = value._node, self._node
    return (
        info.__class__ is View
        and info.base is (own.base if own.__class__ is View else self)
        and info.manner.creation is DEFAULT
        and info.node.__class__ is not Leaf
        and value._array.shape == part.shape
        and value._array.strides == part.strides
        and value._array.dtype is part.dtype
        and address(value._array) == address(part)
    )


def _is_same_place(target: Array, value: Array) -> bool:
    """Whether two arrays are one part of memory, but for dimensions of size 1: `x[None] = x`."""
    if target.size != value.size or target.dtype is not value.dtype or target.base is None:
        return False
    if address(target) != address(value) or not target.size:
        return False
    sides = [
        [(n, s) for n, s in zip(a.shape, a.strides, strict=True) if n != 1] for a in (target, value)
    ]
    return sides[0] == sides[1]


def _assign(target: Any, value: Any) -> None:
    """Write `value` over all of `target`."""
    if not isinstance(value, Tensor):
        value = wrap(_number(target, value))
    if value._array.ndim == 0:
        fill_(target, value)
    elif _is_same_place(target._array, value._array):
        if inplace.starts_write("__setitem__", target, {"value": value}, get_mode()):
            copy_(target, clone(value))  # recorded: the values stay, the history does not
        else:
            bump(target, "__setitem__")
    else:
        value = _trimmed(value, target._array.ndim)
        if value._array.base is not None and value._array.size != target._array.size:
            value = expand(value, target._array.shape)  # copy_ would refuse a part of the target
        copy_(target, value)


def _number(target: Any, value: Any) -> Array:
    """A number as an array of the target's dtype, to be read only."""
    # numpy.float64 is a float, and passes; torch takes no other NumPy numbers but integers.
    known = isinstance(value, float | complex) or not isinstance(value, numpy.inexact)
    if is_number(value):
        return as_number(value)._array
    if not known or not isinstance(value, numbers.Number):
        raise TypeError(
            f"cannot assign a {type(value).__name__} to a tensor of {target.dtype}; assign a "
            "tensor or a Python number (torch.as_tensor() makes tensors of lists and arrays)."
        )
    return number_array("__setitem__", value, target._array.dtype)


def _trimmed(value: Any, ndim: int) -> Any:
    """`value` without leading dimensions of size 1, where it has more dimensions than its place."""
    shape = value._array.shape
    extra = len(shape) - ndim
    if extra <= 0 or any(size != 1 for size in shape[:extra]):
        return value
    return reshape(value, shape[extra:])


# Basic keys --------------------------------------------------------------------------------------


def _assign_part(self: Any, place: tuple[Any, ...], part: Array, value: Any) -> bool:
    """Write to `part`, which the NumPy key `place` names.

    False, and nothing is done, where it is no plain case: transforms, tangents, hooks, inference
    mode, views that strides cannot express, somebody who looks on at what is recorded.
    """
    mode = get_mode()
    info = self._node
    base = info.base if info.__class__ is View else self
    plain = mode is fast.plain
    if not (plain or mode is fast.no_grad or mode is fast.forward) or self._cell is INFERENCE_CELL:
        return False
    if base is not self and info.manner.replay is not None:
        return False
    recordable = plain and part.dtype.kind in "fcVW"
    edge = None
    if isinstance(value, Tensor):
        value = _trimmed(value, part.ndim)
        source = value._array
        if recordable and value._node is not None:
            edge = edge_of(value)
    else:
        source = _number(self, value)
    recorded = edge is not None or (recordable and info is not None and self.requires_grad)
    if recorded:
        if observers.active is not None:
            return False
        if info.__class__ in _SPECIAL:
            _check_written(self, info)
    if 0 in part.strides and part.size and has_overlap(part):
        raise errors.overlapping_write("__setitem__")
    if source.size == part.size:  # what is broadcast is not dense
        check_no_partial_overlap("__setitem__", part, source.reshape(part.shape))
    store(part, source)
    bump(self, "__setitem__")
    if recorded:
        real = part.dtype.kind in "cW" and source.dtype.kind not in "cW"
        _record(base, place if base is self else _geometry(part, base), edge, real=real)
    return True


def _check_written(self: Any, info: Any) -> None:
    if info.__class__ is Leaf:
        raise errors.leaf_view_written("__setitem__")
    check_history_can_change("__setitem__", self)


def _geometry(part: Array, base: Any) -> Geometry:
    """Where the part is on a row-major copy of the base."""
    geometry = geometry_on(wrap(part), base)
    return geometry if base._array.flags.c_contiguous else relaid(geometry, base._array)


def _record(base: Any, place: Any, edge: Any, *, real: bool) -> None:
    """Make the write the history of `base`."""
    if derivatives := running.get():
        refuse_captured(base, derivatives)
    array = base._array
    node = new(CopySlices)
    node._cold = None
    node.inner = None
    node.position = 0
    node.replay = None
    node.place = place
    node.real = real
    own = edge_of(base)
    node._edges = (own,) if edge is None else (own, edge)
    node._g_shape, node._g_dtype = array.shape, array.dtype
    last = base._cell[-1]  # the write just counted: operator, code, instruction
    node._code, node._lasti = last[1:] if last.__class__ is tuple else (None, 0)
    node._seq = numbering.next()
    if own is not None:
        move_retention(base, base._node, node)
    base._node = node


class CopySlices(inplace.CopySlices):
    """A part overwritten: the source gets the part's gradient, the base that of the rest.

    As its parent with the node of a copy_ inside, and in its place.
    """

    __slots__ = ("place", "real")

    place: Any  # a NumPy key, or the geometry on a row-major base: its second item is a tuple
    real: bool  # the source is real, the base complex

    def _run(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        """Arrays."""
        self._check_kept()
        whole = namespace(g).array(g, order="C")
        part = self._find(whole)
        if len(edges) == 1:
            part[...] = 0
            return (whole,)
        moved = None if edges[1] is None else (part.real if self.real else part).copy()
        part[...] = 0
        return (whole, moved)

    def _run_tensors(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        """Tensors: the same, recorded."""
        self._check_kept()
        whole = contiguous(clone(g))
        part = self._part(whole)
        moved = None
        if len(edges) > 1 and edges[1] is not None:
            moved = clone(part.real if self.real else part)
        zero_(part)
        return (whole, moved)[: len(edges)]

    def _find(self, whole: Array) -> Array:
        place = self.place
        if len(place) == 3 and place[1].__class__ is tuple:
            return on_storage(whole, place)
        return whole[place]

    def _part(self, whole: Tensor) -> Tensor:
        place = self.place
        if len(place) == 3 and place[1].__class__ is tuple:
            part: Tensor = as_strided(whole, *place)
        else:
            part = getitem(whole, place)
        return part

    def _check_kept(self) -> None:
        if self.inner is not None:
            raise errors.graph_freed(self, self.inner)

    def _release(self, freed: Any) -> None:
        """Nothing is saved here; remembers only that it may not run again."""
        self.inner = freed


# Advanced keys -----------------------------------------------------------------------------------


def _assign_indexed(self: Any, key: Any, value: Any) -> None:
    """Assign by a key with bools, index tensors or masks, or one that needs a closer look."""
    if type(key) is bool:
        if key:
            _assign(unsqueeze(self, 0), value)
        return
    part, indices, dims = _indices(self, key)
    if not dims:
        _assign(part, value)
        return
    if not isinstance(value, Tensor):
        value = wrap(_number(self, value))
    elif value._array.size == 1 and len(indices) == 1 and indices[0]._array.dtype.kind == "b":
        if value._array.dtype.kind in "cW" and self._array.dtype.kind not in "cW":
            check_dtype(self, value)
        value = astype(reshape(value, ()), self._array.dtype)  # one for all that the mask has
    elif value._array.ndim:
        value = _without_leading_ones(value)
    check_dtype(self, value)
    put_at(part, indices, value, dims)


def _indices(self: Any, key: Any) -> tuple[Any, tuple[Any, ...], tuple[int, ...]]:
    """The view that the basic part names, the index tensors, and the dims they are for."""
    if type(key) is Tensor and key._array.ndim and self._array.ndim:
        index = as_index(key)
        check_masks(self, (index,), _FIRST)
        return self, (index,), _FIRST
    part, indices, dims = basic_part(self, items_of(key))
    return part, tuple(indices), tuple(dims)


def _without_leading_ones(value: Any) -> Any:
    shape = value._array.shape
    if shape[0] != 1:
        return value
    wide = [dim for dim, size in enumerate(shape) if size != 1]
    return _trimmed(value, len(shape) - (wide[0] if wide else len(shape)))


def _no_deletion(self: Any, key: Any) -> None:
    """What `del x[key]` says."""
    raise TypeError("del: elements of a tensor cannot be deleted; pick those that stay.")


# Python's brackets, for methods.py.
DUNDERS = {"__delitem__": _no_deletion, "__getitem__": getitem, "__setitem__": setitem}

"""Views by strides, and how views are made anew from the present history of their base.

Strides say all that there is to say about most views, whatever steps they were made in. So a view
whose base was written to gets its node from here, and forward mode finds the tangent's part here.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Set
from functools import partial
from typing import Any

from pullback.core import errors
from pullback.core.mode import PLAIN, changed, current, get_mode, settle
from pullback.core.node import Edge
from pullback.core.ports import ports
from pullback.core.tensor import Tensor
from pullback.core.view import View, edge_of
from pullback.operators.arrays.strides import (
    Geometry,
    extent,
    geometry_of,
    may_overlap,
    moved,
    on_storage,
    relaid,
    root,
)
from pullback.operators.arrays.strides import storage_offset as storage_offset_of
from pullback.operators.declare import METHODS, Array, Namespace, linear, view
from pullback.operators.derive import vmap_levels
from pullback.operators.pointwise.arithmetic import zeros_of
from pullback.operators.running import recording
from pullback.operators.shape import batch as batch_shapes

FOUND_IN = {"torch": "as_strided"}


def _strided_as_value(d_input: Any, geometry: Geometry, source: Geometry) -> Any:
    """The same places of a tangent, which must lie in memory as its value does."""
    own = geometry_of(d_input._array)
    if not same_steps(own, source):
        raise RuntimeError(
            f"as_strided: a tangent of strides {own[1]} beside a tensor of strides {source[1]} has "
            "other elements at these places. Give both in one layout, for example by contiguous()."
        )
    shape, strides, offset = geometry
    return _as_strided(d_input, (shape, strides, offset - source[2] + own[2]), own)


def same_steps(one: Geometry, other: Geometry) -> bool:
    """Whether elements lie apart in both as they do in the other, wherever the first is."""
    steps = zip(one[0], one[1], other[1], strict=True)
    return one[0] == other[0] and all(n < 2 or a == b for n, a, b in steps)


@view(
    batch=batch_shapes.strided_view,
    jvp=_strided_as_value,
    input=lambda g, geometry, source: _shared_out(_restride(g, geometry, source), source),
    node="AsStridedBackward0",
    method=False,
    aten="as_strided.default",
)
def _as_strided(xp: Namespace, input: Array, geometry: Any, source: Any) -> Array:
    shape, strides, offset = geometry
    # A program that was captured on one tensor may get another, which begins elsewhere.
    return on_storage(input, (shape, strides, offset + storage_offset_of(input) - source[2]))


@linear(
    batch=batch_shapes.restrided,
    input=lambda g, taken, given: _restride(g, given, taken),
    node="AsStridedBackwardBackward0",
)
def _restride(xp: Namespace, input: Array, taken: Any, given: Any) -> Array:
    """Put `input` where the geometry `taken` points, on memory of zeros, and read it as `given`.

    Elements that meet at one place add up, so this is its own adjoint with the geometries swapped.
    """
    storage = xp.zeros(max(extent(taken), extent(given), 1), input.dtype)
    if may_overlap(taken):
        places = on_storage(xp.arange(storage.size), taken)
        xp.add.at(storage, places.reshape(-1), input.reshape(-1))
    else:
        on_storage(storage, taken)[...] = input
    return on_storage(storage, given)


def _shared_out(g: Any, source: Geometry) -> Any:
    """The gradient of each place of memory, divided among the elements of the input on it.

    They are one number in memory. Each of them having the whole gradient would count it again for
    every one, as of `x.expand(5)`.
    """
    if not may_overlap(source):
        return g
    return g / _restride(zeros_of(g) + 1, source, source)


def as_strided(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """A view of the tensor's memory with any shape, strides and offset, counted in elements.

    >>> import pullback as torch
    >>> torch.as_strided(torch.arange(6), (2, 3), (1, 2))
    tensor([[0, 2, 4],
            [1, 3, 5]])
    """
    source = geometry_of(input._array)
    examples = getattr(input, "level", None) is not None
    if storage_offset is None:
        offset = source[2]
    else:  # of one example: from its first element, as it knows of no memory before that
        offset = storage_offset - (_first_place(input) if examples else 0)
    if isinstance(size, Set) or isinstance(stride, Set):
        raise errors.unordered("as_strided", "size, stride", stride)
    geometry = (tuple(size), tuple(stride), offset)
    if len(geometry[0]) != len(geometry[1]):
        raise RuntimeError(
            f"as_strided: {len(geometry[0])} sizes but {len(geometry[1])} strides; give one stride "
            "per size."
        )
    if any(s < 0 for s in geometry[1]):
        raise RuntimeError(f"as_strided: negative strides are not supported, got {geometry[1]}.")
    available = root(input._array).nbytes // input._array.itemsize
    if examples:
        available = extent(source)
    if offset < 0 or (0 not in geometry[0] and extent(geometry) > available):
        raise RuntimeError(
            f"as_strided: sizes {geometry[0]}, strides {geometry[1]} and offset {offset} reach "
            f"element {extent(geometry)}, but the memory holds {available}."
        )
    return _as_strided(input, geometry, source)


def _first_place(examples: Any) -> int:
    """Where the memory of the first example begins, counted from that of the whole batch."""
    while getattr(examples, "level", None) is not None:
        examples = examples.value
    return geometry_of(examples._array)[2]


def regenerate(tensor: Tensor, info: View) -> Edge | None:
    """A view's node, made anew from its base's present history."""
    base = info.base
    edge = edge_of(base)
    if edge is None and info.node is None:
        return None
    steps = info.manner.replay
    if steps is not None:
        before = current.get()
        try:
            current.set(PLAIN)
            step: Any = base
            for replay in steps:
                step = replay(step)
        finally:
            current.set(before)
        return edge_of(step)
    options = {"geometry": geometry_of(tensor._array), "source": geometry_of(base._array)}
    mode = settle()
    op = _as_strided.op  # type: ignore[attr-defined]  # a declared operator
    return recording.make_node(op, (edge,), {"input": base}, options, [tensor], mode)


def _weakly(array: Array) -> Callable[[], Array | None]:
    """A reference that keeps no memory, since histories keep steps; to None where there is none."""
    try:
        return weakref.ref(array)
    except TypeError:
        return lambda: None


def restride(tensor: Tensor, source: Tensor) -> Any:
    """A function that views another source, in any order of memory, as `tensor` views its own."""
    shape, strides, offset = geometry_of(tensor._array)
    sizes, own, start = geometry_of(source._array)
    taken: Geometry = (shape, strides, offset - start)
    memory = _weakly(root(source._array))

    def step(other: Any) -> Any:
        if root(other._array) is memory():  # whatever shape the source has taken since
            return as_strided(other, shape, strides, offset)
        _, given, begin = geometry_of(other._array)
        laid = taken if given == own else moved(taken, sizes, own, given)
        return as_strided(other, laid[0], laid[1], laid[2] + begin)

    return step


def view_of(tensor: Tensor, other: Any) -> Any:
    """`other`, shaped as the base of `tensor`, viewed as `tensor` views that base."""
    if other.__class__ is not Tensor:
        mode = get_mode()
        levels = vmap_levels((other,), mode.levels)
        if levels is not mode.levels:  # a batch of tangents, looked at outside of the map
            try:
                current.set(changed(mode, levels=levels))
                return _view_of(tensor, other)
            finally:
                current.set(mode)
    return _view_of(tensor, other)


def _view_of(tensor: Tensor, other: Any) -> Any:
    info = tensor._node
    if info.manner.replay is not None:
        for step in info.manner.replay:
            other = step(other)
        return other
    shape, strides, offset = geometry_of(tensor._array)
    start = geometry_of(info.base._array)[2]
    geometry = relaid((shape, strides, offset - start), info.base._array)
    other = other if other._array.flags.c_contiguous else other.contiguous()
    shape, strides, offset = geometry
    return as_strided(other, shape, strides, offset + geometry_of(other._array)[2])


_Visitor = Callable[[Any], Any]


def _view_func(
    self: Tensor,
    new_base: Tensor,
    symint_visitor_fn: _Visitor | None = None,
    tensor_visitor_fn: _Visitor | None = None,
) -> Any:
    """The same view of another base; None if this is no view or the bases differ in geometry.

    A visitor may replace the sizes (or tensors) that steps kept for a replay were made with.
    """
    if not self._is_view():
        return None
    old, new = self._node.base._array, new_base._array
    if old.shape != new.shape or geometry_of(old) != geometry_of(new):
        return None
    return _view_func_unsafe(self, new_base, symint_visitor_fn, tensor_visitor_fn)


def _view_func_unsafe(
    self: Tensor,
    new_base: Tensor,
    symint_visitor_fn: _Visitor | None = None,
    tensor_visitor_fn: _Visitor | None = None,
) -> Any:
    """As `_view_func`, whatever the new base's geometry."""
    if not self._is_view():
        return None
    steps = self._node.manner.replay
    if steps is None or (symint_visitor_fn is None and tensor_visitor_fn is None):
        return view_of(self, new_base)
    made: Any = new_base
    for step in steps:
        made = _visited(step, symint_visitor_fn, tensor_visitor_fn)(made)
    return made


def _visited(step: Any, sizes: _Visitor | None, tensors: _Visitor | None) -> Any:
    """A step with what visitors make of its sizes and tensors; numbers of dimensions stay."""
    if not isinstance(step, partial):
        return step
    op = step.func.op  # type: ignore[attr-defined]  # a declared operator
    dims = {param.name for param in op.params if param.kind in ("dim", "dims")}

    def seen(value: Any) -> Any:
        if type(value) in (tuple, list):
            return type(value)(seen(one) for one in value)
        if isinstance(value, Tensor):
            return value if tensors is None else tensors(value)
        return value if sizes is None or type(value) is not int else sizes(value)

    changed = {name: v if name in dims else seen(v) for name, v in step.keywords.items()}
    return recording.view_step(step.func, changed, getattr(step, "number", None))


def _rev_view_func_unsafe(self: Tensor, new_view: Tensor) -> Any:
    """The base of which `new_view` is the view that this one is of its own; None for no view.

    It is on the memory of `new_view`, which must lie there as this view does, and hold it all.
    """
    if not self._is_view():
        return None
    base = self._node.base
    whole, part, given = (geometry_of(one._array) for one in (base, self, new_view))
    steps = zip(self.shape, part[1], given[1], strict=False)
    if given[0] != part[0] or any(n > 1 and ours != theirs for n, ours, theirs in steps):
        raise RuntimeError(
            f"_rev_view_func_unsafe: a tensor of shape {given[0]} and strides {given[1]} cannot be "
            f"a view as this one is, of shape {part[0]} and strides {part[1]}."
        )
    return as_strided(new_view, whole[0], whole[1], given[2] - part[2] + whole[2])


METHODS["_view_func"] = _view_func
METHODS["_view_func_unsafe"] = _view_func_unsafe
METHODS["_rev_view_func_unsafe"] = _rev_view_func_unsafe

ports.fill(regenerate=regenerate, restride=restride, view_of=view_of)

"""In-place changes of a tensor's shape: `t_`, `squeeze_`, `resize_` and the like.

The elements stay, the tensor looks at them differently; its history gets the view's node.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.forward import LEVELS, open_levels, visible_levels
from pullback.core.layout import (
    contiguous_format,
    memory_format,
    order_of,
    preserve_format,
    strides_in_order,
    suggested_format,
)
from pullback.core.memory.hollow import Hollow
from pullback.core.memory.narrow import held
from pullback.core.mode import Mode, settle
from pullback.core.node import Edge, Leaf, NotImplementedNode, new_leaf_mark
from pullback.core.origin import here
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor, new, wrap
from pullback.core.version import UNWRITTEN, bump
from pullback.core.view import View, edge_of, move_retention
from pullback.operators.arrays.strides import contiguous_strides, element_strides
from pullback.operators.create.factory import shape_argument
from pullback.operators.declare import METHODS
from pullback.operators.running.inplace import check_history_can_change
from pullback.operators.running.naming import renamed
from pullback.operators.running.resizing import resized
from pullback.operators.shape.reshaping import (
    as_strided,
    squeeze,
    swapaxes,
    t,
    transpose,
    unsqueeze,
)

FOUND_IN = {"torch": "as_strided_ resize_as_"}


def _reshaping(name: str, function: Callable[..., Any]) -> None:
    """A method that replaces what the tensor looks at by a view of it."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return _reshape(name, self, lambda before: function(before, *args, **kwargs))

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"As `{name[:-1]}`, changing the tensor itself."
    METHODS[name] = method


def _reshape(name: str, tensor: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Make `tensor` what `function`, a view, makes of it; inside vmap, of the batch."""
    level = getattr(tensor, "level", None)
    if level is not None:
        made: Tensor = level.reshape_inplace(tensor, function, functools.partial(_reshape, name))
        return made
    mode = settle()
    _refuse_wrapper(name, tensor)
    _refuse_inference(name, tensor, mode)
    if mode.grad and not mode.inference and tensor.requires_grad:
        check_history_can_change(name, tensor)
    edge = tensor._interior_edge()
    before = _stand_in(tensor, edge)
    felt = [one for one in visible_levels() if one.get(tensor) is not None] if LEVELS else ()
    for level in felt:
        level.put(before, level.get(tensor))
    after = function(before)
    for level in felt:
        level.put(tensor, level.get(after))
    tensor._array = after._array
    bump(tensor, name)
    info = tensor._node
    if info.__class__ is View and info.manner.replay is not None:
        info.change(replay=(*info.manner.replay, function))
    node = after._node.node if after._node.__class__ is View else after._node
    if node is not None:
        _take_history(tensor, edge, node)
    return tensor


def _refuse_wrapper(name: str, tensor: Tensor) -> None:
    """Of a wrapper the outside alone would change, and no more be what it wraps."""
    if isinstance(tensor._array, Hollow):
        raise NotImplementedError(
            f"{name}: {type(tensor).__name__} wraps other tensors, and keeps its shape and memory; "
            "call the form that gives a new tensor."
        )


def _refuse_inference(name: str, tensor: Tensor, mode: Mode) -> None:
    if tensor.is_inference() and not mode.inference:
        raise RuntimeError(
            f"{name}: an inference tensor cannot be changed in place outside inference_mode. Clone "
            "it first."
        )


def _stand_in(tensor: Tensor, edge: Edge | None) -> Tensor:
    """The tensor as it is before the change."""
    before = new(Tensor)
    before._array = tensor._array
    before._node = edge
    before._cell = UNWRITTEN
    return before


# How torch numbers the nodes of the in-place forms.
_RENUMBERED = {
    "UnsqueezeBackward0": "UnsqueezeBackward1",
    "TransposeBackward0": "TransposeBackward1",
    "TBackward0": "TBackward1",
    "AsStridedBackward0": "AsStridedBackward1",
    "SqueezeBackward0": "SqueezeBackward3",
    "SqueezeBackward1": "SqueezeBackward4",
    "SqueezeBackward2": "SqueezeBackward5",
}


def _take_history(tensor: Tensor, old: Edge | None, node: Any) -> None:
    """Make the view's node that of the tensor itself."""
    name = type(node).__name__
    node.__class__ = renamed(type(node), _RENUMBERED.get(name, name))
    move_retention(tensor, old, node)
    if tensor._node.__class__ is View:
        tensor._node.node = node
        tensor._node.version = tensor._cell[0]
    else:
        tensor._node = node


_VIEWS: dict[str, Any] = {
    "t_": t,
    "transpose_": transpose,
    "swapaxes_": swapaxes,
    "swapdims_": transpose,
    "squeeze_": squeeze,
    "unsqueeze_": unsqueeze,
    "as_strided_": as_strided,
}
for _name, _function in _VIEWS.items():
    _reshaping(_name, _function)


def _resize(
    self: Tensor, *sizes: Any, size: Any = None, memory_format: memory_format | None = None
) -> Tensor:
    """Change the shape, keeping as many elements as fit; new ones are not set.

    >>> import pullback as torch
    >>> torch.tensor([1, 2, 3, 4]).resize_(2, 2)
    tensor([[1, 2],
            [3, 4]])
    """
    shape = shape_argument("resize_", sizes, size)
    level: Any = getattr(self, "level", None)
    if level is not None:
        batch: Tensor = level.resize_inplace(self, shape, memory_format)
        return batch
    mode = settle()
    _refuse_wrapper("resize_", self)
    _refuse_inference("resize_", self, mode)
    if self.requires_grad and not mode.inference:
        raise RuntimeError(
            "resize_: a tensor that requires grad cannot be resized; detach() it, or use reshape()."
        )
    if _has_tangent(self):
        raise RuntimeError(
            "resize_: a tensor with a tangent cannot be resized; detach() it, or use reshape()."
        )
    array = self._array
    order = order_of("resize_", memory_format or contiguous_format, len(shape))
    if shape == array.shape and memory_format is None:
        return self
    strides = strides_in_order(shape, order)
    if (shape, strides) != (array.shape, element_strides(array)):
        self._array = resized("resize_", self, shape, strides)
        bump(self, "resize_")
    return self


def _has_tangent(tensor: Tensor) -> bool:
    return any(level.get(tensor) is not None for level in open_levels())


def _resize_as(
    self: Tensor, the_template: Tensor, *, memory_format: memory_format | None = None
) -> Tensor:
    """Change the shape to that of another tensor.

    >>> import pullback as torch
    >>> torch.tensor([1, 2, 3, 4]).resize_as_(torch.zeros(2, 2))
    tensor([[1, 2],
            [3, 4]])
    """
    if not isinstance(the_template, Tensor):
        raise errors.not_a_tensor("resize_as_", "the_template", the_template)
    if memory_format is preserve_format:
        memory_format = suggested_format(the_template._array)
    return _resize(self, tuple(the_template.shape), memory_format=memory_format)


def _set(
    self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None
) -> Tensor:
    """Look at the memory of another tensor, or at a storage, from an offset on in a shape.

    >>> import pullback as torch
    >>> torch.zeros(1).set_(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    if hasattr(source, "untyped"):
        source = _on_memory(self, source, storage_offset, size, stride)
    elif not isinstance(source, Tensor | None):
        raise TypeError("set_(): give a tensor or a storage, or nothing to become empty.")
    elif size is not None and source is not None:
        whole = source.untyped_storage()
        source = _on_memory(self, whole, storage_offset, size, stride)
    mode = settle()
    _refuse_wrapper("set_", self)
    if mode.grad and self._leaf_mark().__class__ is Leaf:
        raise errors.leaf_written("set_")
    if source is not None and source.dtype is not self.dtype:
        raise RuntimeError(f"set_: the source has dtype {source.dtype}, the tensor {self.dtype}.")
    if _has_tangent(self) or (source is not None and _has_tangent(source)):
        raise NotImplementedError(
            "set_: forward mode has no rule for it; detach() the tensors that have tangents."
        )
    tracked = self.requires_grad or (source is not None and source.requires_grad)
    edges = (edge_of(self), None if source is None else edge_of(source))
    if mode.grad and not mode.inference and tracked:
        check_history_can_change("set_", self)
    empty = held(numpy.empty(0, self._array.dtype)) if source is None else None
    self._array = empty if source is None else source._array
    bump(self, "set_")
    if self._leaf_mark().__class__ is Leaf:
        # What was computed from the old memory belongs to the old accumulator, of the old shape.
        self._set_leaf_mark(new_leaf_mark())
    if mode.grad and not mode.inference and tracked:
        self._node = unsupported_node("set_", edges, self)
    return self


def _on_memory(self: Tensor, storage: Any, offset: int, size: Any, stride: Any) -> Tensor:
    """A tensor of this one's dtype on a storage; the storage grows if it is too small."""
    if getattr(storage, "dtype", self.dtype) is not self.dtype:
        raise RuntimeError(
            f"set_: the storage has elements of {storage.dtype}, the tensor of {self.dtype}; use "
            "its untyped() form."
        )
    untyped, width = storage.untyped(), self._array.itemsize
    shape = (untyped.nbytes() // width - offset,) if size is None else tuple(size)
    steps = contiguous_strides(shape) if stride is None else tuple(stride)
    if offset < 0 or min(steps, default=0) < 0:
        raise RuntimeError(
            f"set_: an offset and strides count elements from the storage's first one, and are not "
            f"negative; got offset {offset} and strides {steps}."
        )
    reach = offset + sum((n - 1) * s for n, s in zip(shape, steps, strict=True)) + 1
    if math.prod(shape) and reach * width > untyped.nbytes():
        untyped.resize_(reach * width)
    strides = tuple(s * width for s in steps)
    if not math.prod(shape):  # which may begin beyond the end
        offset = min(offset, untyped.nbytes() // width)
    return wrap(numpy.ndarray(shape, self._array.dtype, untyped._bytes, offset * width, strides))


def unsupported_node(op: str, edges: tuple[Edge | None, ...], result: Tensor) -> NotImplementedNode:
    """The history of a result whose operator has no derivative: backward refuses."""
    node = new(NotImplementedNode)
    node._op, node._edges, node._cold = op, edges, None
    node._g_shape, node._g_dtype = result._array.shape, result._array.dtype
    node._code, node._lasti = here(2) or (None, 0)
    node._seq = numbering.next()
    return node


METHODS["resize_"] = _resize
METHODS["resize_as_"] = _resize_as
METHODS["set_"] = _set

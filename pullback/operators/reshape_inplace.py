"""In-place changes of a tensor's shape: `t_`, `squeeze_`, `resize_` and the like.

The elements stay, the tensor looks at them differently; its history gets the view's node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.forward import LEVELS
from pullback.core.mode import settle
from pullback.core.node import Edge, Leaf, NotImplementedNode, next_seq
from pullback.core.origin import here
from pullback.core.tensor import Tensor, new
from pullback.core.version import UNWRITTEN, bump
from pullback.core.view import View, edge_of, move_retention
from pullback.operators.declare import METHODS
from pullback.operators.inplace import check_history_can_change
from pullback.operators.options import as_shape
from pullback.operators.shape import as_strided, squeeze, t, transpose, unsqueeze
from pullback.operators.strides import restrided, root


def _reshaping(name: str, function: Callable[..., Any]) -> None:
    """A method that replaces what the tensor looks at by a view of it."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        mode = settle()
        if mode.grad and not mode.inference and self.requires_grad:
            check_history_can_change(name, self)
        edge = self._interior_edge()
        after = function(_stand_in(self, edge), *args, **kwargs)
        self._array = after._array
        bump(self, name)
        if self._node.__class__ is View and self._node.replay is not None:
            self._node.replay += (lambda base: function(base, *args, **kwargs),)
        node = after._node.node if after._node.__class__ is View else after._node
        if node is not None:
            _take_history(self, edge, node)
        return self

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"As `{name[:-1]}`, changing the tensor itself."
    METHODS[name] = method


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
_renamed: dict[type, type] = {}


def _take_history(tensor: Tensor, old: Edge | None, node: Any) -> None:
    """Make the view's node that of the tensor itself."""
    cls = type(node)
    if cls.__name__ in _RENUMBERED:
        known = _renamed.get(cls)
        if known is None:
            members = {"__slots__": (), "__module__": cls.__module__}
            known = _renamed[cls] = type(_RENUMBERED[cls.__name__], (cls,), members)
        node.__class__ = known
    move_retention(tensor, old, node)
    if tensor._node.__class__ is View:
        tensor._node.node = node
        tensor._node.version = tensor._cell[0]
    else:
        tensor._node = node


_VIEWS: dict[str, Any] = {
    "t_": t,
    "transpose_": transpose,
    "swapaxes_": transpose,
    "swapdims_": transpose,
    "squeeze_": squeeze,
    "unsqueeze_": unsqueeze,
    "as_strided_": as_strided,
}
for _name, _function in _VIEWS.items():
    _reshaping(_name, _function)


def _resize(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Change the shape, keeping as many elements as fit; new ones are not set."""
    given = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    shape = as_shape(tuple(given), 0, "resize_")
    if self.requires_grad:
        raise RuntimeError(
            "resize_: a tensor that requires grad cannot be resized; detach() it, or use reshape()."
        )
    if any(level.get(self) is not None for level in LEVELS):
        raise RuntimeError(
            "resize_: a tensor with a tangent cannot be resized; detach() it, or use reshape()."
        )
    if shape == self._array.shape:
        return self
    wanted = int(numpy.prod(shape, dtype=numpy.int64))
    available = root(self._array)
    if wanted <= available.size and self._array.flags.c_contiguous:
        item = self._array.itemsize
        steps = [
            int(numpy.prod(shape[i + 1 :], dtype=numpy.int64)) * item for i in range(len(shape))
        ]
        try:
            self._array = restrided(self._array, shape, steps)
        except (ValueError, TypeError):
            self._array = _grown(self._array, shape, wanted)
    else:
        self._array = _grown(self._array, shape, wanted)
    bump(self, "resize_")
    return self


def _grown(array: Any, shape: tuple[int, ...], wanted: int) -> Any:
    grown = numpy.zeros(wanted, array.dtype)
    kept = min(wanted, array.size)
    grown[:kept] = array.reshape(-1)[:kept]
    return grown.reshape(shape)


def _resize_as(self: Tensor, other: Tensor, memory_format: Any = None) -> Tensor:
    """Change the shape to that of another tensor."""
    return _resize(self, tuple(other.shape))


def _set(self: Tensor, source: Any = None, *unsupported: Any) -> Tensor:
    """Look at the memory of another tensor."""
    if unsupported or not isinstance(source, Tensor | None):
        raise RuntimeError("set_: give another tensor, or nothing to become empty.")
    mode = settle()
    if mode.grad and self._leaf_mark().__class__ is Leaf:
        raise errors.leaf_written("set_")
    if source is not None and source.dtype is not self.dtype:
        raise RuntimeError(f"set_: the source has dtype {source.dtype}, the tensor {self.dtype}.")
    tracked = self.requires_grad or (source is not None and source.requires_grad)
    edges = (edge_of(self), None if source is None else edge_of(source))
    if mode.grad and not mode.inference and tracked:
        check_history_can_change("set_", self)
    self._array = numpy.empty(0, self._array.dtype) if source is None else source._array
    bump(self, "set_")
    if mode.grad and not mode.inference and tracked:
        self._node = unsupported_node("set_", edges, self)
    return self


def unsupported_node(op: str, edges: tuple[Edge | None, ...], result: Tensor) -> NotImplementedNode:
    """The history of a result whose operator has no derivative: backward refuses."""
    node = new(NotImplementedNode)
    node._op, node._edges, node._cold = op, edges, None
    node._g_shape, node._g_dtype = result._array.shape, result._array.dtype
    node._code, node._lasti = here(2) or (None, 0)
    node._seq = next_seq()
    return node


METHODS["resize_"] = _resize
METHODS["resize_as_"] = _resize_as
METHODS["set_"] = _set

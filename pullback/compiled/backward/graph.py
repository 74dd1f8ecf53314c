"""The walk over a graph: which nodes a pass will run, what they keep, and a key that says so.

Two graphs of one key differ in the values of their tensors alone, so the program captured from one
serves the other. Sizes are part of the key.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy

from pullback.core.node import LEAF_SEQ, OUTPUT_SEQ
from pullback.core.tensor import Tensor

__all__ = ["Graph", "Unsupported"]


class Unsupported(Exception):  # noqa: N818 (no error: the engine runs the pass)
    """Why a pass is not captured."""


class _Reader:
    """What the nodes of one class keep, by slot."""

    __slots__ = ("inputs", "options", "outputs")

    def __init__(self, cls: type[Any]) -> None:
        plan = getattr(cls, "plan", None)
        if plan is None:
            raise Unsupported(f"{cls.__name__}, which no declared operator made")
        self.inputs = [(f"s_{param.name}", f"s_{param.name}_v") for param in plan.inputs]
        self.outputs = [(f"s_{n}", f"s_{n}_v", f"s_{n}_c") for n in plan.outputs]
        self.options = [f"s_{name}" for name in (*plan.options, *plan.derived)]


_readers: dict[type[Any], _Reader] = {}


class Graph:
    """Nodes newest first, leaves, arrays (each once), and the key."""

    def __init__(self, roots: list[tuple[Any, Any]], wanted: list[Any] | None) -> None:
        self.nodes: list[Any] = []
        self.leaves: list[Any] = []
        self.arrays: list[Any] = []
        self.tensors: list[Any] = []  # the tensor that stands on an array, or None
        self._places: dict[int, int] = {}  # id of an array -> its place
        self._numbers: dict[int, int] = {}  # id of a node or leaf -> its number
        parts: list[Any] = []
        heap: list[int] = []
        waiting: dict[int, Any] = {}
        for edge, g in roots:
            parts.append((self._edge(edge, heap, waiting), self.array(g._array, g)))
        while heap:
            node = waiting.pop(heappop(heap))
            if node._cold is not None:
                raise Unsupported(f"hooks on {type(node).__name__}")
            self.nodes.append(node)
            parts.append(self._node(node, heap, waiting))
        if wanted is not None:
            for edge in wanted:
                target = edge.node if edge._seq == OUTPUT_SEQ else edge
                parts.append((self._numbers.get(id(target)), edge._seq == OUTPUT_SEQ and edge.nr))
        self.key = tuple(parts)

    def array(self, array: Any, tensor: Any = None) -> int:
        """The place of an array among the inputs."""
        if type(array) is not numpy.ndarray:
            raise Unsupported(f"an array of type {type(array).__name__}")
        place = self._places.get(id(array))
        if place is None:
            place = self._places[id(array)] = len(self.arrays)
            self.arrays.append(array)
            self.tensors.append(tensor)
        elif self.tensors[place] is None:
            self.tensors[place] = tensor
        return place

    def _edge(self, edge: Any, heap: list[int], waiting: dict[int, Any]) -> Any:
        if edge is None or edge._seq > OUTPUT_SEQ:
            return None
        number = None
        node = edge
        if edge._seq == OUTPUT_SEQ:
            node, number = edge.node, edge.nr
        known = self._numbers.get(id(node))
        if known is None:
            known = self._numbers[id(node)] = len(self._numbers)
            if node._seq == LEAF_SEQ:
                if node._cold is not None or node.variable._post_accumulate_grad_hooks:
                    raise Unsupported("hooks on a leaf")
                if node.variable._leaf_hooks:
                    raise Unsupported("hooks on a leaf")
                self.leaves.append(node)
            else:
                waiting[node._seq] = node
                heappush(heap, node._seq)
        return (known, node._seq == LEAF_SEQ, number)

    def _node(self, node: Any, heap: list[int], waiting: dict[int, Any]) -> Any:
        cls = type(node)
        reader = _readers.get(cls)
        if reader is None:
            reader = _readers[cls] = _Reader(cls)
        part: list[Any] = [cls, node._g_shape, node._g_dtype]
        for edge in node._edges:
            part.append(self._edge(edge, heap, waiting))
        for slot, version in reader.inputs:
            part.append(self._kept(getattr(node, slot), getattr(node, version)))
        for slot, version, cell in reader.outputs:
            array = getattr(node, slot)
            if array is None:
                part.append(None)
                continue
            if getattr(node, cell)[0] != getattr(node, version):
                raise Unsupported("a saved tensor that was changed")
            part.append(self._described(array, None))
        for slot in reader.options:
            value = getattr(node, slot)
            try:
                hash(value)
            except TypeError:
                raise Unsupported(f"an option of {cls.__name__} that cannot be compared") from None
            part.append((type(value), value))
        return tuple(part)

    def _kept(self, value: Any, version: Any) -> Any:
        if isinstance(value, Tensor):
            if value._cell[0] != version:
                raise Unsupported("a saved tensor that was changed")
            return self._described(value._array, value)
        if isinstance(value, tuple):
            versions = version if isinstance(version, tuple) else (None,) * len(value)
            return tuple(self._kept(v, n) for v, n in zip(value, versions, strict=True))
        if value is None or isinstance(value, int | float | complex | numpy.generic):
            return (type(value), value)
        raise Unsupported(f"a saved value of type {type(value).__name__}")

    def _described(self, array: Any, tensor: Any) -> Any:
        return (self.array(array, tensor), array.shape, array.strides, array.dtype)

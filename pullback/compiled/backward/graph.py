"""The walk over a graph: which nodes a pass will run, what they keep, and a key that says so.

Two graphs of one key differ in the values of their tensors alone, so the program captured from one
serves the other. Sizes are part of the key. Walking is what a captured pass still costs, so each
class of nodes has a function written for it that reads its slots in a fast path.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy

from pullback.core.node import LEAF_SEQ, OUTPUT_SEQ
from pullback.core.saved import Freed, Packed
from pullback.core.tensor import Tensor
from pullback.core.writer import define

__all__ = ["Graph", "Stale", "Unsupported", "geometry_of", "hooks_at", "hooks_of", "option_part"]


class Unsupported(Exception):  # noqa: N818 (no error: the engine runs the pass)
    """Why a pass is not captured."""


class Stale(Unsupported):
    """A saved value was changed or freed: the engine raises the error, with what it knows."""


class _ByItself(Exception):  # noqa: N818 (no error: the engine runs the node)
    """A node keeps what only a user's function makes a tensor of."""


class Graph:
    """Nodes newest first, leaves, arrays (each once), and the key.

    A user's code runs at some of them, the stops: hooks, a custom Function, an unpack hook. So are
    nodes that no declared operator made (a write to a view, a compiled call). What they keep is no
    part of the graph, and which functions they call is none of the key.
    """

    def __init__(self, roots: list[tuple[Any, Any]], wanted: list[Any] | None) -> None:
        self.nodes: list[Any] = []
        self.leaves: list[Any] = []
        self.arrays: list[Any] = []
        self.tensors: list[Any] = []  # the tensor that stands on an array, or None
        self.places: dict[int, int] = {}  # id of an array -> its place
        self.numbers: dict[int, int] = {}  # id of a node, output or leaf -> its number
        self.stops: dict[int, Any] = {}  # id of a node or leaf -> how many hooks of each sort
        self._heap: list[int] = []
        self._waiting: dict[int, Any] = {}
        parts: list[Any] = []
        for edge, g in roots:
            parts += (self.edge(edge), self.array(g._array, g))
        self._walk(parts)
        if wanted is not None:
            for edge in wanted:
                if edge._seq == OUTPUT_SEQ:
                    parts.append((self.numbers.get(id(edge.node)), edge.nr))
                else:
                    parts.append(self.numbers.get(id(edge)))
        # What a gradient is fitted to: of an operand that nobody keeps, nothing else would tell.
        parts += [geometry_of(one) for one in (*self.nodes, *self.leaves)]
        parts += [(a.shape, a.strides, a.dtype) for a in self.arrays]
        parts += [("stop", self.numbers[one], hooks) for one, hooks in self.stops.items()]
        self.key = tuple(parts)

    def _walk(self, parts: list[Any]) -> None:
        heap, waiting = self._heap, self._waiting
        numbers, places = self.numbers, self.places
        node: Any = None
        while True:
            if len(waiting) == 1 and len(heap) == 1:
                _, node = waiting.popitem()
                heap.clear()
            elif heap:
                node = waiting.pop(heappop(heap))
            else:
                return
            self.nodes.append(node)
            if node._cold is not None and node._cold.has_hooks:  # not only what anomaly mode keeps
                self._stop(node, parts)
                continue
            read = _readers.get(node.__class__)
            if read is None:
                if getattr(node.__class__, "plan", None) is None:
                    self._stop(node, parts)
                    continue
                read = _readers[node.__class__] = _written(node.__class__)
            before = len(parts)
            try:
                read(node, self, numbers, places, parts)
            except _ByItself:
                del parts[before:]
                self._stop(node, parts)

    def _stop(self, node: Any, parts: list[Any]) -> None:
        """A node that the engine runs."""
        self.stops[id(node)] = hooks_of(node._cold)
        parts += (node.__class__, len(node._edges))
        for edge in node._edges:
            parts.append(self.edge(edge))

    def array(self, array: Any, tensor: Any = None) -> int:
        """The place of an array among the inputs."""
        if type(array) is not numpy.ndarray:
            if type(array) is Packed:
                raise _ByItself
            raise Unsupported(f"an array of type {type(array).__name__}")
        place = self.places.get(id(array))
        if place is None:
            place = self.places[id(array)] = len(self.arrays)
            self.arrays.append(array)
            self.tensors.append(tensor)
        elif self.tensors[place] is None:
            self.tensors[place] = tensor
        return place

    def edge(self, edge: Any) -> Any:
        """What stands for an edge in the key: the number of where it leads."""
        if edge is None or edge._seq > OUTPUT_SEQ:
            return None
        if edge._seq == OUTPUT_SEQ:
            return (self.edge(edge.node), edge.nr)
        known = self.numbers.get(id(edge))
        if known is not None:
            return known
        known = self.numbers[id(edge)] = len(self.numbers)
        if edge._seq == LEAF_SEQ:
            leaf = edge.variable
            stops = edge._cold is not None and edge._cold.has_hooks
            if stops or leaf._post_accumulate_grad_hooks or leaf._leaf_hooks:
                self.stops[id(edge)] = hooks_at(edge)
            self.leaves.append(edge)
            return -1 - known  # no node has such a number
        self._waiting[edge._seq] = edge
        heappush(self._heap, edge._seq)
        return known

    def changed(self, value: Any) -> None:
        """Refuse a saved value of another version than its tensor; a packed one has none."""
        if isinstance(value, Packed):
            raise _ByItself
        raise Stale("a saved tensor that was changed or freed")

    def kept(self, value: Any, version: Any) -> Any:
        """What stands for a saved input in the key."""
        if isinstance(value, Tensor):
            if value._cell[0] != version:
                self.changed(value)
            return self.array(value._array, value)
        if isinstance(value, tuple):
            versions = version if isinstance(version, tuple) else (None,) * len(value)
            return tuple(self.kept(v, n) for v, n in zip(value, versions, strict=True))
        if value is None or isinstance(value, int | float | complex | numpy.generic):
            return (type(value), value)
        if isinstance(value, Packed):
            raise _ByItself
        if isinstance(value, Freed):
            raise Stale("a saved tensor that was freed")
        raise Unsupported(f"a saved value of type {type(value).__name__}")


def geometry_of(node: Any) -> tuple[Any, ...]:
    """Shape and dtype of the gradient that a node takes; of several, of each."""
    sizes = node._g_sizes
    return (node._g_shape, node._g_dtype) if sizes is None else tuple(sizes)


def hooks_of(cold: Any) -> Any:
    """How many hooks of each sort a node has, not which."""
    if cold is None or not cold.has_hooks:
        return None
    tensors = tuple([(nr, len(hooks)) for nr, hooks in (cold.tensor_hooks or {}).items()])
    counts = len(cold.pre_hooks or ()), len(cold.post_hooks or ())
    return tensors, tuple(cold.retained or ()), counts


def hooks_at(leaf_node: Any) -> Any:
    """The same of a leaf."""
    leaf = leaf_node.variable
    return (
        hooks_of(leaf_node._cold),
        len(leaf._leaf_hooks or ()),
        len(leaf._post_accumulate_grad_hooks or ()),
    )


def option_part(value: Any) -> Any:
    """What stands for an option in the key."""
    try:
        hash(value)
    except TypeError:
        raise Unsupported("an option that cannot be compared") from None
    return (type(value), value)


def _written(cls: type[Any]) -> Any:
    """The function that adds a node of a class to the key."""
    plan = cls.plan
    # Edges of known nodes are found here; everything else is asked of the graph.
    lines = ["def read(node, graph, numbers, places, parts):", "    add = parts.append",
             "    add(cls)", "    for edge in node._edges:", "        k = numbers.get(id(edge))",
             "        add(graph.edge(edge) if k is None else k)"]  # fmt: skip
    for param in plan.inputs:
        name = f"s_{param.name}"
        lines += [
            f"    v = node.{name}",
            f"    if v.__class__ is Tensor and v._cell[0] == node.{name}_v:",
            "        k = places.get(id(v._array))",
            "        add(graph.array(v._array, v) if k is None else k)",
            "    else:",
            f"        add(graph.kept(v, node.{name}_v))",
        ]
    for output in plan.outputs:
        name = f"s_{output}"
        lines += [
            f"    v = node.{name}",
            f"    if v is not None and node.{name}_c[0] != node.{name}_v:",
            "        graph.changed(v)",
            "    add(None if v is None else graph.array(v))",
        ]
    for option in (*plan.options, *plan.derived):
        lines.append(f"    add(option(node.s_{option}))")
    scope: dict[str, Any] = {"cls": cls, "Tensor": Tensor, "option": option_part}
    return define(lines, scope, f"key of {plan.op.name}: {cls.__name__}")


_readers: dict[type[Any], Any] = {}

"""Gradients on their way: what waits for which node or leaf, and who may add into it."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import Any, TypeAlias

import numpy
from numpy import ndarray

from pullback.core.arrays import LIBRARIES, Array
from pullback.core.node import LEAF_SEQ, OUTPUT_SEQ, AccumulateGrad, OperatorNode, Output
from pullback.engine.filter import Filter

add = numpy.add


# Adds a gradient to a leaf's `.grad`: of the leaf, the gradient, and `owned`, whether nobody else
# can see that.
Store: TypeAlias = Callable[..., None]


class Inbox:
    """Gradients that wait: for nodes (by number), for leaves, and which of these sums are ours.

    A gradient that comes alone is stored as it is: others may know its memory. A sum is made in new
    memory, where the second is that in its own, and then is ours: later ones are added into it.
    """

    __slots__ = ("failed", "gradients", "heap", "leaves", "nodes", "owned")

    def __init__(self) -> None:
        self.failed: OperatorNode | None = None
        self.heap: list[int] = []
        self.nodes: dict[int, OperatorNode] = {}
        self.gradients: dict[int, Any] = {}
        self.leaves: dict[AccumulateGrad, Array] = {}
        self.owned: set[int | AccumulateGrad] = set()

    def put(self, node: OperatorNode, g: Array, *, fresh: bool = False) -> None:
        """A gradient for a node of one output; `fresh`: new memory, unless it is a view."""
        seq = node._seq
        before = self.gradients.get(seq)
        if before is not None:
            self.gradients[seq] = _sum(before, g, seq in self.owned, fresh)
            self.owned.add(seq)
            return
        self.gradients[seq] = g
        if seq not in self.nodes:
            self.nodes[seq] = node
            heappush(self.heap, seq)

    def put_leaf(self, leaf: AccumulateGrad, g: Array, *, fresh: bool = False) -> None:
        """A gradient for a leaf."""
        before = self.leaves.get(leaf)
        if before is None:
            self.leaves[leaf] = g
        else:
            self.leaves[leaf] = _sum(before, g, leaf in self.owned, fresh)
            self.owned.add(leaf)

    def put_output(self, output: Output, g: Array) -> None:
        """A gradient for one output of a node of several."""
        node: Any = output.node
        seq = node._seq
        slots = self.gradients.get(seq)
        if slots is None:
            slots = self.gradients[seq] = [None] * len(node._g_sizes)
            if seq not in self.nodes:
                self.nodes[seq] = node
                heappush(self.heap, seq)
        before = slots[output.nr]
        if before is None:
            slots[output.nr] = g
        else:
            slots[output.nr] = _sum(before, g)

    def put_root(self, edge: Any, g: Array, chosen: Filter | None) -> None:
        """The gradient that a pass starts from."""
        seq = edge._seq
        node = edge.node if seq == OUTPUT_SEQ else edge
        if chosen is not None and node not in chosen.reached:
            return
        if seq == LEAF_SEQ:
            self.put_leaf(edge, g)
        elif seq == OUTPUT_SEQ:
            self.put_output(edge, g)
        elif seq < 0:
            self.put(edge, g)

    def put_undefined(self, target: Any) -> None:
        """No gradient for a node or output, which runs all the same; leaves stay as they are."""
        seq = target._seq
        if seq == OUTPUT_SEQ:
            target = target.node
            seq = target._seq
        if seq < 0 and seq not in self.nodes:
            self.gradients[seq] = None
            self.nodes[seq] = target
            heappush(self.heap, seq)

    def keep_complete_leaves(self, chosen: Filter | None, store: Store) -> None:
        """After a failure, store what has arrived where nothing more could have.

        Those are the leaves that the ordered pass would have served by then.
        """
        if self.failed is None:
            return
        awaited = self.awaited_leaves(chosen)
        for leaf, total in self.leaves.items():
            if leaf not in awaited and (chosen is None or leaf not in chosen.captures):
                store(leaf, total, owned=leaf in self.owned)

    def awaited_leaves(self, chosen: Filter | None) -> set[Any]:
        """Leaves to which the node that failed, or one that has not run, still leads."""
        seen: set[Any] = set()
        stack: list[Any] = [*self.nodes.values(), self.failed]
        while stack:
            edge = stack.pop()
            target = edge.node if isinstance(edge, Output) else edge
            if target is None or target in seen:
                continue
            seen.add(target)
            stack.extend(target._edges if chosen is None else chosen.edges.get(target, ()))
        return seen

    def clear(self) -> None:
        """Let go of everything."""
        self.failed = None
        for part in (self.heap, self.nodes, self.gradients, self.owned):
            part.clear()
        self.leaves.clear()


def _sum(before: Any, g: Any, ours: bool = False, fresh: bool = False) -> Any:
    """Of arrays of one shape, in the memory of one of them if that is known to nobody else."""
    if type(before) is ndarray:
        if ours:
            return add(before, g, before)
        if fresh and type(g) is ndarray and g.base is None and g.dtype is before.dtype:
            return add(before, g, g)
        return before + g
    library = LIBRARIES.get(type(before))
    if library is None or type(g) is not type(before):  # NumPy's numbers, sparse ones, tensors
        return before + g
    return library.added(before, g, into=ours)

"""Leaves served before the end of a pass that serves them last, because somebody looks.

The plain and the recorded pass write `.grad` when all nodes have run. A hook that reads a leaf's
`.grad`, or a pass inside the pass that adds to it, must find what the promised order says: a leaf
is complete when the last node that leads to it has run. Nodes run in the order of their numbers, so
one walk over the rest of the graph, at the first look, tells for each leaf when that will be.
"""

from __future__ import annotations

from heapq import heapify, heappop
from typing import TYPE_CHECKING, Any

from pullback.core.node import LEAF_SEQ, OUTPUT_SEQ, AccumulateGrad, Node

if TYPE_CHECKING:
    from collections.abc import Callable

    from pullback.engine.filter import Filter
    from pullback.engine.inbox import Inbox


class EarlyLeaves:
    """The leaves of one pass, in the order in which they become complete."""

    __slots__ = ("_inbox", "_leaves", "_store", "_waiting")

    def __init__(
        self,
        inbox: Inbox,
        chosen: Filter | None,
        store: Callable[[AccumulateGrad, Any], None],
        node: Node,
    ) -> None:
        self._inbox = inbox
        self._store = store
        self._leaves: list[AccumulateGrad] = []
        # Number of the last node that leads to the leaf, and which leaf.
        self._waiting: list[tuple[int, int]] = []
        last = _last_givers([node, *inbox.nodes.values()], chosen)
        for leaf in inbox.leaves:
            last.setdefault(leaf, node._seq - 1)  # complete: nothing that will run leads there
        for leaf, seq in last.items():
            if chosen is None or leaf not in chosen.captures:
                self._waiting.append((seq, len(self._leaves)))
                self._leaves.append(leaf)
        heapify(self._waiting)

    def serve(self, node: Node) -> None:
        """Store what arrived at every leaf that no node from `node` on leads to."""
        inbox, waiting = self._inbox, self._waiting
        while waiting and waiting[0][0] < node._seq:
            leaf = self._leaves[heappop(waiting)[1]]
            if leaf in inbox.leaves:
                self._store(leaf, inbox.leaves.pop(leaf))


def _last_givers(first: list[Any], chosen: Filter | None) -> dict[AccumulateGrad, int]:
    last: dict[AccumulateGrad, int] = {}
    seen: set[Node] = set(first)
    stack = list(seen)
    while stack:
        node = stack.pop()
        edge: Any
        for edge in node._edges if chosen is None else chosen.edges.get(node, ()):
            if edge is None or edge._seq > OUTPUT_SEQ:
                continue
            if edge._seq == LEAF_SEQ:
                last[edge] = max(node._seq, last.get(edge, node._seq))
                continue
            target = edge.node if edge._seq == OUTPUT_SEQ else edge
            if target not in seen:
                seen.add(target)
                stack.append(target)
    return last

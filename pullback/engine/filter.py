"""Which nodes a pass with `inputs` needs: those on a way from a root to an input, no others."""

from __future__ import annotations

from collections.abc import Set
from operator import attrgetter
from typing import Any

from pullback.core.node import LEAF_SEQ, OUTPUT_SEQ, Node

_age = attrgetter("_seq")
_ONLY = frozenset({0})  # the slots of a node that has one


class Filter:
    """The pruned graph of one pass."""

    __slots__ = ("captures", "captures_inside", "pruned", "reached")

    # Nodes that run, with their edges; None in place of one whose gradient nobody needs. No table
    # where all nodes run, with all of their edges.
    pruned: dict[Node, tuple[Any, ...]] | None
    # Nodes (and leaves) whose arriving gradient is asked for, and which of their slots.
    captures: dict[Node, Set[int]]
    captures_inside: bool  # whether any of them is not a leaf
    reached: set[Node]

    def __init__(self, roots: list[Any], wanted: list[Any], *, accumulates: bool) -> None:
        asked: dict[Node, Any] = {}
        inside = False
        for edge in wanted:
            seq = None if edge is None else edge._seq
            if seq == LEAF_SEQ:
                asked[edge] = _ONLY
            elif seq == OUTPUT_SEQ:
                asked.setdefault(edge.node, set()).add(edge.nr)
                inside = True
            elif seq is not None and seq < 0:
                asked[edge] = _ONLY
                inside = True
        self.captures = {} if accumulates else asked
        self.captures_inside = inside
        nodes, leaves, ends, outputs = _reachable(roots, asked)
        if not inside and not ends:  # all that can run must run
            nodes |= leaves
            self.reached = nodes
            self.pruned = None
        else:
            self.reached = leaves
            self.pruned = _pruned(
                nodes, asked, self.reached, outputs=outputs, accumulates=accumulates
            )

    @property
    def edges(self) -> dict[Node, tuple[Any, ...]]:
        """The nodes that run, with their edges, as a table in either case."""
        if self.pruned is None:
            self.pruned = {node: node._edges for node in self.reached if node._seq != LEAF_SEQ}
        return self.pruned


def _pruned(
    nodes: set[Any],
    asked: dict[Node, Set[int]],
    reached: set[Node],
    *,
    outputs: bool,
    accumulates: bool,
) -> dict[Node, tuple[Any, ...]]:
    """The nodes that lead to what is asked, with the edges that do; fills `reached`."""
    needed: dict[Node, tuple[Any, ...]] = {}
    # Edges lead from newer to older nodes, so what a node leads to is known before the node.
    for node in sorted(nodes, key=_age, reverse=True):
        edges = node._edges
        targets = _targets(edges) if outputs else edges
        if reached.isdisjoint(targets):
            if node in asked:
                reached.add(node)
                if accumulates:
                    needed[node] = (None,) * len(edges)
            continue
        if reached.issuperset(targets):
            needed[node] = edges
        elif len(edges) == 2:  # as most have: a third of the time of the next line
            needed[node] = (edges[0], None) if targets[0] in reached else (None, edges[1])
        else:
            pairs = zip(edges, targets, strict=True)
            needed[node] = tuple([edge if one in reached else None for edge, one in pairs])
        reached.add(node)
    return needed


def _targets(edges: tuple[Any, ...]) -> list[Any]:
    """The nodes that edges lead to."""
    return [edge.node if edge is not None and edge._seq == OUTPUT_SEQ else edge for edge in edges]


def _reachable(roots: list[Any], asked: dict[Node, Any]) -> tuple[set[Any], set[Any], bool, bool]:
    """Inner nodes, and leaves of those `asked` for, that the roots lead to.

    Then whether a way ends but at such a leaf, and whether one goes by an output of several.
    """
    nodes: set[Any] = set()
    leaves: set[Any] = set()
    ends = outputs = False
    stack: list[Any] = []
    edges: Any = roots
    while True:
        for edge in edges:
            if edge is None:
                continue
            seq = edge._seq
            if seq == LEAF_SEQ:
                if edge in asked:
                    leaves.add(edge)
                else:
                    ends = True
                continue
            if seq > 0:
                if seq != OUTPUT_SEQ:
                    ends = True
                    continue
                outputs = True
                edge = edge.node
            if edge not in nodes:
                nodes.add(edge)
                stack.append(edge)
        if not stack:
            return nodes, leaves, ends, outputs
        edges = stack.pop()._edges
        if not edges:
            ends = True

"""Which nodes a pass with `inputs` needs: those on a way from a root to an input, no others."""

from __future__ import annotations

from collections.abc import Set
from operator import attrgetter
from typing import Any, TypeAlias

from pullback.core.node import LEAF_SEQ, OUTPUT_SEQ, Node

_age = attrgetter("_seq")
_ONLY = frozenset({0})  # the slots of a node that has one

# Inner nodes that roots lead to, nearest first; these with all else that they lead to, and None;
# whether a way ends but at a leaf that was asked for; whether one goes by an output of several.
Walk: TypeAlias = tuple[list[Any], set[Any], bool, bool]


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

    def __init__(
        self, roots: Any, wanted: list[Any], *, accumulates: bool, walk: Walk | None = None
    ) -> None:
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
        nodes, seen, ends, outputs = reachable(roots, asked) if walk is None else walk
        if not inside and not ends:  # all that can run must run
            seen.discard(None)
            self.reached = seen
            self.pruned = None
        else:
            self.reached = {one for one in asked if one._seq == LEAF_SEQ and one in seen}
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
    nodes: list[Any],
    asked: dict[Node, Set[int]],
    reached: set[Node],
    *,
    outputs: bool,
    accumulates: bool,
) -> dict[Node, tuple[Any, ...]]:
    """The nodes that lead to what is asked, with the edges that do; fills `reached`."""
    needed: dict[Node, tuple[Any, ...]] = {}
    # Edges lead from newer to older nodes, so what a node leads to is known before the node.
    nodes.sort(key=_age, reverse=True)
    for node in nodes:
        edges = node._edges
        targets = _targets(edges) if outputs else edges
        kept: tuple[Any, ...] | None = None
        if len(edges) == 2:  # as most have: half the time of the lines below
            first, second = targets
            if first in reached:
                kept = edges if second in reached else (edges[0], None)
            elif second in reached:
                kept = (None, edges[1])
        elif reached.issuperset(targets) and edges:
            kept = edges
        elif not reached.isdisjoint(targets):
            pairs = zip(edges, targets, strict=True)
            kept = tuple([edge if one in reached else None for edge, one in pairs])
        if kept is not None:
            needed[node] = kept
            reached.add(node)
        elif node in asked:
            reached.add(node)
            if accumulates:
                needed[node] = (None,) * len(edges)
    return needed


def _targets(edges: tuple[Any, ...]) -> list[Any]:
    """The nodes that edges lead to."""
    return [edge.node if edge is not None and edge._seq == OUTPUT_SEQ else edge for edge in edges]


def reachable(roots: Any, asked: dict[Node, Any]) -> Walk:
    """Where the roots lead."""
    nodes: list[Any] = []
    seen: set[Any] = {None}
    ends = False
    for edge in roots:
        node = edge.node if edge is not None and edge._seq == OUTPUT_SEQ else edge
        if node not in seen:
            seen.add(node)
            if node._seq < 0:
                nodes.append(node)
            elif node not in asked:
                ends = True
    return walk_on(nodes, seen, asked, ends)


def walk_on(nodes: list[Any], seen: set[Any], asked: dict[Node, Any], ends: bool = False) -> Walk:
    """Where inner nodes lead: these, and None, were `seen`; they stand in a list that grows."""
    outputs = False
    for node in nodes:
        edges = node._edges
        if not edges:
            ends = True
        for edge in edges:
            if edge in seen:
                continue
            seq = edge._seq
            if seq == OUTPUT_SEQ:
                outputs = True
                edge = edge.node
                if edge in seen:
                    continue
                seq = edge._seq
            seen.add(edge)
            if seq < 0:
                nodes.append(edge)
            elif edge not in asked:  # another leaf, or nowhere
                ends = True
    return nodes, seen, ends, outputs

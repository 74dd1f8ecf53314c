"""Which nodes a pass with `inputs` needs: those on a way from a root to an input, no others."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from pullback.core.node import LEAF_SEQ, OUTPUT_SEQ, Node, Output, node_and_number

_age = attrgetter("_seq")


class Filter:
    """The pruned graph of one pass."""

    __slots__ = ("captures", "edges", "reached")

    # Nodes that run, with their edges; None where nobody needs the gradient.
    edges: dict[Node, tuple[Any, ...]]
    # Nodes (and leaves) whose arriving gradient is asked for, and which of their slots.
    captures: dict[Node, set[int]]
    reached: set[Node]

    def __init__(self, roots: list[Any], wanted: list[Any], *, accumulates: bool) -> None:
        asked: dict[Node, set[int]] = {}
        for edge in wanted:
            node, number = node_and_number(edge)
            if node is not None:
                asked.setdefault(node, set()).add(number)
        self.captures = {} if accumulates else asked
        self.reached = set()
        self.edges = {}
        nodes, leaves = _reachable(roots)
        self.reached.update(leaf for leaf in leaves if leaf in asked)
        # Edges lead from newer to older nodes, so what a node leads to is known before the node.
        for node in sorted(nodes, key=_age, reverse=True):
            self._decide(node, asked, accumulates=accumulates)

    def _decide(self, node: Node, asked: dict[Node, set[int]], *, accumulates: bool) -> None:
        reached = self.reached
        kept: list[Any] = []
        live = complete = 0
        for edge in node._edges:
            if edge is None:
                kept.append(None)
                complete += 1
                continue
            target: Any = edge.node if isinstance(edge, Output) else edge
            if target in reached:
                kept.append(edge)
                live += 1
                complete += 1
            else:
                kept.append(None)
        if live or (accumulates and node in asked):
            self.edges[node] = node._edges if complete == len(kept) else tuple(kept)
            reached.add(node)
        elif node in asked:
            reached.add(node)


def _reachable(roots: list[Any]) -> tuple[set[Node], set[Node]]:
    """Inner nodes and leaves that the roots lead to."""
    nodes: set[Node] = set()
    leaves: set[Node] = set()
    stack = [edge for edge in roots if edge is not None]
    while stack:
        edge = stack.pop()
        seq = edge._seq
        if seq < 0:
            node = edge
        elif seq == LEAF_SEQ:
            leaves.add(edge)
            continue
        elif seq == OUTPUT_SEQ:
            node = edge.node
        else:
            continue
        if node not in nodes:
            nodes.add(node)
            stack.extend(edge for edge in node._edges if edge is not None)
    return nodes, leaves

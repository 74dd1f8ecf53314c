"""The minimum cut of a network, by Dinic's algorithm: shortest ways that still carry, until none.

Written without recursion: graphs of programs are thousands of nodes deep.
"""

from __future__ import annotations

import math

__all__ = ["Network"]


class Network:
    """Nodes are numbers; an edge and the one back lie next to each other."""

    def __init__(self) -> None:
        self.heads: list[int] = []  # where an edge leads
        self.room: list[float] = []  # what it still carries
        self.edges: list[list[int]] = []  # by node

    def node(self) -> int:
        """One more node."""
        self.edges.append([])
        return len(self.edges) - 1

    def edge(self, start: int, end: int, capacity: float = math.inf) -> None:
        """An edge that carries so much."""
        for a, b, room in ((start, end, capacity), (end, start, 0.0)):
            self.edges[a].append(len(self.heads))
            self.heads.append(b)
            self.room.append(room)

    def near(self, source: int, sink: int) -> set[int] | None:
        """The nodes on the source's side of a minimum cut; None where everything can flow."""
        while True:
            depth = self._depths(source)
            if depth[sink] < 0:
                return {node for node, found in enumerate(depth) if found >= 0}
            if self._block(source, sink, depth) == math.inf:
                return None

    def _depths(self, source: int) -> list[int]:
        depth = [-1] * len(self.edges)
        depth[source] = 0
        line = [source]
        for node in line:
            for edge in self.edges[node]:
                if self.room[edge] > 0 and depth[self.heads[edge]] < 0:
                    depth[self.heads[edge]] = depth[node] + 1
                    line.append(self.heads[edge])
        return depth

    def _block(self, source: int, sink: int, depth: list[int]) -> float:
        """Send what the shortest ways carry."""
        sent = 0.0
        tried = [0] * len(self.edges)
        way: list[int] = []  # edges from the source to where we stand
        node = source
        while True:
            if node == sink:
                least = min(self.room[edge] for edge in way)
                if least == math.inf:
                    return math.inf
                sent += least
                for edge in way:
                    self.room[edge] -= least
                    self.room[edge ^ 1] += least
                full = next(place for place, edge in enumerate(way) if self.room[edge] <= 0)
                node = self.heads[way[full] ^ 1]
                del way[full:]
                continue
            while tried[node] < len(self.edges[node]):
                edge = self.edges[node][tried[node]]
                if self.room[edge] > 0 and depth[self.heads[edge]] == depth[node] + 1:
                    way.append(edge)
                    node = self.heads[edge]
                    break
                tried[node] += 1
            else:
                if not way:
                    return sent
                node = self.heads[way.pop() ^ 1]
                tried[node] += 1

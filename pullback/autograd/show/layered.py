"""Places for the boxes of a still picture: layers from the loss down, few crossings, short edges.

The page lays itself out in the browser, with dagre. A file written without a browser needs places
too, and no layout library in Python is both alive and small enough to ask users for; the classic
three steps fit on a page. Layers by the longest way from the loss; order in a layer by the middle
of the neighbours, swept up and down; then each box as near to its neighbours as its own layer lets
it. Edges that skip layers pass through points that are ordered and placed as boxes are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Edge = tuple[int, int]


MOST_POINTS = 20_000


@dataclass(slots=True)
class _Block:
    """Boxes of one layer that move together."""

    wish: float  # where its first box would like to be, times the weight
    weight: float
    boxes: list[int]
    span: float  # from the middle of the first box to that of the last


class Layers:
    """Boxes 0 to n-1 with their places, and the points that each edge goes through."""

    def __init__(
        self,
        widths: Sequence[float],
        heights: Sequence[float],
        edges: Sequence[Edge],
        *,
        gap: float = 22,
        drop: float = 36,
    ) -> None:
        self.widths = list(widths)
        self.heights = list(heights)
        self.edges = list(dict.fromkeys(edges))
        self.count = len(self.widths)
        self.gap, self.drop = gap, drop
        self.below: list[list[int]] = [[] for _ in range(self.count)]
        self.above: list[list[int]] = [[] for _ in range(self.count)]
        self.ways: dict[Edge, list[int]] = {}
        self.layer = self._layers()
        self._split_long_edges()
        self.rows = self._rows()
        self._order()
        self.x, self.y = self._places()

    def points(self, edge: Edge) -> list[tuple[float, float]]:
        """From the bottom of one box, through what lies between, to the top of the other."""
        a, b = edge
        start = (self.x[a], self.y[a] + self.heights[a] / 2)
        end = (self.x[b], self.y[b] - self.heights[b] / 2)
        return [start, *((self.x[i], self.y[i]) for i in self.ways[edge]), end]

    @property
    def size(self) -> tuple[float, float]:
        """Of the whole picture."""
        if not self.count:
            return 0, 0
        right = max(x + w / 2 for x, w in zip(self.x, self.widths, strict=True))
        bottom = max(y + h / 2 for y, h in zip(self.y, self.heights, strict=True))
        return right, bottom

    def _layers(self) -> list[int]:
        followers: list[list[int]] = [[] for _ in range(self.count)]
        waiting = [0] * self.count
        for a, b in self.edges:
            followers[a].append(b)
            waiting[b] += 1
        layer = [0] * self.count
        ready = [i for i in range(self.count) if not waiting[i]]
        order = []
        while ready:
            one = ready.pop()
            order.append(one)
            for other in followers[one]:
                layer[other] = max(layer[other], layer[one] + 1)
                waiting[other] -= 1
                if not waiting[other]:
                    ready.append(other)
        # What nothing leads to stands just above the first that it leads to.
        led_to = {b for _, b in self.edges}
        for one in reversed(order):
            if one not in led_to and followers[one]:
                layer[one] = min(layer[other] for other in followers[one]) - 1
        return layer

    def _split_long_edges(self) -> None:
        # The longest, which would cost a point in each of many layers, go straight instead, behind
        # the boxes: so a graph of thousands of nodes takes seconds.
        spans = sorted(self.layer[b] - self.layer[a] for a, b in self.edges)
        left, longest = MOST_POINTS, 1
        for span in spans:
            left -= span - 1
            if left < 0:
                break
            longest = span
        for a, b in self.edges:
            way: list[int] = []
            self.ways[a, b] = way
            if self.layer[b] - self.layer[a] > longest:
                continue
            before = a
            for layer in range(self.layer[a] + 1, self.layer[b]):
                point = len(self.layer)
                self.layer.append(layer)
                self.widths.append(2)
                self.heights.append(0)
                self.below.append([])
                self.above.append([])
                self._join(before, point)
                way.append(point)
                before = point
            self._join(before, b)

    def _join(self, a: int, b: int) -> None:
        self.below[a].append(b)
        self.above[b].append(a)

    def _rows(self) -> list[list[int]]:
        rows: list[list[int]] = [[] for _ in range(max(self.layer, default=-1) + 1)]
        seen = [False] * len(self.layer)
        roots = [i for i in range(len(self.layer)) if not self.above[i]]
        stack = roots[::-1]
        while stack:  # depth first: what belongs together starts side by side
            one = stack.pop()
            if seen[one]:
                continue
            seen[one] = True
            rows[self.layer[one]].append(one)
            stack.extend(reversed(self.below[one]))
        return rows

    def _order(self) -> None:
        best, fewest = [list(row) for row in self.rows], self._crossings()
        for sweep in range(8):
            down = sweep % 2 == 0
            neighbours = self.above if down else self.below
            place = [0.0] * len(self.layer)
            rows = self.rows if down else self.rows[::-1]
            for row in rows:
                for index, one in enumerate(row):
                    places = sorted(place[other] for other in neighbours[one])
                    place[one] = _middle(places) if places else index
                row.sort(key=place.__getitem__)
                for index, one in enumerate(row):
                    place[one] = index
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(row) for row in self.rows], crossings
            if not fewest:
                break
        self.rows = best

    def _crossings(self) -> int:
        place = {one: index for row in self.rows for index, one in enumerate(row)}
        total = 0
        for row in self.rows:
            ends = [place[b] for a in row for b in sorted(self.below[a], key=place.__getitem__)]
            total += _inversions(ends)
        return total

    def _places(self) -> tuple[list[float], list[float]]:
        count = len(self.layer)
        x, y = [0.0] * count, [0.0] * count
        top = 0.0
        for row in self.rows:
            height = max((self.heights[i] for i in row), default=0)
            left = 0.0
            for one in row:
                y[one] = top + height / 2
                x[one] = left + self.widths[one] / 2
                left += self.widths[one] + self.gap
            top += height + self.drop
        for sweep in range(12):
            down = sweep % 2 == 0
            for row in self.rows if down else self.rows[::-1]:
                self._pull(row, x, self.above if down else self.below)
        shift = min((x[i] - self.widths[i] / 2 for i in range(count)), default=0)
        return [value - shift for value in x], y

    def _pull(self, row: list[int], x: list[float], neighbours: list[list[int]]) -> None:
        """Each box to the middle of its neighbours; boxes that would touch move as one block."""
        blocks: list[_Block] = []
        for one in row:
            near = sorted(x[other] for other in neighbours[one])
            # A bend in a long edge is uglier than one between boxes.
            weight = (8.0 if one >= self.count else 1.0) * max(1, len(near)) if near else 0.1
            block = _Block((_middle(near) if near else x[one]) * weight, weight, [one], 0.0)
            while blocks:
                before = blocks[-1]
                reach = before.span + self._step(before.boxes[-1], block.boxes[0])
                if block.wish / block.weight >= before.wish / before.weight + reach:
                    break
                blocks.pop()
                # Wishes are for the first box of a block; what comes later is further right.
                before.wish += block.wish - reach * block.weight
                before.weight += block.weight
                before.boxes += block.boxes
                before.span = reach + block.span
                block = before
            blocks.append(block)
        for block in blocks:
            at = block.wish / block.weight
            for index, one in enumerate(block.boxes):
                if index:
                    at += self._step(block.boxes[index - 1], one)
                x[one] = at

    def _step(self, a: int, b: int) -> float:
        return (self.widths[a] + self.widths[b]) / 2 + self.gap


def _middle(places: Sequence[float]) -> float:
    half = len(places) // 2
    return places[half] if len(places) % 2 else (places[half - 1] + places[half]) / 2


def _inversions(values: list[int]) -> int:
    """How many pairs are out of order: edges that cross."""
    if not values:
        return 0
    tree = [0] * (max(values) + 2)
    total = 0
    for seen, value in enumerate(values):
        index, not_larger = value + 1, 0
        while index:
            not_larger += tree[index]
            index -= index & -index
        total += seen - not_larger
        index = value + 1
        while index < len(tree):
            tree[index] += 1
            index += index & -index
    return total

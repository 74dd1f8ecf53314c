"""Finds what repeats in a graph, so that a picture can show it once.

The nodes in the order of the forward are a text, each letter an operator and the user's line that
called it. A loop in the program is a piece of text that follows itself; inner loops are found
first, and then count as one letter. The parts of a module are pieces of that text too, folds of
their own, in which the same search goes on. Groups are always pieces of the text, so what is left
after folding them has no cycles. Leaves join the group that alone uses them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from pullback.autograd.show.describe import Graph

LARGEST = 60  # items in one group: what a picture can hold and a layout can order quickly


@dataclass(slots=True, eq=False)
class Group:
    """A fold of the picture: nodes (by number) and other groups, in the order of the forward."""

    label: str
    items: list[int | Group]
    detail: str = ""
    leaves: list[int] = field(default_factory=list)
    cut: bool = False  # its items are pieces of what was too much for one picture

    def nodes(self) -> Iterator[int]:
        """The numbers of all nodes inside."""
        stack: list[int | Group] = [self]
        while stack:
            item = stack.pop()
            if isinstance(item, Group):
                stack.extend(item.items)
                stack.extend(item.leaves)
            else:
                yield item


@dataclass(slots=True)
class _Item:
    letter: Any
    what: int | Group


def grouped(graph: Graph) -> Group:
    """The whole graph as one group of groups."""
    nodes = graph.nodes
    numbers = [index for index, node in enumerate(nodes) if node.sequence >= 0]
    whole = Group("graph", [item.what for item in _by_module(graph, numbers)])
    _divide(graph, whole)
    _place_leaves(graph, whole)
    _divide_leaves(whole)
    missing: list[int | Group] = [i for i, one in enumerate(nodes) if one.kind == "unreached"]
    if missing:
        label = f"{len(missing)} parameters are not reached"
        apart = Group(label, missing, "backward gives them no gradient")
        _divide(graph, apart)
        whole.items.append(apart)
    return whole


def _by_module(graph: Graph, numbers: Sequence[int]) -> list[_Item]:
    """Nodes with the parts of modules as groups, and what repeats folded, from the inside out."""
    # A run of nodes of one module is a group in the run of the module around it; `open_` are those
    # that are not over, outermost first: their path, and what is in them so far.
    open_: list[tuple[str, list[_Item]]] = [("", [])]
    for number in numbers:
        path = graph.nodes[number].module
        while not _holds(open_[-1][0], path):
            _close(graph, open_)
        open_ += [(inner, []) for inner in _paths_between(open_[-1][0], path)]
        open_[-1][1].append(_item(graph, number))
    while len(open_) > 1:
        _close(graph, open_)
    return _folded(graph, open_[0][1])


def _item(graph: Graph, number: int) -> _Item:
    node = graph.nodes[number]
    return _Item((node.name, node.place and (node.place.file, node.place.line)), number)


def _holds(outer: str, path: str) -> bool:
    return not outer or path == outer or path.startswith(f"{outer}.")


def _paths_between(outer: str, path: str) -> list[str]:
    """`a.b` and `a.b.c` between `a` and `a.b.c`."""
    parts = path.split(".") if path else []
    depth = len(outer.split(".")) if outer else 0
    return [".".join(parts[:end]) for end in range(depth + 1, len(parts) + 1)]


def _close(graph: Graph, open_: list[tuple[str, list[_Item]]]) -> None:
    """The innermost module's run of nodes is over."""
    path, inside = open_.pop()
    around = open_[-1][1]
    if len(inside) == 1:
        around.append(inside[0])  # a fold of one box says no more than the box
        return
    items = _folded(graph, inside)
    what = graph.modules.get(path, "")
    label = f"{path}: {what}" if what else path
    listed = [item.what for item in items]
    letter = ("module", what, tuple(item.letter for item in items))
    around.append(_Item(letter, Group(label, listed, _summary(graph, listed))))


def _folded(graph: Graph, items: list[_Item]) -> list[_Item]:
    """Replace repeats by groups, those of the shortest period first."""
    period = 1
    letters = _numbers(items)
    while period <= min(len(items) // 2, 2000):  # longer ones are found piece by piece
        run = _longest_run(letters, period)
        if run is None:
            period += 1
            continue
        start, times = run
        body = items[start : start + period * times]
        items = [*items[:start], _repeat(graph, body, period), *items[start + len(body) :]]
        letters = _numbers(items)
    return items


def _numbers(items: list[_Item]) -> Any:
    known: dict[Any, int] = {}
    return numpy.array([known.setdefault(item.letter, len(known)) for item in items])


def _longest_run(letters: Any, period: int) -> tuple[int, int] | None:
    """Where a piece of this length follows itself most often, and how often; if it is worth it."""
    same = letters[:-period] == letters[period:]
    if not same.any():
        return None
    edges = numpy.flatnonzero(numpy.diff(numpy.concatenate(([False], same, [False]))))
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    best = int(lengths.argmax())
    times = int(lengths[best]) // period + 1
    # Twice the same two lines is not worth a fold: the fold itself must be learned.
    if times < 2 or period * times < 6 or (times < 3 and period < 4):
        return None
    return int(starts[best]), times


def _repeat(graph: Graph, body: list[_Item], period: int) -> _Item:
    times = len(body) // period
    rounds: list[int | Group] = []
    for number in range(times):
        inside = [item.what for item in body[number * period : (number + 1) * period]]
        if len(inside) == 1 and isinstance(inside[0], int):
            rounds.append(inside[0])
        else:
            rounds.append(Group(f"round {number + 1} of {times}", inside, _summary(graph, inside)))
    letter = ("repeat", tuple(item.letter for item in body[:period]))
    first = [item.what for item in body[:period]]
    group = Group(f"{_title(graph, first)}, {times} times", rounds, _summary(graph, first))
    return _Item(letter, group)


def _first_node(item: int | Group) -> int:
    while isinstance(item, Group):
        item = item.items[0]
    return item


def _title(graph: Graph, items: Sequence[int | Group]) -> str:
    """The function that the user's lines are in."""
    node = graph.nodes[_first_node(items[0])]
    if node.place is None:
        return node.name
    name = node.place.function
    return "loop" if name == "<module>" else f"{name}()"


def _summary(graph: Graph, items: Sequence[int | Group]) -> str:
    names = []
    for item in items:
        if isinstance(item, Group):
            names.append(item.label)
        else:
            names.append(graph.nodes[item].name.removesuffix("0").removesuffix("Backward"))
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown}, … {len(names)} in all"


def _divide(graph: Graph, whole: Group) -> None:
    """Split groups that hold too much into pieces that follow one another."""
    stack = [whole]
    while stack:
        group = stack.pop()
        if len(group.items) > LARGEST:
            pieces = min(LARGEST, -(-len(group.items) // (LARGEST // 2)))
            length = -(-len(group.items) // pieces)
            parts: list[int | Group] = []
            for start in range(0, len(group.items), length):
                inside = group.items[start : start + length]
                label = f"{start + 1} to {start + len(inside)} of {len(group.items)}"
                parts.append(Group(label, inside, _summary(graph, inside)))
            group.items = parts
            group.cut = True
        stack.extend(item for item in group.items if isinstance(item, Group))


def _place_leaves(graph: Graph, whole: Group) -> None:
    """Each leaf goes where all who use it are."""
    paths: dict[int, tuple[Group, ...]] = {}
    stack: list[tuple[Group, tuple[Group, ...]]] = [(whole, (whole,))]
    while stack:
        group, path = stack.pop()
        for item in group.items:
            if isinstance(item, Group):
                stack.append((item, (*path, item)))
            else:
                paths[item] = path
    shared: dict[int, tuple[Group, ...]] = {}
    for index, node in enumerate(graph.nodes):
        for edge in node.edges:
            if edge is not None and graph.nodes[edge[0]].sequence < 0:
                path = paths[index]
                shared[edge[0]] = _common(shared.get(edge[0], path), path)
    for index, node in enumerate(graph.nodes):
        if node.sequence < 0 and node.kind != "unreached":
            shared.get(index, (whole,))[-1].leaves.append(index)


def _common(a: tuple[Group, ...], b: tuple[Group, ...]) -> tuple[Group, ...]:
    same = 0
    for one, other in zip(a, b, strict=False):
        if one is not other:
            break
        same += 1
    return a[:same]


def _divide_leaves(whole: Group) -> None:
    """Many leaves that stay outside become a group of their own."""
    stack = [whole]
    while stack:
        group = stack.pop()
        stack.extend(item for item in group.items if isinstance(item, Group))
        if len(group.leaves) > LARGEST:
            leaves = group.leaves
            group.leaves = []
            parts: list[Group] = [
                Group(
                    f"leaves {i + 1} to {min(i + LARGEST, len(leaves))}",
                    list(leaves[i : i + LARGEST]),
                )
                for i in range(0, len(leaves), LARGEST)
            ]
            held = parts[0] if len(parts) == 1 else Group(f"{len(leaves)} leaves", list(parts))
            group.items.append(held)

"""A group's loop over rows, in stages: which value is made in which pass over the columns.

Reductions along a row cut it into stages. What a later stage needs of an earlier one is kept in a
buffer of one row, read back from memory, or computed again where that is cheap.
"""

from __future__ import annotations

import math
from typing import Any

from pullback.compiled.ir.values import COST, REDUCTIONS, Val
from pullback.compiled.plan.plan import Group, Plan

__all__ = ["Stages", "start_of"]


class Stages:
    """The stages of one group; whoever writes its code adds how."""

    def __init__(self, plan: Plan, group: Group, room: int, *, is_short: bool = False) -> None:
        """`room`: bytes for row buffers. With `is_short` all of a row is at hand in all stages."""
        self.plan, self.group = plan, group
        self.is_short = is_short
        self.buffers: dict[int, int] = {}  # value -> number of its row buffer
        self._schedule()
        self._fill_stages(room)

    def _schedule(self) -> None:
        group = self.group
        self.kind: dict[int, str] = {}  # "along" (a reduction), "row" (one per row), "column"
        self.stage: dict[int, int] = {}
        ready: dict[int, int] = {}
        for v in group.nodes:
            stage = 0
            for one in map(self.plan.builder.strip, v.ins):
                if group.is_local(one):
                    stage = max(stage, ready.get(one.id, self.stage[one.id]))
            self.stage[v.id] = stage
            if v.op in REDUCTIONS:
                self.kind[v.id] = "along"
                ready[v.id] = stage + 1
            else:
                self.kind[v.id] = "column" if v.shape == group.domain else "row"
        self.stages = (
            max([s for n, s in self.stage.items() if self.kind[n] != "row"], default=-1) + 1
        )

    def _fill_stages(self, room: int) -> None:
        group, stored = self.group, self.plan.stored
        self.roots: list[list[Val]] = [[] for _ in range(self.stages)]
        for v in group.nodes:
            kind = self.kind[v.id]
            if kind == "along" or (kind == "column" and v.id in stored):
                self.roots[self.stage[v.id]].append(v)
        self.computed: list[list[Val]] = []
        self.done: dict[int, int] = {}
        self.written: dict[int, int] = {}
        for t in range(self.stages):
            needed = {
                (self.plan.builder.strip(v.ins[0]) if self.kind[v.id] == "along" else v).id
                for v in self.roots[t]
            }
            made: list[Val] = []
            for v in reversed(group.nodes):
                if v.id not in needed or self.kind[v.id] != "column":
                    continue
                if self.done.get(v.id, t) < t and (
                    self.is_short or self.written.get(v.id, t) < t or v.id in self.buffers
                ):
                    continue
                size = group.columns * v.itemsize
                if self.done.get(v.id, t) < t and not self._is_cheap(v) and size <= room:
                    self.buffers[v.id] = len(self.buffers)
                    room -= size
                    continue
                self.done.setdefault(v.id, t)
                made.append(v)
                needed.update(self.plan.builder.strip(one).id for one in v.ins)
            made.reverse()
            self.computed.append(made)
            for v in self.roots[t]:
                if self.kind[v.id] == "column":
                    self.written.setdefault(v.id, t)

    def _is_cheap(self, v: Val) -> bool:
        """Whether making it again costs less than storing it."""
        if v.op == "take":
            return False
        columns = [
            one
            for one in map(self.plan.builder.strip, v.ins)
            if one.op != "const" and self.layout(one)[1] != 0
            and (not self.group.is_local(one) or self.kind[one.id] == "column")
        ]  # fmt: skip
        return COST.get(v.op, 1) <= 1 and len(columns) <= 1

    # Where operands lie -------------------------------------------------------------------------

    def layout(self, one: Val) -> tuple[tuple[int, ...], int]:
        """Strides of an operand aligned to the domain: those of the rows, that of the columns."""
        return self.aligned(one.shape, one.strides)

    def aligned(self, shape: tuple[int, ...], own: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
        """Strides over elements of a shape, aligned to the domain."""
        if math.prod(shape) == 1:
            return (0,) * (len(self.group.domain) - 1), 0
        lead = len(self.group.domain) - len(shape)
        pairs = zip(shape, own, strict=True)
        strides = [0] * lead + [0 if n == 1 else s for n, s in pairs]
        return tuple(strides[:-1]), (strides[-1] if strides else 0)

    def places(self, strides: tuple[int, ...]) -> list[tuple[int, int, int]]:
        """A row's offset as a sum: (row // step) % size * stride; a size of 0 needs no remainder.

        Dimensions that follow each other in memory are one.
        """
        dims = [(n, s) for n, s in zip(self.group.domain[:-1], strides, strict=True) if n != 1]
        merged: list[tuple[int, int]] = []
        for n, s in dims:
            if merged and merged[-1][1] == n * s:
                merged[-1] = (merged[-1][0] * n, s)
            else:
                merged.append((n, s))
        found = []
        step = 1
        for number, (n, s) in reversed(list(enumerate(merged))):
            if s != 0:
                found.append((step, n if number else 0, s))
            step *= n
        return found[::-1]


def start_of(v: Val) -> Any:
    """What a reduction starts from."""
    if v.op == "sum":
        return 0
    return float("-inf") if v.dtype[0] == "f" else -(2 ** (8 * v.itemsize - 1))

"""Which step makes each value, and where each value lies in memory.

A step is a `Group` (elementwise values and reductions of one domain, in one loop over its rows), a
product, a movement, or a call of an eager kernel. Values go to the latest group that they fit; then
values that only one later group uses move there; what is left between steps lies in one arena,
reused as soon as nobody reads it any more.
"""

from __future__ import annotations

import math
from bisect import bisect
from typing import Any

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.indexed import INDEXED
from pullback.compiled.ir.symbols import Symbolic
from pullback.compiled.ir.values import COST, EW, REDUCTIONS, Val, live_values
from pullback.compiled.plan.blocks import RowBlocks, blocks_of
from pullback.compiled.plan.repeats import epochs

__all__ = ["Group", "Plan", "Step", "Update", "last_only"]

_FREE = frozenset({"const", "input", "iota"})
_SHARED_WORK = 40_000  # operations, below which threads cost more than they give
_ALIGNMENT = 64
_FLOATING = ("f4", "f8")


class Step:
    """One piece of work that is no loop over rows: `value.op` says which."""

    def __init__(self, value: Val, place: int) -> None:
        self.value, self.place = value, place
        self.beside: list[Val] = []

    @property
    def nodes(self) -> list[Val]:
        """The values that it makes."""
        return [self.value, *self.beside]


class Update(Step):
    """A product added, times a factor, to the input that the sum replaces: BLAS's own update."""

    def __init__(self, value: Val, place: int, product: Val, factor: float) -> None:
        super().__init__(value, place)
        self.product, self.factor = product, factor


class Group:
    """Values of one domain, made in one loop over its rows."""

    def __init__(self, domain: tuple[int, ...], place: int) -> None:
        self.domain, self.place = domain, place
        self.nodes: list[Val] = []
        self.inside: set[int] = set()

    def add(self, value: Val) -> None:
        """One more value."""
        self.nodes.append(value)
        self.inside.add(value.id)

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return self.domain[-1] if self.domain else 1

    @property
    def rows(self) -> int:
        """Number of rows."""
        return math.prod(self.domain[:-1])

    @property
    def work(self) -> int:
        """About how many operations it takes."""
        return self.rows * self.columns * sum(COST.get(v.op, 1) for v in self.nodes)

    def is_local(self, value: Val) -> bool:
        """Whether it is made here."""
        return not value.is_view and value.id in self.inside

    def accumulated(self) -> list[Val]:
        """Reductions over rows, which are added up in memory."""
        return [v for v in self.nodes if v.op in REDUCTIONS and not last_only(v, self.domain)]


def last_only(value: Val, domain: tuple[int, ...]) -> bool:
    """A reduction along the last dimension alone: a value per row, at hand in its group."""
    return value.op in REDUCTIONS and value.attr == (len(domain) - 1,)


class Plan:
    """The steps of a program, and the memory that they share."""

    # Values of a group: LLVM's time grows faster than the block that it compiles, and long blocks
    # do not run faster either (chain of 3,000 values: 0.24 s and 3.1 us in blocks of 60, 0.91 s
    # and 3.8 us in blocks of 1,000).
    most_nodes = 100
    updates = True  # whether products can be added to what is there
    in_blocks = True  # whether long sums over rows are cut into blocks

    def __init__(
        self,
        builder: Builder,
        outputs: list[Val],
        threads: int = 1,
        wishes: dict[int, int] | None = None,
        moving: frozenset[int] = frozenset(),
    ) -> None:
        """`wishes`: outputs, by number, that should take the place of an input, by number.

        `moving`: sizes that are others in programs which share this one's code.
        """
        self.moving = moving
        self.builder, self.outputs, self.threads = builder, outputs, threads
        self.values = live_values(builder.values, [*outputs, *_effects(builder)])
        self.epochs = epochs(self.values)
        self.at: dict[int, int] = {}
        self.steps: list[Any] = []
        self._by_domain: dict[Any, list[Group]] = {}
        self._by_rows: dict[Any, list[Group]] = {}
        for value in self.values:
            self._place(value)
        self._sink()
        self._find_stored()
        # Outputs that are written over the input that they replace: number -> input's number.
        self.in_place = {
            number: place
            for number, place in (wishes or {}).items()
            if self._may_overwrite(outputs[number], builder.inputs[place])
            and self._comes_behind_faults(outputs[number])
        }
        if self.updates:
            self._find_updates()
        self._lay_out()

    def _find_updates(self) -> None:
        """Sums of an input and a product, stored over the input, are steps of their own."""
        users: dict[int, list[Val]] = {}
        for value in self.values:
            for one in value.ins:
                users.setdefault(one.base.id, []).append(value)
        after: dict[int, list[Update]] = {}
        for number, place in self.in_place.items():
            found = self._update_of(self.outputs[number], self.builder.inputs[place], users)
            if found is not None:
                after.setdefault(found.place, []).append(found)
        steps: list[Any] = []
        gone = {id(one.product) for listed in after.values() for one in listed}
        for step in self.steps:
            for update in after.get(step.place, ()):
                gone_here = (update.value, *update.value.ins)
                step.nodes = [v for v in step.nodes if v not in gone_here]
                step.inside = {v.id for v in step.nodes}
            is_gone = isinstance(step, Step) and id(step.value) in gone
            if not is_gone and (isinstance(step, Step) or step.nodes):
                steps.append(step)
            steps += after.get(step.place, ())
        self.steps = steps
        for place, step in enumerate(steps):
            step.place = place
            made = [step.product, *step.value.ins] if isinstance(step, Update) else []
            self.at.update({v.id: place for v in (*step.nodes, *made) if v.op != "input"})
        for value in self.values:
            if value.op == "result":
                self.at[value.id] = self.at[value.ins[0].id]

    def _update_of(self, value: Val, target: Val, users: dict[int, list[Val]]) -> Update | None:
        """`target + factor * product`, where nobody else wants the product, or reads the target."""
        if value.op not in ("add", "sub") or len(value.shape) != 2 or target.strides[1] != 1:
            return None
        if target not in value.ins or value.ins[0] is value.ins[1] or value.dtype not in _FLOATING:
            return None
        if value.op == "sub" and value.ins[0] is not target:
            return None
        other = next(one for one in value.ins if one is not target)
        product, factor = _scaled(other)
        if value.op == "sub":
            factor = -factor
        if product.op != "dot" or product.attr is not None or product.shape != value.shape:
            return None
        group = self.steps[self.at[value.id]]
        inside = other is product or (other.id in group.inside and len(users[other.id]) == 1)
        if not inside or len(users[product.id]) != 1 or product.base.id in self._wanted():
            return None
        # It is computed later than before: nothing that it reads may be overwritten meanwhile.
        written = {self.builder.inputs[place].id for place in self.in_place.values()}
        if any(one.base.id in written for one in product.ins):
            return None
        if any(self.at[one.id] >= group.place for one in users[target.id]
               if one is not value and not one.is_view):  # fmt: skip
            return None
        # It comes behind the group that it was in: whoever reads the sum there would be too early.
        readers = [one for one in users.get(value.id, ()) if not one.is_view and one.op != "result"]
        if any(self.at[one.id] <= group.place for one in readers):
            return None
        return Update(value, group.place, product, factor)

    def _wanted(self) -> set[int]:
        return {one.base.id for one in self.outputs}

    def _may_overwrite(self, value: Val, target: Val) -> bool:
        """Whether a value may be stored over an input: nobody reads it later, or elsewhere in it.

        Within the group, an element must be read before it is written: at its own place, in the
        one stage that there is.
        """
        if value.op == "put":
            return self._may_store(value, target)
        step = self.steps[self.at[value.id]] if value.id in self.at else None
        fits = value.shape == target.shape and value.strides == target.strides
        if not isinstance(step, Group) or value.op not in EW or value.dtype != target.dtype:
            return False
        if not fits or value.shape != step.domain or any(v.op in REDUCTIONS for v in step.nodes):
            return False
        if sum(one.base is value for one in self.outputs) != 1:
            return False
        if any(one.base is target for one in self.outputs):
            return False
        for one in self.values:
            for read in one.ins:
                if read.base is not target or one.is_view:
                    continue
                if self.at[one.id] > step.place or one.op == "call":
                    return False
                if self.at[one.id] == step.place and (
                    self.builder.strip(read) is not target
                    or one.shape != value.shape
                    or one.op == "take"
                ):
                    return False
        return True

    def _comes_behind_faults(self, value: Val) -> bool:
        """Whether nothing is written before it is known that every index is one."""
        first = _puts(value)[0] if value.op == "put" else value
        return all(self.at[v.id] < self.at[first.id] for v in self.values if v.op in INDEXED)

    def _may_store(self, value: Val, target: Val) -> bool:
        """Whether writes to parts of an input may go to its memory, one after the other.

        Each must come when nobody reads what was there before any more.
        """
        chain = _puts(value)
        if chain[0].ins[0] is not target or value.strides != target.strides:
            return False
        ids = {target.id: 0} | {one.id: place + 1 for place, one in enumerate(chain[:-1])}
        if sum(one.base is value for one in self.outputs) != 1:
            return False
        if any(one.base.id in ids for one in self.outputs):
            return False
        for one in self.values:
            for read in one.ins:
                place = ids.get(read.base.id)
                if place is None or one.is_view:
                    continue
                writer = chain[place]
                if one is writer and read is one.ins[0] and read is not one.ins[1]:
                    continue
                if one.op == "call" or self.at[one.id] >= self.at[writer.id]:
                    return False
        return True

    def step_of(self, value: Val) -> int:
        """The number of the step after which it is there."""
        return self.at.get(value.base.id, -1)

    # Groups -----------------------------------------------------------------------------------

    def _place(self, value: Val) -> None:
        if value.is_view or value.op in _FREE:
            return
        if value.op in ("beside", "result"):
            self.at[value.id] = self.at[value.ins[0].id]
            if value.op == "beside":
                self.steps[self.at[value.id]].beside.append(value)
            return
        if self._stands_alone(value):
            self.at[value.id] = len(self.steps)
            self.steps.append(Step(value, len(self.steps)))
            return
        need = max([self.step_of(one) for one in value.ins], default=-1)
        domain = value.ins[0].shape if value.op in REDUCTIONS else value.shape
        near = self._by_domain.get(domain, [])
        if value.op in EW and value.size == 1 and need >= 0:
            last = self.steps[need]  # a number may be a value of the only row of a group
            if isinstance(last, Group) and last.rows == 1 and self._fits(value, domain, last):
                last.add(value)
                self.at[value.id] = last.place
                return
        elif value.op in EW and domain and domain[-1] == 1:
            near = sorted([*near, *self._by_rows.get(domain[:-1], [])], key=lambda g: g.place)
        for group in reversed(near):
            if group.place < need:
                break
            if self._fits(value, domain, group):
                group.add(value)
                self.at[value.id] = group.place
                return
        group = Group(domain, len(self.steps))
        self.steps.append(group)
        self._by_domain.setdefault(domain, []).append(group)
        self._by_rows.setdefault(domain[:-1], []).append(group)
        group.add(value)
        self.at[value.id] = group.place

    def is_fixed(self, offset: Any) -> bool:
        """Whether an offset is the same for all sizes that the code will serve.

        Then it can be a word of a table; others are in the code, where they become inputs.
        """
        return not self.moving and not isinstance(offset, Symbolic)

    def _stands_alone(self, value: Val) -> bool:
        """Whether it is a step by itself."""
        return value.op not in EW and value.op not in REDUCTIONS

    def _fits(self, value: Val, domain: tuple[int, ...], group: Group) -> bool:
        if len(group.nodes) >= self.most_nodes:
            return False
        if self.epochs and self.epochs[value.id] != self.epochs[group.nodes[0].id]:
            return False
        per_row = domain != group.domain
        if per_row:
            same = len(domain) == len(group.domain) and domain[:-1] == group.domain[:-1]
            same = same and domain[-1:] == (1,)
            if not (value.op in EW and (same or (value.size == 1 and group.rows == 1))):
                return False
            if not any(self._is_per_row(one, group) for one in value.ins):
                return False
        for number, one in enumerate(value.ins):
            shown = self.builder.strip(one)
            if shown.op in _FREE and shown.base.op in _FREE:
                continue
            place = self.step_of(one)
            if place > group.place:
                return False
            if place < group.place:
                continue
            if value.op == "take" and not number:
                return False  # any of its elements may be asked for
            if shown.is_view:
                return False  # of something made here: other rows may be asked for
            if shown.op == "result" or (
                shown.op in REDUCTIONS and not last_only(shown, group.domain)
            ):
                return False
            if per_row and not self._is_per_row(shown, group):
                return False
            if not _aligned(one, shown, group):
                return False
        return True

    def _is_per_row(self, value: Val, group: Group) -> bool:
        if not group.is_local(value) or group.domain[-1:] == (1,):
            return False
        shape_fits = value.shape == (*group.domain[:-1], 1) or (value.size == 1 and group.rows == 1)
        return shape_fits and (value.op in EW or last_only(value, group.domain))

    def _sink(self) -> None:
        """Move a value to the one later group that uses it, if its operands lie in memory."""
        users: dict[int, list[Val]] = {}
        wanted = {one.base.id for one in self.outputs}
        for value in self.values:
            for one in value.ins:
                shown = one.base if one.is_view and one.op != "expand" else self.builder.strip(one)
                users.setdefault(shown.id, []).append(value)
        for value in reversed(self.values):
            if value.id in self.at and value.op in EW and value.id not in wanted:
                self._sink_one(value, users, wanted)
        for step in self.steps:
            if isinstance(step, Group):
                kept = [value for value in step.nodes if value.id in step.inside]
                step.nodes = sorted(kept, key=lambda value: value.id)
        self.steps = [s for s in self.steps if not isinstance(s, Group) or s.nodes]
        back = {step.place: place for place, step in enumerate(self.steps)}
        for place, step in enumerate(self.steps):
            step.place = place
        self.at = {number: back[place] for number, place in self.at.items()}

    def _sink_one(self, value: Val, users: dict[int, list[Val]], wanted: set[int]) -> None:
        using = users.get(value.id, [])
        if not using or any(one.is_view for one in using):
            return
        if any(one.op == "take" and one.ins[0].base is value for one in using):
            return
        groups = {self.at[one.id] for one in using}
        if len(groups) != 1:
            return
        group = self.steps[groups.pop()]
        here = self.steps[self.at[value.id]]
        if not isinstance(group, Group) or group is here or group.domain != value.shape:
            return
        if self.epochs and self.epochs[value.id] != self.epochs[group.nodes[0].id]:
            return
        local = [self.builder.strip(one) for one in value.ins]
        local = [one for one in local if one.id in here.inside]
        if any(not (one.op in EW or last_only(one, here.domain)) for one in local):
            return
        # Worth it if it keeps no more values alive than it saves.
        large = [one for one in local if one.shape == value.shape]
        if len(large) > 1:
            return
        for one in large:
            others = [u for u in users[one.id] if u is not value]
            if one.id not in wanted and all(self.at.get(u.id) == here.place for u in others):
                return
        here.inside.discard(value.id)
        group.add(value)
        self.at[value.id] = group.place

    # Memory -----------------------------------------------------------------------------------

    def _find_stored(self) -> None:
        """Values that must lie in memory."""
        self.stored = {one.base.id for one in self.outputs}
        for value in self.values:
            if value.is_view or value.op == "result":
                continue
            here = self.at.get(value.id)
            for one in value.ins:
                shown = self.builder.strip(one)
                if shown.base.op in _FREE:
                    continue
                if shown.is_view or here != self.at.get(shown.id) or value.op == "call":
                    self.stored.add(shown.base.id)
        for step in self.steps:
            if not isinstance(step, Group):
                self.stored.update(v.id for v in step.nodes)
                continue
            self.stored.update(v.id for v in step.accumulated())

    def _lay_out(self) -> None:
        """Numbers of buffers: inputs, outputs, results of calls, then temporaries in an arena."""
        self.slot: dict[int, int] = {}
        for value in self.builder.inputs:
            self.slot[value.id] = len(self.slot)
        count = len(self.slot)
        self.fresh: list[Val] = []  # outputs that the caller allocates
        # Values with a part written over them, that lie where the value did: nobody reads it later.
        self.over: set[int] = set()
        for number, place in self.in_place.items():
            self.slot[self.outputs[number].id] = place
            if self.outputs[number].op == "put":
                self.slot |= {one.id: place for one in _puts(self.outputs[number])}
                self.over |= {one.id for one in _puts(self.outputs[number])}
        for one in self.outputs:
            if one.base.id not in self.slot and one.base.op != "result":
                self.slot[one.base.id] = count
                self.fresh.append(one.base)
                count += 1
        for value in self.values:
            if value.op == "result":
                self.slot[value.id] = count
                count += 1
        self.offsets: dict[int, int] = {}  # of slots, in the arena
        # Totals of which threads, or blocks of rows, have a copy each: the slot of the copies.
        self.copies: dict[int, int] = {}
        self.blocks: dict[int, RowBlocks] = {}
        memory = _Arena()
        last = self._last_uses()
        ending: dict[int, list[tuple[int, int, int]]] = {}  # slot, where, size
        for step in self.steps:
            shared = isinstance(step, Group) and self.is_shared(step)
            totals = self._copied_totals(step, shared=shared)
            for value in step.nodes:
                is_total = value in totals
                if value.id not in self.stored or value.op == "call":
                    continue
                if value.id in self.slot and not is_total:
                    continue
                if value.op == "put" and self._takes_over(value, step.place, last, ending):
                    continue
                size = self.bytes_of(value) * (self.threads if value.op == "room" else 1)
                if is_total:
                    elements = self.count_of(value, step) * self.apart(value)
                    size = _in_lines(elements * value.itemsize)
                where = memory.take(size)
                until = step.place
                if value.id not in self.slot:
                    self.slot[value.id] = count
                    until = last.get(value.id, step.place)
                if is_total:
                    self.copies[value.id] = count
                self.offsets[count] = where
                count += 1
                ending.setdefault(until, []).append((count - 1, where, size))
            for _, where, size in ending.pop(step.place, []):
                memory.give_back(where, size)
        # A word that says whether an index was none.
        self.fault: int | None = None
        if any(value.op in INDEXED for value in self.values):
            self.fault, count = count, count + 1
        self.arena, self.slots = memory.top, count

    def _takes_over(
        self, value: Val, place: int, last: dict[int, int], ending: dict[int, list[Any]]
    ) -> bool:
        """Give a value with a part written over it the buffer of what it was, where that ends."""
        whole, part = value.ins
        slot = self.slot.get(whole.id)
        found = [one for one in ending.get(place, ()) if one[0] == slot]
        if whole.is_view or not found or part.base is whole or last.get(whole.id) != place:
            return False
        ending[place] = [one for one in ending[place] if one[0] != slot]
        ending.setdefault(last.get(value.id, place), []).extend(found)
        assert slot is not None
        self.slot[value.id] = slot
        self.over.add(value.id)
        return True

    def _copied_totals(self, step: Any, *, shared: bool) -> list[Val]:
        """The totals of a step that have copies; notes which have them for blocks of rows."""
        if not isinstance(step, Group):
            return []
        totals = step.accumulated()
        for value in totals if self.in_blocks else ():
            found = blocks_of(value, step.domain, self.moving)
            if found is not None:
                self.blocks[value.id] = found
        return totals if shared else [v for v in totals if v.id in self.blocks]

    def count_of(self, value: Val, group: Group) -> int:
        """How many copies of a total there are."""
        threads = self.threads if self.is_shared(group) else 1
        blocks = self.blocks.get(value.id)
        if blocks is None:
            return threads
        return blocks.number + threads - 1 if blocks.is_outermost else blocks.number * threads

    def apart(self, value: Val) -> int:
        """Elements from one copy of a total to the next."""
        if value.id in self.blocks:
            return value.size
        return self.bytes_of(value) // value.itemsize

    def is_shared(self, group: Group) -> bool:
        """Whether threads share its rows."""
        if self.threads == 1:
            return False
        return group.rows >= 2 * self.threads and group.work > _SHARED_WORK

    def bytes_of(self, value: Val) -> int:
        """Memory of a temporary, in whole lines of the cache."""
        return _in_lines(value.size * value.itemsize)

    def _last_uses(self) -> dict[int, int]:
        last: dict[int, int] = {}
        for value in self.values:
            if value.id in self.at and value.op != "result":
                for one in value.ins:
                    base = self.builder.strip(one).base.id
                    last[base] = max(last.get(base, -1), self.at[value.id])
        return last


def _puts(value: Val) -> list[Val]:
    """Writes to parts of one value, the first one first."""
    chain = [value]
    while chain[0].ins[0].op == "put":
        chain.insert(0, chain[0].ins[0])
    return chain


def _in_lines(size: int) -> int:
    return (max(size, 1) + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


class _Arena:
    """First fit in one stretch of memory.

    Stretches whose size varies are taken by others of the same size alone: whether one fits into
    another would be decided anew at each size.
    """

    def __init__(self) -> None:
        self.free: list[tuple[int, int]] = []  # where, size
        self.varying: dict[Any, list[Any]] = {}  # size -> where
        self.top: Any = 0

    def take(self, size: Any) -> Any:
        """A place of this size."""
        if left := self.varying.get(size):
            return left.pop()
        for number, (where, room) in enumerate(() if isinstance(size, Symbolic) else self.free):
            if room >= size:
                rest = [(where + size, room - size)] if room > size else []
                self.free[number : number + 1] = rest
                return where
        where = self.top
        self.top += size
        return where

    def give_back(self, where: int, size: int) -> None:
        """It is free again; neighbours become one."""
        if isinstance(size, Symbolic) or isinstance(where, Symbolic):
            self.varying.setdefault(size, []).append(where)
            return
        place = bisect(self.free, (where, size))
        if place < len(self.free) and where + size == self.free[place][0]:
            size += self.free.pop(place)[1]
        if place and sum(self.free[place - 1]) == where:
            start, room = self.free[place - 1]
            self.free[place - 1] = (start, room + size)
        else:
            self.free.insert(place, (where, size))


def _scaled(value: Val) -> tuple[Val, float]:
    """A value as another one times a number."""
    if value.op == "mul":
        for one, factor in (value.ins, value.ins[::-1]):
            if factor.op == "const" and factor.attr[0] != "nan":
                return one, factor.attr[0]
    return (value.ins[0], -1.0) if value.op == "neg" else (value, 1.0)


def _aligned(one: Val, shown: Val, group: Group) -> bool:
    """Whether an expanded value of the group stands still along rows: same row, one element."""
    if one is shown or (shown.size == 1 and group.rows == 1):
        return True
    return shown.shape == (*group.domain[:-1], 1) or shown.shape == group.domain


def _effects(builder: Builder) -> list[Val]:
    """Calls that run whether or not somebody reads their results."""
    return [v for v in builder.values if v.op == "call" and builder.calls[v.attr].random]

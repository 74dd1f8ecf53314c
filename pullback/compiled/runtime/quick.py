"""The fast path of a call: guards in one expression, the native entry, the node.

Written as source for each entry whose program is native throughout and whose call is plain: tensors
and unchanged plain values as arguments, tensors as results, no writes. Everything else, and every
miss, takes the slow path through `guards.py` and `entry.py`, which answers the same.
"""

from __future__ import annotations

import math
import weakref
from operator import attrgetter
from typing import Any

import numpy

from pullback.compiled.capture.results import Built
from pullback.compiled.runtime import native
from pullback.compiled.runtime.node import AskingBackward, CompiledBackward
from pullback.core.device import get_default_device
from pullback.core.dtype import get_default_dtype
from pullback.core.origin import getframe, internal, user_frame
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor, new
from pullback.core.trees.pytree import tree_unflatten
from pullback.core.view import edge_of
from pullback.core.writer import define_once

__all__ = ["Writer", "may_be_quick", "quick_way"]

_MOST_GUARDS = 400
MOST_UNUSED = 2  # calls in a row whose gradients nobody wanted


def may_be_quick(entry: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call is plain: tensors and plain values in, tensors out, nothing written."""
    captured = entry.captured
    wants = bool(captured.tangents)
    if kwargs or captured.writes or captured.stores or captured.is_spent:
        return False
    if captured.world.identities or entry.checks or captured.reached is not None:
        return False
    if captured.loose or captured.home not in (None, captured.mode):
        return False
    if captured.mode.inference:
        return False  # whose tensors are marked as such
    if any(one.kind != "value" or one.is_leaf for one in captured.outputs) or not captured.outputs:
        return False
    if wants and not (entry.is_ahead and captured.gradients):
        return False
    if any(one.kind == "grad" for one in captured.inputs):
        return False
    return all(isinstance(one, Tensor) or _is_plain(one) for one in args)


def quick_way(entry: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of the arguments' tuple that gives the result, or None where it must not."""
    if not may_be_quick(entry, args, kwargs):
        return None
    wants = bool(entry.captured.tangents)
    program, sources, _ = entry._program("joint" if wants else "plain")
    if not native.is_usable() or not getattr(program, "parts", None):
        return None
    if program.is_native is None:  # somebody compares each call with eager
        return None
    if not program.is_native:
        simple = all(one.geometry is None for one in program.outputs if one.is_fresh)
        return _Parted(entry, args, program, sources, wants=wants).function() if simple else None
    if not all(one.is_fresh for one in program.outputs):
        return None
    pairs = zip(program.outputs, program.examples(), strict=True)
    if not all(_is_simple(one.geometry, array.size) for one, array in pairs):
        return None
    return Writer(entry, args, program, sources, wants=wants).function()


def _is_simple(geometry: Any, size: int) -> bool:
    """Whether it is all of its memory, in some order of its dimensions."""
    if geometry is None:
        return True
    shape, strides, off = geometry
    if off or math.prod(shape) != size or any(stride <= 0 for stride in strides):
        return False
    pairs = sorted((stride, n) for n, stride in zip(shape, strides, strict=True) if n != 1)
    step = pairs[0][0] if pairs else 0
    for stride, n in pairs:
        if stride != step:
            return False
        step *= n
    return True


def _is_plain(one: Any) -> bool:
    return one is None or isinstance(one, bool | int | float | str)


class Writer:
    """Writes the fast path of one entry."""

    def __init__(self, entry: Any, args: Any, program: Any, sources: list[int], *,
                 wants: bool) -> None:  # fmt: skip
        self.entry, self.args, self.program, self.sources = entry, args, program, sources
        self.wants = wants
        self.captured = entry.captured
        self.numbers: set[int] = set()  # arguments that are numbers which vary
        self.scope: dict[str, Any] = {}
        self.count = 0

    def name(self, value: Any) -> str:
        """A name for an object in the written function's scope."""
        self.count += 1
        self.scope[f"o{self.count}"] = value
        return f"o{self.count}"

    def function(self) -> Any:
        """The function, or None where there is too much to guard."""
        conditions = [*self._argument_guards(), *self._world_guards()]
        if len(conditions) > _MOST_GUARDS:
            return None
        self.scope["run"] = self._native()
        numbers = [n for n, one in enumerate(self.args) if isinstance(one, Tensor)]
        given = ", ".join(f"args[{n}]" for n in numbers)
        if len(numbers) == len(self.args):
            given = "*args"
        lines = ["def quick(args):", f"    if len(args) != {len(self.args)}:",
                 "        return None"]  # fmt: skip
        for start in range(0, len(conditions), 16):
            text = " and ".join(conditions[start : start + 16])
            lines += [f"    if not ({text}):", "        return None"]
        lines += [*self._run_lines(given), "    if made is None:", "        return None"]
        lines += self._result_lines()
        return define_once("\n".join(lines), self.scope, "quick way", "quick")

    def _run_lines(self, given: str) -> list[str]:
        return [f"    made = run({given})"]

    def _entry_text(self) -> str:
        """What is said of the entry where a call is recorded, beyond its own."""
        return ""

    # Guards -----------------------------------------------------------------------------------

    def _argument_guards(self) -> list[str]:
        conditions = []
        guards = self.entry.guards
        if self.wants:  # gradients that nobody asked for twice are not computed ahead again
            conditions.append(f"{self.name(self.entry)}.unused < {MOST_UNUSED}")
        for number, one in enumerate(self.args):
            if isinstance(one, Tensor) or number in self.numbers:
                continue
            conditions.append(f"args[{number}] is {self.name(one)}")
        for number, other, tensor in guards.same:
            right = self.name(tensor) if other is None else f"args[{other}]"
            conditions.append(f"args[{number}] is {right}")
        for setting, then in (
            (get_default_dtype, guards.default_dtype),
            (get_default_device, guards.default_device),
        ):
            conditions.append(f"{self.name(setting)}() is {self.name(then)}")
        held: list[Any] = []
        for one in self.captured.inputs:
            if one.kind == "constant":
                continue
            if one.kind == "held" and not one.requires_grad:
                held.append(one.place)
                continue
            who = f"args[{one.place}]" if one.kind == "argument" else self.name(one.place)
            if not one.requires_grad:
                conditions.append(f"{who}._node is None")
            elif one.value.number in self._read():
                conditions.append(f"{who}._node is not None")
            else:
                conditions.append(f"{who}.requires_grad")
        if held:
            conditions.append(f"not any(map({self.name(attrgetter('_node'))}, {self.name(held)}))")
        # Those that the program does not read are compared here: their facts may have been asked.
        inputs = [self.captured.inputs[place] for place in self.sources]
        read = {one.place for one in inputs if one.kind == "argument"}
        for number, one in enumerate(self.args):
            if isinstance(one, Tensor) and number not in read:
                conditions += self._facts(f"args[{number}]", one)
        for one in self.captured.inputs:
            if one.kind == "held" and one.value.number not in self._read():
                conditions += self._facts(self.name(one.place), one.place)
        return conditions

    def _facts(self, who: str, tensor: Tensor) -> list[str]:
        array = tensor._array
        return [
            f"type({who}) is {self.name(type(tensor))}",
            f"{who}._array.shape == {array.shape!r}",
            f"{who}._array.dtype == {self.name(array.dtype)}",
            f"{who}._array.strides == {array.strides!r}",
        ]

    def _read(self) -> set[int]:
        return {self.captured.inputs[place].value.number for place in self.sources}

    def _world_guards(self) -> list[str]:
        if not len(self.captured.world):
            return []
        return [f"{self.name(self.captured.world.check)}(args) is None"]

    # The program ------------------------------------------------------------------------------

    def _native(self) -> Any:
        program = self.program
        memory = program.memory()  # for this way alone
        tensors, places, constants = self._slots(memory.table)
        address = program.parts[0][1] if program.parts else 0
        results = [
            (array.shape, array.dtype, one.slot, None)
            if one.geometry is None
            else (one.geometry[0], array.dtype, one.slot, one.geometry[1])
            for one, array in zip(program.outputs, program.examples(), strict=True)
        ]
        return native.bound(
            tensors=tensors, places=places, results=results, table=memory.table,
            address=address or _nothing(), arguments=self._count, is_large=program.is_large,
            keep=[program, memory, constants, [one.place for one in self.captured.inputs]],
            fault=memory.fault,
        )  # fmt: skip

    @property
    def _count(self) -> int:
        """How many arguments are tensors."""
        return sum(isinstance(one, Tensor) for one in self.args)

    def _slots(self, table: Any) -> tuple[list[Any], list[int], dict[int, Any]]:
        """What the entry reads (argument's number or -1, tensor, example), where, and constants."""
        order = {n: k for k, n in enumerate(n for n, one in enumerate(self.args)
                                            if isinstance(one, Tensor))}  # fmt: skip
        tensors: list[Any] = []
        places: list[int] = []
        constants: dict[int, Any] = {}
        for slot, place in enumerate(self.sources):
            one = self.captured.inputs[place]
            if one.kind == "constant":
                table[slot] = one.place.__array_interface__["data"][0]
                constants[slot] = one.place
                continue
            if one.kind == "argument":
                tensors.append((order[one.place], None, self.args[one.place]))
            else:
                tensors.append((-1, one.place, one.place))
            places.append(slot)
        # A gradient of 1, where the program reads it: one that is lowered is in its code.
        _, _, given = self.entry._program("joint" if self.wants else "plain")
        for slot, one in enumerate(given, len(self.sources)):
            constants[slot] = array = numpy.ones(one.shape, one.dtype)
            table[slot] = array.__array_interface__["data"][0]
        return tensors, places, constants

    def _result_lines(self) -> list[str]:
        count = len(self.entry.results)
        lines = []
        if self.wants:
            number = self.entry.differentiable.index(True)
            self.scope["record"] = _recorder(self.entry, count, number)
            lines.append(f"    record(made, args{self._entry_text()})")
        tree = self.captured.tree
        if tree.is_leaf():
            return [*lines, "    return made[0]"]
        if not self.wants and _is_flat_tuple(tree):
            return [*lines, "    return made"]
        self.scope["unflatten"], self.scope["tree"] = tree_unflatten, tree
        return [*lines, f"    return unflatten(made[:{count}], tree)"]


class _Parted(Writer):
    """Writes the fast path of an entry whose program has eager kernels in it."""

    def _native(self) -> Any:
        from pullback.compiled.runtime.entry import apart  # which imports this module
        from pullback.compiled.runtime.parted import first_address, parted

        program = self.program
        memory = program.memory()
        tensors, places, constants = self._slots(memory.table)
        enter = native.bound(
            tensors=tensors, places=places,
            results=[(shape, dtype, slot, None) for shape, dtype, slot in program.fresh],
            table=memory.table, address=first_address(program), arguments=self._count,
            is_large=program.is_large,
            keep=[program, memory, constants, [one.place for one in self.captured.inputs]],
            fault=memory.fault,
        )  # fmt: skip
        slots = [(slot, number, tensor)
                 for slot, (number, tensor, _) in zip(places, tensors, strict=True)]  # fmt: skip
        return parted(program, memory, enter, slots, constants, apart)


def _is_flat_tuple(tree: Any) -> bool:
    if isinstance(tree, Built):  # which does more than to put leaves together
        return False
    made = tree_unflatten(range(tree.num_leaves), tree)
    return type(made) is tuple and list(map(type, made)) == [int] * tree.num_leaves


def _nothing() -> int:
    raise LookupError("a program without native parts")


def _recorder(entry: Any, count: int, number: int) -> Any:
    """What gives a result its history: the node, with the gradients that came with it."""
    inputs = entry.captured.inputs
    targets = [
        (one.place, None) if one.kind == "argument" else (None, one.place)
        for one in (inputs[place] for place in entry.targets)
    ]
    # Where the tensors of the inputs are among the arguments; the others are the same in each call.
    held: list[Any] = [one.place if one.kind == "held" else None for one in inputs]
    given = [(n, one.place) for n, one in enumerate(inputs) if one.kind == "argument"]
    watched = [n for n, one in enumerate(inputs) if one.kind != "constant"]

    kind = CompiledBackward if entry.captured.asked is None else AskingBackward
    blank: list[int | None] = [None] * len(inputs)

    def record(made: Any, args: Any, of_sizes: Any = None) -> None:
        result = made[number]
        edges = tuple([edge_of(args[place] if one is None else one) for place, one in targets])
        node: Any = new(kind)
        node._edges = edges
        node._cold = None
        array = result._array
        node._g_shape, node._g_dtype = array.shape, array.dtype
        node._g_sizes = None
        frame: Any = getframe(3)
        if internal[frame.f_code.co_filename]:
            frame = user_frame(frame)
        node._code, node._lasti = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
        node.entry = entry if of_sizes is None else of_sizes
        node.ahead = [one._array for one in made[count:]]
        node.saved = None
        node.sources = sources = held.copy()
        for n, place in given:
            sources[n] = args[place]
        node.versions = versions = blank.copy()
        for n in watched:
            versions[n] = sources[n]._cell[0]
        if kind is AskingBackward:
            node.moment = entry.moment_of(sources)
        node.used = used = [False]
        node._seq = numbering.next()
        last = entry.last
        if last is not None and last[0]() is None and not last[1][0]:
            entry.unused += 1
        else:
            entry.unused = 0
        entry.last = (weakref.ref(node), used)
        result._node = node

    return record

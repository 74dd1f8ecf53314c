"""The fast path of a family's calls: one native entry for all sizes that decide alike.

The entry compares tensors with sizes that stand in the program's table. A call of other sizes than
the last one writes the table anew (words of the code, sizes and strides, where temporaries lie) by
one written expression, and runs.
"""

from __future__ import annotations

import struct
import threading
from typing import Any

import numpy

from pullback.compiled.ir.symbols import Symbolic
from pullback.compiled.llvm.mould import Cast
from pullback.compiled.runtime import native
from pullback.compiled.runtime.quick import Writer, may_be_quick
from pullback.compiled.sizes.places import NUMBER
from pullback.core.tensor import Tensor
from pullback.core.writer import define_once

__all__ = ["quick_way_of_sizes"]


def quick_way_of_sizes(entry: Any, args: tuple[Any, ...], kwargs: Any, family: Any) -> Any:
    """A function of the arguments' tuple, for all sizes of a mould; None where there is none."""
    if not may_be_quick(entry, args, kwargs):
        return None
    wants = bool(entry.captured.tangents)
    program, sources, _ = entry._program("joint" if wants else "plain")
    if not isinstance(program, Cast) or not program.is_native or not native.is_usable():
        return None
    if not all(one.is_fresh and one.geometry is None for one in program.mould.results):
        return None
    if any(place in family.joined.varying for place in sources):
        return None  # arrays that the function makes anew for each size
    return _Writer(entry, args, program, sources, wants=wants, family=family).function()


class _OfSizes:
    """What the node of a call needs of its entry, which is made when it is asked for."""

    __slots__ = ("entry", "family", "sizes")

    def __init__(self, entry: Any, family: Any, sizes: Any) -> None:
        self.entry, self.family, self.sizes = entry, family, sizes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.family.twin(self.entry, self.sizes), name)


class _Writer(Writer):
    """Writes the fast path of one mould."""

    def __init__(self, entry: Any, args: Any, program: Any, sources: list[int], *, wants: bool,
                 family: Any) -> None:  # fmt: skip
        super().__init__(entry, args, program, sources, wants=wants)
        self.family, self.mould = family, program.mould
        self.numbers = {n for places in family.symbols.values() for n, dim in places
                        if dim == NUMBER}  # fmt: skip

    def _run_lines(self, given: str) -> list[str]:
        names = list(self.family.symbols)
        lines = []
        for name, places in self.family.symbols.items():
            number, dim = places[0]
            what = f"args[{number}]"
            if number >= len(self.args):  # one that the function finds
                self.scope["found"] = self.family.found
                what = f"found(args)[{number - len(self.args)}]"
            lines.append(f"    {name} = {what if dim == NUMBER else f'{what}._array.shape[{dim}]'}")
        listed = ", ".join(names)
        self.scope["lock"] = threading.Lock()
        self.scope["now"] = [None]
        self.scope["fits"] = self.family.fits
        self.scope["holds"] = self.mould.holds
        return [
            *lines,
            "    if not lock.acquire(False):",
            "        return None",
            "    try:",
            f"        if ({listed},) != now[0]:",
            f"            if not fits({listed}) or not holds({listed}):",
            "                return None",
            "            now[0] = None",
            f"            fill({listed})",
            f"            now[0] = ({listed},)",
            f"        made = run({given})",
            "    finally:",
            "        lock.release()",
        ]

    def _argument_guards(self) -> list[str]:
        conditions = super()._argument_guards()
        for places in self.family.symbols.values():
            number, dim = places[0]
            if number >= len(self.args):
                continue
            one = self.args[number]
            conditions.append(f"args[{number}].__class__ is {self.name(type(one))}")
            if dim != NUMBER:
                conditions.append(f"args[{number}]._array.ndim == {one._array.ndim}")
        return conditions

    def _entry_text(self) -> str:
        self.scope["of_sizes"], self.scope["family"] = _OfSizes, self.family
        entry = self.name(self.entry)
        listed = ", ".join(self.family.symbols)
        return f", of_sizes({entry}, family, ({listed},))"

    # The table --------------------------------------------------------------------------------

    def _native(self) -> Any:
        program, mould = self.program, self.mould
        memory = program.memory()  # its addresses; the rest is written by `fill`
        inputs = mould.plan.builder.inputs
        order = {n: k for k, n in enumerate(n for n, one in enumerate(self.args)
                                            if isinstance(one, Tensor))}  # fmt: skip
        tensors, places, constants = [], [], []
        shown: list[Any] = []  # numbers, one list for each that the entry compares or makes
        for slot, place in enumerate(self.sources):
            one = self.captured.inputs[place]
            if one.kind == "constant":
                constants.append((slot, one.place))
                continue
            is_argument = one.kind == "argument"
            tensor = self.args[one.place] if is_argument else one.place
            tensors.append(
                (order[one.place], None, tensor) if is_argument else (-1, tensor, tensor)
            )
            places.append(slot)
            v = inputs[slot]
            shown += [v.shape, tuple(s * v.itemsize for s in v.strides)]
        shown += mould.shapes
        words = mould.words()
        count = sum(max(len(one), 1) for one in shown)
        table = numpy.concatenate([memory.table, numpy.zeros(count, numpy.uint64)])
        for slot, array in constants:
            table[slot] = array.__array_interface__["data"][0]
        self._write_fill(table, words, [n for one in shown for n in (one or (0,))])
        self.scope["fill"](*[self._now(places) for places in self.family.symbols.values()])
        first = table.__array_interface__["data"][0] + 8 * (mould.slots + len(words))
        addresses = []
        for one in shown:
            addresses.append(first)
            first += 8 * max(len(one), 1)
        results = [(shape, dtype, slot, None) for shape, dtype, slot in program.fresh]
        known = {slot: one for one in results for slot in (one[2],)}
        return native.bound(
            tensors=tensors, places=places,
            results=[known[one.slot] for one in program.outputs], table=table,
            address=program.parts[0][1], arguments=len(order), is_large=program.is_large,
            keep=[program, memory, self.scope, [one.place for one in self.captured.inputs]],
            geometries=addresses, fault=memory.fault,
        )  # fmt: skip

    def _now(self, places: Any) -> Any:
        number, dim = places[0]
        if number >= len(self.args):
            return self.family.found(self.args)[number - len(self.args)]
        return self.args[number] if dim == NUMBER else self.args[number]._array.shape[dim]

    def _write_fill(self, table: Any, words: list[str], shown: list[Any]) -> None:
        """A function of the sizes that writes the table: temporaries, words, geometries."""
        mould = self.mould
        offsets = list(mould.plan.offsets.items())
        first = offsets[0][0] if offsets else 0
        if [slot for slot, _ in offsets] != list(range(first, first + len(offsets))):
            raise AssertionError("temporaries have the slots before those of addresses")
        arena = _Arena()
        texts = [*words, *map(_text, shown)]
        lines = [f"def fill({', '.join(self.family.symbols)}):"]
        if offsets:
            listed = ", ".join(f"start + {_text(offset)}" for _, offset in offsets)
            lines += [f"    start = arena.start({_text(mould.plan.arena)})",
                      f"    put_offsets(table, {8 * first}, {listed})"]  # fmt: skip
        if texts:
            lines.append(f"    put(table, {8 * mould.slots}, {', '.join(texts)})")
        lines.append("    return None")
        scope = {
            "arena": arena, "table": table, "bits": mould.bits,
            "put": struct.Struct(f"{len(texts)}Q").pack_into,
            "put_offsets": struct.Struct(f"{len(offsets)}Q").pack_into,
        }  # fmt: skip
        self.scope["fill"] = define_once("\n".join(lines), scope, "table", "fill")
        self.scope["arena"] = arena


def _text(number: Any) -> str:
    return number.text if isinstance(number, Symbolic) else repr(number)


class _Arena:
    """Memory for temporaries that grows with what is asked for."""

    def __init__(self) -> None:
        self.memory = numpy.empty(0, numpy.uint8)
        self._first = 0

    def start(self, size: int) -> int:
        """Where so many bytes begin."""
        if size + 64 > self.memory.size:
            self.memory = numpy.empty(size + size // 2 + 64, numpy.uint8)
            self._first = self.memory.__array_interface__["data"][0]
            self._first += -self._first % 64
        return self._first

"""A program for all sizes: written once with numbers that vary, cast for sizes as they come.

The text reads loop bounds, strides and the like from the program's table. What a cast needs (the
words of the table, where temporaries lie, shapes of results) is one written expression of the
sizes; nothing is planned or written anew. A mould serves the sizes for which everything that was
decided while it was made comes out alike.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from typing import Any

from pullback.compiled.capture.steps import Call, Value, live
from pullback.compiled.ir.symbols import Symbolic, Symbols
from pullback.compiled.llvm.between import (
    Between,
    Operand,
    Result,
    is_whole,
    numpy_dtype,
    parts_of,
)
from pullback.compiled.llvm.machine import Code, machine
from pullback.compiled.llvm.module import ModuleText
from pullback.compiled.llvm.program import FUNCTION, LARGE, Memory, NativeProgram, address_of
from pullback.compiled.llvm.template import with_words
from pullback.compiled.lower.program import Lowered
from pullback.compiled.plan.plan import Plan
from pullback.compiled.runtime.pointers import put_pointers
from pullback.core.writer import define_once
from pullback.operators.dispatch.observers import observers

__all__ = ["Cast", "Mould"]


class Mould:
    """Captured calls of sizes that vary, in machine code."""

    def __init__(
        self,
        calls: list[Call],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        constants: dict[int, Any],
        threads: int,
        wishes: dict[int, int] | None,
        symbols: Symbols,
        names: Sequence[str],
        ahead: frozenset[int] | None = None,
    ) -> None:
        """`names` of the sizes, in the order in which a cast is given them."""
        self.calls = live(calls, outputs)
        lowered = Lowered(self.calls, inputs, outputs, constants, stores=True, ahead=ahead)
        self.how = lowered.how
        self.plan = plan = Plan(lowered.b, lowered.outputs, threads, wishes)
        self.in_place = plan.in_place
        written = ModuleText(plan, machine())
        self.slots = written.slots
        self.text = with_words(written.text, self.slots)
        self.code = Code(self.text)
        self.addresses = {
            slot: address_of(name, threads) for name, slot in written.addresses.items()
        }
        self.put = put_pointers()
        self.parts: list[Any] = []  # (function, its address, the call between)
        for kind, what in written.parts:
            address = self.code.address(what) if kind == "native" else 0
            self.parts.append(
                (FUNCTION(address), address, None) if kind == "native" else (None, 0, what)
            )
        shapes = {v.base.id: v.shape for v in lowered.outputs if is_whole(v)}
        self.fresh = [(numpy_dtype(v.dtype), plan.slot[v.id]) for v in plan.fresh]
        self.results = [Result.of(plan, v) for v in lowered.outputs]
        self.between = [what for _, _, what in self.parts if what is not None]
        self.shapes = [tuple(shapes.get(v.id, v.shape)) for v in plan.fresh]
        recipe = (
            plan.arena,
            tuple(plan.offsets.values()),
            tuple(tuple(s * v.itemsize for s in v.strides) for v in lowered.b.inputs),
            tuple(self.shapes),
            tuple(one.geometry for one in self.results),
            tuple(self._recipe(token) for token in self.between),
            written.work,
        )
        self._recipe_of_all, self._symbols, self._names = recipe, symbols, names

    def finish(self) -> None:
        """Write what casts, once all is written that has words in the table."""
        recipe, symbols = self._recipe_of_all, self._symbols
        taken = ", ".join(self._names)
        scope: dict[str, Any] = {"bits": self.bits}
        lines = f"def cast({taken}):\n    return {_expression(recipe)}, [{', '.join(self.words())}]"
        self.cast = define_once(lines, scope, "cast", "cast")
        wanted = [text if holds else f"not {text}" for text, holds in _bracketed(symbols.decisions)]
        lines = f"def holds({taken}):\n    return {' and '.join(wanted) or 'True'}"
        self.holds = define_once(lines, {}, "decisions", "holds")

    def words(self) -> list[str]:
        """Expressions of the words that the code reads beyond the table's slots."""
        return [
            f"bits({one})" if real else f"{one} & {2**64 - 1}" for one, real in self._symbols.words
        ]

    @staticmethod
    def bits(number: float) -> int:
        """A real number's bits, as a word of the table."""
        return int(struct.unpack("<Q", struct.pack("<d", number))[0])

    def _recipe(self, token: Any) -> Any:
        """What the step of a call must know: geometries of what it reads, strides of results."""
        inputs, results = parts_of(self.plan, token, lambda one: one)
        return (
            tuple((one.where, (one.shape, one.strides, one.off)) for one in inputs),
            tuple(strides for *_, strides in results),
        )


class Cast(NativeProgram):
    """The program of a mould for some sizes."""

    def __init__(self, mould: Mould, sizes: Sequence[Any], kernels: Any, whole: Any) -> None:
        """`kernels` makes the eager kernel of a call for these sizes; `whole` the program apart."""
        self.mould, self._whole = mould, whole
        (arena, offsets, strides, shapes, geometries, between, work), words = mould.cast(*sizes)
        self.in_place, self.code, self.slots = mould.in_place, mould.code, mould.slots
        self.words, self.addresses, self.how = words, mould.addresses, mould.how
        self.fault = mould.plan.fault
        self.strides = list(strides)
        self.arena = arena
        self.offsets = dict(zip(mould.plan.offsets, offsets, strict=True))
        self.fresh = [
            (shape, dtype, slot) for shape, (dtype, slot) in zip(shapes, mould.fresh, strict=True)
        ]
        self.outputs = [
            Result(one.slot, shown, is_fresh=one.is_fresh)
            for one, shown in zip(mould.results, geometries, strict=True)
        ]
        self.is_large = work > LARGE
        self._put = mould.put
        found = iter(between)
        self.parts = [
            (
                function,
                address,
                None if token is None else self._between(token, next(found), kernels),
            )
            for function, address, token in mould.parts
        ]
        self._spare: list[Memory] = []
        self._lock = threading.Lock()
        self.is_native = len(self.parts) <= 1 and all(one[2] is None for one in self.parts)

    def _between(self, token: Any, recipe: Any, kernels: Any) -> Between:
        plan = self.mould.plan
        inputs, results = parts_of(plan, token, lambda one: one)
        now = [
            Operand(one.slot, where, one.dtype, shown, is_whole=one.is_whole)
            for one, (where, shown) in zip(inputs, recipe[0], strict=True)
        ]
        given = [
            (number, slot, dtype, strides)
            for (number, slot, dtype, _), strides in zip(results, recipe[1], strict=True)
        ]
        return Between(kernels(plan.builder.calls[token.attr]), now, given, self._put)

    @property
    def plan(self) -> Any:
        """The plan for these sizes, made for whoever wants to look at it."""
        return self._whole().plan

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """Run the program; where somebody wants to see each step, that of these sizes alone."""
        if observers.active is not None:
            whole = self._whole()
            if getattr(whole, "in_place", None) == self.in_place:
                made: list[Any] = whole(arrays)
                return made
        return super().__call__(arrays)

    def _run_watched(self, memory: Memory, held: dict[int, Any]) -> bool:
        return self._run(memory, held)

    def _by_kernels(self, arrays: list[Any]) -> list[Any]:
        made: list[Any] = self._whole()._by_kernels(arrays)
        return made


def _bracketed(decisions: dict[str, bool]) -> list[tuple[str, bool]]:
    return [(f"({text})", holds) for text, holds in decisions.items()]


def _expression(tree: Any) -> str:
    """Numbers and tuples as Python writes them."""
    if isinstance(tree, tuple):
        return f"({''.join(f'{_expression(one)}, ' for one in tree)})"
    return tree.text if isinstance(tree, Symbolic) else repr(tree)

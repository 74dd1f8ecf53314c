"""A kernel for arrays of one geometry: its formula in machine code, behind the native entry."""

from __future__ import annotations

import logging
from typing import Any

from pullback.compiled.counting import counters
from pullback.compiled.eager.formulas import ADDING, FORMULAS, OVER
from pullback.compiled.ir.builder import Builder
from pullback.compiled.llvm.machine import has_blas, is_available
from pullback.compiled.llvm.program import NativeProgram
from pullback.compiled.lower.from_formulas import on_rows
from pullback.compiled.lower.program import dtype_name
from pullback.compiled.lower.rules import NotLowered
from pullback.compiled.runtime import native
from pullback.compiled.runtime.threads import can_share
from pullback.core.arrays import Array
from pullback.core.ports import ports
from pullback.operators.arrays.threads import count
from pullback.operators.formula.formulas import Formula

__all__ = ["Kernel", "native_kernel"]

_PARTS = 8
log = logging.getLogger("pullback.compile")


class Kernel:
    """`run` takes arrays and gives a tuple of them, or None while another thread is inside."""

    __slots__ = ("_more", "_program", "run")

    def __init__(self, program: NativeProgram, arrays: tuple[Array, ...]) -> None:
        self._program = program
        self._more: list[Any] = []
        self.run = _bound(program, arrays)

    def run_beside(self, arrays: tuple[Array, ...]) -> Any:
        """The same program with a table of its own, beside the threads that are inside."""
        for one in self._more:
            made = one(*arrays)
            if made is not None:
                return made
        another = _bound(self._program, arrays)
        made = another(*arrays)
        if made is not None:
            self._more.append(another)
        return made


def _bound(program: NativeProgram, arrays: tuple[Array, ...]) -> Any:
    known = {slot: (shape, dtype) for shape, dtype, slot in program.fresh}
    made = [one for n, one in enumerate(program.outputs) if n not in program.in_place]
    memory = program.memory()
    return native.bound(
        tensors=[(number, None, one) for number, one in enumerate(arrays)],
        places=list(range(len(arrays))),
        results=[(*known[one.slot], one.slot, None) for one in made],
        table=memory.table, address=program.parts[0][1], arguments=len(arrays),
        is_large=program.is_large, keep=[program, memory], of_arrays=True,
    )  # fmt: skip


def native_kernel(formula: Any, arrays: tuple[Array, ...], options: tuple[Any, ...]) -> Any:
    """The kernel of a formula for arrays like these; None where there is none to be had."""
    if not is_available() or not native.is_usable() or not has_blas():
        return None
    try:
        return Kernel(_program(formula, arrays, options), arrays)
    except NotLowered:
        return None
    except Exception as error:  # a mistake of ours must not stop the user's program
        reason = f"{formula}: {type(error).__name__}: {error}"
        counters["errors"][reason] += 1
        log.warning("a kernel could not be compiled, and NumPy does its work: %s", reason)
        return None


def _program(formula: Any, arrays: tuple[Array, ...], options: tuple[Any, ...]) -> NativeProgram:
    b = Builder()
    given = []
    for one in arrays:
        strides = tuple(stride // one.itemsize for stride in one.strides)
        given.append(b.input(one.shape, dtype_name(one.dtype), strides))
    if isinstance(formula, Formula):
        made = on_rows(formula, b, given, dict(options[0]))
    else:
        made = FORMULAS[formula](b, *given, *options)
    outputs = list(made) if isinstance(made, list | tuple) else [made]
    b.settle(outputs)
    # Sums over rows have a copy a part: as many parts whatever the number of threads, so that the
    # bits are the same. What has no such sums is cut into as many as there are threads.
    threads = count() if can_share() else 1
    parts = _PARTS if formula in ADDING and can_share() else None
    wishes = OVER.get(formula, {})
    program = NativeProgram(b, outputs, threads, wishes, parts=parts)
    simple = all(one.is_fresh and one.geometry is None for one in program.outputs)
    if not program.is_native or not simple or program.in_place != wishes:
        raise NotLowered
    return program


ports.fill(native_kernel=native_kernel)

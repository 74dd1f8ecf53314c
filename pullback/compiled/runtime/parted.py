"""Programs with eager kernels between their native parts, behind the native entry.

The entry checks the tensors, makes results and runs the first part; what follows runs from here,
part by part, on the same table. A call that comes while another one is inside goes the slow path.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from pullback.compiled.llvm.machine import Code
from pullback.core.tensor import wrap

__all__ = ["first_address", "parted"]


@cache
def _nothing() -> tuple[Code, int]:
    """A part that does nothing, for programs that begin with an eager kernel."""
    code = Code("define void @nothing(ptr %B) {\nentry:\n  ret void\n}")
    return code, code.address("nothing")


def first_address(program: Any) -> int:
    """What the entry runs: the program's first part, where it is a native one."""
    return int(program.parts[0][1]) or _nothing()[1]


def parted(
    program: Any,
    memory: Any,
    enter: Any,
    slots: list[Any],
    constants: dict[int, Any],
    apart: Callable[..., Any],
) -> Callable[..., Any]:
    """A function of tensors that runs a program; None where something differs.

    `slots` are (slot, number of the argument, or the tensor) of what the program reads, `constants`
    arrays by slot; `apart` copies results that share their memory with what was given.
    """
    steps = [
        (function, between)
        for function, _, between in program.parts[1 if program.parts[0][0] is not None else 0 :]
    ]
    asked = {one.slot for _, between in steps if between is not None for one in between.inputs
             if one.where is None}  # fmt: skip
    asked |= {one.slot for one in program.outputs}
    given = [one for one in slots if one[0] in asked]
    fresh = [slot for _, _, slot in program.fresh]
    outputs = list(program.outputs)
    numbers = [fresh.index(one.slot) if one.is_fresh else None for one in outputs]
    all_fresh = all(one is not None for one in numbers)
    address = memory.address
    lock = threading.Lock()

    def run(*tensors: Any) -> Any:
        if not lock.acquire(False):
            return None
        try:
            made = enter(*tensors)
            if made is None:
                return None
            held = dict(constants)
            held |= {
                slot: (tensors[number] if tensor is None else tensor)._array
                for slot, number, tensor in given
            }
            for slot, one in zip(fresh, made, strict=True):
                held[slot] = one._array
            for function, between in steps:
                if function is None:
                    between(memory, held)
                    continue
                function(address)
                if memory.is_faulty():  # the slow path says what is wrong
                    return None
        finally:
            lock.release()
        if all_fresh:
            return tuple([made[number] for number in numbers])
        read = [(tensors[number] if tensor is None else tensor)._array
                for _, number, tensor in slots]  # fmt: skip
        arrays = apart([one(held) for one in outputs], [*read, *constants.values()])
        return tuple([
            wrap(array) if number is None else made[number]
            for array, number in zip(arrays, numbers, strict=True)
        ])  # fmt: skip

    return run

"""A captured program in the array language alone, which is what C can be written of."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.compiled.capture.capture import capture
from pullback.compiled.capture.steps import Call, live
from pullback.compiled.ir.values import live_values
from pullback.compiled.lower.kernels import NeedsMemory
from pullback.compiled.lower.program import Lowered

__all__ = ["Exported"]

_SMALL = 256  # elements of a constant that is written into the program


class Exported:
    """What an export writes: live values in order, inputs with their names, outputs, constants."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        captured = capture(function, args, kwargs)
        if captured.writes or captured.stores:
            raise RuntimeError("An export computes results; it cannot write to tensors.")
        wanted = [one.value for one in captured.outputs if one.kind == "value"]
        if len(wanted) != len(captured.outputs):
            raise RuntimeError("An export gives new tensors: no arguments, views or other objects.")
        calls = live(captured.calls[: captured.forward], wanted)
        order = sorted(captured.inputs, key=lambda one: ("argument", "held", "constant")
                       .index(one.kind) if one.kind != "grad" else 9)  # fmt: skip
        fixed = {one.value.number: one.place for one in order if one.kind == "constant"}
        try:
            lowered = Lowered(calls, [one.value for one in order], wanted, fixed)
        except NeedsMemory as reason:
            raise RuntimeError(f"{reason}, so the program cannot be written as C.") from None
        if lowered.b.calls:
            raise _no_lowering([one.call for one in lowered.b.calls])
        self.outputs = lowered.outputs
        self.values = live_values(lowered.b.values, lowered.outputs)
        self.strip = lowered.b.strip
        used = {v.id for v in self.values}
        self.inputs: list[tuple[str, Any]] = []  # name, value
        self.constants: list[tuple[str, Any, Any]] = []  # name, value, array
        counts = {"argument": 0, "held": 0, "constant": 0}
        for one, v in zip(order, lowered.b.inputs, strict=True):
            name = f"{one.kind}_{counts[one.kind]}"
            counts[one.kind] += 1
            if one.kind == "constant" and v.id in used:
                if one.place.size > _SMALL:
                    raise RuntimeError(
                        f"The function makes an array of {one.place.size} elements itself; pass it "
                        "as an argument, so that the program need not contain it."
                    )
                self.constants.append((name, v, numpy.array(one.place)))
            elif one.kind == "argument" or v.id in used:
                self.inputs.append((name, v))


def _no_lowering(calls: list[Call]) -> RuntimeError:
    places = {f"{one.name} at {one.origin}" if one.origin else one.name: one for one in calls}
    return RuntimeError(
        f"{', '.join(places)}: no lowering to plain arithmetic for {_dtypes(calls)}, so the "
        "program cannot be written as C. Write the function without it, export the part around it, "
        "or write Python (to_python)."
    )


def _dtypes(calls: list[Call]) -> str:
    return ", ".join(sorted({one.dtype.name for call in calls for one in call.results}))

"""`options={"verify": True}`: each program beside the eager kernels, call by call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from pullback.compiled.capture.steps import Call, Value, live
from pullback.compiled.python.program import on_library

__all__ = ["Verified"]

# How far results of fused programs may be from eager: a few units of the last place in each of
# some hundred operations.
_LOOSE = {"f": {2: 2e-2, 4: 2e-4, 8: 1e-10}, "c": {8: 2e-4, 16: 1e-10}}


class Verified:
    """A program that compares its outputs with those of the captured calls, run one by one."""

    def __init__(
        self,
        program: Any,
        calls: list[Call],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        library: Any = None,
    ) -> None:
        """`library`: of the device that the arrays are on; None: NumPy's."""
        self.program, self.library = program, library
        self.backend = program.backend
        self.calls = live(calls, outputs)
        if library is not None:
            self.calls = [on_library(call, library) for call in self.calls]
        if any(call.random for call in self.calls):
            raise RuntimeError("verify=True: a program that draws random numbers cannot run twice.")
        self.inputs, self.outputs = list(inputs), list(outputs)

    def __getattr__(self, name: str) -> Any:
        if name in ("is_native", "in_place"):
            return None  # no fast path past the comparison, no writes before it
        return getattr(self.program, name)

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """The program's outputs; RuntimeError names the first that differ."""
        copies = [array.copy() for array in arrays]
        made: list[Any] = self.program(arrays)
        known = dict(zip([one.number for one in self.inputs], copies, strict=True))
        for call in self.calls:
            results = call.run(known)
            known.update(zip([one.number for one in call.results], results, strict=True))
        for value, ours in zip(self.outputs, made, strict=True):
            self._compare(value, ours, known[value.number])
        return made

    def _compare(self, value: Value, ours: Any, wanted: Any) -> None:
        if self.library is not None:
            ours, wanted = ours.get(), wanted.get()
        loose = _LOOSE.get(wanted.dtype.kind, {}).get(wanted.dtype.itemsize, 0)
        scale = float(numpy.abs(wanted[numpy.isfinite(wanted)]).max(initial=1)) if loose else 1
        same = ours.shape == wanted.shape and ours.dtype == wanted.dtype
        if same and numpy.allclose(ours, wanted, rtol=loose, atol=loose * scale, equal_nan=True):
            return
        call = value.call
        what = "an input" if call is None else f"{call.name}, captured at {call.origin}"
        with numpy.errstate(all="ignore"):
            far = float(numpy.nanmax(numpy.abs(ours - wanted))) if same and ours.size else None
        raise RuntimeError(
            f"verify=True: the compiled result of {what} differs from eager's by {far} (shape "
            f"{wanted.shape}, {wanted.dtype}). Please report it with the program: "
            "explain(function)(*args) prints it."
        )

"""A program as Python source that calls the eager kernels, one after the other.

Bit-identical to eager: the same kernels on the same values in the same order. What it saves is all
that stands around the kernels: modes, checks, nodes, tensors, and the walk through the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from pullback.compiled.capture.nodes import Rules
from pullback.compiled.capture.steps import Call, Value, live, say_where
from pullback.compiled.profiling import timed
from pullback.core.arrays import as_array
from pullback.core.writer import define_once
from pullback.operators.dispatch.observers import observers

__all__ = ["PythonProgram", "on_library"]

_LITERALS = (int, float, str, bool, type(None))


class PythonProgram:
    """Arrays in, arrays out; `source` is the text that runs."""

    backend = "python"

    def __init__(
        self,
        calls: list[Call],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        library: Any = None,
    ) -> None:
        """`library`: of the device that the arrays are on; None: NumPy's."""
        self.calls = live(calls, outputs)
        if library is not None:
            self.calls = [on_library(call, library) for call in self.calls]
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.names: dict[str, Any] = {"N": numpy, "A": as_array}
        self.source = self._text()
        self._run: Callable[..., list[Any]] = define_once(
            self.source, self.names, "compiled program", "program"
        )
        self._file = self._run.__code__.co_filename

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """The program's outputs."""
        if observers.active is not None:
            return self._run_watched(arrays)
        try:
            return self._run(*arrays)
        except Exception as error:
            self._say_where(error)
            raise

    def _run_watched(self, arrays: list[Any]) -> list[Any]:
        """Call by call, each with its time told to the profiler."""
        known = {one.number: array for one, array in zip(self.inputs, arrays, strict=True)}
        for call in self.calls:
            with timed(f"compiled::{call.name}"):
                made = call.run(known)
            known.update(zip([one.number for one in call.results], made, strict=True))
        return [known[one.number] for one in self.outputs]

    def _say_where(self, error: Exception) -> None:
        """Tell which call of the user's an error comes from: its line was not run."""
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self._file:
                text = self.source.splitlines()[trace.tb_lineno - 1]
                place = next((n for n in range(len(self.calls)) if f"f{n}(" in text), None)
                if place is not None:
                    say_where(error, self.calls[place])
                return
            trace = trace.tb_next

    def _text(self) -> str:
        lines = [f"def program({', '.join(f'v{one.number}' for one in self.inputs)}):"]
        last: dict[int, int] = {}
        for place, call in enumerate(self.calls):
            for one in call.inputs:
                last[one.number] = place
        kept = {one.number for one in self.outputs}
        for place, call in enumerate(self.calls):
            lines.append("    " + self._line(call, place))
            read = {one.number for one in (*call.inputs, *call.results)}
            over = sorted(n for n in read - kept if last.get(n, place) == place)
            if over:
                lines.append("    del " + ", ".join(f"v{n}" for n in over))
        results = ", ".join(f"v{one.number}" for one in self.outputs)
        lines.append(f"    return [{results}]")
        return "\n".join(lines) + "\n"

    def _line(self, call: Call, place: int) -> str:
        kernel = f"f{place}"
        self.names[kernel] = call.kernel.run if isinstance(call.kernel, Rules) else call.kernel
        parts = [self._argument(one) for one in call.args]
        parts += [f"{name}={self._argument(one)}" for name, one in call.kwargs.items()]
        made = f"{kernel}({', '.join(parts)})"
        if call.single:
            text = f"v{call.results[0].number} = A({made})"
        else:
            names = ", ".join(f"v{one.number}" for one in call.results)
            text = f"{names}, = map(A, {made})" if call.results else made
        comment = f"  # {call.name}" + (f" {call.origin}" if call.origin is not None else "")
        return text + comment

    def _argument(self, one: Any) -> str:
        kind = one.__class__
        if kind is Value:
            return f"v{one.number}"
        if one is numpy:
            return "N"
        if kind in (tuple, list) and all(
            x.__class__ is Value or x.__class__ in _LITERALS for x in one
        ):
            inner = ", ".join(self._argument(x) for x in one)
            if kind is list:
                return f"[{inner}]"
            return f"({inner},)" if len(one) == 1 else f"({inner})"
        if kind in (int, str, bool, type(None)):
            return repr(one)
        if kind in (tuple, list) and any(x.__class__ is Value for x in one):
            inner = ", ".join(self._argument(x) for x in one)
            return f"{kind.__name__}(({inner},))"
        name = f"k{len(self.names)}"
        self.names[name] = one
        return name


def on_library(call: Call, library: Any) -> Call:
    """The same call on arrays of a device."""
    op = call.op
    if op is None:
        kernel: Any = call.kernel
        whole = isinstance(kernel, Rules)
        kernel = kernel.on_library(library) if whole else library.specialised(kernel)
        made = Call(call.name, kernel, call.args, call.kwargs)
    else:
        inputs = {param.name for param in op.inputs}

        def compute(xp: Any, **given: Any) -> Any:
            arrays = {name: one for name, one in given.items() if name in inputs}
            options = {name: one for name, one in given.items() if name not in inputs}
            return library.compute(op, arrays, options)

        made = Call(call.name, compute, call.args, call.kwargs, op)
    made.results, made.single = call.results, call.single
    made.random, made.origin = call.random, call.origin
    return made

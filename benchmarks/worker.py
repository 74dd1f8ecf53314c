"""The process that holds one library and runs works on it, told what to do by lines of JSON.

`python -m benchmarks.worker torch` reads requests on standard input and answers on its output:

    {"do": "load", "work": NAME, "clock": "processor" | "wall", "warm": SECONDS}
    {"do": "round", "calls": COUNT}
    {"do": "probe", "probe": NAME, "quick": BOOL}
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks import family_table, works
from benchmarks.compiled import varied as compiled_varied
from benchmarks.compiled import works as compiled_works
from benchmarks.compiled.program import COMPILED, PEER
from benchmarks.families import family_work
from benchmarks.probes import PROBES
from benchmarks.program import WORKS, Program, Tensor
from benchmarks.small_calls import PREFIX, small_work

CLOCKS: dict[str, Callable[[], float]] = {
    "processor": time.process_time,
    "wall": time.perf_counter,
}

assert works  # imported for what its modules register
assert family_table  # likewise
assert compiled_works  # likewise
assert compiled_varied  # likewise


class Worker:
    """What one process knows: its library, and the work that is loaded."""

    def __init__(self, library: ModuleType) -> None:
        self.library = library
        self.program: Program | None = None
        self.clock = time.process_time

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Set a work up, note its answer, and run it until it is warm."""
        name = request["work"]
        is_small = name.startswith(f"{PREFIX}/")
        one_by_one = small_work if is_small else family_work
        if self.library.__name__ == "jax":
            return self._load_jax(name, request)
        work = {**WORKS, **COMPILED}.get(name) or one_by_one(name)
        self.program = None  # whose memory must not weigh on this one
        gc.collect()
        if is_small:
            gc.freeze()  # else looking through the library takes ten times as long as a round
        if missing := work.missing_from(self.library):
            return {"missing": missing}
        self.clock = CLOCKS[request["clock"]]
        self.program = work.build(self.library)
        return {"answer": answer_of(self.program), "seconds": self.warm_up(request["warm"])}

    def _load_jax(self, name: str, request: dict[str, Any]) -> dict[str, Any]:
        """The same for a work that is written for jax too."""
        from benchmarks.compiled.jax_works import JAX

        if name not in JAX:
            return {"missing": [f"form of {name}"]}
        self.clock = CLOCKS[request["clock"]]
        self.program = JAX[name](self.library)
        return {"answer": answer_of(self.program), "seconds": self.warm_up(request["warm"])}

    def warm_up(self, seconds: float) -> float:
        """The time of a call once `seconds` were spent on calls."""
        end = time.perf_counter() + seconds
        last = self.time_calls(1)
        while time.perf_counter() < end:
            last = self.time_calls(1)
        return last

    def round(self, request: dict[str, Any]) -> dict[str, Any]:
        """Time some calls; the collector runs as it always does, but from a clean start."""
        gc.collect()
        return {"seconds": self.time_calls(request["calls"]) / request["calls"]}

    def time_calls(self, calls: int) -> float:
        """Seconds spent in `run`, and in freeing what `prepare` made."""
        assert self.program is not None, "a round before any work was loaded"
        prepare, run, clock = self.program.prepare, self.program.run, self.clock
        total = 0.0
        if self.program.together:
            start = clock()
            for _ in range(calls):
                run(None)
            return clock() - start
        for _ in range(calls):
            state = prepare()
            start = clock()
            result = run(state)
            del state
            total += clock() - start
            del result
        return total

    def probe(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run a measurement that wants a process of its own."""
        probe = PROBES[request["probe"]]
        if missing := probe.missing_from(self.library):
            return {"missing": missing}
        return probe.measure(self.library, request["quick"])


def answer_of(program: Program) -> list[tuple[float, float]]:
    """Run once; for each tensor of the answer its sum, and the sum of its magnitudes."""
    result = program.run(program.prepare())
    return [summary(tensor) for tensor in program.answer(result)]


def summary(tensor: Tensor) -> tuple[float, float]:
    """Two numbers by which the same tensor of another library is known."""
    values = np.asarray(tensor.detach().numpy(), dtype=np.float64)
    return float(values.sum()), float(np.abs(values).sum())


def _library(name: str) -> ModuleType:
    """The library of a name; "torch.compile" is torch, told to compile."""
    if name == "torch.compile":
        PEER.append(name)
        name = "torch"
    library = importlib.import_module(name)
    if name == "jax":
        library.config.update("jax_enable_x64", True)
    return library


def main(name: str) -> None:
    """Answer requests until there are no more."""
    # What a library prints must not be taken for an answer: it goes where the warnings go.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    library = _library(name)
    if os.environ.get("OMP_NUM_THREADS") == "1" and hasattr(library, "set_num_threads"):
        library.set_num_threads(1)
    worker = Worker(library)
    actions = {
        "load": worker.load,
        "round": worker.round,
        "probe": worker.probe,
    }
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = actions[request["do"]](request)
        except Exception as error:  # the parent reports it beside the work, and goes on
            traceback.print_exc()
            first_line = str(error).partition("\n")[0]
            reply = {"error": f"{type(error).__name__}: {first_line}"}
        answers.write(json.dumps(reply) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])

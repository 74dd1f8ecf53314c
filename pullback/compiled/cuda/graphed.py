"""A program of a device whose work is captured as a CUDA graph and replayed: back end "cudagraphs".

A replay costs one launch, whatever the number of kernels. It reads and writes the memory of the
capture, so arguments that come in other memory each time are copied in, those that stay where they
are (parameters) are read there, and results are copied out.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from pullback.compiled.counting import counters
from pullback.operators.dispatch.observers import observers

__all__ = ["GraphedProgram"]

log = logging.getLogger("pullback.compile")


class GraphedProgram:
    """The first call on a stream runs the program, the second captures it, later ones replay."""

    in_place = None  # the caller writes results to the tensors that they are for

    def __init__(self, program: Any, library: Any) -> None:
        self.program, self.library = program, library
        self._lock = threading.Lock()
        self._streams: dict[Any, _Replayed] = {}
        self._refused = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.program, name)  # to whoever explains it, it is the program

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """Queue the program's work on the current stream."""
        cuda = self.library.cupy.cuda
        stream = cuda.get_current_stream()
        if self._refused or observers.active is not None or _is_capturing(stream):
            return list(self.program(arrays))
        key = cuda.Device().id, stream.ptr
        with self._lock:
            known = self._streams.get(key)
            if known is None:
                # What runs first compiles kernels and makes tables, which no graph may hold.
                known = self._streams[key] = _Replayed(arrays)
                return list(self.program(arrays))
            try:
                return known(self.program, arrays)
            except Exception as error:
                self._refuse(error)
        return list(self.program(arrays))

    def _refuse(self, error: Exception) -> None:
        """Kernels that wait for the device cannot be captured: they run as they are."""
        self._refused = True
        self._streams.clear()
        reason = f"{type(error).__name__}: {error}"
        counters["cudagraphs"][reason] += 1
        log.warning("a program could not be captured as a CUDA graph and runs without: %s", reason)


class _Replayed:
    """A captured call: where it reads, where it writes, and how it is done again."""

    def __init__(self, arrays: list[Any]) -> None:
        self.places: list[int | None] = [one.data.ptr for one in arrays]  # None: copied in
        self.given: list[Any] | None = None
        self.made: list[Any] = []
        self.replay: Callable[[], None] = _nothing

    def __call__(self, program: Any, arrays: list[Any]) -> list[Any]:
        pairs = zip(self.places, arrays, strict=True)
        moved = [place is not None and place != one.data.ptr for place, one in pairs]
        if self.given is None or any(moved):
            self._capture(program, arrays, moved)
        else:
            for place, own, array in zip(self.places, self.given, arrays, strict=True):
                if place is None:
                    own[...] = array
        self.replay()
        return [one.copy(order="K") for one in self.made]

    def _capture(self, program: Any, arrays: list[Any], moved: list[bool]) -> None:
        """Write the work down, on copies of what was elsewhere before."""
        pairs = zip(self.places, moved, strict=True)
        self.places = [None if is_moved else place for place, is_moved in pairs]
        given = [
            array.copy(order="K") if place is None else array
            for place, array in zip(self.places, arrays, strict=True)
        ]
        self.replay, self.made = captured(lambda: program(given))
        self.given = given


def captured(run: Callable[[], list[Any]]) -> tuple[Callable[[], None], list[Any]]:
    """How to do again what `run` queues, and what it gave; nothing is done yet."""
    from pullback.cuda.graphs import CUDAGraph, graph

    made = CUDAGraph()
    with graph(made):
        results = list(run())
    return made.replay, results


def _is_capturing(stream: Any) -> bool:
    asked = getattr(stream, "is_capturing", None)
    return asked is not None and bool(asked())


def _nothing() -> None:
    """There is no graph yet."""

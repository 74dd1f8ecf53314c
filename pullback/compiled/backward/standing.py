"""A pass, or a part of one, run on arrays without data, and the program of what it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy

from pullback.compiled.backward.graph import Unsupported
from pullback.compiled.capture.capture import Captured
from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.capture.steps import live
from pullback.compiled.capture.tracer import Tracer
from pullback.core import passes
from pullback.core.mode import changed, current, settle
from pullback.core.tensor import Tensor, wrap
from pullback.engine.backward import run_pass

__all__ = ["StandIns", "built", "owned"]


class StandIns:
    """Saved values stand on arrays without data while the engine runs their nodes, on tensors."""

    def __init__(self, arrays: list[Any], nodes: list[Any], *, exact: bool = False) -> None:
        """`exact`: the program must give the engine's bits."""
        self.arrays, self.nodes = arrays, nodes
        self.tracer = Tracer(exact=exact)
        self.traced = [self.tracer.stand_in(array) for array in arrays]
        self.values = [one.value for one in self.traced]
        self.by_array = {id(a): t for a, t in zip(arrays, self.traced, strict=True)}

    def gradients(self, roots: Any, targets: list[Any]) -> tuple[list[Any], list[Any]]:
        """Values of the gradients, and the calls that make them."""
        with self.standing():
            seeds = [(edge, wrap(self.by_array[id(g._array)])) for edge, g in roots]
            made = run_pass(seeds, targets, retain_graph=True, create_graph=False)
            values = [None if g is None else self.tracer.value_of(g._array) for g in made]
        return values, self.tracer.calls

    def constants(self) -> list[tuple[Any, Any]]:
        """The values that come from nowhere in the graph, with their arrays."""
        found = self.tracer.constants.values()
        if any(id(array) in self.by_array for array, _, _ in found):  # it would stay for ever
            raise Unsupported("a node reads a saved tensor in a way of its own")
        return [(value, array) for array, _, value in found]

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Within the block operators are written down, and an error means a pass for the engine."""
        mode, before = settle(), passes.taken_over.get()
        restore = self._stand_in()
        try:
            current.set(changed(mode, tracing=self.tracer, grad=False))
            passes.taken_over.set(None)
            yield
        except CannotCapture:
            raise
        except Exception as error:  # then the engine raises it too, or knows more
            notes = [one for one in getattr(error, "__notes__", ()) if one.startswith("in the")]
            where = f" {notes[0]}" if notes else ""
            reason = f"capturing it raised {type(error).__name__}{where}: {error}"
            raise Unsupported(reason) from error
        finally:
            passes.taken_over.set(before)
            current.set(mode)
            self.tracer.is_open = False
            for one, name, value in restore:
                setattr(one, name, value)

    def _stand_in(self) -> list[tuple[Any, str, Any]]:
        """Put others in the slots of the nodes; tensors stay as they are, as other threads see."""
        restore: list[tuple[Any, str, Any]] = []
        for node in self.nodes:
            plan = type(node).plan
            for name in (*[param.name for param in plan.inputs], *plan.outputs):
                kept = getattr(node, f"s_{name}")
                other = self.instead(kept)
                if other is not kept:
                    restore.append((node, f"s_{name}", kept))
                    setattr(node, f"s_{name}", other)
        return restore

    def instead(self, kept: Any) -> Any:
        """What stands for something that a node keeps: the thing itself if it is no input."""
        if isinstance(kept, tuple):
            others = [self.instead(one) for one in kept]
            same = all(one is other for one, other in zip(kept, others, strict=True))
            return kept if same else tuple(others)
        if not isinstance(kept, Tensor):
            return self.by_array.get(id(kept), kept)
        traced = self.by_array.get(id(kept._array))
        if traced is None:
            return kept
        other = kept._same_kind()
        other._array, other._node, other._cell = traced, kept._node, kept._cell
        return other


def built(backend: Any, captured: Captured, sharing: Any = None) -> tuple[Any, list[Any]]:
    """The program of a captured pass, and the places of its inputs."""
    outputs: list[Any] = [value for _, value in captured.gradients]
    read = {one.number for call in live(captured.calls, outputs) for one in call.inputs}
    read |= {one.number for one in outputs}
    inputs = [one for one in captured.inputs if one.value.number in read]
    places = [one.place for one in inputs if one.kind == "argument"]
    constants = {one.value.number: one.place for one in inputs if one.kind == "constant"}
    values = [one.value for one in inputs]
    program = backend(captured.calls, values, outputs, constants, None, sharing)
    if constants:
        program = _with_constants(program, list(constants.values()))
    return program, places


def _with_constants(
    program: Callable[[list[Any]], list[Any]], arrays: list[Any]
) -> Callable[[list[Any]], list[Any]]:
    """A program whose constants, its last inputs, are given with each call."""
    return lambda given: program([*given, *arrays])


def owned(made: list[Any], given: list[Any]) -> list[Any]:
    """Gradients that the engine may add to: new ones, each its own."""
    seen = {id(one) for one in given}
    results = []
    for one in made:
        fresh = one.base is None and id(one) not in seen and one.flags.writeable
        results.append(one if fresh else numpy.array(one))
        seen.add(id(one))
    return results

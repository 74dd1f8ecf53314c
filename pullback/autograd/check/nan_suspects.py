"""Who may have made a NaN: found from the frames of a running operator, or after a node ran."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy

from pullback.autograd.function.node import BackwardCFunction
from pullback.autograd.graph.memory import saved_values
from pullback.core.node import Node
from pullback.core.origin import GENERATED, Origin, internal, user_frame
from pullback.core.tensor import Tensor
from pullback.operators.declare import Op
from pullback.operators.running import interpret
from pullback.operators.writing import nodes, written
from pullback.operators.writing.specialise import array_call
from pullback.operators.writing.written import Written


@dataclass(slots=True)
class Suspect:
    """An operator, or a node's backward, with what it got and what it returned."""

    name: str
    node: Any  # None for an operator
    given: dict[str, Any]
    results: Any
    frame: FrameType | None = None

    @staticmethod
    def of_node(node: Any, gradients: Any, results: Any) -> Suspect:
        """A node that ran."""
        return Suspect(
            f"the backward of {type(node).__name__}", node, {"gradient": gradients}, results
        )

    @property
    def place(self) -> Origin | None:
        """The user's line: of the call, or of the forward that made the node."""
        if self.node is not None:
            return self.node._origin
        frame = user_frame(self.frame)
        return None if frame is None else Origin(frame.f_code, frame.f_lasti)

    def shown(self) -> dict[str, Any]:
        """Everything that the result was computed from."""
        if self.node is None:
            return self.given
        name = {"out": "result"}  # as `_saved_result` says
        saved = {f"saved {name.get(at, at)}": array for at, array, _ in saved_values(self.node)}
        return {**self.given, **saved}


def arrays_of(value: Any) -> Iterator[Any]:
    """Every array in a value, those of tensors and in sequences included."""
    if isinstance(value, Tensor):
        yield value._array
    elif isinstance(value, tuple | list):
        for one in value:
            yield from arrays_of(one)
    elif isinstance(value, numpy.ndarray | numpy.generic):
        yield value


def leaves_no_flag(op: Op) -> bool:
    """Whether NaN may come out of an operator without a flag: it is not made of ufuncs alone."""
    if op.kind in {"view", "linear"}:  # they move values and add them
        return False
    return array_call(op) is None


def suspect(frame: FrameType | None) -> Suspect | None:
    """Who runs the ufunc that called from `frame`; None if it is the user's own code."""
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(GENERATED):
            return _written(frame)
        if code is _COMPUTE:
            op, given, options = (frame.f_locals[name] for name in ("op", "arrays", "options"))
            results = op.forward(numpy, **given, **options)
            return Suspect(op.name, None, given, results, frame)
        if not internal[code.co_filename]:
            return None
        frame = frame.f_back
    return None


_COMPUTE = interpret.compute.__code__


def _written(frame: FrameType) -> Suspect | None:
    """In code written for an operator: in its node, or in its function."""
    local = frame.f_locals
    node: Any = local.get("self")
    if isinstance(node, Node):
        run: Any = nodes.node_class(type(node).op)._run  # type: ignore[attr-defined]  # written
        results = run(node, local["g"], local["edges"])
        return Suspect.of_node(node, local["g"], results)
    op: Op | None = frame.f_globals.get("op")
    if op is None:
        return None
    given = {param.name: local[f"a{at}"] for at, param in enumerate(op.inputs)}
    called = frame.f_globals.get("called", op.name)
    if called != op.name and array_call(op):
        target = given.pop(op.inputs[0].name)  # holds the result by now
        return Suspect(called, None, given, target, frame)
    values = {param.name: given.get(param.name, local.get(param.name)) for param in op.params}
    ordered = [values[param.name] for param in op.params if not param.keyword_only]
    named = {param.name: values[param.name] for param in op.params if param.keyword_only}
    return Suspect(called, None, given, op.forward(numpy, *ordered, **named), frame)


class NodeChecks:
    """Lets somebody see what nodes return whose NaN leave no flag, by wrapping their `_run`."""

    def __init__(self) -> None:
        self._lookers: list[Callable[[Any, Any, Any], None]] = []
        self._before: dict[type, Any] = {}
        self._change = threading.Lock()

    def add(self, look: Callable[[Any, Any, Any], None]) -> None:
        """Call `look(node, gradients, results)` after each such node from now on."""
        with self._change:
            self._lookers = [*self._lookers, look]
            if len(self._lookers) > 1:
                return
            written.followers.append(self._follow)
            self._wrap(BackwardCFunction)
            for one in written.WRITTEN:
                self._follow(one)

    def remove(self, look: Callable[[Any, Any, Any], None]) -> None:
        """Stop that."""
        with self._change:
            self._lookers = [one for one in self._lookers if one != look]
            if self._lookers:
                return
            written.followers.remove(self._follow)
            for cls, run in self._before.items():
                cls._run = run  # type: ignore[attr-defined]  # as it was
            self._before.clear()

    def _follow(self, one: Written) -> None:
        if one.op.rules and leaves_no_flag(one.op):
            self._wrap(nodes.node_class(one.op))

    def _wrap(self, cls: Any) -> None:
        if cls in self._before:
            return
        run = self._before[cls] = vars(cls)["_run"]

        def looked_at(node: Any, g: Any, edges: tuple[Any, ...]) -> Any:
            results = run(node, g, edges)
            for look in self._lookers:
                look(node, g, results)
            return results

        cls._run = looked_at


node_checks = NodeChecks()

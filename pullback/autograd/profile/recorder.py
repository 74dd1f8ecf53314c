"""What a profiler writes down while it is on: as little as possible, sorted out afterwards.

A call of an operator costs a start, an end, a thread and the number of the node it made. Nesting,
names and sums wait for `profiler_util`. Nothing here runs while no profiler is on.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from time import perf_counter_ns as now
from typing import Any, NamedTuple

import numpy

from pullback.autograd.profile.compositions import COMPOSITIONS, merged
from pullback.autograd.profile.names import torch_name
from pullback.core import origin
from pullback.core.arrays import LIBRARIES
from pullback.core.node import AccumulateGrad, Node, OperatorNode, Output
from pullback.core.sequence import shown, thread_of
from pullback.core.tensor import Tensor
from pullback.core.view import View
from pullback.engine import node_observers
from pullback.operators.declare import Op
from pullback.operators.dispatch import observers

thread = threading.get_ident

# Torch's number for the kind of a range.
FUNCTION, BACKWARD, USER = 0, 1, 7


class Raw(NamedTuple):
    """One range of time, as it was recorded."""

    name: Any  # a str, or the Function or node whose name it is
    start: int
    end: int
    thread: int
    scope: int
    seq: int | None = None  # the `_seq` of the node it made or is
    bytes: int = 0
    shapes: Any = ()
    values: Any = ()  # the arguments that are numbers
    stack: tuple[str, ...] = ()
    is_async: bool = False  # its end is no end of what its thread did
    node: int = -1  # the worker that it ran on, where that is another
    device: Any = None  # the time that a device had for it


class Recorder:
    """Sees every operator, custom Function and node, and keeps a few numbers for each.

    `enter` and `leave` are for operators, `start`, `ran` and `finish` for nodes. They are closures:
    a method that reads `self` costs half as much again.
    """

    enter: Any
    leave: Any
    start: Any
    ran: Any
    finish: Any

    def __init__(self, *, shapes: bool, memory: bool, stack: bool) -> None:
        self.operators: list[tuple[Any, ...]] = []  # called, start, end, thread, seq
        # Class of the node or weak reference to a leaf's, seq, end, thread, start, ran, and more.
        self.nodes: list[tuple[Any, ...]] = []
        self.raw: list[Raw] = []
        self.composed: list[Raw] = []  # functions of operators
        self.freed: list[tuple[int, int, int]] = []  # time, thread, bytes as a negative number
        self._shapes, self._memory, self._stack = shapes, memory, stack
        self._alive: dict[int, Any] = {}
        self._watch_nodes()
        if shapes or memory or stack:
            self.enter, self.leave = self._enter_whole, self._leave_whole
        else:
            self._watch_operators()

    # ------------------------------------------------------------------ operators

    def _watch_operators(self) -> None:
        add = self.operators.append

        def enter(op: Op, called: str) -> Any:
            return called, now()

        def leave(token: Any, result: Any, operands: tuple[Any, ...]) -> None:
            end = now()
            # Most results are new tensors of a node of their own.
            if type(result) is Tensor and isinstance(node := result._node, OperatorNode):
                seq: int | None = node._seq
                for operand in operands:
                    if operand is result:
                        seq = sequence_of(result, operands)
            else:
                seq = sequence_of(result, operands)
            add((*token, end, thread(), seq))

        self.enter, self.leave = enter, leave

    def _enter_whole(self, op: Op, called: str) -> Any:
        return torch_name(called), _user_stack() if self._stack else (), now()

    def _leave_whole(self, token: Any, result: Any, operands: tuple[Any, ...]) -> None:
        self.raw.append(self._raw_of(token, result, operands))

    def _raw_of(self, token: Any, result: Any, operands: tuple[Any, ...]) -> Raw:
        end = now()
        name, stack, start = token
        size = self._allocated(result, operands) if self._memory else 0
        shapes = [_shape(value) for value in operands] if self._shapes else ()
        values = [_value(value) for value in operands] if self._shapes else ()
        seq = sequence_of(result, operands)
        return Raw(name, start, end, thread(), FUNCTION, seq, size, shapes, values, stack)

    def enter_composition(self, name: str) -> Any:
        """A function of operators starts."""
        return name, _user_stack() if self._stack else (), now()

    def leave_composition(self, token: Any, result: Any, args: tuple[Any, ...]) -> None:
        """It ended; it made no node of its own, its operators did."""
        self.composed.append(self._raw_of(token, result, args)._replace(seq=None))

    def enter_function(self, cls: Any) -> Any:
        """`apply` of a custom Function starts; its name stands for itself, without `aten::`."""
        return cls.__name__, _user_stack() if self._stack else (), now()

    leave_function = _leave_whole

    # ------------------------------------------------------------------ nodes

    def _watch_nodes(self) -> None:
        add = self.nodes.append

        def start(node: Any) -> Any:
            return now()

        def ran(token: Any, gradients: Any, results: Any) -> Any:
            return token, now()

        def ran_whole(token: Any, gradients: Any, results: Any) -> Any:
            end = now()
            given = gradients if type(gradients) is list else (gradients,)
            size = self._allocated(results, given) if self._memory else 0
            return token, end, size, [_shape(value) for value in given] if self._shapes else ()

        def finish(node: Any, token: Any) -> None:
            end = now()
            if type(token) is int:  # it failed, or had nothing to do
                token = (token, end)
            seq = node._seq
            which = type(node) if seq < 0 else weakref.ref(node)
            add((which, seq, end, thread(), *token))

        self.start, self.finish = start, finish
        self.ran = ran_whole if self._shapes or self._memory else ran

    # ------------------------------------------------------------------ ranges of the user's

    def range(self, name: str, start: int, end: int, args: str | None) -> None:
        """A `record_function` ended."""
        values = [args] if args is not None else ()
        stack = _user_stack() if self._stack else ()
        self.raw.append(Raw(name, start, end, thread(), USER, None, 0, (), values, stack))

    def step(self, name: str, start: int, end: int) -> None:
        """A step of a compiled program ended."""
        self.raw.append(Raw(name, start, end, thread(), FUNCTION))

    # ------------------------------------------------------------------ memory

    def _allocated(self, results: Any, known: Any) -> int:
        """Bytes of the arrays that came to be; when they go, that is written down too."""
        total = 0
        for result in results if isinstance(results, tuple | list) else (results,):
            array: Any = getattr(result, "_array", result)
            kind = type(array)
            if (kind is not numpy.ndarray and kind not in LIBRARIES) or array.base is not None:
                continue
            if id(array) in self._alive or any(array is getattr(k, "_array", k) for k in known):
                continue
            total += self._follow(array)
        return total

    def _follow(self, array: Any) -> int:
        size, key = int(array.nbytes), id(array)

        def gone(_: Any, alive: dict[int, Any] = self._alive) -> None:
            if alive.pop(key, None) is not None:
                self.freed.append((now(), thread(), -size))

        self._alive[key] = weakref.ref(array, gone)
        return size

    def close(self) -> list[Raw]:
        """All that was recorded, in one form; it is forgotten here, since operators may know us."""
        self._alive.clear()
        found = [
            Raw(torch_name(called), start, end, in_thread, FUNCTION, seq)
            for called, start, end, in_thread, seq in self.operators
        ]
        for which, seq, end, in_thread, start, ran, *more in self.nodes:
            kind = which if seq < 0 else AccumulateGrad
            name = kind._prefix + kind.__name__
            number = seq if seq < 0 else None
            rest: Any = [*more, *_UNKNOWN[len(more) :]]
            size, shapes, device = rest
            turn = Raw(name, start, ran, in_thread, BACKWARD, number, size, shapes, device=device)
            found.append(turn)
            whole = Raw(EVALUATE + name, start, end, in_thread, FUNCTION, number, device=device)
            found.append(whole)
        found = merged(found + self.raw, self.composed)
        for part in (self.operators, self.nodes, self.raw, self.composed):
            part.clear()
        return found

    def costs(self) -> dict[Any, tuple[int, int]]:
        """What each node took: its `_seq`, or a weak reference to a leaf's -> ns, bytes."""
        costs: dict[Any, tuple[int, int]] = {}
        for which, seq, _, _, start, ran, *more in self.nodes:
            if seq >= 0 and which() is None:
                continue  # the leaf is gone
            key = seq if seq < 0 else which
            time, size = costs.get(key, (0, 0))
            costs[key] = time + ran - start, size + (more[0] if more else 0)
        return costs


_UNKNOWN = (0, (), None)  # bytes, shapes and the device's time of a node
EVALUATE = "autograd::engine::evaluate_function: "


def sequence_of(result: Any, operands: tuple[Any, ...]) -> int | None:
    """The `_seq` of the node that a call made; None if it made none."""
    if type(result) is tuple or type(result) is list:
        result = result[0] if result else None
    if not isinstance(result, Tensor):
        return None
    node: Any = result._node
    if node is None:
        return None
    if node._special:
        if type(node) is not View:
            return None  # a leaf
        node = node.node
    if type(node) is Output:
        node = node.node
    if not isinstance(node, Node) or node._seq >= 0:
        return None
    for operand in operands:
        if operand is result:  # handed back as it was, or written to: then the newest node is its
            return node._seq if result._cell[0] else None
    return node._seq


def _shape(value: Any) -> Any:
    if isinstance(value, Tensor):
        return list(value._array.shape)
    if isinstance(value, tuple | list) and any(isinstance(one, Tensor) for one in value):
        return [_shape(one) for one in value]
    return list(getattr(value, "shape", ()))


def _value(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | complex | str) else None


def _user_stack() -> tuple[str, ...]:
    """The user's frames, innermost first, each as `file(line): function`."""
    frame: Any = sys._getframe(2)
    lines = []
    while frame is not None:
        code = frame.f_code
        if not origin.internal[code.co_filename]:
            lines.append(f"{os.path.relpath(code.co_filename)}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return tuple(lines)


def sequence_number(seq: int | None) -> int:
    """As users see it; -1 for none."""
    return -1 if seq is None else shown(seq)


def forward_thread(seq: int | None) -> int | None:
    """The thread that made the node."""
    return None if seq is None else thread_of(seq)


# Switching on and off -----------------------------------------------------------------------------

_recorders: list[Recorder] = []
_change = threading.RLock()


def active() -> list[Recorder]:
    """The recorders that are on."""
    return _recorders


def switch_on(recorder: Recorder) -> None:
    """Record from now on."""
    with _change:
        if _recorders:
            raise RuntimeError(
                "A profiler is on already: one at a time. End the outer one first, or use "
                "record_function() to name a part of what it sees."
            )
        try:
            _recorders.append(recorder)
            observers.observe(recorder)
            COMPOSITIONS.begin(recorder)
            node_observers.add(recorder)
        except BaseException:
            _forget(recorder)
            raise


def switch_off(recorder: Recorder) -> None:
    """Record no more; costs what it did before."""
    with _change:
        try:
            _forget(recorder)
        except BaseException:
            _forget(recorder)
            raise


def _forget(recorder: Recorder) -> None:
    node_observers.remove(recorder)
    COMPOSITIONS.end(recorder)
    observers.stop(recorder)
    if recorder in _recorders:
        _recorders.remove(recorder)

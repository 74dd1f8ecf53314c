"""Who may have made a NaN: an operator or a node, with what it got and what it returned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy

from pullback.autograd.graph.memory import saved_values
from pullback.core.origin import Origin, user_frame
from pullback.core.tensor import Tensor
from pullback.operators.declare import Op
from pullback.operators.running.on_arrays import array_call


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
            made: Origin | None = self.node._origin
            return made
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


def node_leaves_no_flag(node: Any) -> bool:
    """Whether NaN may come out of a node without a flag."""
    if node._by_user:
        return True
    op: Op | None = getattr(type(node), "op", None)
    return op is not None and leaves_no_flag(op)

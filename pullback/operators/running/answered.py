"""Calls that handlers below autograd answer: dispatch modes, and classes of tensors.

The handler gives the values, the rest is as in any call: history is recorded around it.
"""

from __future__ import annotations

from typing import Any

from pullback.core import overriding
from pullback.core.explain import anomaly
from pullback.core.forward import LEVELS
from pullback.core.mode import Mode
from pullback.core.overriding import DISPATCH
from pullback.core.tensor import Tensor
from pullback.operators.declare import Op
from pullback.operators.derive import propagate
from pullback.operators.options import NORMALISE
from pullback.operators.running.recording import pack_inputs, record
from pullback.operators.watching import dispatch
from pullback.operators.writing.recorder import recorder_of

__all__ = ["call", "normalise"]


def call(op: Op, bound: dict[str, Any], mode: Mode, asked: list[Any]) -> Any:
    """The call as handlers answer it, recorded like any other; `asked` are of answering classes."""
    if mode.saved_hooks or LEVELS or anomaly.state.enabled:
        return _closely(op, bound, mode, asked)
    tensors = dispatch.results(op, bound, asked)
    if len(tensors) == 1 and op.outputs != ("*",):
        result = tensors[0]
        if not mode.grad and op.kind != "view":
            result._node = None
            return result
        recorder = recorder_of(op) if mode.grad and not mode.inference else None
        if recorder is not None:
            normalise(op, bound, bound)
            if recorder(result, **bound):
                # A pass that comes here runs through the class again.
                if result._node is not None and (asked or result._takes & DISPATCH):
                    overriding.nodes.add(result._node)
                return result
    return _recorded(op, bound, tensors, mode, None)


def _closely(op: Op, bound: dict[str, Any], mode: Mode, asked: list[Any]) -> Any:
    values = {p.name: bound[p.name] for p in op.inputs}
    kept = pack_inputs(op, values) if mode.saved_hooks and mode.grad else None
    return _recorded(op, bound, dispatch.results(op, bound, asked), mode, kept)


def _recorded(op: Op, bound: dict[str, Any], tensors: list[Tensor], mode: Mode, kept: Any) -> Any:
    values = {p.name: bound[p.name] for p in op.inputs}
    options = {p.name: bound[p.name] for p in op.params if not p.is_tensor}
    normalise(op, options, values)
    record(op, values, options, tensors, mode, kept)
    if LEVELS:
        propagate(op, values, options, tensors)
    return tensors[0] if len(op.outputs) == 1 and op.outputs != ("*",) else tuple(tensors)


def normalise(op: Op, options: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Check and complete options that name dimensions or shapes."""
    if not op.checked:
        return
    first: Any = next(iter(arrays.values()), None)
    ndim = first.ndim if hasattr(first, "ndim") else 0
    for param in op.checked:
        options[param.name] = NORMALISE[param.check](options[param.name], ndim, op.name)

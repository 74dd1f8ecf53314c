"""Calls that handlers below autograd answer: dispatch modes, and classes of tensors.

The handler gives the values, the rest is as in any call: history is recorded around it.
"""

from __future__ import annotations

from typing import Any

from pullback.core import overriding
from pullback.core.explain import anomaly
from pullback.core.forward import LEVELS
from pullback.core.mode import NO_GRAD, PLAIN, Mode
from pullback.core.overriding import DISPATCH, excluded
from pullback.core.ports import ports
from pullback.core.tensor import Tensor
from pullback.operators.declare import Op
from pullback.operators.derive import propagate
from pullback.operators.dispatch import dispatch
from pullback.operators.dispatch.dispatch import QUIET, looked_at
from pullback.operators.options import NORMALISE, TYPED, as_bool
from pullback.operators.running.recording import pack_inputs, record

__all__ = ["ELSEWHERE", "call", "normalise", "shortly"]


def call(op: Op, bound: dict[str, Any], mode: Mode, asked: list[Any]) -> Any:
    """The call as handlers answer it, recorded like any other; `asked` are of answering classes."""
    if mode.saved_hooks or LEVELS or anomaly.state.enabled:
        return _closely(op, bound, mode, asked)
    tensors = dispatch.results(op, bound, asked)
    if len(tensors) == 1 and op.outputs != ("*",):
        result = tensors[0]
        if result is None:
            return None
        if not mode.grad and op.kind != "view":
            result._node = None
            return result
        recorder = ports.recorder_of(op) if mode.grad and not mode.inference else None
        if recorder is not None:
            normalise(op, bound, bound)
            if recorder(result, **bound):
                # A pass that comes here runs through the class again.
                if result._node is not None and (asked or result._overrides & DISPATCH):
                    overriding.know(result._node)
                return result
    return _recorded(op, bound, tensors, mode, None)


# What `shortly` says of calls that it does not know.
ELSEWHERE: Any = object()
# By operator: its overload, that for numbers and the place of the deciding argument, how results
# are recorded; None for those that are spelled or recorded in ways of their own.
_short: dict[Op, Any] = {}


def shortly(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any], mode: Mode) -> Any:
    """The same for the usual call: tensors, plain or of one class, and numbers, all by position."""
    try:
        short = _short[op]
    except KeyError:
        short = _short[op] = _shortened(op)
    if short is None or len(args) != short[4] or kwargs.get("out") is not None:
        return ELSEWHERE
    alone = mode is PLAIN or mode is NO_GRAD
    if not alone:
        looked, alone = looked_at.known
        if looked is not mode:
            alone = _only_handlers(mode)
            looked_at.known = (mode, alone)
    if not alone or LEVELS or anomaly.state.enabled:
        return ELSEWHERE
    asked = _NOBODY
    for one in args:
        kind = type(one)
        if kind not in QUIET and (asked is _NOBODY or kind is not type(asked[0])):
            if asked is not _NOBODY or not isinstance(one, Tensor) or one._overrides != DISPATCH:
                return ELSEWHERE
            asked = [one]
    if not mode.dispatch and (asked is _NOBODY or excluded.get() & DISPATCH):
        return ELSEWHERE
    overload, otherwise, deciding, recorder, _ = short
    if not isinstance(args[0], Tensor):
        return ELSEWHERE
    if deciding and not isinstance(args[deciding], Tensor):
        overload = otherwise
    made = dispatch.hand_over(overload, args, {}, asked)
    if made is None:
        return None
    if not isinstance(made, Tensor):
        raise dispatch.wrong_result(overload, made, "a Tensor")
    result = made if made._node is None else dispatch.unrecorded(op, made, args)
    for one in args:  # no lists: those are not for here
        if one is result:
            result = result._alias()
    if not mode.grad:
        result._node = None
        return result
    if not recorder(result, *args):
        bound = dict(zip(op.positional, args, strict=True))
        return _recorded(op, bound, [result], mode, None)
    if result._node is not None and (asked or result._overrides & DISPATCH):
        overriding.know(result._node)
    return result


_NOBODY: list[Any] = []


def _shortened(op: Op) -> Any:
    if op.checked or op.keywords or op.kind == "view" or len(op.outputs) != 1:
        return None
    usual = ports.usual_overload(op)
    recorder = ports.recorder_of(op) if op.outputs != ("*",) else None
    if usual is None or recorder is None:
        return None
    overload, otherwise, deciding = usual
    place = op.positional.index(deciding) if deciding else 0
    return overload, otherwise, place, recorder, len(op.positional)


def _only_handlers(mode: Mode) -> bool:
    """Whether nothing but dispatch modes is on that changes how operators run."""
    usual = (mode.inference, mode.levels, mode.saved_hooks, mode.functions, mode.view_replay)
    others = (mode.autocast, mode.tracing, mode.dual_depth)
    return not any(usual) and all(one is None for one in others)


def _closely(op: Op, bound: dict[str, Any], mode: Mode, asked: list[Any]) -> Any:
    values = {p.name: bound[p.name] for p in op.inputs}
    kept = pack_inputs(op, values) if mode.saved_hooks and mode.grad else None
    tensors = dispatch.results(op, bound, asked)
    return None if tensors == [None] else _recorded(op, bound, tensors, mode, kept)


def _recorded(op: Op, bound: dict[str, Any], tensors: list[Tensor], mode: Mode, kept: Any) -> Any:
    values = {p.name: bound[p.name] for p in op.inputs}
    options = {p.name: bound[p.name] for p in op.params if not p.is_tensor}
    normalise(op, options, values)
    record(op, values, options, tensors, mode, kept)
    if LEVELS:
        propagate(op, values, options, tensors)
    return tensors[0] if len(op.outputs) == 1 and op.outputs != ("*",) else tuple(tensors)


def normalise(op: Op, options: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Check and complete options that name dimensions or shapes, and check flags."""
    for param in op.flags:
        as_bool(options[param.name], op.name, param.name)
    for name, kind in op.typed.items():
        options[name] = TYPED[kind].check(options[name], op.name, name)
    if not op.checked:
        return
    first: Any = next(iter(arrays.values()), None)
    ndim = first.ndim if hasattr(first, "ndim") else 0
    for param in op.checked:
        options[param.name] = NORMALISE[param.check](options[param.name], ndim, op.name)

"""Writes, on an operator's first call, the function that one would write by hand.

The written function is a straight line for the plain case: tensors on NumPy arrays of one dtype,
grad mode on or off and nothing else active. Whatever differs (numbers beyond float32 and float64,
mixed dtypes, transforms, hooks, `out=`, subclasses that take over) leaves it for `interpret.call`.
The code object is put into the function that users already hold, so nothing needs to be swapped.
`pullback show NAME` prints what was written.
"""

from __future__ import annotations

from functools import partial
from types import FunctionType
from typing import Any

import numpy

from pullback.core import arrays, errors, origin
from pullback.core.explain import cause
from pullback.core.explain.birth import Ended, make_birth
from pullback.core.mode import Hooked, fast, get_mode
from pullback.core.node import Leaf, Output
from pullback.core.overriding import LEAVES
from pullback.core.ports import ports
from pullback.core.process.first_use import first_use
from pullback.core.saved import pack_plainly
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor, new
from pullback.core.version import INFERENCE_CELL, UNWRITTEN, shorten
from pullback.core.view import NOWHERE, CreationMeta, View, attach, edge_of
from pullback.operators.declare import REQUIRED, Op, stub
from pullback.operators.options import NORMALISE, numbers_between, respelled
from pullback.operators.running import inplace, interpret, overlap
from pullback.operators.watching.observe import Unwatched, look, shown
from pullback.operators.writing.call import (
    arguments,
    everything,
    once_positional_lines,
    respelled_lines,
    signature_of,
    watched_lines,
)
from pullback.operators.writing.hooked import hooked_source_of
from pullback.operators.writing.inplace import inplace_source_of
from pullback.operators.writing.layers import code_of, put
from pullback.operators.writing.nodes import execute, node_class
from pullback.operators.writing.record import (
    frame_lines,
    recorded_lines,
    several_lines,
    viewed_lines,
)
from pullback.operators.writing.sequence import (
    gives_sequence,
    parts_line,
    sequence_line,
    sequence_node,
    takes_sequence,
)
from pullback.operators.writing.specialise import array_call
from pullback.operators.writing.steps import (
    MODE_LINES,
    array_lines,
    computed_lines,
    forward_call,
    has_straight_line,
    leaving_lines,
    mixed_lines,
    normalised_lines,
    not_plain,
    other_arrays,
    saves_tensors,
    takes_mixed,
)


def build(function: Any, op: Op, called: str, *, inplace: bool = False, **other: Any) -> Any:
    """Write an operator's function, or its in-place form, and put the code into `function`.

    `other` are names that mean something else in this function, such as its way out of the straight
    line. This is the one place where code is swapped, once for each function: whoever holds it
    (a method, a from-import) holds what was written.
    """
    with first_use:  # re-entrant: a rule that is tried out here may call other operators
        if code_of(function) is not stub.__code__:
            return function  # another thread was faster
        write = inplace_source_of if inplace else source_of
        scope = {**scope_of(op), "called": called, **other}
        scope["hooked"] = _hooked(function, op, called)
        scope["unwatched"] = Unwatched(lambda: _unwatched(function, write(op, watched=False)))
        made = _executed(write(op, watched=True), {**function.__globals__, **scope}, called)
        _built.append((function, op, called, write))
        # What can fail is over; an interrupt between these lines leaves a stub that builds again.
        function.__globals__.update(scope)
        function.__defaults__, function.__kwdefaults__ = made.__defaults__, made.__kwdefaults__
        put(function, made.__code__)
        return function


# Whatever was written, in order: for `rewrite`.
_built: list[tuple[Any, Op, str, Any]] = []


def rewrite() -> None:
    """Write everything anew: an array library for a device is there, and lines ask for types."""
    with first_use:
        for function, op, called, write in _built:
            made = _executed(write(op, watched=True), dict(function.__globals__), called)
            put(function, made.__code__)
            function.__globals__["unwatched"] = Unwatched(partial(_again, function, op, write))
            function.__globals__["hooked"] = _hooked(function, op, called)


def _again(function: Any, op: Op, write: Any) -> Any:
    return _unwatched(function, write(op, watched=False))


def written_elsewhere(op: Op, names: dict[str, Any]) -> Any:
    """The function for arrays of another library, for which `names` mean something else."""
    scope = {**scope_of(op), "called": op.name, **names, "elsewhere": interpret.call}
    scope["hooked"] = partial(_step_by_step, op)
    return _executed(source_of(op, watched=False), scope, f"{op.name}, elsewhere")


def _step_by_step(op: Op, mode: Any, *args: Any) -> Any:
    """A call that hands saved values to hooks, all its parameters by place."""
    count = len(op.positional)
    named = [param.name for param in op.params if param.keyword_only]
    return interpret.call(op, args[:count], dict(zip(named, args[count:], strict=True)))


def _executed(source: str, scope: dict[str, Any], called: str) -> Any:
    execute(source, scope, f"{origin.GENERATED}{called}>")
    return scope["written"]


def _hooked(function: Any, op: Op, called: str) -> Any:
    """The form that hands saved values to hooks, written when first called."""

    def first(*args: Any) -> Any:
        with first_use:
            scope = {**function.__globals__, "pack": pack_plainly}
            execute(hooked_source_of(op), scope, f"{origin.GENERATED}{called}, with hooks>")
            made = function.__globals__["hooked"] = scope["hooked"]
        return made(*args)

    return first


def _unwatched(function: Any, source: str) -> Any:
    """The same function without the question who looks on."""
    scope = dict(function.__globals__)
    made = _executed(source, scope, f"{function.__name__}, watched")
    own = FunctionType(made.__code__, function.__globals__, function.__name__, made.__defaults__)
    own.__kwdefaults__ = made.__kwdefaults__
    return own


def scope_of(op: Op) -> dict[str, Any]:
    """What the written code calls by name."""
    direct = array_call(op)
    return {
        "op": op,
        "look": look,
        "Hooked": Hooked,
        "before_write": inplace.before_write,
        "shown": shown,
        "call": interpret.call,
        "elsewhere": interpret.elsewhere,
        "call_inplace": inplace.call_inplace,
        "check_fit": inplace.check_fit,
        "old_value": inplace.old_value,
        "rebase": inplace.rebase,
        "check_writable": overlap.check_writable,
        "check_history_can_change": inplace.check_history_can_change,
        "errors": errors,
        "INFERENCE_CELL": INFERENCE_CELL,
        "shorten": shorten,
        "adopt": cause.adopt,
        "ended": cause.ended,
        "ended_at": cause.ended_at,
        "Ended": Ended,
        "born": make_birth,
        "inherited": cause.inherited,
        "MULTI_OUTPUT": CreationMeta.MULTI_OUTPUT_NODE,
        "NOWHERE": NOWHERE,
        "SPECIAL": (Leaf, View),
        "explained": interpret.explained,
        "respelled": respelled,
        "numbers_between": numbers_between,
        "REQUIRED": REQUIRED,
        "Tensor": Tensor,
        "UNWRITTEN": UNWRITTEN,
        "new": new,
        "DEFAULT": CreationMeta.DEFAULT,
        "NO_GRAD_VIEW": CreationMeta.NO_GRAD_MODE,
        "INFERENCE_VIEW": CreationMeta.INFERENCE_MODE,
        "Output": Output,
        "View": View,
        "Leaf": Leaf,
        "attach": attach,
        "edge_of": edge_of,
        "fast": fast,
        "get_mode": get_mode,
        "numbering": numbering,
        "getframe": origin.getframe,
        "internal": origin.internal,
        "user_frame": origin.user_frame,
        "ndarray": numpy.ndarray,
        "asarray": arrays.as_array,
        "numpy": numpy,
        "forward": op.forward,
        "into": op.into,
        "ufunc": getattr(numpy, direct) if direct else None,
        # Whether the array function's result has the dtype of its inputs.
        "fits": direct is not None and "?" not in {t[-1] for t in getattr(numpy, direct).types[1:]},
        "F32": arrays.F32,
        "F64": arrays.F64,
        "I64": arrays.I64,
        "LEAVES": LEAVES,
        "LOOSE": arrays.LOOSE,
        "whole_number": arrays.whole_number,
        "brought": interpret.brought,
        "numbers32": arrays.numbers32,
        "numbers64": arrays.numbers64,
        "number_array": arrays.number_array,
        "REFUSALS": interpret.REFUSALS,
        "NodeClass": node_class(op) if op.rules else None,
        **{f"as_{kind}": check for kind, check in NORMALISE.items()},
        **{f"default_{p.name}": p.default for p in op.params if p.default is not REQUIRED},
    }


def source_of(op: Op, *, watched: bool = True) -> str:
    """The Python source of the operator's function; its first line asks who looks on."""
    lines = [f"def written({signature_of(op)}):", *once_positional_lines(op)]
    lines += [*(watched_lines(op) if watched else []), *respelled_lines(op)]
    if takes_sequence(op) or gives_sequence(op):
        return "\n".join([*lines, *_sequence_line(op)])
    if not has_straight_line(op):
        return "\n".join([*lines, f"    return call(op, {everything(op)})"])
    return "\n".join([*lines, *_straight_line(op)])


def _straight_line(op: Op) -> list[str]:
    leave = f"return call(op, {everything(op)})"
    mixed = takes_mixed(op)
    lines = array_lines(op, leave, mixed=mixed)
    if arrays.LIBRARIES:
        elsewhere = f"return elsewhere(op, {everything(op)})"
        lines += [f"    if {other_arrays(op)}:", f"        {elsewhere}"]
    with_hooks = f"return hooked(mode, {arguments(op)})" if saves_tensors(op) else ""
    lines += [*MODE_LINES, *leaving_lines(leave, not_plain(op, mixed=mixed), with_hooks)]
    lines += mixed_lines(op, leave) if mixed else []
    lines += normalised_lines(op)
    lines += computed_lines(op)
    if len(op.outputs) > 1:
        return lines + several_lines(op)
    made = ["    result = new(Tensor)", "    result._array = r"]
    if op.kind == "view":
        return lines + made + viewed_lines(op)
    lines += ["    if type(r) is not ndarray:", "        r = asarray(r)"]
    if array_call(op) is None and len(op.inputs) > 1:  # the first has data; another may have none
        lines += ["        if type(r) is not ndarray:", f"            {leave}"]
    return [*lines, *made, *recorded_lines(op)]


def _sequence_line(op: Op) -> list[str]:
    leave = f"return call(op, {everything(op)})"
    if takes_sequence(op):
        node = sequence_node(op, "tuple(edges)", "r.shape", "r.dtype", frame_lines())
        call = forward_call(op)[0].replace("a0", "arrays", 1)
        return sequence_line(op, leave, call, node)
    node = sequence_node(op, "(edge,)", "a0.shape", "a0.dtype", frame_lines())
    return parts_line(op, leave, normalised_lines(op), forward_call(op)[0], node)


ports.fill(build=build)

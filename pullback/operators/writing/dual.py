"""Writes, for an operator, the function that also computes its result's tangent.

What `derive.py` does step by step for any call, here is a straight line for the usual one: one
perturbation (`func.jvp`, `jacfwd`), one result, real numbers. Whatever else is left to it, so the
two can only differ in the straight line, and the tests compare them.

A batch of tangents (jacfwd) goes through the rules of elementwise operators as it is, its examples
in front: they broadcast against the values, which have none. Other operators see it as a batch.
"""

from __future__ import annotations

from typing import Any

from pullback.core import forward
from pullback.core.forward import open_levels, seeing
from pullback.core.mode import Mode, changed, current
from pullback.core.ports import ports
from pullback.core.tensor import Tensor
from pullback.operators import derive
from pullback.operators.declare import REQUIRED, Op, parameters_of
from pullback.operators.options import NORMALISE
from pullback.operators.writing.call import arguments
from pullback.operators.writing.common import COMMON
from pullback.operators.writing.writer import block, define, theirs

__all__ = ["form_of", "taking"]

_forms: dict[Op, Any] = {}


def form_of(op: Op) -> Any:
    """The function for `op`, written when first needed; None where there is no straight line."""
    known = _forms.get(op, _forms)
    if known is _forms:
        known = _forms[op] = _written(op) if _has_straight_line(op) else None
    return known


def taking(op: Op, mode: Mode, bound: dict[str, Any]) -> Any:
    """The function for a call of `op`; None where the call is not a usual one."""
    form = form_of(op)
    return form if form is not None and _takes(mode, bound) else None


ports.fill(pushed=taking)


def _takes(mode: Mode, bound: dict[str, Any]) -> bool:
    """Whether a call is the usual one: no vmap level but one for tangents, which sees no values."""
    levels = mode.levels
    if levels and not (len(levels) == 1 and levels[0].for_tangents):
        return False
    return all(v.__class__ is Tensor or not isinstance(v, Tensor) for v in bound.values())


def _has_straight_line(op: Op) -> bool:
    if len(op.outputs) != 1 or op.outputs == ("*",) or any(p.kind == "tensors" for p in op.inputs):
        return False
    if any(param.name == "generator" for param in op.params):
        return False
    return op.jvp is not None or (bool(op.rules) and op.kind != "primitive")


def _written(op: Op) -> Any:
    scope: dict[str, Any] = {
        **COMMON,
        "op": op,
        "open_levels": open_levels,
        "current": current,
        "outside": outside,
        "function": op.function,
        "general": _general,
        "batched_at": batched_at,
        "finished": _finished,
        "finished_batch": _finished_batch,
        "real": "fV",
        "jvp_rule": op.jvp,
    }
    for param in op.params:
        if param.default is not REQUIRED:
            scope[f"default_{param.name}"] = param.default
        if param.check in NORMALISE:
            scope[f"as_{param.check}"] = NORMALISE[param.check]
    for i, param in enumerate(op.inputs):
        if param.name in op.rules:
            scope[f"rule_{i}"] = op.rules[param.name]
    return define(lines_of(op), scope, f"dual {op.name}")


# What the written code calls ----------------------------------------------------------------------


_outside: dict[tuple[Mode, int | None], Mode] = {}


def outside(mode: Mode) -> Mode:
    """The mode in which neither the perturbation nor its batch of tangents is seen."""
    key = (mode, seeing(0))
    known = _outside.get(key)
    if known is None:
        if len(_outside) > 50:
            _outside.clear()
        known = _outside[key] = changed(mode, dual_depth=key[1], levels=())
    return known


def batched_at(tangent: Any, ndim: int) -> Any:
    """The vmap level of a batch of tangents that broadcasts against `ndim` dimensions, or None."""
    level = getattr(tangent, "level", None)
    if level is None or tangent.bdim or tangent.value.__class__ is not Tensor:
        return None
    return level if tangent.value._array.ndim == ndim + 1 and level.open else None


def _general(op: Op, bound: dict[str, Any], result: Any, mode: Mode) -> Any:
    """The tangent by `derive`, which knows every case."""
    current.set(mode)
    values = {p.name: bound[p.name] for p in op.inputs}
    options = {p.name: bound[p.name] for p in op.params if not p.is_tensor}
    derive.propagate(op, values, options, [result])
    return result


def _finished(op: Op, level: forward.Level, result: Any, tangent: Any, shared: bool) -> None:
    """Give the result its tangent: of its shape, dtype and layout, in memory of its own."""
    if tangent is None:
        return
    array, wanted = tangent._array, result._array
    if array.shape != wanted.shape or array.dtype != wanted.dtype:
        tangent = derive.fitted(tangent, result)
        array = tangent._array
    if op.kind != "view" and (shared or array.strides != wanted.strides):
        tangent = derive.owned(tangent, result, shared=shared)
    level.put(result, tangent)
    if result._node is not None:
        derive.keep_saved(level, op, op.outputs[0], result, tangent)


def _finished_batch(
    op: Op, level: forward.Level, result: Any, tangents: Any, batch: Any, shared: bool
) -> None:
    """As `_finished`, for a batch of tangents with the examples in front."""
    array, wanted = tangents._array, result._array
    shape = (batch.size, *wanted.shape)
    if array.dtype != wanted.dtype:
        tangents = tangents.to(result.dtype)
    if array.shape != shape:
        tangents = tangents.expand(shape)
    if shared or (0 in tangents._array.strides and wanted.size):
        tangents = tangents.clone()
    if wanted.flags.c_contiguous:
        tangents = tangents.contiguous()
    made = ports.examples_in_front(tangents, batch)
    level.put(result, made)
    if result._node is not None:
        derive.keep_saved(level, op, op.outputs[0], result, made)


# The source ---------------------------------------------------------------------------------------


def lines_of(op: Op) -> list[str]:
    """The function."""
    inputs = op.inputs
    bound = ", ".join(f"{p.name!r}: {p.local}" for p in op.params)
    leave = f"return general(op, {{{bound}}}, result, mode)"
    everything = ", ".join(f"{p.name}={p.local}" for p in op.params)
    tangents = [f"t{i}" for i in range(len(inputs))]
    lines = [
        "current.set(outer)",
        f"result = function({everything})",
        "level = open_levels()[0]",
    ]
    felt = derive.felt_inputs(op)
    for i, param in enumerate(inputs):
        found = f"level.get({param.local}) if isinstance({param.local}, Tensor) else None"
        lines.append(f"t{i} = {found if param.name in felt else None}")
    still = " and ".join(f"{tangent} is None" for tangent in tangents)
    unreal = "result.__class__ is not Tensor or result._array.dtype.kind not in real"
    lines += [
        *block(f"if {still}", ["return result"]),
        *_normalised(op),
        *block(f"if {unreal}", [leave]),
        "batch = None",
        *(line for tangent in tangents for line in _looked_at(op, tangent, leave)),
        *_tangent(op),
        *_ending(tangents),
    ]
    body = ["outer = outside(mode)", *block("try", lines), *block("finally", ["current.set(mode)"])]
    return block(f"def pushed(mode, {arguments(op)})", body)


def _looked_at(op: Op, tangent: str, leave: str) -> list[str]:
    """What a tangent is: complex ones leave, batches too unless all broadcast at one level."""
    batch = [leave]
    if op.kind == "elementwise" and op.jvp is None:
        batch = [
            f"found = batched_at({tangent}, result._array.ndim)",
            *block("if found is None or (batch is not None and found is not batch)", [leave]),
            "batch = found",
            f"{tangent} = {tangent}.value",
        ]
    return block(
        f"if {tangent} is not None",
        [
            *block(f"if {tangent}.__class__ is not Tensor", batch),
            *block(f"if {tangent}._array.dtype.kind == 'c'", [leave]),
        ],
    )


def _ending(tangents: list[str]) -> list[str]:
    shared = " or ".join(f"total is {t}" for t in tangents)
    return [
        "if batch is not None and total is not None:",
        "    if total._array.ndim > result._array.ndim:",
        f"        finished_batch(op, level, result, total, batch, {shared})",
        "        return result",
        f"finished(op, level, result, total, {shared})",
        "return result",
    ]


def _normalised(op: Op) -> list[str]:
    first = op.inputs[0].local
    return [
        f"{param.local} = as_{param.check}({param.local}, getattr({first}, 'ndim', 0), {op.name!r})"
        for param in op.params
        if param.check in NORMALISE
    ]


def _asked(op: Op, rule: Any, i: int | None) -> str:
    """The arguments that a rule asks for by name, as expressions."""
    inputs = {param.name: n for n, param in enumerate(op.inputs)}
    parts = []
    for name in parameters_of(rule):
        if name == "g" and i is not None:
            value = f"t{i}"
        elif name.startswith("d_") and name[2:] in inputs and i is None:
            value = f"t{inputs[name[2:]]}"
        elif name in op.outputs:
            value = "result"
        elif name in {param.name for param in op.params}:
            value = theirs(name)
        elif name.endswith("_shape"):
            value = f"tuple(getattr({theirs(name[:-6])}, 'shape', ()))"
        else:
            value = f"getattr({theirs(name[:-6])}, 'dtype', None)"
        parts.append(f"{name}={value}")
    return ", ".join(parts)


def _tangent(op: Op) -> list[str]:
    if op.jvp is not None:
        return [f"total = jvp_rule({_asked(op, op.jvp, None)})"]
    lines = ["total = None"]
    for i, param in enumerate(op.inputs):
        if param.name not in op.rules:
            continue
        if op.kind == "elementwise":
            term = f"rule_{i}({_asked(op, op.rules[param.name], i)})"
        else:
            given = ", ".join(f"{p.name}={f't{i}' if p is param else p.local}" for p in op.params)
            term = f"function({given})"
        added = "total = term if total is None else total + term"
        lines += block(
            f"if t{i} is not None", [f"term = {term}", *block("if term is not None", [added])]
        )
    return lines

"""Writes, for an operator, the form that also computes its result's tangent.

What `derive.py` does step by step for any call, here is a fast path for the usual one: one
perturbation (`func.jvp`, `jacfwd`), one result, real numbers. Whatever else is left to it, so the
two can only differ in the fast path, and the tests compare them.

Where nothing is recorded, the rules of elementwise operators run on arrays, as in a backward pass.
A batch of tangents (jacfwd) goes through these rules as it is, its examples in front: they
broadcast against the values, which have none. Other operators see it as a batch.
"""

from __future__ import annotations

from typing import Any

import numpy
from numpy import may_share_memory, ndarray

from pullback.core import forward
from pullback.core.arrays import F32, F64
from pullback.core.forward import open_levels
from pullback.core.mode import Dual, Mapped, Mode, current, fast, with_perturbation
from pullback.core.ports import ports
from pullback.core.tensor import Tensor, wrap
from pullback.core.view import View
from pullback.core.writer import block, define, theirs
from pullback.operators import derive
from pullback.operators.declare import REQUIRED, Op, parameters_of
from pullback.operators.options import NORMALISE
from pullback.operators.plan import plan_of
from pullback.operators.running.answered import normalise
from pullback.operators.running.on_arrays import on_arrays
from pullback.operators.writing.build import forms_of
from pullback.operators.writing.call import arguments, everything
from pullback.operators.writing.nodes import rules_apart
from pullback.transforms.batched import Batched, batched

__all__ = ["has_form", "pushed_call"]


def has_form(op: Op) -> bool:
    """Whether an operator's tangent is written out."""
    if len(op.outputs) != 1 or op.outputs == ("*",) or any(p.kind == "tensors" for p in op.inputs):
        return False
    if any(param.name == "generator" for param in op.params):
        return False
    return op.jvp is not None or (bool(op.rules) and op.kind != "primitive")


def _form(op: Op, scope: dict[str, Any], plainly: Any) -> Any:
    """The form of a function of `op` whose globals these are; `plainly`: its fast path."""
    scope |= {
        "plainly": plainly or _Called(op),
        "Batched": Batched,
        "added": _added,
        "current": current,
        "Mapped": Mapped,
        "View": View,
        "general": _general,
        "arrays_of": _arrays_of,
        "in_front": _in_front,
        "finished": _finished,
        "finished_array": _finished_array,
        "finished_batch": _finished_batch,
        "jvp_rule": op.jvp,
    }
    if _runs_on_arrays(op):
        scope["rules"] = rules_apart(op, {}, on_arrays)
        scope["tensor_rules"] = rules_apart(op, {}, on_arrays, tensors=True)
    _saving[op] = bool(op.rules) and bool(plan_of(op).outputs)
    for param in op.params:
        if param.default is not REQUIRED:
            scope[f"default_{param.name}"] = param.default
        if param.check in NORMALISE:
            scope[f"as_{param.check}"] = NORMALISE[param.check]
    for i, param in enumerate(op.inputs):
        if param.name in op.rules:
            scope[f"rule_{i}"] = op.rules[param.name]
    return define(lines_of(op), scope, f"dual {op.name}")


def pushed_call(op: Op, mode: Mode, bound: dict[str, Any]) -> Any:
    """A call by that form, in a mode that sees one level; NotImplemented where it is unusual."""
    seen = open_levels()[:1]
    dual = mode if mode.__class__ is Dual else with_perturbation(mode, seen) if seen else mode
    if dual.__class__ is not Dual or fast.plain is None or not has_form(op):
        return NotImplemented
    if any(v.__class__ is not Tensor and isinstance(v, Tensor) for v in bound.values()):
        return NotImplemented
    try:
        current.set(dual)
        return forms_of(op)[Dual](dual, **bound)
    finally:
        current.set(mode)


ports.fill(dual=_form, pushed=pushed_call)


# What the written code calls ----------------------------------------------------------------------


class _Called:
    """An operator without a fast path, called in a mode, all its parameters by place."""

    __slots__ = ("op",)

    def __init__(self, op: Op) -> None:
        self.op = op

    def __call__(self, mode: Mode, *args: Any) -> Any:
        before = current.get()
        try:
            current.set(mode)
            named = zip(self.op.params, args, strict=True)
            return self.op.function(**{param.name: value for param, value in named})
        finally:
            current.set(before)


def _added(mode: Mode, total: Any, term: Any) -> Any:
    """The sum of two terms of a tangent."""
    before = current.get()
    try:
        current.set(mode)
        return total + term
    finally:
        current.set(before)


def _arrays_of(result: Any, tangents: tuple[Any, ...], values: tuple[Any, ...]) -> Any:
    """The arrays of all these, and the level of a batch; None unless rules may run on them.

    Nothing is recorded, all are of one dtype, and a batch has its examples in front.
    """
    array = result._array
    dtype, batch = array.dtype, None
    found: list[Any] = []
    if result._node is not None or (dtype is not F32 and dtype is not F64):
        return None
    for one in tangents:
        if one is None:
            found.append(None)
            continue
        ndim = array.ndim
        if one.__class__ is not Tensor:
            if one.__class__ is not Batched or one.bdim or (batch or one.level) is not one.level:
                return None
            batch, one, ndim = one.level, one.value, ndim + 1
            if one.__class__ is not Tensor or one._array.ndim != ndim:
                return None
        g = one._array
        if one._node is not None or g.__class__ is not ndarray or g.dtype is not dtype:
            return None
        found.append(g)
    for one in values:
        if isinstance(one, Tensor):
            a = one._array
            if a.__class__ is not ndarray or a.dtype is not dtype:
                return None
            found.append(a)
        elif one.__class__ is float or one.__class__ is int:
            found.append(one)
        else:
            return None
    found.append(batch)
    return found


def _finished_array(level: forward.Level, result: Any, total: Any, batch: Any, *given: Any) -> Any:
    """Give the result a tangent that rules made on arrays; not in memory of those `given`."""
    if total is None:
        return result
    wanted = result._array
    shape = wanted.shape if batch is None else (batch.size, *wanted.shape)
    if total.__class__ is not ndarray:
        total = numpy.asarray(total)
    shared = total.base is not None or total.shape != shape
    for one in given:
        shared = shared or total is one
    if shared:
        total = numpy.broadcast_to(total, shape).copy()
    if total.dtype is not wanted.dtype:
        total = total.astype(wanted.dtype)
    made: Any
    if batch is not None:
        made = batched(wrap(numpy.ascontiguousarray(total)), 0, batch)
    else:
        made = wrap(total)
        if total.strides != wanted.strides:
            made = derive.owned(made, result, shared=False)
    level.put(result, made)
    return result


def _in_front(tangent: Any, ndim: int) -> Any:
    """The vmap level of a batch of tangents that broadcasts against `ndim` dimensions, or None."""
    if tangent.__class__ is not Batched or tangent.bdim or tangent.value.__class__ is not Tensor:
        return None
    level = tangent.level
    return level if tangent.value._array.ndim == ndim + 1 and level.open else None


def _general(op: Op, bound: dict[str, Any], result: Any, mode: Mode) -> Any:
    """The tangent by `derive`, which knows every case."""
    current.set(mode)
    values = {p.name: bound[p.name] for p in op.inputs}
    options = {p.name: bound[p.name] for p in op.params if not p.is_tensor}
    normalise(op, options, values)
    derive.propagate(op, values, options, [result])
    return result


def _finished(op: Op, level: forward.Level, result: Any, tangent: Any, *given: Any) -> Any:
    """Give the result its tangent: of its shape, dtype and layout, in memory of its own."""
    if tangent is None:
        return result
    wanted = result._array
    if tangent.__class__ is Tensor:
        array = tangent._array
        if array.shape != wanted.shape or array.dtype != wanted.dtype:
            tangent = derive.fitted(tangent, result)
            array = tangent._array
        if op.kind != "view":
            shared = _shares(array, given)
            if shared or array.strides != wanted.strides:
                tangent = derive.owned(tangent, result, shared=shared)
    elif op.kind != "view":
        tangent = _owned_batch(op, result, tangent, given)
    level.put(result, tangent)
    if result._node is not None and _saving[op]:
        derive.keep_saved(level, op, op.outputs[0], result, tangent)
    return result


def _owned_batch(op: Op, result: Any, tangent: Any, given: tuple[Any, ...]) -> Any:
    """As `derive.owned`, for tangents that are a batch to the operator."""
    if op.jvp is not None:
        tangent = derive.fitted(tangent, result)
    elif tangent.__class__ is Batched and not tangent.bdim and tangent.value.__class__ is Tensor:
        array = tangent.value._array
        if array.base is None and array.flags.c_contiguous and result._array.flags.c_contiguous:
            for one in given:
                if one.__class__ is Batched and one.value._raw is array:
                    break
            else:
                return tangent
    shared = derive.shares_memory(tangent, given)
    return derive.owned(tangent, result, shared=shared)


# Whether the nodes of an operator keep its result.
_saving: dict[Op, bool] = {}


def _shares(array: Any, given: tuple[Any, ...]) -> bool:
    for one in given:
        if one is not None and one.__class__ is Tensor:
            if one._array is array:
                return True
            if array.base is not None and may_share_memory(array, one._array):
                return True
    return False


def _finished_batch(
    op: Op, level: forward.Level, result: Any, tangents: Any, batch: Any, *given: Any
) -> Any:
    """As `_finished`, for a batch of tangents with the examples in front."""
    array, wanted = tangents._array, result._array
    shape = (batch.size, *wanted.shape)
    if array.dtype != wanted.dtype:
        tangents = tangents.to(result.dtype)
    if array.shape != shape:
        tangents = tangents.expand(shape)
    shared = False
    for one in given:
        shared = shared or tangents is one
    if shared or (0 in tangents._array.strides and wanted.size):
        tangents = tangents.clone()
    if wanted.flags.c_contiguous and not tangents._array.flags.c_contiguous:
        tangents = tangents.contiguous()
    made = batched(tangents, 0, batch)
    level.put(result, made)
    if result._node is not None and _saving[op]:
        derive.keep_saved(level, op, op.outputs[0], result, made)
    return result


# The source ---------------------------------------------------------------------------------------


def lines_of(op: Op) -> list[str]:
    """The function."""
    leave = f"return call(op, {everything(op)})"
    head = f"def pushed(mode, {arguments(op)})"
    if not has_form(op):
        return block(head, [leave])
    felt = [i for i, param in enumerate(op.inputs) if param.name in derive.felt_inputs(op)]
    bound = ", ".join(f"{p.name!r}: {p.local}" for p in op.params)
    general = f"return general(op, {{{bound}}}, result, mode)"
    met = " or ".join(f"{param.local}.__class__ is Batched" for param in op.inputs)
    lines = [
        *block(f"if fast.plain is None or (mode.batch is not None and ({met}))", [leave]),
        "below, level = mode.below, mode.level",
        f"result = plainly(below, {arguments(op)})",
        "tangents = level.tangents",
    ]
    for i in felt:
        lines += _felt(i, op.inputs[i].local)
    still = " and ".join(f"t{i} is None" for i in felt)
    unreal = "result.__class__ is not Tensor or result._array.dtype.kind not in 'fV'"
    lines += [*block(f"if {still}", ["return result"]), *block(f"if {unreal}", [general])]
    if op.jvp is None and op.kind == "elementwise":
        lines += [*_normalised(op), *_on_arrays(op, felt), *_by_rules(op, felt, general)]
    elif op.jvp is not None:
        lines += [*_normalised(op), *_by_jvp(op, felt, general)]
    else:
        lines += _by_itself(op, felt, general)
    return block(head, lines)


def _felt(i: int, name: str) -> list[str]:
    """The tangent of an input, or None; of a view it may be a view of its base's."""
    seen = f"isinstance({name}, Tensor) and {name}._node.__class__ is View"
    return [
        f"t{i} = None",
        f"found = tangents.get(id({name}))",
        *block(f"if found is not None and found[0]() is {name}", [f"t{i} = found[1]"]),
        *block(f"elif {seen}", [f"t{i} = level.get({name})"]),
    ]


def _given(felt: list[int]) -> str:
    return ", ".join(f"t{i}" for i in felt)


def _complex_ones(felt: list[int], general: str) -> list[str]:
    """A real result may have been fed by complex tangents, whose rules are conjugates."""
    lines = []
    for i in felt:
        array = f"(t{i} if t{i}.__class__ is Tensor else t{i}.value)._array"
        lines += block(f"if t{i} is not None and {array}.dtype.kind in 'cW'", [general])
    return lines


# Elementwise --------------------------------------------------------------------------------------


def _runs_on_arrays(op: Op) -> bool:
    """Whether the rules are those of nodes, and ask for nothing but values and options."""
    usual = op.jvp is None and op.kind == "elementwise" and has_form(op)
    return usual and not plan_of(op).derived and all(p.kind == "tensor" for p in op.inputs)


def _on_arrays(op: Op, felt: list[int]) -> list[str]:
    """Where nothing is recorded: the rules as nodes run them, with tangents for gradients."""
    if not _runs_on_arrays(op):
        return []
    values = "".join(f"{param.local}, " for param in op.inputs)
    names = [*(f"g{i}" for i in felt), *(f"a{i}" for i in range(len(op.inputs))), "batch"]
    lines = [f"{', '.join(names)} = given", "total = None"]
    operands = {param.name: f"a{i}" for i, param in enumerate(op.inputs)}
    for i in felt:
        term = _rule(op, i, "rules", f"g{i}", operands, "result._array")
        lines += block(f"if g{i} is not None", [term, *_SUMMED]) if term else []
    arrays = ", ".join(f"g{i}" for i in felt)
    lines.append(f"return finished_array(level, result, total, batch, {arrays})")
    found = f"given = arrays_of(result, ({''.join(f't{i}, ' for i in felt)}), ({values}))"
    return [found, *block("if given is not None", lines)]


def _rule(op: Op, i: int, rules: str, g: str, inputs: dict[str, str], result: str) -> str:
    """The term of one input: the rules as a function, asked for that alone; empty without one."""
    plan = plan_of(op)
    places = {param.name: place for place, param in enumerate(plan.edges)}
    place = places.get(op.inputs[i].name)
    if place is None:
        return ""
    edges = "".join("True, " if n == place else "None, " for n in range(len(plan.edges)))
    given = {name: inputs[name] for name in plan.kept if name in inputs}
    given |= dict.fromkeys(plan.outputs, result) | {name: theirs(name) for name in plan.options}
    asked = "".join(f", {name}={value}" for name, value in given.items())
    return f"term = {rules}(({edges}), {g}{asked})[{place}]"


_SUMMED = ["if term is not None:", "    total = term if total is None else total + term"]


def _by_rules(op: Op, felt: list[int], general: str) -> list[str]:
    """The same on tensors, outside of the perturbation."""
    lines = _complex_ones(felt, general)
    lines.append("batch = None")
    for i in felt:
        lines += block(
            f"if t{i} is not None and t{i}.__class__ is not Tensor",
            [
                f"found = in_front(t{i}, result._array.ndim)",
                *block("if found is None or (batch is not None and found is not batch)", [general]),
                "batch = found",
                f"t{i} = t{i}.value",
            ],
        )
    steps = ["current.set(below)", "total = None"]
    tensors = {param.name: param.local for param in op.inputs}
    for i in felt:
        rule = op.rules.get(op.inputs[i].name)
        if rule is not None:
            term = f"term = rule_{i}({_asked(op, rule, i)})"
            if _runs_on_arrays(op):
                term = _rule(op, i, "tensor_rules", f"t{i}", tensors, "result")
            steps += block(f"if t{i} is not None", [term, *_SUMMED])
    several = "batch is not None and total is not None and total._array.ndim > result._array.ndim"
    steps += [
        *block(
            f"if {several}",
            [f"return finished_batch(op, level, result, total, batch, {_given(felt)})"],
        ),
        f"return finished(op, level, result, total, {_given(felt)})",
    ]
    return [*lines, *_in_mode(steps)]


def _in_mode(steps: list[str]) -> list[str]:
    return [*block("try", steps), *block("finally", ["current.set(mode)"])]


# Others -------------------------------------------------------------------------------------------


def _batched(felt: list[int], general: str) -> list[str]:
    """The mode for tangents: that of their batch, where there is one."""
    lines = ["outer, batch = below, mode.batch"]
    for i in felt:
        other = f"batch is None or t{i}.__class__ is not Batched or t{i}.level is not batch.level"
        lines += block(
            f"if t{i} is not None and t{i}.__class__ is not Tensor",
            [
                *block(f"if {other} or t{i}.value.__class__ is not Tensor", [general]),
                "outer = batch",
            ],
        )
    return lines


def _by_jvp(op: Op, felt: list[int], general: str) -> list[str]:
    """The declared rule of forward mode."""
    assert op.jvp is not None
    steps = [
        "current.set(outer)",
        f"total = jvp_rule({_asked(op, op.jvp, None)})",
        f"return finished(op, level, result, total, {_given(felt)})",
    ]
    return [*_complex_ones(felt, general), *_batched(felt, general), *_in_mode(steps)]


def _by_itself(op: Op, felt: list[int], general: str) -> list[str]:
    """The operator, which is linear in each input, applied to their tangents."""
    lines = [*_complex_ones(felt, general), *_batched(felt, general)]
    if len(felt) == 1:
        plain = _applied(op, felt[0], "plainly(below")
        end = f"finished(op, level, result, {plain}, t{felt[0]})"
        lines += block("if outer is below", [f"return {end}"])
    steps = ["current.set(outer)", "total = None"]
    for i in felt:
        if op.inputs[i].name not in op.rules:
            continue
        terms = [
            *block(f"if t{i}.__class__ is Tensor", [f"term = {_applied(op, i, 'plainly(below')}"]),
            *block("else", [f"term = {_applied(op, i, 'forms[Mapped](batch')}"]),
            "total = term if total is None else added(outer, total, term)",
        ]
        steps += block(f"if t{i} is not None", terms)
    steps.append(f"return finished(op, level, result, total, {_given(felt)})")
    return [*lines, *_in_mode(steps)]


def _applied(op: Op, i: int, call: str) -> str:
    given = ", ".join(f"t{i}" if p is op.inputs[i] else p.local for p in op.params)
    return f"{call}, {given})"


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
    felt = derive.felt_inputs(op)
    parts = []
    for name in parameters_of(rule):
        if name == "g" and i is not None:
            value = f"t{i}"
        elif name.startswith("d_") and name[2:] in inputs and i is None:
            value = f"t{inputs[name[2:]]}" if name[2:] in felt else "None"
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

"""Writes the in-place form of an operator: compute into the target, then change its history."""

from __future__ import annotations

from pullback.core.version import MOST_WRITES
from pullback.operators.declare import Op
from pullback.operators.writing.call import (
    everything,
    once_positional_lines,
    signature_of,
    watched_lines,
)
from pullback.operators.writing.nodes import Plan
from pullback.operators.writing.record import edge_lines, frame_lines, node_lines, version_of
from pullback.operators.writing.specialise import array_call
from pullback.operators.writing.steps import (
    MODE_LINES,
    array_lines,
    forward_call,
    has_straight_line,
    leaving_lines,
    maybe_number,
    normalised_lines,
    not_plain,
    saves_tensors,
)


def inplace_source_of(op: Op, *, watched: bool = True) -> str:
    """The Python source of the in-place form; its first line asks who looks on."""
    lines = [f"def written({signature_of(op, out=False)}):"]
    lines += once_positional_lines(op, out=False)
    lines += watched_lines(op, out=False) if watched else []
    leave = f"return call_inplace(op, called, {everything(op, out=False)})"
    starts_with_target = bool(op.differentiable) and op.differentiable[0] == op.inputs[0]
    if not has_straight_line(op) or len(op.outputs) > 1 or not starts_with_target:
        return "\n".join([*lines, f"    {leave}"])
    target = op.inputs[0].name
    edges = [f"n{i}" for i in range(len(op.differentiable))]
    unusual = [*not_plain(op, out=False), "cell is INFERENCE_CELL"]
    lines += [
        *array_lines(op, leave),
        *MODE_LINES,
        f"    cell = {target}._cell",
        *leaving_lines(leave, unusual, besides="True" if saves_tensors(op) else "before_write"),
        *normalised_lines(op),
        *_memory_checked(op),
        "    tracked = False",
        "    if mode is plain and a0.dtype.kind in 'fcVW':",
        *("    " + line for line in edge_lines(op, leave)),
        f"        if {' or '.join(f'{edge} is not None' for edge in edges)}:",
        "            tracked = True",
        f"            if {target}._node.__class__ in SPECIAL:",
        f"                check_history_can_change(called, {target})",
        *("            " + line for line in _before_write(op)),
        *_written(op),
        "    if cell.__class__ is tuple:",
        f"        cell = {target}._cell = [*cell]",
        "    cell[0] += 1",
        *frame_lines(),
        "    if code is not None:",
        "        cell.append((called, code, frame.f_lasti))",
        f"        if len(cell) > {MOST_WRITES}:",
        "            shorten(cell)",
        "    if tracked:",
        f"        result = {target}",
        "        r = a0",
        *([f"        {target} = old"] if _saves_target(op) else []),
        *("    " + line for line in node_lines(op, framed=True)),
        "        rebase(result, node)",
        "        return result",
        *_adopted(op),
        f"    return {target}",
    ]
    return "\n".join(lines)


def _adopted(op: Op) -> list[str]:
    """What is written into a tensor without history may say why it has none."""
    others = [param for param in op.inputs[1:] if param.kind == "tensor"]
    known = [
        f"(not is_number and {one.name}._cell is not UNWRITTEN)"
        if one is maybe_number(op)
        else f"{one.name}._cell is not UNWRITTEN"
        for one in others
    ]
    if not known:
        return []
    return [
        f"    if mode is plain and ({' or '.join(known)}):",
        f"        adopt({op.inputs[0].name}, {', '.join(one.name for one in others)})",
    ]


def _memory_checked(op: Op) -> list[str]:
    """Only views are expanded; operands of which none is a view do not overlap in part."""
    sources = op.inputs[1:] if op.kind == "elementwise" else []
    given = [
        f"(a{i} is not None and a{i}.base is not None)"
        if param.kind == "optional"
        else f"a{i}.base is not None"
        for i, param in enumerate(sources, 1)
    ]
    arguments = ", ".join(f"a{i}" for i in range(len(sources) + 1))
    return [
        f"    if {' or '.join(['a0.base is not None', *given])}:",
        f"        check_writable(called, {arguments})",
    ]


def _saves_target(op: Op) -> bool:
    return any(param is op.inputs[0] for param in Plan(op).inputs)


def _before_write(op: Op) -> list[str]:
    """Keep the old value if a rule asks for it, and the versions that other inputs have by now."""
    plan, lines = Plan(op), []
    for param in plan.inputs:
        needed = " or ".join(f"n{i} is not None" for i in plan.users(param.name))
        if param is op.inputs[0]:
            lines.append(f"old = old_value({param.name}, n0) if {needed} else None")
        else:
            lines.append(f"v_{param.name} = {version_of(op, param)}")
    return lines


def _written(op: Op) -> list[str]:
    """Compute into the target itself where one array function does it, else write afterwards."""
    direct = array_call(op)
    general = forward_call(op)[0]
    shown = ", ".join(f"'{param.name}': a{i}" for i, param in enumerate(op.inputs))
    options = [param for param in op.params if not param.is_tensor]
    after = [f"r = {general}", "r = asarray(r)"]
    after += [f"check_fit(called, {op.inputs[0].name}, r)", "a0[...] = r"]
    ways = []
    if direct:
        arguments = ", ".join(f"a{i}" for i in range(len(op.inputs)))
        # A result of another dtype (comparisons) does not go into the target directly.
        usual = " and ".join(["fits", *(f"{p.name} == default_{p.name}" for p in options)])
        ways.append((usual, [f"ufunc({arguments}, a0)"]))
    if op.into is not None:
        call = general.replace("forward(numpy, ", "into(a0, ", 1)
        ways.append((_goes_into(op), [call]))
    lines = ["    try:"]
    for number, (condition, steps) in enumerate(ways):
        lines.append(f"        {'elif' if number else 'if'} {condition}:")
        lines += ["            " + step for step in steps]
    lines += ["        else:"] if ways else []
    indent = "            " if ways else "        "
    return [
        *lines,
        *(indent + step for step in after),
        "    except REFUSALS as error:",
        f"        raise explained(op, {{{shown}}}, error, a0) from None",
    ]


def _goes_into(op: Op) -> str:
    """The condition on which `into` takes the call."""
    conditions = ["a0.ndim", "(a0.dtype is F64 or a0.dtype is F32)"]
    if op.promote is None:  # else they are of one dtype, or the line was left
        conditions += [f"a{i}.dtype is a0.dtype" for i in range(1, len(op.inputs))]
    for param in op.params:
        if not param.is_tensor:
            conditions.append(f"({param.name}.__class__ is float or {param.name}.__class__ is int)")
    return " and ".join(conditions)

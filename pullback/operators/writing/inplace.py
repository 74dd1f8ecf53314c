"""Writes the in-place form of an operator: compute into the target, then change its history."""

from __future__ import annotations

from pullback.core.version import MOST_WRITES
from pullback.operators.declare import Op
from pullback.operators.running.overlap import LENIENT
from pullback.operators.writing.call import (
    beyond_lines,
    everything,
    signature_of,
    watched_lines,
)
from pullback.operators.writing.plan import plan_of
from pullback.operators.writing.record import (
    edge_lines,
    frame_lines,
    node_lines,
    nowhere_lines,
    version_of,
)
from pullback.operators.writing.specialise import array_call
from pullback.operators.writing.steps import (
    MODE_LINES,
    UNUSUAL_MODE,
    array_lines,
    asks_for_size,
    differs,
    forward_call,
    has_fast_path,
    maybe_number,
    normalised_lines,
    not_plain,
    saves_tensors,
    tried_lines,
)
from pullback.operators.writing.writer import block, indented


def inplace_lines_of(op: Op, *, watched: bool = True) -> list[str]:
    """The in-place form; its first line asks who looks on."""
    head = f"def written({signature_of(op, out=False)})"
    lines = beyond_lines(op, out=False)
    lines += watched_lines(op, out=False) if watched else []
    bail_out = f"return call_inplace(op, called, {everything(op, out=False)})"
    starts_with_target = bool(op.differentiable) and op.differentiable[0] == op.inputs[0]
    if not has_fast_path(op) or len(op.outputs) > 1 or not starts_with_target:
        return block(head, [*lines, bail_out])
    target = op.inputs[0].local
    edges = [f"n{i}" for i in range(len(op.differentiable))]
    unusual = [*not_plain(op, inplace=True), "cell is INFERENCE_CELL"]
    besides = "True" if saves_tensors(op) else "before_write"
    # Where saved-tensor hooks are all that is unusual, what saves nothing goes on as without them.
    hooks = block(f"if mode.__class__ is not Hooked or plain is None or {besides}", [bail_out])
    hooks.append("mode = mode.usual")
    lines += [*array_lines(op, bail_out), *MODE_LINES, f"cell = {target}._cell"]
    steps = [
        *block(f"if {UNUSUAL_MODE}", hooks),
        *block(f"if {' or '.join(unusual)}", [bail_out]),
        *normalised_lines(op),
        *_memory_checked(op),
        "tracked = False",
        f"if mode is plain and {_has_history(op)}a0.dtype.kind in 'fcV':",
        *indented([*edge_lines(op), *nowhere_lines(op, bail_out)]),
        f"    if {' or '.join(f'{edge} is not None' for edge in edges)}:",
        "        tracked = True",
        f"        if {target}._node.__class__ in SPECIAL:",
        f"            check_history_can_change(called, {target})",
        *("        " + line for line in _before_write(op)),
        *_written(op),
        "if cell.__class__ is tuple:",
        f"    cell = {target}._cell = [*cell]",
        "cell[0] += 1",
        *frame_lines(),
        "if code is not None:",
        "    cell.append((called, code, frame.f_lasti))",
        f"    if len(cell) > {MOST_WRITES}:",
        "        shorten(cell)",
        "if mode is not plain:",
        f"    return {target}",
        "if tracked:",
        f"    result = {target}",
        "    r = a0",
        *([f"    {target} = old"] if _saves_target(op) else []),
        *indented(node_lines(op, framed=True)),
        "    rebase(result, node)",
        "    return result",
        *_adopted(op),
        f"return {target}",
    ]
    return block(head, lines + _dtype_read_once(op, steps))


def _dtype_read_once(op: Op, lines: list[str]) -> list[str]:
    """The lines, with the target's dtype in a variable where they compare it with several.

    A number was brought to that dtype, and is no view.
    """
    number = maybe_number(op)
    if number is not None:
        given = f"a{op.inputs.index(number)}"
        for claim in (f"a0.dtype is not {given}.dtype", f"{given}.base is not None"):
            lines = [line.replace(claim, f"(not is_number and {claim})") for line in lines]
    if len(op.inputs) == 1:
        return lines
    return ["dtype = a0.dtype", *(line.replace("a0.dtype", "dtype") for line in lines)]


def _has_history(op: Op) -> str:
    """Whether a tensor has a place in a graph, asked first: most that are written to have none."""
    if any(param.kind != "tensor" for param in op.inputs):
        return ""
    known = [
        f"(not is_number and {one.local}._node is not None)"
        if one is maybe_number(op)
        else f"{one.local}._node is not None"
        for one in op.differentiable
    ]
    return f"({' or '.join(known)}) and "


def _adopted(op: Op) -> list[str]:
    """What is written into a tensor without history may say why it has none."""
    others = [param for param in op.inputs[1:] if param.kind == "tensor"]
    known = [
        f"(not is_number and {one.local}._cell is not UNWRITTEN)"
        if one is maybe_number(op)
        else f"{one.local}._cell is not UNWRITTEN"
        for one in others
    ]
    if not known:
        return []
    return [
        f"if {' or '.join(known)}:",
        f"    adopt({op.inputs[0].local}, {', '.join(one.local for one in others)})",
    ]


def _memory_checked(op: Op) -> list[str]:
    """Only views are expanded; operands of which none is a view do not overlap in part."""
    if op.apart:
        return [f"check_apart(called, {', '.join(f'a{i}' for i in range(len(op.inputs)))})"]
    if op.name + "_" in LENIENT:  # an expanded target is written step by step
        return [
            "if a0.base is not None and 0 in a0.strides:",
            f"    return call_inplace(op, called, {everything(op, out=False)})",
        ]
    sources = op.inputs[1:] if op.kind == "elementwise" else []
    given = [
        f"(a{i} is not None and a{i}.base is not None)"
        if param.kind == "optional"
        else f"a{i}.base is not None"
        for i, param in enumerate(sources, 1)
    ]
    arguments = ", ".join(f"a{i}" for i in range(len(sources) + 1))
    return [
        f"if {' or '.join(['a0.base is not None', *given])}:",
        f"    check_writable(called, {arguments})",
    ]


def _saves_target(op: Op) -> bool:
    return any(param is op.inputs[0] for param in plan_of(op).inputs)


def _before_write(op: Op) -> list[str]:
    """Keep the old value if a rule asks for it, and the versions that other inputs have by now."""
    plan, lines = plan_of(op), []
    for param in plan.inputs:
        needed = " or ".join(f"n{i} is not None" for i in plan.users(param.name))
        if param is op.inputs[0]:
            lines.append(f"old = old_value({param.local}, n0) if {needed} else None")
        else:
            lines.append(f"v_{param.name} = {version_of(op, param)}")
    return lines


# NumPy 2.4 reads other elements than it should where these write over what they read, and elements
# are 16 or 64 bytes apart: a diagonal's sign was that of its neighbours.
WRONG_IN_PLACE = frozenset({"negative"})


def _written(op: Op) -> list[str]:
    """Compute into the target itself where one array function does it, else write afterwards."""
    direct = array_call(op)
    general = forward_call(op)[0]
    options = [param for param in op.params if not param.is_tensor]
    after = [f"r = {general}", "r = asarray(r)"]
    after += [f"check_fit(called, {op.inputs[0].local}, r)", "a0[...] = r"]
    ways = []
    if direct:
        arguments = ", ".join(f"a{i}" for i in range(len(op.inputs)))
        # A result of another dtype (comparisons) does not go into the target directly.
        usual = " and ".join(["fits", *(f"not ({differs(p)})" for p in options)])
        if direct in WRONG_IN_PLACE:
            usual += " and a0.flags.c_contiguous"
        into = [f"ufunc({arguments}, a0)"]
        if asks_for_size(op):
            shared = block("else", [f"large(ufunc, {arguments}, out=a0)"])
            into = [*block("if a0.size < LARGE", into), *shared]
        ways.append((usual, into))
    if op.out_kernel is not None:
        number = iter(range(len(op.inputs)))
        given = [f"a{next(number)}" if one.is_tensor else one.local for one in op.params]
        ways.append((_goes_into(op), [f"into(a0, {', '.join(given)})"]))
    if not ways:
        return tried_lines(op, after, "a0")
    lines = []
    for place, (condition, steps) in enumerate(ways):
        lines += block(f"{'elif' if place else 'if'} {condition}", steps)
    return tried_lines(op, [*lines, *block("else", after)], "a0")


def _goes_into(op: Op) -> str:
    """The condition on which `into` takes the call."""
    conditions = ["a0.ndim", "(a0.dtype is F64 or a0.dtype is F32)"]
    if op.promote is None:  # else they are of one dtype, or the line was left
        conditions += [f"a{i}.dtype is a0.dtype" for i in range(1, len(op.inputs))]
    for param in op.params:
        if not param.is_tensor:
            name = param.local
            conditions.append(f"({name}.__class__ is float or {name}.__class__ is int)")
    return " and ".join(conditions)

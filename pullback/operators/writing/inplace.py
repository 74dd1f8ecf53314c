"""Writes the in-place form of an operator: compute into the target, then change its history."""

from __future__ import annotations

from pullback.core.version import MOST_WRITES
from pullback.core.writer import block, filled
from pullback.operators.declare import Op
from pullback.operators.plan import plan_of
from pullback.operators.running.on_arrays import array_call
from pullback.operators.running.overlap import LENIENT
from pullback.operators.writing import record, steps
from pullback.operators.writing.call import everything, rare_lines, signature_of

# A write is counted, with its place: `bump` of core/version.py, in line.
_COUNTED = f"""
if cell.__class__ is tuple:
    cell = {{target}}._cell = [*cell]
cell[0] += 1
{{frame}}
if code is not None:
    cell.append((called, code, frame.f_lasti))
    if len(cell) > {MOST_WRITES}:
        shorten(cell)
"""
# Where saved-tensor hooks are all that is unusual, what saves nothing goes on as without them.
_STEPS = f"""
if {steps.UNUSUAL_MODE}:
    if mode.__class__ is not Hooked or plain is None or {{besides}}:
        {{bail_out}}
    mode = mode.usual
if {{unusual}}:
    {{bail_out}}
{{normalised}}
{{memory}}
tracked, old = False, None
if mode is plain and {{has_history}}a0.dtype.kind in 'fcV':
    {{edges}}
    {{nowhere}}
    if {{led}}:
        tracked = True
        if (info := {{target}}._node).__class__ in SPECIAL and ({{suspect}}):
            check_history_can_change(called, {{target}})
        {{before_write}}
{{computed}}
{{counted}}
if mode is not plain:
    return {{target}}
if tracked:
    result, r = {{target}}, a0
    {{old}}
    {{node}}
    rebase(result, node)
    return result
{{adopted}}
return {{target}}
"""


def counted_lines(target: str) -> list[str]:
    """Count a write to a tensor whose counter is `cell`, with the line that it came from."""
    return filled(_COUNTED, target=target, frame=record.FRAME_LINES)


def inplace_lines_of(op: Op, *, watched: bool = True) -> list[str]:
    """The in-place form; its first line asks who looks on."""
    head = f"def written({signature_of(op, out=False)})"
    lines = rare_lines(op, watched=watched, out=False)
    bail_out = f"return call_inplace(op, called, {everything(op)})"
    starts_with_target = bool(op.differentiable) and op.differentiable[0] == op.inputs[0]
    if not steps.has_fast_path(op) or len(op.outputs) > 1 or not starts_with_target:
        return block(head, [*lines, bail_out])
    target = op.inputs[0].local
    lines += [*steps.array_lines(op, bail_out), *steps.MODE_LINES, f"cell = {target}._cell"]
    return block(
        head,
        lines
        + filled(
            _STEPS,
            target=target,
            bail_out=bail_out,
            besides="True" if steps.saves_tensors(op) else "before_write",
            unusual=" or ".join([*steps.not_plain(op, inplace=True), "cell is INFERENCE_CELL"]),
            normalised=steps.normalised_lines(op),
            memory=_memory_checked(op, bail_out),
            has_history=_has_history(op),
            suspect="info.__class__ is Leaf or info.manner is not USUAL or info.base._node is None"
            " or Leaf in (info.node.__class__, info.base._node.__class__) or 0 in a0.strides",
            edges=record.edge_lines(op),
            nowhere=record.nowhere_lines(op, bail_out),
            led=" or ".join(f"n{i} is not None" for i in range(len(op.differentiable))),
            before_write=_before_write(op),
            computed=_computed(op),
            counted=counted_lines(target),
            old=[f"{target} = old"] if op.inputs[0] in plan_of(op).inputs else [],
            node=record.node_lines(op, inplace=True),
            adopted=_adopted(op),
        ),
    )


def _has_history(op: Op) -> str:
    """Whether a tensor has a place in a graph, asked first: most that are written to have none."""
    if any(param.kind != "tensor" for param in op.inputs):
        return ""
    known = [steps.of_tensor(op, p, f"{p.local}._node is not None") for p in op.differentiable]
    return f"({' or '.join(known)}) and "


def _adopted(op: Op) -> list[str]:
    """What is written into a tensor without history may say why it has none."""
    others = [param for param in op.inputs[1:] if param.kind == "tensor"]
    told = "is not UNWRITTEN and (its.__class__ is not tuple or its[1].__class__ not in CONSTANTS)"
    asked = [steps.of_tensor(op, one, f"(its := {one.local}._cell) {told}") for one in others]
    adopted = f"adopt({', '.join(one.local for one in (op.inputs[0], *others))})"
    return block(f"if {' or '.join(asked)}", [adopted]) if asked else []


def _memory_checked(op: Op, bail_out: str) -> list[str]:
    """Only views are expanded; operands of which none is a view do not overlap in part."""
    if op.apart:
        return [f"check_apart(called, {steps.arrays_of(op)})"]
    if op.name + "_" in LENIENT:  # an expanded target is written step by step
        return block("if a0.base is not None and 0 in a0.strides", [bail_out])
    sources = op.inputs if op.kind == "elementwise" else ()  # a number is no view
    arrays = [(f"a{i}", one) for i, one in enumerate(sources) if i]
    given = [steps.of_tensor(op, one, f"{a}.base is not None", a) for a, one in arrays]
    # A view of memory that NumPy's own array owns meets no other array that owns its memory.
    meets = "".join(f" or {a} is whole" for a, _ in arrays) + " or 0 in a0.strides"
    viewed = "whole.__class__ is not ndarray or whole.base is not None"
    given.append(f"(whole := a0.base) is not None and ({viewed}{meets})")
    others = "".join(f", {a}" for a, _ in arrays)
    return block(f"if {' or '.join(given)}", [f"check_writable(called, a0{others})"])


def _before_write(op: Op) -> list[str]:
    """Keep the old value if a rule asks for it, and the versions that other inputs have by now."""
    plan, lines = plan_of(op), []
    for param in plan.inputs:
        needed = " or ".join(f"n{i} is not None" for i in plan.users(param.name))
        if param is op.inputs[0]:
            lines.append(f"old = kept_values(a0, n0) if {needed} else None")
        else:
            version = record.unless_absent(op, param, f"{param.local}._cell[0]")
            lines.append(f"v_{param.name} = {version}")
    return lines


# NumPy 2.4 reads other elements than it should where these write over what they read, and elements
# are 16 or 64 bytes apart: a diagonal's sign was that of its neighbours.
WRONG_IN_PLACE = frozenset({"negative"})


def _computed(op: Op) -> list[str]:
    """Compute into the target itself where one array function does it, else write afterwards."""
    direct = array_call(op)
    options = [param for param in op.params if not param.is_tensor]
    after = [f"r = {steps.forward_call(op)[0]}", "r = asarray(r)"]
    after += [f"check_fit(called, {op.inputs[0].local}, r)", "a0[...] = r"]
    lines: list[str] = []
    if direct:
        arguments = steps.arrays_of(op)
        # A result of another dtype (comparisons) does not go into the target directly.
        usual = " and ".join(["fits", *(f"not ({steps.differs(p)})" for p in options)])
        usual += " and a0.flags.c_contiguous" if direct in WRONG_IN_PLACE else ""
        into = [f"ufunc({arguments}, a0)"]
        if steps.asks_for_size(op):
            shared = block("else", [f"large(ufunc, {arguments}, out=a0)"])
            into = [*block("if a0.size < LARGE", into), *shared]
        if direct not in WRONG_IN_PLACE:
            gaps = f"{usual} and a0.base is not None and a0.ndim > 1 and not a0.flags.c_contiguous"
            lines = block(f"if {gaps} and a0.size <= FEW", [f"write_few(ufunc, old, {arguments})"])
        lines += block(f"{'elif' if lines else 'if'} {usual}", into)
    if op.out_kernel is not None:
        given = [value for _, value in steps.values_of(op)]
        claims = ["a0.ndim", "(a0.dtype is F64 or a0.dtype is F32)"]
        if op.promote is None:  # else they are of one dtype, or the line was left
            claims += [f"a{i}.dtype is a0.dtype" for i in range(1, len(op.inputs))]
        claims += [f"({p.local}.__class__ is float or {p.local}.__class__ is int)" for p in options]
        into = [f"into(a0, {', '.join(given)})"]
        lines += block(f"{'elif' if direct else 'if'} {' and '.join(claims)}", into)
    return steps.tried_lines(op, [*lines, *block("else", after)] if lines else after, "a0")

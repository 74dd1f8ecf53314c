"""Writes the last steps of a fast path: what is recorded of a call."""

from __future__ import annotations

from pullback.operators.declare import Op, Param
from pullback.operators.writing.call import everything
from pullback.operators.writing.plan import Plan, plan_of, several_outputs
from pullback.operators.writing.steps import maybe_number
from pullback.operators.writing.view import VIEW_OF_MODE, above_lines, attach_lines
from pullback.operators.writing.writer import block, either, indented, theirs

# The version counter of a result without history.
UNRECORDED = "fast.unrecorded if mode is not fast.inference else INFERENCE_CELL"


def recorded_lines(op: Op) -> list[str]:
    """Record the one result, where somebody may ask for gradients."""
    lines = block("if mode is not plain", [f"result._cell = {UNRECORDED}", "return result"])
    if not op.rules:
        return [*lines, *ended_lines(op), "return result"]
    untracked = " and ".join(f"n{i} is None" for i in range(len(op.differentiable)))
    passed_on = inherited_lines(op)
    if any(param.name == "dtype" for param in op.params):  # whole numbers have no history
        passed_on = ended_lines(op)
        untracked = f"({untracked}) or r.dtype.kind not in 'fcVW'"
    return [
        *lines,
        *edge_lines(op),
        *block(f"if {untracked}", [*passed_on, "return result"]),
        *nowhere_lines(op),
        *(["result._cell = [0]"] if plan_of(op).outputs else []),
        *node_lines(op),
        "result._node = node"
        if plan_of(op).outputs
        else "result._cell, result._node = UNWRITTEN, node",
        "return result",
    ]


def inherited_lines(op: Op, results: str = "result._cell") -> list[str]:
    """The counter of a result without history: its operand's, which may say what cut it off.

    Of two notes of one class, as constants mostly have, the first counts.
    """
    first, *others = op.inputs
    if first.kind != "tensor":
        return [f"{results} = UNWRITTEN"]
    lines, found = [f"own = {first.local}._cell"], [f"own = inherited({_operands(op)})"]
    for place, param in enumerate(others):
        absent = f"{param.local} is None" if param.kind == "optional" else ""
        absent = "is_number" if param is maybe_number(op) else absent
        known = f"{param.local}._cell"
        known = f"UNWRITTEN if {absent} else {known}" if absent else known
        both = f"own, its = {first.local}._cell, {known}"
        lines = [*lines, f"its = {known}"] if place else [both]
        unlike = "own is UNWRITTEN or type(its) is not tuple"
        lines += block(f"if its is not UNWRITTEN and ({unlike})", found)
        unlike = "its is not UNWRITTEN and type(own[1]) is not type(its[1])"
        lines += block(f"elif type(own) is not tuple or {unlike}", found)
    lines += [] if others else block("if type(own) is not tuple", found)
    return [*lines, f"{results} = own"]


def ended_lines(op: Op, results: str = "result._cell") -> list[str]:
    """The same where the result has no gradient even if an operand has one."""
    known = [f"({node})" if " if " in (node := _node_of(op, one)) else node for one in op.inputs]
    return [
        f"node = {' or '.join(known)}",
        *block("if node is None", inherited_lines(op, results)),
        "elif node.__class__ is View:",  # of who knows what
        f"    {results} = ended(called, getframe(1), {_operands(op)})",
        "else:",
        *indented(frame_lines()),
        f"    {results} = 0, born(Ended, (called, code, frame.f_lasti))",
    ]


def _operands(op: Op) -> str:
    return ", ".join(param.local for param in op.inputs)


def several_lines(op: Op) -> list[str]:
    """Wrap and record several outputs."""
    plan = plan_of(op)
    numbers = range(len(op.outputs))
    cells = " = ".join(f"result{i}._cell" for i in numbers)
    finished = f"return ({', '.join(f'result{i}' for i in numbers)})"
    lines = wrapped_lines(op, plan.outputs if op.rules else [])
    lines += block("if mode is not plain", [f"{cells} = {UNRECORDED}", finished])
    if not op.rules:
        return [*lines, *ended_lines(op, cells), finished]
    untracked = " and ".join(f"n{i} is None" for i in range(len(plan.edges)))
    return [
        *lines,
        *edge_lines(op),
        *block(f"if {untracked}", [*inherited_lines(op, cells), finished]),
        *nowhere_lines(op),
        *node_lines(op),
        *outputs_lines(op),
        *ended_outputs_lines(op),
        finished,
    ]


def as_array_lines(result: str) -> list[str]:
    """A forward's result as an array; scalars, which reductions give, without a call of ours."""
    made = f"{result} = array({result}) if type({result}) in SCALARS else asarray({result})"
    return block(f"if type({result}) is not ndarray", [made])


def wrapped_lines(op: Op, counted: list[str]) -> list[str]:
    """Tensors of several outputs; those that are `counted` get a counter of their own."""
    lines = [f"{', '.join(f'r{i}' for i in range(len(op.outputs)))} = r"]
    for i, name in enumerate(op.outputs):
        lines += [
            *as_array_lines(f"r{i}"),
            f"result{i} = next(blanks)",
            f"result{i}._array = r{i}",
            f"result{i}._node = None",
            f"result{i}._cell = {'[0]' if name in counted else 'UNWRITTEN'}",
        ]
    return lines


def outputs_lines(op: Op) -> list[str]:
    """Give several outputs their node."""
    lines = []
    if several_outputs(op):
        sizes = ", ".join(f"(r{i}.shape, r{i}.dtype)" for i in range(len(op.outputs)))
        lines.append(f"node._g_sizes = ({sizes})")
    for i, name in enumerate(op.outputs):
        if name not in op.fixed_outputs:
            edge = f"node._output({i})" if several_outputs(op) else "node"
            lines += [f"if r{i}.dtype.kind in 'fcV':", f"    result{i}._node = {edge}"]
    return lines


def ended_outputs_lines(op: Op) -> list[str]:
    """Outputs that have no gradient, such as indices, know who ended it."""
    plan, lines = plan_of(op), []
    for i, name in enumerate(op.outputs):
        if name in op.fixed_outputs and name in plan.outputs:
            lines.append(f"result{i}._cell.append(ended_at(called, frame)[1])")
        elif name in op.fixed_outputs:
            lines.append(f"result{i}._cell = ended_at(called, frame)")
    return lines


def viewed_lines(op: Op) -> list[str]:
    """Record a view; those made without history are of kinds of their own."""
    source = op.inputs[0].local
    return [
        "if mode is not plain:",
        f"    attach(result, {source}, None, None, {VIEW_OF_MODE})",
        "    return result",
        *above_lines(source),
        "if n0 is None:",
        "    node = None",
        "else:",
        *indented(node_lines(op)),
        *attach_lines(source),
    ]


def edge_lines(op: Op) -> list[str]:
    """Where the gradient of each input goes."""
    lines = []
    for i, param in enumerate(op.differentiable):
        lines += edge_from(f"n{i}", _node_of(op, param), param.local)
    return lines


def nowhere_lines(op: Op, bail_out: str = "") -> list[str]:
    """An input that leads nowhere needs no values of the others: `interpret` sorts that out."""
    if len(op.differentiable) < 2 or not plan_of(op).inputs:
        return []
    bail_out = bail_out or f"return call(op, {everything(op, out=False)})"
    return either([f"n{i} is NOWHERE" for i in range(len(op.differentiable))], [bail_out])


def edge_from(edge: str, node: str, tensor: str) -> list[str]:
    """The edge that a tensor's `_node` is, or leads to where that is a leaf or a view."""
    # A part of data without history, as batches are, need not be asked, a leaf answers at once.
    data = f"{edge}.node is None is {edge}.base._node"
    found = f"{edge} = None if {data} else {edge}() or {edge}.edge({tensor})"
    return [f"{edge} = {node}", *block(f"if {edge} is not None and {edge}._special", [found])]


def _node_of(op: Op, param: Param) -> str:
    if param.kind == "optional":
        return f"None if {param.local} is None else {param.local}._node"
    if param is maybe_number(op):
        return f"None if is_number else {param.local}._node"
    return f"{param.local}._node"


def node_lines(op: Op, *, framed: bool = False) -> list[str]:
    """Make the node, with what the rules will ask for."""
    plan = plan_of(op)
    several = len(op.outputs) > 1
    lines = bare_node_lines(op, plan)
    for param in plan.inputs:
        lines += _kept(op, plan, param, inplace=framed)
    for name in plan.outputs:
        i = op.outputs.index(name) if several else ""
        lines += [
            f"node.s_{name} = r{i}",
            f"node.s_{name}_c = result{i}._cell",
            f"node.s_{name}_v = result{i}._cell[0]",
        ]
    return [*lines, *([] if framed else frame_lines()), *PLACED]


# Where the user called, known by now, and the node's place in the order.
PLACED = [
    "node._code, node._lasti, node._seq = code, frame.f_lasti, next(numbering.numbers)",
]


def bare_node_lines(op: Op, plan: Plan) -> list[str]:
    """Make a node with options and shapes, but without tensors."""
    first = "r0" if len(op.outputs) > 1 else "r"
    lines = [
        "node = next(blank_nodes)",
        f"node._edges, node._cold = ({''.join(f'n{i}, ' for i in range(len(plan.edges)))}), None",
        f"node._g_shape, node._g_dtype = {first}.shape, {first}.dtype",
    ]
    lines += [f"node.s_{name} = {theirs(name)}" for name in plan.options]
    number = {param.name: i for i, param in enumerate(op.inputs)}
    for name in plan.derived:
        owner, _, what = name.rpartition("_")
        value = f"a{number[owner]}.{'flags.f_contiguous' if what == 'turned' else what}"
        optional = op.inputs[number[owner]].kind == "optional"
        lines.append(
            f"node.s_{name} = "
            + (f"None if {theirs(owner)} is None else {value}" if optional else value)
        )
    return lines


def frame_lines(depth: int = 1) -> list[str]:
    """Where the user called, `depth` frames above; functions of ours may be between."""
    climb = "while internal[code.co_filename] == 1 and frame.f_back is not None"
    steps = [
        *block(climb, ["code = (frame := frame.f_back).f_code"]),
        *block("if code is not last_user.code", ["frame, code = caller(frame)"]),
    ]
    other = "if (code := frame.f_code) is not last_user.code"
    return [f"frame = getframe({depth})", *block(other, steps)]


def version_of(op: Op, param: Param, absent: str = "") -> str:
    """The version of an input that is saved now; None where it is `absent`, or no tensor."""
    conditions = [absent] if absent else []
    if param is maybe_number(op):
        conditions.append("is_number")
    elif param.kind == "optional":
        conditions.append(f"{param.local} is None")
    version = f"{param.local}._cell[0]"
    return f"None if {' or '.join(conditions)} else {version}" if conditions else version


def _kept(op: Op, plan: Plan, param: Param, *, inplace: bool) -> list[str]:
    """Keep an input, and its version, if an edge that leads somewhere has a rule that asks."""
    name, users = param.name, plan.users(param.name)
    only = len(users) == len(plan.edges) == 1
    absent = "" if only else " and ".join(f"n{i} is None" for i in users)
    version = version_of(op, param, absent)
    if inplace:
        version = "0" if param is op.inputs[0] else f"v_{name}"
        version = f"None if {absent} else {version}" if absent else version
    value = f"None if {absent} else {param.local}" if absent else param.local
    return [f"node.s_{name} = {value}", f"node.s_{name}_v = {version}"]

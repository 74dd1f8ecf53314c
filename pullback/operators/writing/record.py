"""Writes the last steps of a straight line: what is recorded of a call."""

from __future__ import annotations

from pullback.operators.declare import Op, Param
from pullback.operators.writing.call import everything
from pullback.operators.writing.plan import Plan, plan_of, several_outputs
from pullback.operators.writing.steps import knows_dtype, maybe_number
from pullback.operators.writing.view import VIEW_OF_MODE, above_lines, attach_lines
from pullback.operators.writing.writer import block, indented, theirs

# The version counter of a result without history.
UNRECORDED = "fast.unrecorded if mode is not fast.inference else INFERENCE_CELL"


def recorded_lines(op: Op) -> list[str]:
    """Record the one result, where somebody may ask for gradients."""
    if not op.rules:
        return [
            "result._node = None",
            "if mode is not plain:",
            f"    result._cell = {UNRECORDED}",
            "    return result",
            *ended_lines(op),
            "result._cell = cell",
            "return result",
        ]
    edges = [f"n{i}" for i in range(len(op.differentiable))]
    untracked = " and ".join(f"{edge} is None" for edge in edges)
    passed_on = inherited_lines(op)
    if any(param.name == "dtype" for param in op.params):  # whole numbers have no history
        passed_on = ended_lines(op)
        untracked = f"({untracked}) or r.dtype.kind not in 'fcVW'"
    return [
        "if mode is not plain:",
        f"    result._cell = {UNRECORDED}",
        "    result._node = None",
        "    return result",
        *edge_lines(op, f"return call(op, {everything(op)})"),
        f"if {untracked}:",
        *indented(passed_on),
        "    result._cell = cell",
        "    result._node = None",
        "    return result",
        f"result._cell = {'[0]' if plan_of(op).outputs else 'UNWRITTEN'}",
        *node_lines(op, dtype="dtype" if knows_dtype(op) else ""),
        "result._node = node",
        "return result",
    ]


def inherited_lines(op: Op) -> list[str]:
    """The counter of a result without history: its operand's, which may say what cut it off."""
    first, *others = op.inputs
    if first.kind != "tensor":
        return ["cell = UNWRITTEN"]
    written = ["cell.__class__ is not tuple"]
    for param in others:
        # Of two that know as much, as constants mostly do, the first counts; a mere `Birth` is what
        # nobody knows less than.
        test = (
            f"{param.local}._cell is not UNWRITTEN and (cell is UNWRITTEN or {param.local}._cell"
            f".__class__ is not tuple or ({param.local}._cell[1].__class__ is not cell[1].__class__"
            f" and {param.local}._cell[1].__class__ is not Birth))"
        )
        if param.kind == "optional":
            test = f"({param.local} is not None and {test})"
        elif param is maybe_number(op):
            test = f"(not is_number and {test})"
        else:
            test = f"({test})"
        written.append(test)
    return [
        f"cell = {first.local}._cell",
        f"if {' or '.join(written)}:",
        f"    cell = inherited({_operands(op)})",
    ]


def ended_lines(op: Op) -> list[str]:
    """The same where the result has no gradient even if an operand has one."""
    known = [f"({node})" if " if " in (node := _node_of(op, one)) else node for one in op.inputs]
    return [
        f"node = {' or '.join(known)}",
        "if node is None:",
        *indented(inherited_lines(op)),
        "elif node.__class__ is View:",  # of who knows what
        f"    cell = ended(called, getframe(1), {_operands(op)})",
        "else:",
        *indented(frame_lines()),
        "    cell = 0, born(Ended, (called, code, 0 if frame is None else frame.f_lasti))",
    ]


def _operands(op: Op) -> str:
    return ", ".join(param.local for param in op.inputs)


def several_lines(op: Op) -> list[str]:
    """Wrap and record several outputs."""
    plan = plan_of(op)
    numbers = range(len(op.outputs))
    lines = wrapped_lines(op, plan.outputs if op.rules else [])
    finished = f"return ({', '.join(f'result{i}' for i in numbers)})"
    if not op.rules:
        cells = " = ".join(f"result{i}._cell" for i in numbers)
        lines += [
            "if mode is not plain:",
            f"    {cells} = {UNRECORDED}",
            f"    {finished}",
            *ended_lines(op),
            f"{cells} = cell",
        ]
        return [*lines, finished]
    untracked = " and ".join(f"n{i} is None" for i in range(len(plan.edges)))
    lines += [
        "if mode is not plain:",
        f"    {' = '.join(f'result{i}._cell' for i in numbers)} = {UNRECORDED}",
        f"    {finished}",
        *edge_lines(op, f"return call(op, {everything(op)})"),
        f"if {untracked}:",
        *indented(inherited_lines(op)),
        f"    {' = '.join(f'result{i}._cell' for i in numbers)} = cell",
        f"    {finished}",
        *node_lines(op),
        *outputs_lines(op),
        *ended_outputs_lines(op),
    ]
    return [*lines, finished]


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


def edge_lines(op: Op, leave: str) -> list[str]:
    """Where the gradient of each input goes."""
    # An input that leads nowhere needs no values of the others: `interpret` sorts that out.
    careful = len(op.differentiable) > 1 and bool(plan_of(op).inputs)
    lines = []
    for i, param in enumerate(op.differentiable):
        edge = f"n{i}"
        asked = _asked(edge, param.local)
        if careful:
            asked += block(f"if {edge} is NOWHERE", [leave])
        lines += _edge_from(edge, _node_of(op, param), asked)
    return lines


def edge_from(edge: str, node: str, tensor: str) -> list[str]:
    """The edge that a tensor's `_node` is, or leads to where that is a leaf or a view."""
    return _edge_from(edge, node, _asked(edge, tensor))


def _edge_from(edge: str, node: str, asked: list[str]) -> list[str]:
    return [f"{edge} = {node}", *block(f"if {edge} is not None and {edge}._special", asked)]


def _asked(edge: str, tensor: str) -> list[str]:
    # A part of data without history, as batches are, need not be asked, a leaf answers at once.
    data = f"{edge}.__class__ is View and {edge}.node is None and {edge}.base._node is None"
    return [f"{edge} = None if {data} else {edge}() or edge_of({tensor})"]


def _node_of(op: Op, param: Param) -> str:
    if param.kind == "optional":
        return f"None if {param.local} is None else {param.local}._node"
    if param is maybe_number(op):
        return f"None if is_number else {param.local}._node"
    return f"{param.local}._node"


def node_lines(op: Op, *, framed: bool = False, dtype: str = "") -> list[str]:
    """Make the node, with what the rules will ask for; `dtype` is the name of the result's."""
    plan = plan_of(op)
    several = len(op.outputs) > 1
    lines = bare_node_lines(op, plan, dtype)
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
    "node._code = code",
    "node._lasti = 0 if frame is None else frame.f_lasti",
    "node._seq = next(numbering.numbers)",
]


def bare_node_lines(op: Op, plan: Plan, dtype: str = "") -> list[str]:
    """Make a node with options and shapes, but without tensors."""
    first = "r0" if len(op.outputs) > 1 else "r"
    lines = [
        "node = next(blank_nodes)",
        f"node._edges = ({''.join(f'n{i}, ' for i in range(len(plan.edges)))})",
        "node._cold = None",
        f"node._g_shape = {first}.shape",
        f"node._g_dtype = {dtype or f'{first}.dtype'}",
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
    """Where the user called, `depth` frames above."""
    return [
        f"frame = getframe({depth})",
        "code = frame.f_code",
        "if code is not last_user.code:",
        "    whose = internal[code.co_filename]",
        "    if not whose:",
        "        last_user.code = code",
        "    else:",
        # Mostly a function of ours, such as getitem, that the user called, or a node's rules, which
        # the loop of a recorded pass did.
        "        if whose == 1:",
        "            frame = frame.f_back",
        "        code = None if frame is None else frame.f_code",
        "        if code is not last_user.code:",
        "            frame = passing() if code is last_user.loop else user_frame(frame)",
        "            last_user.code = code = None if frame is None else frame.f_code",
    ]


def version_of(op: Op, param: Param) -> str:
    """The version of an input that is saved now."""
    if param is maybe_number(op):
        return f"None if is_number else {param.local}._cell[0]"
    if param.kind == "optional":
        return f"None if {param.local} is None else {param.local}._cell[0]"
    return f"{param.local}._cell[0]"


def _kept(op: Op, plan: Plan, param: Param, *, inplace: bool) -> list[str]:
    name = param.name
    version = version_of(op, param)
    if inplace:
        version = "0" if param is op.inputs[0] else f"v_{name}"
    keep = [f"node.s_{name} = {param.local}", f"node.s_{name}_v = {version}"]
    users = plan.users(name)
    if len(users) == len(plan.edges) and len(users) == 1:
        return keep
    needed = " or ".join(f"n{i} is not None" for i in users)
    forgotten = f"node.s_{name} = node.s_{name}_v = None"
    return [*block(f"if {needed}", keep), *block("else", [forgotten])]

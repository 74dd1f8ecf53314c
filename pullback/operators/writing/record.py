"""Writes the last steps of a fast path: tensors of the results, and what is recorded of a call.

By themselves they are the `recorder` of results that came from a handler below autograd: what
`recording.py` does step by step for any call takes 7 us, which is more than a handler does.
"""

from __future__ import annotations

from pullback.core.writer import block, either, filled, indented, theirs
from pullback.operators.declare import Op, Param
from pullback.operators.plan import plan_of, several_outputs
from pullback.operators.running.on_arrays import array_call
from pullback.operators.writing.call import arguments, everything
from pullback.operators.writing.steps import knows_dtype, maybe_number

# The version counter of a result without history, and how a view was made, where grad mode is off.
UNRECORDED = "fast.unrecorded if mode is not fast.inference else INFERENCE_CELL"
VIEW_OF_MODE = "INFERENCE_VIEW if mode is fast.inference else NO_GRAD_VIEW"
# Where the user called, one frame above; functions of ours may be between.
FRAME_LINES = filled("""
if (code := (frame := getframe(1)).f_code) is not last_user.code:
    while internal[code.co_filename] == 1 and frame.f_back is not None:
        code = (frame := frame.f_back).f_code
    if code is not last_user.code:
        frame, code = caller(frame)
""")
PLACED = ["node._code, node._lasti, node._seq = code, frame.f_lasti, next(numbering.numbers)"]


def called_from(frame: int, lines: list[str]) -> list[str]:
    """The lines of a function that the user called by way of others: in which frame up."""
    return [line.replace("getframe(1)", f"getframe({frame})") for line in lines]


_UNRECORDED = f"""
if mode is not plain:
    {{cells}} = {UNRECORDED}
    return {{results}}
"""
_RECORDED = """
{edges}
if {untracked}:
    {passed_on}
    return {results}
{nowhere}
{counters}
{node}
{led}
return {results}
"""


def recorded_lines(op: Op, *, hooked: bool = False) -> list[str]:
    """Make tensors of the arrays, and record them where somebody may ask for gradients.

    Where hooks are at work, edges are known and inputs packed.
    """
    plan, several = plan_of(op), len(op.outputs) > 1
    numbers = [str(i) for i in range(len(op.outputs))] if several else [""]
    cells = " = ".join(f"result{i}._cell" for i in numbers)
    results = ", ".join(f"result{i}" for i in numbers)
    results = f"({results})" if several else results
    lines = [f"{', '.join(f'r{i}' for i in numbers)} = r"] if several else []
    for i in numbers:
        made = f"r{i} = array(r{i}) if type(r{i}) in SCALARS else asarray(r{i})"
        lines += block(f"if type(r{i}) is not ndarray", [made])
        if not several and array_call(op) is None and len(op.inputs) > 1:
            # The first has data, another may have none.
            bail_out = [f"return call(op, {everything(op)})"]
            lines += indented(block("if type(r) is not ndarray", bail_out))
        lines += [f"result{i} = next(blanks)", f"result{i}._array, result{i}._node = r{i}, None"]
    lines += filled(_UNRECORDED, cells=cells, results=results)
    if not op.rules:
        return [*lines, *_ended_lines(op, cells), f"return {results}"]
    untracked, passed_on = _untracked(op), _inherited_lines(op, cells)
    if not several and any(param.name == "dtype" for param in op.params):
        passed_on = _ended_lines(op, cells)  # whole numbers have no history
        untracked = f"({untracked}) or r.dtype.kind not in 'fcVW'"
    counters = ["[0]" if name in plan.outputs else "UNWRITTEN" for name in op.outputs]
    own = [f"{cells.replace(' =', ',')} = {', '.join(counters)}"]
    led = _led_lines(op) if several else ["result._node = node"]
    if counters == ["UNWRITTEN"]:
        own, led = [], ["result._cell, result._node = UNWRITTEN, node"]
    return lines + filled(
        _RECORDED,
        edges=[] if hooked else edge_lines(op),
        untracked=untracked,
        passed_on=passed_on,
        nowhere=[] if hooked else nowhere_lines(op),
        counters=own,
        node=node_lines(op, hooked=hooked),
        led=[*led, *packed_outputs(op)] if hooked else led,
        results=results,
    )


def _untracked(op: Op) -> str:
    return " and ".join(f"n{i} is None" for i in range(len(op.differentiable)))


def _inherited_lines(op: Op, cells: str) -> list[str]:
    """The counter of a result without history: its operand's, which may say what cut it off.

    Of two notes of one class, as constants mostly have, the first counts.
    """
    first, *others = op.inputs
    if first.kind != "tensor":
        return [f"{cells} = UNWRITTEN"]
    found = [f"own = inherited({', '.join(param.local for param in op.inputs)})"]
    lines, start = [], f"own, its = {first.local}._cell, "
    for param in others:
        lines.append(start + unless_absent(op, param, f"{param.local}._cell", "UNWRITTEN"))
        unlike = "own is UNWRITTEN or type(its) is not tuple"
        lines += block(f"if its is not UNWRITTEN and ({unlike})", found)
        unlike = "its is not UNWRITTEN and type(own[1]) is not type(its[1])"
        lines += block(f"elif type(own) is not tuple or {unlike}", found)
        start = "its = "
    if not others:
        lines = [f"own = {first.local}._cell", *block("if type(own) is not tuple", found)]
    return [*lines, f"{cells} = own"]


def unless_absent(
    op: Op, param: Param, value: str, otherwise: str = "None", absent: str = ""
) -> str:
    """Something of a tensor that may be a number, need not be given, or is `absent`."""
    conditions = [absent] if absent else []
    conditions += ["is_number"] if param is maybe_number(op) else []
    conditions += [f"{param.local} is None"] if param.kind == "optional" else []
    return f"{otherwise} if {' or '.join(conditions)} else {value}" if conditions else value


def _ended_lines(op: Op, cells: str) -> list[str]:
    """The same where the result has no gradient even if an operand has one."""
    nodes = [unless_absent(op, one, f"{one.local}._node") for one in op.inputs]
    return [
        f"node = {' or '.join(f'({one})' if ' if ' in one else one for one in nodes)}",
        *block("if node is None", _inherited_lines(op, cells)),
        "elif node.__class__ is View:",  # of who knows what
        f"    {cells} = ended(called, getframe(1), {', '.join(one.local for one in op.inputs)})",
        *block("else", [*FRAME_LINES, f"{cells} = 0, born(Ended, (called, code, frame.f_lasti))"]),
    ]


def _led_lines(op: Op) -> list[str]:
    """Give several outputs their node; those without gradient, as indices, know who ended it."""
    lines, several = [], several_outputs(op)
    if several:
        sizes = ", ".join(f"(r{i}.shape, r{i}.dtype)" for i in range(len(op.outputs)))
        lines.append(f"node._g_sizes = ({sizes})")
    for i, name in enumerate(op.outputs):
        if name not in op.fixed_outputs:
            edge = f"node._output({i})" if several else "node"
            lines += block(f"if r{i}.dtype.kind in 'fcV'", [f"result{i}._node = {edge}"])
        elif name in plan_of(op).outputs:
            lines.append(f"result{i}._cell.append(ended_at(called, frame)[1])")
        else:
            lines.append(f"result{i}._cell = ended_at(called, frame)")
    return lines


# As `attach` in core/view.py, in line for what is usual: calling it takes a sixth of the operator.
# The base is `below`, None where `attach` is to find it; the edge `n0` is as by `edge_of`.
_VIEWED = f"""
result = next(blanks)
result._array = r
if mode is not plain:
    attach(result, {{source}}, None, None, {VIEW_OF_MODE})
    return result
above, cell = {{source}}._node, {{source}}._cell
if above.__class__ is View:
    below = above.base if above.manner is USUAL else None
    n0 = above.node
    if n0 is None:
        if above.base._node is not None:
            n0 = edge_of({{source}})
    elif n0.__class__ is Leaf or above.version != cell[0]:
        n0 = edge_of({{source}})
else:
    below = {{source}} if cell is not INFERENCE_CELL else None
    n0 = above
    if n0.__class__ is Leaf:
        n0 = n0() or edge_of({{source}})
if n0 is None:
    node = None
else:
    {{node}}
if below is None:
    attach(result, {{source}}, node)
    return result
if cell.__class__ is tuple:
    cell = {{source}}._cell = [*cell]
info = View()
info.base, info.manner, info.node = below, USUAL, node
info.version = cell[0]
info.cell = result._cell = cell
result._node = info
return result
"""


def viewed_lines(op: Op) -> list[str]:
    """Record a view; those made without history are of kinds of their own."""
    return filled(_VIEWED, source=op.inputs[0].local, node=node_lines(op))


def edge_lines(op: Op) -> list[str]:
    """Where the gradient of each input goes."""
    lines = []
    for i, param in enumerate(op.differentiable):
        node = unless_absent(op, param, f"{param.local}._node")
        lines += edge_from(f"n{i}", node, param.local)
    return lines


def edge_from(edge: str, node: str, tensor: str) -> list[str]:
    """The edge that a tensor's `_node` is, or leads to where that is a leaf or a view."""
    # A part of data without history, as batches are, need not be asked, a leaf answers at once.
    data = f"{edge}.node is None is {edge}.base._node"
    found = f"{edge} = None if {data} else {edge}() or {edge}.edge({tensor})"
    return [f"{edge} = {node}", *block(f"if {edge} is not None and {edge}._special", [found])]


def nowhere_lines(op: Op, bail_out: str = "") -> list[str]:
    """An input that leads nowhere needs no values of the others: `interpret` sorts that out."""
    if len(op.differentiable) < 2 or not plan_of(op).inputs:
        return []
    bail_out = bail_out or f"return call(op, {everything(op)})"
    return either([f"n{i} is NOWHERE" for i in range(len(op.differentiable))], [bail_out])


def node_lines(op: Op, *, inplace: bool = False, hooked: bool = False) -> list[str]:
    """Make the node, with what the rules will ask for."""
    plan = plan_of(op)
    first = "r0" if len(op.outputs) > 1 else "r"
    dtype = "dtype" if knows_dtype(op) and not inplace else f"{first}.dtype"
    lines = [
        "node = next(blank_nodes)",
        f"node._edges, node._cold = ({''.join(f'n{i}, ' for i in range(len(plan.edges)))}), None",
        f"node._g_shape, node._g_dtype = {first}.shape, {dtype}",
        *(f"node.s_{name} = {theirs(name)}" for name in plan.options),
    ]
    for name in plan.derived:
        owner, _, what = name.rpartition("_")
        place = [param.name for param in op.inputs].index(owner)
        value = f"a{place}.{'flags.f_contiguous' if what == 'turned' else what}"
        optional = op.inputs[place].kind == "optional"
        value = f"None if {theirs(owner)} is None else {value}" if optional else value
        lines.append(f"node.s_{name} = {value}")
    for param in plan.inputs:
        name = param.name
        packed = [f"node.s_{name}, node.s_{name}_v = p_{name}, v_{name}"]
        lines += packed if hooked else _kept(op, param, inplace=inplace)
    for name in plan.outputs:
        i = op.outputs.index(name) if len(op.outputs) > 1 else ""
        lines += [
            f"node.s_{name}, node.s_{name}_c = r{i}, result{i}._cell",
            f"node.s_{name}_v = result{i}._cell[0]",
        ]
    return [*lines, *([] if inplace else FRAME_LINES), *PLACED]


def _kept(op: Op, param: Param, *, inplace: bool) -> list[str]:
    """Keep an input, and its version, if an edge that leads somewhere has a rule that asks."""
    plan, name = plan_of(op), param.name
    users = plan.users(name)
    only = len(users) == len(plan.edges) == 1
    absent = "" if only else " and ".join(f"n{i} is None" for i in users)
    version = unless_absent(op, param, f"{param.local}._cell[0]", absent=absent)
    if inplace:
        version = "0" if param is op.inputs[0] else f"v_{name}"
        version = f"None if {absent} else {version}" if absent else version
    value = f"None if {absent} else {param.local}" if absent else param.local
    return [f"node.s_{name} = {value}", f"node.s_{name}_v = {version}"]


def packed_inputs(op: Op) -> list[str]:
    """What saved-tensor hooks make of inputs that a rule of an edge which leads somewhere asks for.

    Before anything is computed: a hook that raises leaves all as it was, and one that has seen
    enough saves the work.
    """
    plan, lines = plan_of(op), []
    for param in plan.inputs:
        name, x = param.name, param.local
        needed = " or ".join(f"n{i} is not None" for i in plan.users(name))
        place = f"edge_of({x}) if {x}._node.__class__ is View else {x}._node"
        lines += [
            f"p_{name}, v_{name} = {x} if {needed} else None, None",
            f"if isinstance(p_{name}, Tensor):",
            f"    p_{name} = pack(hooks, {x}, {place}, output=False)",
            f"    v_{name} = {x}._cell[0]",
        ]
    return lines


def packed_outputs(op: Op) -> list[str]:
    """The same of outputs, once they have their node."""
    lines = []
    for name in plan_of(op).outputs:
        result = f"result{op.outputs.index(name) if len(op.outputs) > 1 else ''}"
        lines += [
            f"node.s_{name} = packed = pack(hooks, {result}, None, output=True)",
            f"node.s_{name}_c = packed._cell",
        ]
    return lines


def recorder_lines(op: Op) -> list[str] | None:
    """A function of a result and the arguments by name that gives the result its node.

    It tells whether it could; None for operators that need more.
    """
    plan, number = plan_of(op), maybe_number(op)
    if not op.rules or op.kind == "view" or len(op.outputs) != 1 or plan.outputs:
        return None
    nowhere = ["result._node = None", "return True"]
    lines = [f"is_number = not isinstance({number.local}, Tensor)"] if number else []
    for name in [param.local for param in op.differentiable if param is not number]:
        no_tensor = f"{name} is not None and not isinstance({name}, Tensor)"
        lines += block(f"if {no_tensor}", ["return False"])
    lines += [
        *edge_lines(op),
        *block(f"if {_untracked(op)}", nowhere),
        *nowhere_lines(op, "return False"),
        "r, dtype = result._array, result._array.dtype",
        *block("if dtype.kind not in 'fcV'", nowhere),
    ]
    for i, param in enumerate(op.inputs):
        if param.name in {name.rpartition("_")[0] for name in plan.derived}:
            array = f"asarray(getattr({param.local}, '_array', {param.local}))"
            lines.append(f"a{i} = None if {param.local} is None else {array}")
    lines += [*node_lines(op), "result._node = node", "return True"]
    return block(f"def recorded(result, {arguments(op)})", lines)

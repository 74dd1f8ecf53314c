"""Writes the fast path of operators over sequences: `cat` takes many, `split` gives many.

As build.py, whose lines these are, but with loops over the sequence where that has names.
"""

from __future__ import annotations

from pullback.core.arrays import LIBRARIES
from pullback.operators.declare import Op
from pullback.operators.writing.plan import plan_of
from pullback.operators.writing.record import PLACED, UNRECORDED, edge_from, frame_lines
from pullback.operators.writing.view import VIEW_OF_MODE
from pullback.operators.writing.writer import indented, theirs


def takes_sequence(op: Op) -> bool:
    """Whether its one input is a sequence of tensors, of which its rules want shapes at most."""
    return (
        bool(op.rules)
        and [param.kind for param in op.inputs] == ["tensors"]
        and len(op.outputs) == 1
        and op.outputs != ("*",)
        and op.kind != "view"
        and not plan_of(op).inputs
        and not plan_of(op).outputs
    )


def gives_sequence(op: Op) -> bool:
    """Whether it gives any number of views of its one input."""
    return (
        op.kind == "view"
        and bool(op.rules)
        and op.outputs == ("*",)
        and op.strided
        and [param.kind for param in op.inputs] == ["tensor"]
        and not plan_of(op).inputs
        and not plan_of(op).outputs
    )


def sequence_line(op: Op, bail_out: str, call: str, node: list[str]) -> list[str]:
    """The function's body: `call` computes from `arrays`, `node` makes a node with edges."""
    name, local = op.inputs[0].name, op.inputs[0].local
    shapes = [f"node.s_{name}_shape = tuple([one.shape for one in arrays])"]
    return [
        "arrays = []",
        "try:",
        f"    for one in {local}:",  # up to 30 sooner done than a comprehension, which is a call
        "        arrays.append(one._plain)",
        "except BAIL_OUTS:",
        f"    {bail_out}",
        f"if not arrays or {_other_arrays()}:",
        f"    {bail_out}",
        "try:",
        f"    r = {call}",
        "except REFUSALS as error:",
        f"    raise explained(op, {{'{name}': arrays}}, error) from None",
        "if type(r) is not ndarray:",  # one of the others has no data
        f"    {bail_out}",
        "result = next(blanks)",
        "result._array = r",
        "result._cell = UNWRITTEN",
        "result._node = None",
        "if mode is not plain:",
        f"    result._cell = {UNRECORDED}",
        "    return result",
        f"cell = {local}[0]._cell",
        "alike = cell.__class__ is tuple",
        f"for one in {local}:",
        "    if one._node is not None:",
        "        break",
        "    known = one._cell",  # of notes of one class, as most have, the first counts
        "    if known is not cell and alike:",
        "        alike = known.__class__ is tuple and known[-1].__class__ is cell[-1].__class__",
        "else:",
        f"    result._cell = cell if alike else inherited(*{local})",
        "    return result",
        "edges = []",
        "tracked = False",
        f"for one in {local}:",
        "    edge = one._node",
        "    if edge is not None:",
        "        if edge._special:",
        "            data = edge.node is None is edge.base._node",
        "            edge = None if data else edge() or edge.edge(one)",
        "        if edge is not None:",
        "            tracked = True",
        "    edges.append(edge)",
        "if not tracked:",
        f"    result._cell = inherited(*{local})",
        "    return result",
        *node,
        *(shapes if f"{name}_shape" in plan_of(op).derived else []),
        "result._node = node",
        "return result",
    ]


def _other_arrays() -> str:
    """The condition on which one of them is no array of the usual type."""
    if not LIBRARIES:
        return "type(arrays[0]) is not ndarray"
    return "any([type(one) is not ndarray for one in arrays])"


def parts_line(
    op: Op, bail_out: str, normalised: list[str], call: str, node: list[str]
) -> list[str]:
    """The function's body for views of one input."""
    name, source = op.inputs[0].name, op.inputs[0].local
    return [
        "try:",
        f"    a0 = {source}._plain",
        "except BAIL_OUTS:",
        f"    {bail_out}",
        "if type(a0) is not ndarray:",
        f"    {bail_out}",
        *normalised,
        "try:",
        f"    arrays = {call}",
        "except REFUSALS as error:",
        f"    raise explained(op, {{'{name}': a0}}, error) from None",
        f"creation = MULTI_OUTPUT if mode is plain else {VIEW_OF_MODE}",
        *edge_from("edge", f"{source}._node if mode is plain else None", source),
        "node = None",
        "if edge is not None:",
        *indented(node),
        "    node._g_sizes = [(one.shape, one.dtype) for one in arrays]",
        f"cell = {source}._cell",
        f"of_base = cell is not INFERENCE_CELL and {source}._node.__class__ is not View",
        "if of_base and cell.__class__ is tuple:",
        f"    cell = {source}._cell = [*cell]",
        "made = []",
        "for one in arrays:",
        "    result = next(blanks)",
        "    result._array = one",
        "    if node is None:",
        "        edge = None",
        "    else:",
        "        edge = new(Output)",
        "        edge.node = node",
        "        edge.nr = len(made)",
        "        edge._g_shape = one.shape",
        "        edge._g_dtype = one.dtype",
        "    if of_base:",  # `attach` in line
        "        info = View()",
        f"        info.base = {source}",
        "        info.manner = creation.manner",
        "        info.node = edge",
        "        info.cell = result._cell = cell",
        "        info.version = cell[0]",
        "        result._node = info",
        "    else:",
        f"        attach(result, {source}, edge, None, creation)",
        "    made.append(result)",
        "return tuple(made)",
    ]


def sequence_node(op: Op, edges: str, like: str) -> list[str]:
    """Make the node, for gradients of the shape and dtype of an array."""
    return [
        "node = next(blank_nodes)",
        f"node._edges = {edges}",
        "node._cold = None",
        f"node._g_shape = {like}.shape",
        f"node._g_dtype = {like}.dtype",
        *(f"node.s_{name} = {theirs(name)}" for name in plan_of(op).options),
        *frame_lines(),
        *PLACED,
    ]

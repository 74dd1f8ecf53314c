"""Writes the fast path of operators over sequences: `cat` takes many, `split` gives many.

As build.py, whose lines these are, but with loops over the sequence where that has names.
"""

from __future__ import annotations

import re

from pullback.core.arrays import LIBRARIES
from pullback.core.writer import filled, theirs
from pullback.operators.declare import Op
from pullback.operators.plan import plan_of
from pullback.operators.writing import record, steps
from pullback.operators.writing.call import everything


def takes_sequence(op: Op) -> bool:
    """Whether its one input is a sequence of tensors, of which its rules want shapes at most."""
    joins = len(op.outputs) == 1 and op.outputs != ("*",) and op.kind != "view"
    return joins and [param.kind for param in op.inputs] == ["tensors"] and _saves_nothing(op)


def gives_sequence(op: Op) -> bool:
    """Whether it gives any number of views of its one input."""
    parts = op.kind == "view" and op.outputs == ("*",) and op.strided
    return parts and [param.kind for param in op.inputs] == ["tensor"] and _saves_nothing(op)


def _saves_nothing(op: Op) -> bool:
    return bool(op.rules) and not plan_of(op).inputs and not plan_of(op).outputs


def sequence_lines(op: Op) -> list[str]:
    """The function's body, once the mode is known."""
    takes = takes_sequence(op)
    node = [
        "node = next(blank_nodes)",
        f"node._edges, node._cold = {'tuple(edges)' if takes else '(edge,)'}, None",
        "node._g_shape, node._g_dtype = {0}.shape, {0}.dtype".format("r" if takes else "a0"),
        *(f"node.s_{one} = {theirs(one)}" for one in plan_of(op).options),
        *(
            f"node.s_{shapes} = tuple([one.shape for one in arrays])"
            for shapes in plan_of(op).derived
        ),
        *record.FRAME_LINES,
        *record.PLACED,
    ]
    source = op.inputs[0].local
    other = "any([type(one) is not ndarray for one in arrays])"
    bail_out = f"return call(op, {everything(op)})"
    computed = steps.tried_lines(op, [f"r = {steps.forward_call(op)[0]}"])
    return filled(
        _JOINED if takes else _PARTS,
        source=source,
        bail_out=bail_out,
        array=[] if takes else steps.array_lines(op, bail_out),
        other=other if LIBRARIES else "type(arrays[0]) is not ndarray",
        computed=[re.sub(r"\ba0\b", "arrays", line) for line in computed] if takes else computed,
        normalised=steps.normalised_lines(op),
        edge=record.edge_from("edge", f"{source}._node if mode is plain else None", source),
        edge_of_one=record.edge_from("edge", "one._node", "one"),
        node=node,
    )


# Up to 30 arrays a loop is sooner done than a comprehension, which is a call; of notes of one
# class, as most have, the first counts. Without an array of the usual type one has no data.
_JOINED = f"""
arrays = []
try:
    for one in {{source}}:
        arrays.append(one._plain)
except BAIL_OUTS:
    {{bail_out}}
if not arrays or {{other}}:
    {{bail_out}}
{{computed}}
if type(r) is not ndarray:
    {{bail_out}}
result = next(blanks)
result._array, result._cell, result._node = r, UNWRITTEN, None
if mode is not plain:
    result._cell = {record.UNRECORDED}
    return result
cell = {{source}}[0]._cell
alike = cell.__class__ is tuple
for one in {{source}}:
    if one._node is not None:
        break
    known = one._cell
    if known is not cell and alike:
        alike = known.__class__ is tuple and known[-1].__class__ is cell[-1].__class__
else:
    result._cell = cell if alike else inherited(*{{source}})
    return result
edges, tracked = [], False
for one in {{source}}:
    {{edge_of_one}}
    if edge is not None:
        tracked = True
    edges.append(edge)
if not tracked:
    result._cell = inherited(*{{source}})
    return result
{{node}}
result._node = node
return result
"""
# With `attach` in line for parts of what is no view itself.
_PARTS = f"""
{{array}}
if type(a0) is not ndarray:
    {{bail_out}}
{{normalised}}
{{computed}}
creation = MULTI_OUTPUT if mode is plain else {record.VIEW_OF_MODE}
{{edge}}
node = None
if edge is not None:
    {{node}}
    node._g_sizes = [(one.shape, one.dtype) for one in r]
cell = {{source}}._cell
of_base = cell is not INFERENCE_CELL and {{source}}._node.__class__ is not View
if of_base and cell.__class__ is tuple:
    cell = {{source}}._cell = [*cell]
made = []
for one in r:
    result = next(blanks)
    result._array = one
    edge = None
    if node is not None:
        edge = new(Output)
        edge.node, edge.nr = node, len(made)
        edge._g_shape, edge._g_dtype = one.shape, one.dtype
    if of_base:
        info = View()
        info.base, info.manner, info.node = {{source}}, creation.manner, edge
        info.cell = result._cell = cell
        info.version = cell[0]
        result._node = info
    else:
        attach(result, {{source}}, edge, None, creation)
    made.append(result)
return tuple(made)
"""

"""Writes what a call with `out=` does.

Where the operator is one array function, and `out` and the operands are of one shape and dtype and
have memory to themselves, that function writes there. All else goes step by step.
"""

from __future__ import annotations

from pullback.operators.declare import Op
from pullback.operators.writing.call import everything
from pullback.operators.writing.steps import MODE_LINES, array_lines, differs, fits, maybe_number
from pullback.operators.writing.writer import block, either, theirs

__all__ = ["with_out_lines"]


def with_out_lines(op: Op) -> list[str]:
    """The last lines of the rare form."""
    bail_out = [f"return call(op, {everything(op)})"]
    alike = all(param.kind == "tensor" for param in op.inputs)
    if not (fits(op) and op.kind == "elementwise" and alike):
        return bail_out
    out = theirs("out")
    operands = ", ".join(f"a{i}" for i in range(len(op.inputs)))
    return [
        *array_lines(op, bail_out[0]),
        *MODE_LINES,
        *block(
            f"if {out}.__class__ is not Tensor or type({out}._array) is not host_array", bail_out
        ),
        f"target = {out}._array",
        "dtype = target.dtype",
        *either(_other_targets(op, out), bail_out),
        *(line for i in range(len(op.inputs)) for line in either(_other_operands(op, i), bail_out)),
        f"ufunc({operands}, target)",
        f"bump({out}, called)",
        f"return {out}",
    ]


def _other_targets(op: Op, out: str) -> list[str]:
    """The conditions on which the target, the mode or an option takes a closer look."""
    return [
        "(mode is not plain and mode is not fast.no_grad)",
        "target.base is not None",
        "not target.ndim",
        "(dtype is not F32 and dtype is not F64)",
        f"{out}._cell is INFERENCE_CELL",
        f"(mode is plain and {out}._node is not None)",
        *(differs(param) for param in op.params if not param.is_tensor),
    ]


def _other_operands(op: Op, i: int) -> list[str]:
    """The conditions on which an operand does."""
    param = op.inputs[i]
    unlike = [
        f"type(a{i}) is not host_array",
        f"a{i}.base is not None",
        f"a{i}.shape != target.shape",
        f"(mode is plain and {param.local}._node is not None)",
    ]
    if param is maybe_number(op):
        unlike = [f"(not is_number and {one})" for one in unlike]
    return [f"a{i}.dtype is not dtype", *unlike]

"""Writes the form of an operator for calls with `out=`.

Where the operator is one array function, and `out` and the operands are of one shape and dtype and
have memory to themselves, that function writes there. All else goes step by step.
"""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from pullback.core.arrays import F32, F64
from pullback.core.mode import fast, get_mode
from pullback.core.tensor import Tensor
from pullback.core.version import INFERENCE_CELL
from pullback.operators.declare import Op
from pullback.operators.writing.call import arguments, everything
from pullback.operators.writing.steps import array_lines, differs, fits, maybe_number
from pullback.operators.writing.writer import block, theirs

__all__ = ["lines_of", "target_of"]


def lines_of(op: Op) -> list[str]:
    """The function: all parameters by place, and `out`."""
    out = theirs("out")
    leave = f"return call(op, {everything(op)})"
    head = f"def with_out({arguments(op)}, {out})"
    alike = all(param.kind == "tensor" for param in op.inputs)
    if not (fits(op) and op.kind == "elementwise" and alike):
        return block(head, [leave])
    options = [differs(param) for param in op.params if not param.is_tensor]
    number = maybe_number(op)
    given = [
        f"None if is_number else {param.local}" if param is number else param.local
        for param in op.inputs
    ]
    operands = ", ".join(f"a{i}" for i in range(len(op.inputs)))
    lines = [
        *array_lines(op, leave),
        f"target = target_of({out}, ({operands},), ({', '.join(given)},))",
        *block(f"if {' or '.join(['target is None', *options])}", [leave]),
        f"ufunc({operands}, target)",
        f"bump({out}, called)",
        f"return {out}",
    ]
    return block(head, lines)


def target_of(out: Any, arrays: tuple[Any, ...], tensors: tuple[Any, ...]) -> Any:
    """The array to write to, or None: it takes a closer look. A number has None for a tensor."""
    mode = get_mode()
    recording = mode is fast.plain
    if out.__class__ is not Tensor or not (recording or mode is fast.no_grad):
        return None
    target = out._array
    dtype = target.dtype
    if type(target) is not ndarray or target.base is not None or not target.ndim:
        return None
    if (dtype is not F32 and dtype is not F64) or out._cell is INFERENCE_CELL:
        return None
    if recording and out._node is not None:
        return None
    for array, tensor in zip(arrays, tensors, strict=True):
        if array.dtype is not dtype:
            return None
        if tensor is None:
            continue
        if type(array) is not ndarray or array.base is not None or array.shape != target.shape:
            return None
        if recording and tensor._node is not None:
            return None
    return target

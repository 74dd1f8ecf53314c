"""`out=` by the shortest way: one array function that writes where it is told.

For an elementwise operator that is a single array function, on tensors of one shape and dtype with
memory of their own, the target among them. What differs goes step by step, by `interpret.call`.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.arrays import F32, F64
from pullback.core.forward import LEVELS
from pullback.core.mode import Mode, fast
from pullback.core.tensor import Tensor
from pullback.core.version import INFERENCE_CELL, bump
from pullback.operators.declare import Op
from pullback.operators.writing.specialise import array_call

__all__ = ["written_straight"]

# Operator -> the array function that it is, or None, and the defaults of its options.
_functions: dict[Op, tuple[Any, dict[str, Any]]] = {}


def written_straight(
    op: Op, args: tuple[Any, ...], options: dict[str, Any], out: Any, mode: Mode
) -> bool:
    """Whether the call was as simple as that; then `out` is written."""
    plain = mode is fast.plain
    if LEVELS or not (plain or mode is fast.no_grad) or len(args) != len(op.inputs):
        return False
    function, defaults = _functions.get(op) or _function_of(op)
    if function is None:
        return False
    for name, value in options.items():
        if name not in defaults or value != defaults[name]:
            return False
    target = _own_array(out, plain)
    if target is None or not target.ndim or out._cell is INFERENCE_CELL:
        return False
    dtype, shape = target.dtype, target.shape
    if dtype is not F32 and dtype is not F64:
        return False
    arrays = []
    for one in args:
        array = _own_array(one, plain)
        if array is None or array.dtype is not dtype or array.shape != shape:
            return False
        arrays.append(array)
    function(*arrays, target)
    bump(out, op.name)
    return True


def _own_array(tensor: Any, plain: bool) -> Any:
    """The array of a tensor that shares it with nobody and, with grad mode on, has no history."""
    if tensor.__class__ is not Tensor or tensor._kind is not None:
        return None
    array = tensor._array
    if type(array) is not numpy.ndarray or array.base is not None:
        return None
    return None if plain and tensor._node is not None else array


def _function_of(op: Op) -> tuple[Any, dict[str, Any]]:
    """The array function whose result has the dtype of its operands; None: there is none."""
    name = array_call(op) if op.kind == "elementwise" and op.has_out else None
    function = None if name is None else getattr(numpy, name)
    if function is not None and "?" in {kinds[-1] for kinds in function.types[1:]}:
        function = None
    if not all(param.is_tensor or param.keyword_only for param in op.params):
        function = None
    defaults = {param.name: param.default for param in op.params if not param.is_tensor}
    _functions[op] = function, defaults
    return _functions[op]

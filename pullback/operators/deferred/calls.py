"""Operators that must know what is put off: views, writes and products.

Installed when the first conjugate is about to be made; all others read the array, see `tensor.py`.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.mode import Mode, get_mode
from pullback.core.tensor import CONJUGATED, NEGATED, Tensor, wrap
from pullback.operators.declare import Op
from pullback.operators.deferred import methods as _methods  # noqa: F401 (gives the class its own)
from pullback.operators.deferred.kernels import product
from pullback.operators.deferred.tensor import OWN, Deferred, lazily
from pullback.operators.deferred.writing import written
from pullback.operators.running import interpret, layouts
from pullback.operators.running.recording import pack_inputs

__all__ = ["install"]

# Views that no bit goes through.
_REFUSED = {"view_as_real": "resolve_conj", "view_as_complex": "resolve_neg"}


def install() -> None:
    """Let operators ask here."""
    if _handle not in layouts.HANDLERS:
        layouts.HANDLERS.append(_handle)


def _handle(op: Op, called: str, bound: dict[str, Any], out: Any) -> tuple[bool, Any]:
    mode = get_mode()
    if mode.levels or mode.dispatch or mode.tracing is not None:
        return False, None  # who is there takes the call, and comes back
    source = bound[op.inputs[0].name] if op.inputs else None
    if isinstance(source, Deferred) and called != op.name and called.endswith("_"):
        return True, written(op, called, source, bound)  # of calls, which tangents go through
    if mode.dual_depth:
        return False, None
    if isinstance(out, Deferred):
        return True, out.copy_(op.function(**bound))
    if op.kind == "view" and (isinstance(source, Deferred) or op in OWN):
        return _viewed(op, source, bound, mode)
    if op.name == "mm" and out is None:
        return _multiplied(op, bound, mode)
    return False, None


def _viewed(op: Op, source: Any, bound: dict[str, Any], mode: Mode) -> tuple[bool, Any]:
    """A view of the memory, with what its elements need then."""
    if not isinstance(source, Tensor) or type(source._raw) is not numpy.ndarray:
        return False, None
    options = {p.name: bound[p.name] for p in op.params if not p.is_tensor}
    memory, bits = source._raw, source._bits
    interpret.normalise(op, options, {"input": memory})
    if op in OWN:
        made = [lazily(memory, bits ^ OWN[op])]
    elif op.name in ("_real", "_imag"):
        made = [_part(op.name, memory, bits)]
    elif op.name in _REFUSED or options.get("dtype") is not None:
        how = _REFUSED.get(op.name, "resolve_conj")
        raise RuntimeError(
            f"{op.name.strip('_')}: the elements of this tensor are still to be conjugated or "
            f"negated, which numbers of another type do not show; call {how}() first."
        )
    else:
        arrays = interpret.outputs_of(op, op.forward(numpy, memory, **options))
        made = [lazily(array, bits) for array in arrays]
    values = {op.inputs[0].name: source}
    kept = pack_inputs(op, values) if mode.saved_hooks and mode.grad else None
    return True, interpret.finished(op, values, options, made, mode, kept)


def _part(name: str, memory: Array, bits: int) -> Tensor:
    if name == "_real":
        return lazily(memory.real, bits & NEGATED)
    return lazily(memory.imag, NEGATED if bits in (CONJUGATED, NEGATED) else 0)


def _multiplied(op: Op, bound: dict[str, Any], mode: Mode) -> tuple[bool, Any]:
    """A product of matrices, the conjugates of which are a flag to BLAS."""
    values = {p.name: bound[p.name] for p in op.inputs}
    sides = list(values.values())
    if not all(isinstance(one, Tensor) for one in sides):
        return False, None
    if not any(isinstance(one, Deferred) for one in sides):
        return False, None
    array = product(*((one._raw, one._bits) for one in sides))
    if array is None:
        return False, None
    kept = pack_inputs(op, values) if mode.saved_hooks and mode.grad else None
    return True, interpret.finished(op, values, {}, [wrap(array)], mode, kept)

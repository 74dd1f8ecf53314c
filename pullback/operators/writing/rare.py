"""What written functions hand a call to that has something rare about it: one form for all.

Too many arguments, somebody who looks on, NumPy's names for options, `out=`. What is left then goes
step by step, but for `out=` of one array function: where target and operands are of one shape and
dtype and have memory to themselves, that function writes there.
"""

from __future__ import annotations

from typing import Any

from pullback.core.version import bump
from pullback.core.writer import block, define, either, theirs
from pullback.operators.declare import REQUIRED, Op
from pullback.operators.dispatch.observers import observed, observers
from pullback.operators.options import UNFILLED, numbers_between, respelled
from pullback.operators.writing.call import added, all_names, beyond, optional_by_spelling
from pullback.operators.writing.steps import MODE_LINES, array_lines, differs, fits, maybe_number

__all__ = ["rare_form"]


def rare_form(op: Op, scope: dict[str, Any], kind: str, *, out: bool) -> Any:
    """The form for a function whose globals are `scope`; it takes all parameters by place.

    Of the kind `unwatched` it does not ask who looks on, a `sign` has none but its operands.
    """
    out = out and kind != "sign"
    first, watched = len(op.positional), kind != "unwatched"
    last = first + len([] if kind == "sign" else beyond(op, out=out))
    named = [param.name for param in op.params if param.keyword_only] + added(op) * out
    spelled = [op.positional.index(name) for name in optional_by_spelling(op)] * out
    tensors = [op.positional.index(p.name) for p in op.inputs if not p.keyword_only]

    def rare(*values: Any) -> Any:
        args, kwargs = values[:first], dict(zip(named, values[last:], strict=True))
        called, unfilled = scope["called"], first == last or values[first] is UNFILLED
        if unfilled and watched and observers.active is not None:
            operands = tuple([args[place] for place in tensors])
            return observed(op, called, scope["unwatched"], args, kwargs, operands)
        renamed = {name: kwargs.pop(name) for name in op.spellings} if out else {}
        if not unfilled:
            return numbers_between(op, called, values[:last], kwargs)
        missing = [place for place in spelled if args[place] is REQUIRED]
        if missing or any(one is not None for one in renamed.values()):
            return respelled(op, args, {**renamed, **kwargs})
        return scope["call"](op, args, kwargs)

    fills = fits(op) and op.kind == "elementwise" and len(op.inputs) == first < last
    return _filling(op, scope, rare) if fills and watched and named[-1:] == ["out"] else rare


def _filling(op: Op, scope: dict[str, Any], rare: Any) -> Any:
    """The form of what is one array function, which may write into `out`; `rare` does the rest."""
    out, names, number = theirs("out"), all_names(op), maybe_number(op)
    bail_out = [f"return rare({names})"]
    unlike = ["(dtype is not F32 and dtype is not F64)", f"{out}._cell is INFERENCE_CELL"]
    unlike += [differs(param) for param in op.params if not param.is_tensor]
    for array, param in [("target", None), *((f"a{i}", one) for i, one in enumerate(op.inputs))]:
        known = out if param is None else param.local
        conditions = [
            *(f"type({array}) is not host_array", f"{array}.base is not None"),
            "not target.shape" if param is None else f"{array}.shape != target.shape",
            f"(mode is plain and {known}._node is not None)",
        ]
        if param is not None:
            unlike.append(f"{array}.dtype is not dtype")
        if number is not None and param is number:
            conditions = [f"(not is_number and {one})" for one in conditions]
        unlike += conditions
    lines = [
        *either(
            ["more is not UNFILLED", "observers.active is not None", f"{out} is None"], bail_out
        ),
        *array_lines(op, bail_out[0]),
        *MODE_LINES,
        *either([f"{out}.__class__ is not Tensor", _OTHER_MODE], bail_out),
        f"target, dtype = {out}._array, {out}._array.dtype",
        *either(unlike, bail_out),
        f"ufunc({', '.join(f'a{i}' for i in range(len(op.inputs)))}, target)",
        f"bump({out}, called)",
        f"return {out}",
    ]
    names_in_it = {**scope, "rare": rare, "bump": bump}
    return define(block(f"def filling({names})", lines), names_in_it, f"{op.name}, into out")


_OTHER_MODE = "(mode is not plain and mode is not fast.no_grad)"

"""What written functions hand a call to that has something rare about it: one form for all.

Too many arguments, somebody who looks on, NumPy's names for options, `out=`. What is left then goes
step by step, but for `out=` of one array function: where target and operands are of one shape and
dtype and have memory to themselves, that function writes there.
"""

from __future__ import annotations

from typing import Any

from pullback.core.writer import block, define, filled, theirs
from pullback.operators.declare import REQUIRED, Op
from pullback.operators.dispatch.observers import observed, observers
from pullback.operators.options import UNFILLED, numbers_between, respelled
from pullback.operators.parameters import added, beyond, optional_by_name
from pullback.operators.writing.call import all_names
from pullback.operators.writing.inplace import counted_lines
from pullback.operators.writing.record import called_from
from pullback.operators.writing.steps import array_lines, arrays_of, differs, fits, of_tensor

__all__ = ["rare_form"]


def rare_form(op: Op, scope: dict[str, Any], kind: str, *, out: bool) -> Any:
    """The form for a function whose globals are `scope`; it takes all parameters by place.

    Of the kind `unwatched` it does not ask who looks on, a `sign` has none but its operands.
    """
    out, inplace = out and kind != "sign", not out
    first, watched = len(op.positional), kind != "unwatched"
    places = [] if kind == "sign" else beyond(op, out=out)
    last = first + len(places)
    named = [param.name for param in op.params if param.keyword_only]
    named += [] if kind == "sign" else added(op, out=out)
    spelled = [op.positional.index(name) for name in optional_by_name(op, out=out)]
    tensors = [op.positional.index(p.name) for p in op.inputs if not p.keyword_only]
    names = {**op.spellings, **op.operand_names}
    own = [(name, last + i) for i, name in enumerate(named) if name not in names]
    others = [(name, last + i) for i, name in enumerate(named) if name in names]
    # The first place beyond the last has another name of an operand, which is absent then.
    alias = places[0].lstrip("$") if places else ""
    operand = op.positional.index(names[alias]) if alias in names else None

    def rare(*values: Any) -> Any:
        args, kwargs = values[:first], {name: values[place] for name, place in own}
        called, unfilled = scope["called"], first == last or values[first] is UNFILLED
        renamed = {name: values[place] for name, place in others if values[place] is not None}
        if not unfilled and operand is not None and args[operand] is REQUIRED:
            renamed[alias], unfilled = values[first], True
        if not unfilled:
            return numbers_between(op, called, values[:last], kwargs)
        if renamed or [place for place in spelled if args[place] is REQUIRED]:
            return respelled(op, called, args, renamed, kwargs, inplace=inplace)
        if watched and observers.active is not None:
            operands = tuple([args[place] for place in tensors])
            return observed(op, called, scope["unwatched"], args, kwargs, operands)
        return scope["call"](op, args, kwargs)

    fills = fits(op) and op.kind == "elementwise" and len(op.inputs) == first < last
    fills = fills and op.has_out and out and not op.spellings
    return _filling(op, scope, rare) if fills and watched else rare


# Whatever is not the plain case is left to `rare`, which does all cases.
_FILLING = """
if {named} or {out}.__class__ is not Tensor:
    {rare}
{arrays}
mode, plain = get_mode(), fast.plain
target, cell = {out}._array, {out}._cell
dtype, shape = target.dtype, target.shape
if type(target) is not host_array or target.base is not None or cell is INFERENCE_CELL:
    {rare}
if not shape or (dtype is not F32 and dtype is not F64){options}:
    {rare}
{unlike}
if mode is plain:
    if {recorded}:
        {rare}
elif mode is not fast.no_grad:
    {rare}
ufunc({given}, target)
{counted}
return {out}
"""


def _filling(op: Op, scope: dict[str, Any], rare: Any) -> Any:
    """The form of what is one array function, which may write into `out`; `rare` does the rest."""
    out, names = theirs("out"), all_names(op)
    bail_out = f"return rare({names})"
    unlike: list[str] = []
    recorded = [f"{out}._node is not None"]
    for i, param in enumerate(op.inputs):
        other = f"type(a{i}) is not host_array or a{i}.base is not None or a{i}.shape != shape"
        other = of_tensor(op, param, f"({other})")
        unlike += block(f"if a{i}.dtype is not dtype or {other}", [bail_out])
        recorded.append(of_tensor(op, param, f"{param.local}._node is not None"))
    differing = [f" or {differs(param)}" for param in op.params if not param.is_tensor]
    named = [f"{beyond(op)[0]} is not observers.unfilled"]
    named += [f"{theirs(name)} is not None" for name in added(op) if name != "out"]
    lines = filled(
        _FILLING,
        out=out,
        named=" or ".join(named),
        rare=bail_out,
        arrays=array_lines(op, bail_out),
        options="".join(differing),
        unlike=unlike,
        recorded=" or ".join(recorded),
        given=arrays_of(op),
        # The user called the function that calls this.
        counted=called_from(2, counted_lines(out)),
    )
    title = f"{op.name}, into out"
    return define(block(f"def filling({names})", lines), {**scope, "rare": rare}, title)

"""Writes the first steps of a fast path: from the arguments of a call to its result's array.

The function and its in-place form share them.
"""

from __future__ import annotations

import numpy

from pullback.core.arrays import LIBRARIES
from pullback.core.writer import block, filled, theirs
from pullback.operators.arrays.large import is_elementwise
from pullback.operators.arrays.threads import setting
from pullback.operators.declare import Op, Param
from pullback.operators.options import NORMALISE, TYPED
from pullback.operators.plan import plan_of
from pullback.operators.running.on_arrays import array_call, float_call

# Under transforms and hooks `mode` is none of these; most calls ask no more than the first.
UNUSUAL_MODE = "mode is not plain and mode not in fast.others"
MODE_LINES = ["mode, plain = get_mode(), fast.plain"]


def has_fast_path(op: Op) -> bool:
    """Whether the operator is simple enough to be written out."""
    return (
        not op.makes_layout
        and all(param.kind != "tensors" for param in op.params)
        and op.outputs != ("*",)
        and (op.kind != "view" or (op.strided and len(op.outputs) == 1))
    )


def array_lines(op: Op, bail_out: str, *, mixed: bool = False) -> list[str]:
    """The arrays of the inputs; what is no tensor leaves the fast path.

    A number takes the dtype of the first operand, if that is float32, float64, or int64 as it is.
    Where `mixed_lines` follow, one that wants another dtype is left to them.
    """
    lines, number = [], maybe_number(op)
    for i, param in enumerate(op.inputs):
        name, take = param.local, f"{param.local}._plain"
        if param is number:
            known = f"(type({name}) is float or type({name}) is int)"
            lines.append(f"is_number = type({name}) is not Tensor and {known}")
            take = f"numbers[a0.dtype][{name}] if is_number else {take}"
        elif param.kind == "optional":
            take = f"None if {name} is None else {take}"
        lines.append(f"a{i} = {take}")
    lines = [*block("try", lines), *block("except BAIL_OUTS", [bail_out])]
    if number is not None and not mixed:
        lines += block(f"if a{op.inputs.index(number)} is LOOSE", [bail_out])
    return lines


def arrays_of(op: Op) -> str:
    """The arrays of the inputs, as arguments."""
    return ", ".join(f"a{i}" for i in range(len(op.inputs)))


def values_of(op: Op) -> list[tuple[Param, str]]:
    """All parameters with their values as kernels take them: arrays, and options as they are."""
    arrays = iter(arrays_of(op).split(", "))
    return [(param, next(arrays) if param.is_tensor else param.local) for param in op.params]


def maybe_number(op: Op) -> Param | None:
    """The input that may be a Python number without leaving the fast path."""
    last = op.inputs[-1] if len(op.inputs) > 1 else None
    if last is None or last.name not in op.number_names:
        return None
    if op.promote is not None:
        return last if op.kind == "elementwise" and len(op.inputs) == 2 else None
    return last if last.kind == "tensor" and last.name in op.rules else None


def of_tensor(op: Op, param: Param, claim: str, value: str = "") -> str:
    """A claim about a tensor, which a number does not make, nor a `value` that is not given."""
    absent = "not is_number and " if param is maybe_number(op) else ""
    absent = f"{value} is not None and " if value and param.kind == "optional" else absent
    return f"({absent}{claim})" if absent else claim


def takes_mixed(op: Op) -> bool:
    """Whether operands of several dtypes are brought to one on the fast path."""
    return op.promote is not None and all(param.kind == "tensor" for param in op.inputs)


def knows_dtype(op: Op) -> bool:
    """Whether the fast path knows the dtype of its result as that of the first operand."""
    return takes_mixed(op) and len(op.inputs) > 1 and fits(op)


_MIXED = """
if {differ}:
    if (operands := brought(op, {given})) is None:
        {bail_out}
    {arrays}= operands
    {again}
"""


def mixed_lines(op: Op, bail_out: str) -> list[str]:
    """Bring operands to the dtype that torch computes in, where they are not of one."""
    differ, number = " or ".join(_other_dtypes(op)), maybe_number(op)
    given = ", ".join(
        f"{param.local} if is_number else a{i}" if param is number else f"a{i}"
        for i, param in enumerate(op.inputs)
    )
    arrays = f"{arrays_of(op)}, "
    again = []
    if knows_dtype(op):
        differ, again = differ.replace("a0.dtype", "(dtype := a0.dtype)", 1), ["dtype = a0.dtype"]
    if not differ:
        return []
    return filled(_MIXED, differ=differ, given=given, bail_out=bail_out, arrays=arrays, again=again)


def _other_dtypes(op: Op) -> list[str]:
    """The conditions on which required inputs are not of one dtype that can be computed in."""
    conditions = [
        f"a0.dtype is not a{i}.dtype"
        for i, param in enumerate(op.inputs)
        if i and param.kind == "tensor"
    ]
    if op.promote == "float":
        # To be one of two objects takes half of the time of looking at the kind.
        known = "a0.dtype is not F32 and a0.dtype is not F64"
        conditions.append(f"({known} and a0.dtype.kind not in 'fcVW')")
    return conditions


def saves_tensors(op: Op) -> bool:
    """Whether its nodes keep values that saved-tensor hooks would see."""
    return bool(op.rules) and bool(plan_of(op).inputs or plan_of(op).outputs)


def fits(op: Op) -> bool:
    """Whether the forward is one array function whose result has the dtype of its inputs."""
    direct = array_call(op)
    return direct is not None and "?" not in {t[-1] for t in getattr(numpy, direct).types[1:]}


def not_plain(op: Op, *, inplace: bool = False, mixed: bool = False) -> list[str]:
    """The conditions, besides the mode, on which a call leaves the fast path."""
    conditions = []
    if op.promote is not None and not mixed:
        conditions += _other_dtypes(op)
        if maybe_number(op) is not None:  # which was brought to the dtype
            conditions[0] = f"(not is_number and {conditions[0]})"
        optional = [(f"a{i}", one) for i, one in enumerate(op.inputs) if one.kind == "optional"]
        conditions += [of_tensor(op, one, f"a0.dtype is not {a}.dtype", a) for a, one in optional]
    if LIBRARIES:
        conditions += [other_arrays(op)] * inplace  # an in-place form has one way out
    elif array_call(op) is None:
        conditions.append("type(a0) is not ndarray")
    return conditions


def other_arrays(op: Op) -> str:
    """The condition on which an operand is no array of the usual type."""
    numbered = enumerate(op.inputs)
    claims = [of_tensor(op, one, f"type(a{i}) is not ndarray", f"a{i}") for i, one in numbered]
    return " or ".join(claims)


def normalised_lines(op: Op) -> list[str]:
    """Dims and shapes brought to one form, flags looked at. Most are right: a call takes 0.1 us."""
    lines = []
    for param in op.params:
        if param.check not in NORMALISE:
            continue
        name = param.local
        inside = f"{name}.__class__ is int and 0 <= {name} < a0.ndim"
        ints = f"{name}[0].__class__ is int and {name}[-1].__class__ is int"
        short = f"{name}.__class__ is tuple and 0 < len({name}) < 3 and {ints}"
        checked = f"as_{param.check}({name}, a0.ndim, {op.name!r})"
        unusual = {"dim": f"not ({inside})", "shape": f"not ({short})"}
        unusual |= dict.fromkeys(("dims", "optional_dim"), f"{name} is not None")
        if param.check == "dims":
            checked = f"({name}, ) if {inside} else {checked}"
        checks = [f"{name} = {checked}"]
        known = unusual.get(param.check)
        lines += block(f"if {known}", checks) if known else checks
    for param in op.flags:
        name, usual = param.local, param.default
        unknown = f"if {name} is not {usual} and {name} is not {not usual}"
        lines += block(unknown, [f"as_bool({name}, {op.name!r}, {param.name!r})"])
    for given, kind in op.typed.items():
        looked = TYPED[kind]
        own = theirs(given)
        plain = f"{own} = {looked.check.__name__}({own}, {op.name!r}, {given!r})"
        lines += block(f"if {looked.unlike.format(own)}", [plain])
    return lines


def forward_call(op: Op) -> tuple[str, str]:
    """The forward as a call with all options, and as the array function it is at their defaults."""
    arguments = arrays_of(op)
    named = [f"{p.name}={value}" if p.keyword_only else value for p, value in values_of(op)]
    general = f"forward(numpy, {', '.join(named)})"
    unusual = [differs(param) for param in op.params if not param.is_tensor]
    if float_call(op):
        usual = ["(a0.dtype is F32 or a0.dtype is F64)", *(f"not ({one})" for one in unusual)]
        return general, f"of_floats({arguments}) if {' and '.join(usual)} else {general}"
    if not array_call(op):
        return general, general
    direct = f"ufunc({arguments})"
    if asks_for_size(op):
        direct += f" if a0.size < LARGE else large(ufunc, {arguments})"
    return general, f"{general} if {' or '.join(unusual)} else {direct}" if unusual else direct


def asks_for_size(op: Op) -> bool:
    """Whether large arrays are shared out among threads: if the forward is one array function."""
    name = array_call(op)
    return setting.splits and name is not None and is_elementwise(getattr(numpy, name))


def differs(param: Param) -> str:
    """The condition on which an option is not at its default.

    An int by identity: a tensor, True or 1.0 equals 1, and is looked at by the forward.
    """
    compared = "is not" if type(param.default) is int else "!="
    return f"{param.local} {compared} default_{param.name}"


def computed_lines(op: Op, usual: str = "") -> list[str]:
    """The result, or the error explained; `usual` is an expression for most arguments."""
    usual = usual or op.inline
    if not usual:
        return tried_lines(op, [f"r = {forward_call(op)[1]}"])
    asked = block("except (IndexError, TypeError, ValueError)", [f"r = {forward_call(op)[0]}"])
    return tried_lines(op, [*block("try", [f"r = {usual}"]), *asked])


def tried_lines(op: Op, lines: list[str], *more: str) -> list[str]:
    """Lines that compute; what they refuse is explained, by the operands and `more`."""
    operands = ", ".join(f"'{param.name}': a{i}" for i, param in enumerate(op.inputs))
    explained = f"explained({', '.join(['op', f'{{{operands}}}', 'error', *more])})"
    return [
        *block("try", lines),
        *block("except REFUSALS as error", [f"raise {explained} from None"]),
    ]

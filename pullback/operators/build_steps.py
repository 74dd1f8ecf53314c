"""Writes the first steps of a straight line: from the arguments of a call to its result's array.

The function and its in-place form share them.
"""

from __future__ import annotations

from pullback.operators.declare import Op, Param
from pullback.operators.options import NORMALISE
from pullback.operators.specialise import array_call


def has_straight_line(op: Op) -> bool:
    """Whether the operator is simple enough to be written out."""
    return (
        all(param.kind != "tensors" for param in op.params)
        and op.outputs != ("*",)
        and (op.kind != "view" or (op.strided and len(op.outputs) == 1))
    )


def array_lines(op: Op, leave: str) -> list[str]:
    """The arrays of the inputs; what is no tensor leaves the straight line."""
    lines = ["    try:"]
    for i, param in enumerate(op.inputs):
        numbers = param is maybe_number(op)
        lines += ["        " + line for line in _array_of(i, param, leave, numbers=numbers)]
    return [*lines, "    except AttributeError:", f"        {leave}"]


def _array_of(i: int, param: Param, leave: str, *, numbers: bool) -> list[str]:
    take = f"a{i} = {param.name}._array"
    if param.kind == "optional":
        return [f"a{i} = None if {param.name} is None else {param.name}._array"]
    if not numbers:
        return [take]
    # A number takes the dtype of the other operand if that is float32 or float64.
    return [
        f"kind = type({param.name})",
        "is_number = kind is float or kind is int",
        "if is_number:",
        "    d0 = a0.dtype",
        f"    a{i} = numbers64.get({param.name}) if d0 is F64 else numbers32.get({param.name})",
        f"    if a{i} is None or (d0 is not F64 and d0 is not F32):",
        "        if d0 is not F64 and d0 is not F32:",
        f"            {leave}",
        f"        a{i} = number_array({param.name}, d0)",
        "else:",
        f"    {take}",
    ]


def maybe_number(op: Op) -> Param | None:
    """The input that may be a Python number without leaving the straight line."""
    if op.promote is not None:
        return op.inputs[1] if op.kind == "elementwise" and len(op.inputs) == 2 else None
    last = op.inputs[-1]
    allowed = op.numbers and len(op.inputs) > 1 and last.kind == "tensor" and last.name in op.rules
    return last if allowed else None


def not_plain(op: Op, *, out: bool = True) -> str:
    """The condition on which a call leaves the straight line."""
    # In inference mode and under transforms `mode` is neither of the two.
    conditions = ["(mode is not plain and mode is not fast.no_grad)"]
    if op.kind == "view":
        conditions = ["mode is not plain"]  # views made under no_grad are of a kind of their own
    if op.has_out and out:
        conditions.append("out is not None")
    required = [i for i, param in enumerate(op.inputs) if param.kind == "tensor"]
    if op.promote is not None:
        dtype = "a0.dtype"
        conditions += [f"{dtype} is not a{i}.dtype" for i in required[1:]]
        if len(op.inputs) > len(required):
            conditions += [
                f"(a{i} is not None and {dtype} is not a{i}.dtype)"
                for i, param in enumerate(op.inputs)
                if param.kind == "optional"
            ]
        if op.promote == "float":
            conditions.append("a0.dtype.kind not in 'fcV'")
    if array_call(op) is None:
        conditions.append("type(a0) is not ndarray")
    return " or ".join(conditions)


def normalised_lines(op: Op) -> list[str]:
    """Dims and shapes brought to one form. Most are right as they are: a call takes 0.1 us."""
    lines = []
    for param in op.params:
        if param.check not in NORMALISE:
            continue
        name = param.name
        inside = f"{name}.__class__ is int and 0 <= {name} < a0.ndim"
        checked = f"as_{param.check}({name}, a0.ndim, {op.name!r})"
        if param.check == "dim":
            lines += [f"    if not ({inside}):", f"        {name} = {checked}"]
        elif param.check == "dims":
            lines += [
                f"    if {name} is not None:",
                f"        {name} = ({name}, ) if {inside} else {checked}",
            ]
        else:
            lines.append(f"    {name} = {checked}")
    return lines


def forward_call(op: Op) -> tuple[str, str]:
    """The forward as a call with all options, and as the array function it is at their defaults."""
    arguments = ", ".join(f"a{i}" for i in range(len(op.inputs)))
    options = [param for param in op.params if not param.is_tensor]
    named = []
    number = iter(range(len(op.inputs)))
    for param in op.params:
        value = f"a{next(number)}" if param.is_tensor else param.name
        named.append(f"{param.name}={value}" if param.keyword_only else value)
    general = f"forward(numpy, {', '.join(named)})"
    if not array_call(op):
        return general, general
    unusual = " or ".join(f"{p.name} != default_{p.name}" for p in options)
    return general, (
        f"{general} if {unusual} else ufunc({arguments})" if unusual else f"ufunc({arguments})"
    )


def computed_lines(op: Op) -> list[str]:
    """The result, or the error explained."""
    call = forward_call(op)[1]
    shown = ", ".join(f"'{param.name}': a{i}" for i, param in enumerate(op.inputs))
    return [
        "    try:",
        f"        r = {call}",
        "    except (ValueError, TypeError) as error:",
        f"        raise explained(op, {{{shown}}}, error) from None",
    ]

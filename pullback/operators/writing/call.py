"""The parameters of written functions: as they are defined, and as they are handed on."""

from __future__ import annotations

from pullback.core.writer import block, either, theirs
from pullback.operators.declare import REQUIRED, Op, Param
from pullback.operators.parameters import added, beyond, optional_by_name


def signature_of(op: Op, *, out: bool = True, sign: bool = False) -> str:
    """The parameters as they stand in a `def`.

    Keywords of Python's own take it a twentieth of a short call longer to fill in than parameters
    that may come by place. So they are such, behind places that are not to be filled: who fills one
    has called rarely. A `sign` never has more than its operands.
    """
    spelled = [] if sign else optional_by_name(op, out=out)

    def parameter(param: Param) -> str:
        if param.name in spelled:
            return f"{param.local}=REQUIRED"
        return param.local if param.default is REQUIRED else f"{param.local}=default_{param.name}"

    parts = [parameter(param) for param in op.params if not param.keyword_only]
    if any(param.keyword_only and param.default is REQUIRED for param in op.params):
        parts.append("*")
    elif not sign:
        parts += [f"{name} = UNFILLED" for name in beyond(op, out=out)]  # `more` is a name of ours
    parts += [parameter(param) for param in op.params if param.keyword_only]
    others = [] if sign else added(op, out=out)
    return ", ".join([*parts, *(f"{theirs(name)}=None" for name in others)])


def rare_lines(op: Op, *, watched: bool, out: bool = True, sign: bool = False) -> list[str]:
    """Leave for the form that looks at what is rare (rare.py): too many arguments, `out=`.

    And at who looks on, where that is asked. A `sign` has operands alone.
    """
    conditions = ["observers.active is not None"] if watched else []
    if sign:
        return either(conditions, [f"return forms['sign']({arguments(op)})"])
    if places := beyond(op, out=out):
        conditions = [f"{places[0]} is not {'observers.unfilled' if watched else 'UNFILLED'}"]
    conditions += [f"{theirs(name)} is not None" for name in added(op, out=out)]
    # Tensors and dims that are missing are noticed where they are looked at.
    absent = [p for p in op.params if p.name in optional_by_name(op, out=out)]
    conditions += [f"{p.local} is REQUIRED" for p in absent if p.kind == "option"]
    form = "rare" if watched else "unwatched"
    leave = [f"return forms[{form!r}]({all_names(op, out=out)})"]
    return block(f"if {' or '.join(conditions)}", leave) if conditions else []


def all_names(op: Op, *, out: bool = True) -> str:
    """The parameters of a function, by place."""
    names = [param.local for param in op.params if not param.keyword_only]
    names += beyond(op, out=out)
    names += [param.local for param in op.params if param.keyword_only]
    return ", ".join([*names, *map(theirs, added(op, out=out))])


def by_name(names: list[str]) -> str:
    """Variables as the inside of a dict."""
    return "".join(f"'{name}': {theirs(name)}, " for name in names)


def arguments(op: Op) -> str:
    """All parameters, one by one and by place."""
    return ", ".join(param.local for param in op.params)


def everything(op: Op) -> str:
    """All parameters as the arguments of `call(op, ...)`: a tuple and a dict."""
    args = "".join(f"{param.local}, " for param in op.params if not param.keyword_only)
    return f"({args}), {{{by_name([param.name for param in op.params if param.keyword_only])}}}"

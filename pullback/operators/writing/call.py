"""The parameters of written functions: as they are defined, and as they are handed on."""

from __future__ import annotations

from pullback.core.writer import either, theirs
from pullback.operators.declare import REQUIRED, Op, Param


def signature_of(op: Op, *, out: bool = True, sign: bool = False) -> str:
    """The parameters as they stand in a `def`.

    Keywords of Python's own take it a twentieth of a short call longer to fill in than parameters
    that may come by place. So they are such, behind places that are not to be filled: who fills one
    has called rarely. A `sign` never has more than its operands.
    """
    spelled = optional_by_spelling(op) if out else []

    def parameter(param: Param) -> str:
        if param.name in spelled:
            return f"{param.local}=REQUIRED"
        return param.local if param.default is REQUIRED else f"{param.local}=default_{param.name}"

    parts = [parameter(param) for param in op.params if not param.keyword_only]
    if any(param.keyword_only and param.default is REQUIRED for param in op.params):
        parts.append("*")
    elif not sign:
        parts += [f"{name} = UNFILLED" for name in beyond(op, out=out)]  # a name of ours
    parts += [parameter(param) for param in op.params if param.keyword_only]
    return ", ".join([*parts, *(f"{theirs(name)}=None" for name in added(op) * out)])


def beyond(op: Op, *, out: bool = True) -> list[str]:
    """The places after the last that may be filled: one more than numbers stood there once."""
    keywords = [param for param in op.params if param.keyword_only]
    if any(param.default is REQUIRED for param in keywords) or not (keywords or added(op) * out):
        return []
    return ["more", *(f"more{i}" for i, _ in enumerate(op.once_positional, 2))]


def added(op: Op) -> list[str]:
    """Keywords that a function has besides the parameters of its declaration."""
    return [*(["out"] if op.has_out else []), *op.spellings]


def optional_by_spelling(op: Op) -> list[str]:
    """Required parameters that may stay away, since `axis` is given: `dim`, and those after it."""
    if "axis" not in op.spellings:
        return []
    following = op.params[[param.name for param in op.params].index("dim") :]
    return [p.name for p in following if p.default is REQUIRED and not p.keyword_only]


def rare_lines(op: Op, *, watched: bool, out: bool = True, sign: bool = False) -> list[str]:
    """Leave for the form that looks at what is rare (rare.py): too many arguments, `out=`.

    And at who looks on, where that is asked. A `sign` has operands alone.
    """
    conditions = ["observers.active is not None"] if watched else []
    if sign:
        return either(conditions, [f"return forms['sign']({arguments(op)})"])
    conditions += ["more is not UNFILLED"] if beyond(op, out=out) else []
    if out:
        conditions += [f"{theirs(name)} is not None" for name in added(op)]
        spelled = optional_by_spelling(op)
        ends = dict.fromkeys((*spelled[:1], *spelled[-1:]))
        conditions += [f"{theirs(name)} is REQUIRED" for name in ends]
    form = "rare" if watched else "unwatched"
    return either(conditions, [f"return forms[{form!r}]({all_names(op, out=out)})"])


def all_names(op: Op, *, out: bool = True) -> str:
    """The parameters of a function, by place."""
    names = [param.local for param in op.params if not param.keyword_only]
    names += beyond(op, out=out)
    names += [param.local for param in op.params if param.keyword_only]
    return ", ".join([*names, *map(theirs, added(op) * out)])


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

"""The parameters of written functions: as they are defined, and as they are handed on."""

from __future__ import annotations

from pullback.operators.declare import REQUIRED, Op, Param
from pullback.operators.writing.writer import block, either, theirs


def signature_of(op: Op, *, out: bool = True, sign: bool = False) -> str:
    """The parameters as they stand in a `def`.

    Keywords of Python's own take it a twentieth of a short call longer to fill in than parameters
    that may come by place. So they are such, behind places that are not to be filled: whoever
    fills one leaves at `beyond_lines`. A `sign` never has more than its operands.
    """
    spelled = _optional_by_spelling(op) if out else []
    parts = [_parameter(param, spelled) for param in op.params if not param.keyword_only]
    given = [param for param in op.params if param.keyword_only]
    keywords = [_parameter(param, spelled) for param in given]
    if out:
        keywords += [f"{theirs(name)}=None" for name in _added(op)]
    if any(param.default is REQUIRED for param in given):
        parts.append("*")
    elif keywords and not sign:
        parts += [f"{name} = UNFILLED" for name in _beyond(op)]  # a name of ours, to the writer
    return ", ".join([*parts, *keywords])


def _beyond(op: Op) -> list[str]:
    """The places after the last that may be filled: one more than numbers stood there once."""
    return ["more", *(f"more{i}" for i, _ in enumerate(op.once_positional, 2))]


def _added(op: Op) -> list[str]:
    """Keywords that a function has besides the parameters of its declaration."""
    return [*(["out"] if op.has_out else []), *op.spellings]


def _parameter(param: Param, spelled: list[str]) -> str:
    if param.name in spelled:
        return f"{param.local}=REQUIRED"
    return param.local if param.default is REQUIRED else f"{param.local}=default_{param.name}"


def _optional_by_spelling(op: Op) -> list[str]:
    """Required parameters that may stay away, since `axis` is given: `dim`, and those after it."""
    names = [param.name for param in op.params]
    if "axis" not in op.spellings:
        return []
    following = op.params[names.index("dim") :]
    return [p.name for p in following if p.default is REQUIRED and not p.keyword_only]


def by_name(names: list[str]) -> str:
    """Variables as the inside of a dict."""
    return "".join(f"'{name}': {theirs(name)}, " for name in names)


def operands(op: Op) -> str:
    """The tensors of a call, as the inside of a tuple."""
    return "".join(f"{param.local}, " for param in op.inputs)


def shown_lines(args: str, kwargs: str, operands: str) -> list[str]:
    """Ask who looks on: then the call goes through `shown`."""
    call = f"observed(op, called, unwatched, ({args}), {{{kwargs}}}, ({operands}))"
    return block("if observers.active is not None", [f"return {call}"])


def watched_lines(op: Op, *, out: bool = True) -> list[str]:
    """The same for a declared operator."""
    args = "".join(f"{param.local}, " for param in op.params if not param.keyword_only)
    keywords = [param.name for param in op.params if param.keyword_only]
    return shown_lines(args, by_name([*keywords, *(_added(op) if out else [])]), operands(op))


def beyond_lines(op: Op, *, out: bool = True) -> list[str]:
    """Refuse too many arguments; once, options came as numbers between the tensors."""
    if "UNFILLED" not in signature_of(op, out=out):
        return []
    args, kwargs = everything(op, out=out).split("), {")
    given = f"op, called, {args}{', '.join(_beyond(op))}), {{{kwargs}"
    return block("if more is not UNFILLED", [f"return numbers_between({given})"])


def respelled_lines(op: Op) -> list[str]:
    """Leave for `respelled` where NumPy's names are used, or an argument is missing."""
    conditions = _respelled(op)
    if not conditions:
        return []
    args, kwargs = everything(op).split("), {")
    renamed = by_name([*op.spellings])
    bail_out = f"return respelled(op, {args}), {{{renamed}{kwargs})"
    return either(conditions, [bail_out])


def _respelled(op: Op) -> list[str]:
    conditions = [f"{theirs(name)} is not None" for name in op.spellings]
    if spelled := _optional_by_spelling(op):
        ends = dict.fromkeys((spelled[0], spelled[-1]))
        conditions += [f"{theirs(name)} is REQUIRED" for name in ends]
    return conditions


def rare_lines(op: Op, *, watched: bool, sign: bool) -> list[str]:
    """Leave for the form that looks at what is rare: too many arguments, other names, `out=`.

    And at who looks on, where that is asked. A `sign` has operands alone.
    """
    conditions = ["observers.active is not None"] if watched else []
    if not sign:
        conditions += ["more is not UNFILLED"] if "UNFILLED" in signature_of(op) else []
        conditions += [f"{theirs('out')} is not None"] if op.has_out else []
        conditions += _respelled(op)
    given = f"return forms['{'rare' if watched else 'unwatched'}']({_all_names(op)})"
    if sign:
        given = f"return forms['sign']({arguments(op)})"
    return either(conditions, [given])


def rare_form(op: Op, with_out: list[str], *, watched: bool, sign: bool = False) -> list[str]:
    """That form: all parameters by place, in the order of the signature."""
    if sign:
        return block(f"def rare({arguments(op)})", watched_lines(op, out=False))
    lines = [*beyond_lines(op), *(watched_lines(op) if watched else []), *respelled_lines(op)]
    return block(f"def rare({_all_names(op)})", [*lines, *(with_out if op.has_out else ["pass"])])


def _all_names(op: Op) -> str:
    """The parameters of a function, by place."""
    names = [param.local for param in op.params if not param.keyword_only]
    names += _beyond(op) if "UNFILLED" in signature_of(op) else []
    names += [param.local for param in op.params if param.keyword_only]
    return ", ".join([*names, *map(theirs, _added(op))])


def arguments(op: Op) -> str:
    """All parameters, one by one and by place."""
    return ", ".join(param.local for param in op.params)


def everything(op: Op, *, out: bool = True) -> str:
    """All parameters as the arguments of `call(op, ...)`: a tuple and a dict."""
    args = "".join(f"{param.local}, " for param in op.params if not param.keyword_only)
    kwargs = by_name([param.name for param in op.params if param.keyword_only])
    if op.has_out and out:
        kwargs += f"'out': {theirs('out')}"
    return f"({args}), {{{kwargs}}}"

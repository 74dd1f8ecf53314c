"""The parameters of written functions: as they are defined, and as they are handed on."""

from __future__ import annotations

from pullback.operators.declare import REQUIRED, Op, Param
from pullback.operators.writing.writer import block, theirs


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
    call = f"shown(op, called, unwatched, ({args}), {{{kwargs}}}, ({operands}))"
    return block("if look.by is not None", [f"return {call}"])


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
    conditions = [f"{theirs(name)} is not None" for name in op.spellings]
    if spelled := _optional_by_spelling(op):
        ends = dict.fromkeys((spelled[0], spelled[-1]))
        conditions += [f"{theirs(name)} is REQUIRED" for name in ends]
    if not conditions:
        return []
    args, kwargs = everything(op).split("), {")
    renamed = by_name([*op.spellings])
    leave = f"return respelled(op, {args}), {{{renamed}{kwargs})"
    return block(f"if {' or '.join(conditions)}", [leave])


def out_lines(op: Op) -> list[str]:
    """With `out=`, in any mode, a call has a form of its own."""
    if not op.has_out:
        return []
    out = theirs("out")
    return block(f"if {out} is not None", [f"return forms['out']({arguments(op)}, {out})"])


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

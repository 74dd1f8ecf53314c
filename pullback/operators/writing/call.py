"""The parameters of written functions: as they are defined, and as they are handed on."""

from __future__ import annotations

from pullback.operators.declare import REQUIRED, Op, Param
from pullback.operators.writing.writer import block, theirs


def signature_of(op: Op, *, out: bool = True, by_place: bool = False) -> str:
    """The parameters as they stand in a `def`.

    Keywords that may also come `by_place` take Python a fifth less of a short call to fill in.
    """
    spelled = _optional_by_spelling(op) if out else []
    parts = [_parameter(param, spelled) for param in op.params if not param.keyword_only]
    keywords = [_parameter(param, spelled) for param in op.params if param.keyword_only]
    if out:
        keywords += [f"{theirs(name)}=None" for name in _added(op)]
    rest = "*more" if op.once_positional else "*"
    return ", ".join([*parts, *([rest] if keywords and not by_place else []), *keywords])


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


def once_positional_lines(op: Op, *, out: bool = True) -> list[str]:
    """Leave for `numbers_between` where options come as numbers between the tensors."""
    if not op.once_positional:
        return []
    args, kwargs = everything(op, out=out).split("), {")
    return block("if more", [f"return numbers_between(op, called, {args}*more), {{{kwargs})"])


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

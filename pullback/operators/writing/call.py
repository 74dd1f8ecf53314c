"""The parameters of written functions: as they are defined, and as they are handed on."""

from __future__ import annotations

from pullback.operators.declare import REQUIRED, Op, Param


def signature_of(op: Op, *, out: bool = True) -> str:
    """The parameters as they stand in a `def`."""
    spelled = _optional_by_spelling(op) if out else []
    parts = [_parameter(param, spelled) for param in op.params if not param.keyword_only]
    keywords = [_parameter(param, spelled) for param in op.params if param.keyword_only]
    if op.has_out and out:
        keywords.append("out=None")
    if out:
        keywords += [f"{name}=None" for name in op.spellings]
    rest = "*more" if op.once_positional else "*"
    return ", ".join([*parts, *([rest] if keywords else []), *keywords])


def _parameter(param: Param, spelled: list[str]) -> str:
    if param.name in spelled:
        return f"{param.name}=REQUIRED"
    return param.name if param.default is REQUIRED else f"{param.name}=default_{param.name}"


def _optional_by_spelling(op: Op) -> list[str]:
    """Required parameters that may stay away, since `axis` is given: `dim`, and those after it."""
    names = [param.name for param in op.params]
    if "axis" not in op.spellings:
        return []
    following = op.params[names.index("dim") :]
    return [p.name for p in following if p.default is REQUIRED and not p.keyword_only]


def watched_lines(op: Op, *, out: bool = True) -> list[str]:
    """Ask who looks on: then the call goes through `shown`."""
    args = "".join(f"{param.name}, " for param in op.params if not param.keyword_only)
    keywords = [param.name for param in op.params if param.keyword_only]
    if op.has_out and out:
        keywords.append("out")
    if out:
        keywords += op.spellings
    kwargs = "".join(f"'{name}': {name}, " for name in keywords)
    operands = "".join(f"{param.name}, " for param in op.inputs)
    return [
        "    if look.by is not None:",
        f"        return shown(op, called, unwatched, ({args}), {{{kwargs}}}, ({operands}))",
    ]


def once_positional_lines(op: Op, *, out: bool = True) -> list[str]:
    """Leave for `numbers_between` where options come as numbers between the tensors."""
    if not op.once_positional:
        return []
    args, kwargs = everything(op, out=out).split("), {")
    return ["    if more:", f"        return numbers_between(op, called, {args}*more), {{{kwargs})"]


def respelled_lines(op: Op) -> list[str]:
    """Leave for `respelled` where NumPy's names are used, or an argument is missing."""
    conditions = [f"{name} is not None" for name in op.spellings]
    if spelled := _optional_by_spelling(op):
        conditions += [f"{name} is REQUIRED" for name in dict.fromkeys((spelled[0], spelled[-1]))]
    if not conditions:
        return []
    args, kwargs = everything(op).split("), {")
    renamed = "".join(f"'{name}': {name}, " for name in op.spellings)
    return [
        f"    if {' or '.join(conditions)}:",
        f"        return respelled(op, {args}), {{{renamed}{kwargs})",
    ]


def arguments(op: Op) -> str:
    """All parameters, one by one and by place."""
    return ", ".join(param.name for param in op.params)


def everything(op: Op, *, out: bool = True) -> str:
    """All parameters as the arguments of `call(op, ...)`: a tuple and a dict."""
    args = "".join(f"{param.name}, " for param in op.params if not param.keyword_only)
    kwargs = "".join(f"'{param.name}': {param.name}, " for param in op.params if param.keyword_only)
    if op.has_out and out:
        kwargs += "'out': out"
    return f"({args}), {{{kwargs}}}"

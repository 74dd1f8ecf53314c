"""Writes what stands before a public composition: a look at its arguments, then its own code.

    def flatten(input, start_dim=0, end_dim=-1):
        if input.__class__ is not Tensor and input.__class__ not in QUIET and asks(input):
            return layer.take_guarded((input, start_dim, end_dim))
        try:
            return plain(input, start_dim, end_dim)
        except REFUSALS as error:
            ...  # says which argument was no tensor, see guarding.py

Only arguments without a default are looked at before: what overrides calls is seldom an option,
and an operator below meets it there. Where that refuses it instead, options are looked at, too.
"""

from __future__ import annotations

import inspect
from functools import cache
from types import CodeType, FunctionType
from typing import Any

from pullback.core.tensor import Tensor
from pullback.core.writer import (
    block,
    constant,
    define,
    indented,
    theirs,
    with_constants,
)
from pullback.operators.dispatch.dispatch import QUIET, any_handler, any_thing
from pullback.operators.guarding import REFUSALS, explained
from pullback.operators.options import TYPED
from pullback.operators.writing.call import by_name

__all__ = ["as_given", "asking_code", "check_options", "guard_of", "required_by_name"]


def guard_of(function: FunctionType, layer: Any) -> CodeType:
    """The code of a function with `function`'s parameters that looks before it calls."""
    code = function.__code__
    names = code.co_varnames
    count, named = code.co_argcount, code.co_kwonlyargcount
    positional, keywords = list(names[:count]), list(names[count : count + named])
    rest = list(names[count + named :])
    more = rest.pop(0) if code.co_flags & inspect.CO_VARARGS else None
    others = rest.pop(0) if code.co_flags & inspect.CO_VARKEYWORDS else None
    required = positional[: count - len(function.__defaults__ or ())]
    looks = [
        f"({x}.__class__ is not Tensor and {x}.__class__ not in QUIET and asks({x}))"
        for x in map(theirs, required)
        if function.__annotations__.get(x[1:]) != "Sequence[int]"  # a shape, which torch asks not
    ]
    looks += [f"asks({theirs(more)})"] if more else []
    values = "".join(f"{theirs(x)}, " for x in (*positional, *keywords))
    extra = [f"{name}={theirs(one)}" for name, one in (("more", more), ("named", others)) if one]
    shown = by_name([*positional, *keywords, *([more] if more else [])])
    shown += f"**{theirs(others)}" if others else ""
    ours = {
        "layer": layer,
        "plain": layer.plain,
        "Tensor": Tensor,
        "QUIET": QUIET,
        "asks": any_handler,
        "asks_things": any_thing,
        "explain": explained,
        "REFUSALS": REFUSALS,
        **{one.check.__name__: one.check for one in TYPED.values()},
    }
    options = _looked_at(function)
    asked = [theirs(x) for x in (*positional[len(required) :], *keywords)]
    take = f"return layer.take_guarded({', '.join([f'({values})', *extra])})"
    # Optional ones, as a bias, are asked where the function would refuse them.
    things = block(f"if asks_things(({', '.join(asked)},))", [take]) if asked else []
    lines = [
        *block(
            f"if {' or '.join(looks) or 'False'}",
            [take],
        ),
        *(_option_lines(function.__name__, options) if options else []),
        "try:",
        *indented(_unnamed(positional, keywords, more, others)),
        f"    return plain({_arguments(positional, keywords, more, others)})",
        *(["except TypeError:", *indented([*things, "raise"])] if things else []),
        "except REFUSALS as error:",
        *indented(things),
        f"    found = explain(plain, error, {{{shown}}})",
        *indented(block("if found is None", ["raise"])),
        "    raise found from None",
    ]
    # A function's globals are its module's, so names of ours are constants of the code.
    used = [name for name in ours if any(name in line for line in lines)]
    lines = [*(f"{name} = {constant(name)}" for name in used), *lines]
    head = f"def guard({_parameters(code, positional, keywords, more, others)})"
    title = f"{function.__name__}, asking"
    made = code_closing_over(block(head, lines), code.co_freevars, title)
    return with_constants(made, **ours).replace(co_name=function.__name__)


def _unnamed(positional: list[str], keywords: list[str], more: Any, others: Any) -> list[str]:
    """The call where `**others` holds nothing, as mostly: handing that on would take 0.3 us."""
    if not others:
        return []
    call = f"return plain({_arguments(positional, keywords, more, None)})"
    return block(f"if not {theirs(others)}", [call])


# Options that torch asks in Python, where 1 counts as True; whatever else is an option by True or
# False is refused there if it is anything else. `keepdim` has checks of its own.
_COUNTED = """
    inplace return_indices antialias get_infos center sym full swap hard keepdim keepdims
    need_weights use_separate_proj_weight average_attn_weights size_average reduce
"""
_TRUTHY = frozenset(_COUNTED.split())
_ALL_IN_PYTHON = frozenset({"multi_head_attention_forward"})


@cache
def _looked_at(function: FunctionType) -> dict[str, str]:
    """The options that are one kind of value and nothing else: their names, and the kind.

    By annotation; which dimension is meant is looked at where it is used.
    """
    if function.__name__ in _ALL_IN_PYTHON:
        return {}
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    found = {name: str(function.__annotations__.get(name)) for name in names}
    for name, usual in _defaults(function).items():  # which may be a sign that nothing was given
        if found[name] in TYPED and type(usual) not in TYPED[found[name]].usual:
            del found[name]
    return {
        name: kind
        for name, kind in found.items()
        if kind in TYPED and name not in _TRUTHY and not _is_dim(name)
    }


def _defaults(function: FunctionType) -> dict[str, Any]:
    positional = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    by_place = zip(positional[len(positional) - len(defaults) :], defaults, strict=True)
    return dict(by_place) | (function.__kwdefaults__ or {})


def _is_dim(name: str) -> bool:
    return name.startswith(("dim", "axis")) or name.endswith(("dim", "axis"))


def check_options(function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """What a guard looks at, for a call that came another way."""
    if looked_at := _looked_at(function):
        given = dict(zip(function.__code__.co_varnames, args, strict=False)) | kwargs
        for name in looked_at.keys() & given.keys():
            TYPED[looked_at[name]].check(given[name], function.__name__, name)


def _option_lines(called: str, looked_at: dict[str, str]) -> list[str]:
    kinds = {name: TYPED[kind] for name, kind in looked_at.items()}
    unusual = " or ".join(f"({one.unlike.format(theirs(n))})" for n, one in kinds.items())
    checks = [f"{one.check.__name__}({theirs(n)}, {called!r}, {n!r})" for n, one in kinds.items()]
    return block(f"if {unusual}", checks)


def code_closing_over(lines: list[str], names: tuple[str, ...], title: str) -> CodeType:
    """The code of a function `guard`, with free variables that it does not use.

    Code that takes the place of another needs as many. Claimed only (`co_freevars=`), they have no
    cells in the frame, and whoever reads `f_locals` of it brings Python down.
    """
    if not names:
        alone: CodeType = define(lines, {}, title).__code__
        return alone
    known = [theirs(name) for name in names]
    head, *body = lines
    inner = [head, "    if 0:", f"        {', '.join(known)},", *body]
    outer = block("def outer()", [f"{' = '.join(known)} = None", *inner, "return guard"])
    inside: CodeType = define(outer, {}, title)().__code__
    return inside


@cache
def asking_code(names: tuple[str, ...]) -> CodeType:
    """The code of a function of any arguments that hands them to the constant `take`."""
    lines = [f"take = {constant('take')}", "return take(args, kwargs)"]
    return code_closing_over(block("def guard(*args, **kwargs)", lines), names, "asking")


def required_by_name(function: FunctionType) -> bool:
    """Whether it has keyword-only parameters without a default."""
    return function.__code__.co_kwonlyargcount > len(function.__kwdefaults__ or ())


def _parameters(
    code: CodeType, positional: list[str], keywords: list[str], more: Any, others: Any
) -> str:
    parts = [*map(theirs, positional)]
    if code.co_posonlyargcount:
        parts.insert(code.co_posonlyargcount, "/")
    parts += [f"*{theirs(more)}"] if more else ["*"] * bool(keywords)
    parts += map(theirs, keywords)
    return ", ".join([*parts, *([f"**{theirs(others)}"] if others else [])])


def _arguments(positional: list[str], keywords: list[str], more: Any, others: Any) -> str:
    parts = [*map(theirs, positional), *([f"*{theirs(more)}"] if more else [])]
    parts += [f"{name}={theirs(name)}" for name in keywords]
    return ", ".join([*parts, *([f"**{theirs(others)}"] if others else [])])


def as_given(
    function: FunctionType, values: tuple[Any, ...]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments by position and by name, without those that stand at their defaults."""
    code = function.__code__
    count = code.co_argcount
    args, rest = values[:count], values[count:]
    defaults = function.__defaults__ or ()
    at = count
    while at > count - len(defaults) and args[at - 1] is defaults[at - 1 - (count - len(defaults))]:
        at -= 1
    names = code.co_varnames[count : count + code.co_kwonlyargcount]
    usual = function.__kwdefaults__ or {}
    kwargs = {
        name: value
        for name, value in zip(names, rest, strict=True)
        if name not in usual or value is not usual[name]
    }
    return args[:at], kwargs

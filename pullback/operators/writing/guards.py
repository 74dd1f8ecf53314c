"""Writes what stands before a public composition: a look at its arguments, then its own code.

    def flatten(input, start_dim=0, end_dim=-1):
        if input.__class__ is not Tensor and asks(input):
            return layer.take_guarded((input, start_dim, end_dim))
        try:
            return plain(input, start_dim, end_dim)
        except REFUSALS as error:
            ...  # says which argument was no tensor, see guarding.py

Only arguments without a default are looked at: what takes calls itself is seldom an option, and an
operator below meets it there.
"""

from __future__ import annotations

import inspect
from functools import cache
from types import CodeType, FunctionType
from typing import Any

from pullback.core import origin
from pullback.core.tensor import Tensor
from pullback.operators.guarding import REFUSALS, explained
from pullback.operators.watching.dispatch import QUIET, any_handler
from pullback.operators.writing.nodes import execute

__all__ = ["TAKES", "as_given", "asking_code", "guard_of", "required_by_name"]


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
    looks = [f"({x}.__class__ is not _Tensor and _asks({x}))" for x in required]
    looks += [f"_asks({more})"] if more else []
    values = "".join(f"{x}, " for x in (*positional, *keywords))
    extra = [f"more={more}"] * bool(more) + [f"named={others}"] * bool(others)
    shown = [f"{x!r}: {x}" for x in (*positional, *keywords, *([more] if more else []))]
    source = [
        f"def guard({_parameters(code, positional, keywords, more, others)}):",
        f"    if {' or '.join(looks) or 'False'}:",
        f"        return _layer.take_guarded({', '.join([f'({values})', *extra])})",
        "    try:",
        f"        return _plain({_arguments(positional, keywords, more, others)})",
        "    except _REFUSALS as error:",
        f"        explained = _explain(_plain, error, {{{', '.join(shown)}}})",
        "        if explained is None:",
        "            raise",
        "        raise explained from None",
    ]
    scope: dict[str, Any] = {}
    filename = f"{origin.GENERATED}{function.__name__}, asking>"
    source = closing_over(_with_constants(source), code.co_freevars)
    execute("\n".join(source), scope, filename)
    made: CodeType = scope["guard"].__code__
    stands_for = {
        "_layer": layer,
        "_plain": layer.plain,
        "_Tensor": Tensor,
        "_asks": _asks,
        "_explain": explained,
        "_REFUSALS": REFUSALS,
    }
    return made.replace(
        co_consts=tuple(
            stands_for.get(one, one) if type(one) is str else one for one in made.co_consts
        ),
        co_name=function.__name__,
    )


def closing_over(source: list[str], names: tuple[str, ...]) -> list[str]:
    """Source of a function `guard` with free variables that it does not use.

    Code that takes the place of another needs as many. Claimed only (`co_freevars=`), they have no
    cells in the frame, and whoever reads `f_locals` of it brings Python down.
    """
    if not names:
        return source
    head, *body = source
    inner = [head, "    if 0:", f"        {', '.join(names)},", *body, "return guard"]
    lines = [f"    {line}" for line in inner]
    return ["def outer():", f"    {' = '.join(names)} = None", *lines, "guard = outer()"]


@cache
def asking_code(names: tuple[str, ...]) -> CodeType:
    """The code of a function of any arguments that hands them to the string `TAKES`."""
    source = [
        "def guard(*args, **kwargs):",
        f"    take = {TAKES!r}",
        "    return take(args, kwargs)",
    ]
    scope: dict[str, Any] = {}
    execute("\n".join(closing_over(source, names)), scope, f"{origin.GENERATED}asking>")
    made: CodeType = scope["guard"].__code__
    return made


TAKES = "stands for what takes the call, see `_Asking`"


def required_by_name(function: FunctionType) -> bool:
    """Whether it has keyword-only parameters without a default."""
    return function.__code__.co_kwonlyargcount > len(function.__kwdefaults__ or ())


def _with_constants(source: list[str]) -> list[str]:
    """Names of ours become constants of the code: a function's globals are its module's."""
    head, *body = source
    text = "\n".join(body)
    used = [name for name in _OURS if name in text]
    return [head, *(f"    {name} = {name!r}" for name in used), *body]


_OURS = ("_layer", "_plain", "_Tensor", "_asks", "_explain", "_REFUSALS")


def _asks(value: Any) -> bool:
    return type(value) not in QUIET and any_handler(value)


def _parameters(
    code: CodeType, positional: list[str], keywords: list[str], more: Any, others: Any
) -> str:
    parts = positional.copy()
    if code.co_posonlyargcount:
        parts.insert(code.co_posonlyargcount, "/")
    parts += [f"*{more}"] if more else ["*"] * bool(keywords)
    return ", ".join([*parts, *keywords, *([f"**{others}"] if others else [])])


def _arguments(positional: list[str], keywords: list[str], more: Any, others: Any) -> str:
    parts = [*positional, *([f"*{more}"] if more else [])]
    parts += [f"{name}={name}" for name in keywords]
    return ", ".join([*parts, *([f"**{others}"] if others else [])])


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

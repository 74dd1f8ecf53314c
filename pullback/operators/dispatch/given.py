"""Arguments of plain functions: their defaults and kinds, and what a call gives beside them."""

from __future__ import annotations

from functools import cache
from types import FunctionType
from typing import Any

from pullback.operators.options import TYPED

__all__ = ["as_given", "check_options", "defaults_of", "kinds_of"]


# Options that torch asks in Python, where 1 counts as True; whatever else is an option by True or
# False is refused there if it is anything else. `keepdim` has checks of its own.
_COUNTED = """
    inplace return_indices antialias get_infos center sym full swap hard keepdim keepdims
    need_weights use_separate_proj_weight average_attn_weights size_average reduce
"""
_TRUTHY = frozenset(_COUNTED.split())
_ALL_IN_PYTHON = frozenset({"multi_head_attention_forward"})


@cache
def kinds_of(function: FunctionType) -> dict[str, str]:
    """The options that are one kind of value and nothing else: their names, and the kind.

    By annotation; which dimension is meant is looked at where it is used.
    """
    if function.__name__ in _ALL_IN_PYTHON:
        return {}
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    found = {name: str(function.__annotations__.get(name)) for name in names}
    for name, usual in defaults_of(function).items():  # which may be a sign that nothing was given
        if found[name] in TYPED and type(usual) not in TYPED[found[name]].usual:
            del found[name]
    return {
        name: kind
        for name, kind in found.items()
        if kind in TYPED and name not in _TRUTHY and not _is_dim(name)
    }


def _is_dim(name: str) -> bool:
    return name.startswith(("dim", "axis")) or name.endswith(("dim", "axis"))


def check_options(function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """What a guard looks at, for a call that came another way."""
    if kinds := kinds_of(function):
        given = dict(zip(function.__code__.co_varnames, args, strict=False)) | kwargs
        for name in kinds.keys() & given.keys():
            TYPED[kinds[name]].check(given[name], function.__name__, name)


def defaults_of(function: FunctionType) -> dict[str, Any]:
    """The defaults of a function by name."""
    positional = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    by_place = zip(positional[len(positional) - len(defaults) :], defaults, strict=True)
    return dict(by_place) | (function.__kwdefaults__ or {})


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

"""Writes what stands before a public composition: a look at its arguments, then its own code.

    def flatten(input, start_dim=0, end_dim=-1):
        if input.__class__ is not Tensor and input.__class__ not in QUIET and asks(input):
            return layer.take_guarded((input, start_dim, end_dim))
        try:
            return plain(input, start_dim, end_dim)
        except REFUSALS as error:
            ...  # says which argument was no tensor, see guarding.py

Where torch's parser takes NumPy's names for operands, so does the guard: `flatten(x=t)`.

Only arguments without a default are looked at before: what overrides calls is seldom an option,
and an operator below meets it there. Where that refuses it instead, options are looked at, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from functools import cache
from types import CodeType, FunctionType
from typing import Any

from pullback.core.tensor import Tensor
from pullback.core.writer import block, constant, define, either, indented, theirs, with_constants
from pullback.operators.declare import OPERAND_NAMES, REQUIRED
from pullback.operators.dispatch.dispatch import QUIET, any_handler, any_thing
from pullback.operators.dispatch.given import defaults_of, kinds_of
from pullback.operators.guarding import REFUSALS, explained
from pullback.operators.options import TYPED
from pullback.operators.writing.call import by_name

__all__ = ["asking_code", "guard_defaults", "guard_of", "required_by_name"]


def guard_of(function: FunctionType, layer: Any, renamed: Iterable[str] = ()) -> CodeType:
    """The code of a function with `function`'s parameters that looks before it calls.

    `renamed` are other names of operands, which it takes too; then its defaults are
    `guard_defaults`.
    """
    code = function.__code__
    names = code.co_varnames
    count, named = code.co_argcount, code.co_kwonlyargcount
    positional, keywords = list(names[:count]), list(names[count : count + named])
    rest = list(names[count + named :])
    more = rest.pop(0) if code.co_flags & inspect.CO_VARARGS else None
    others = rest.pop(0) if code.co_flags & inspect.CO_VARKEYWORDS else None
    required = positional[: count - len(function.__defaults__ or ())]
    usual = defaults_of(function)
    operands = [x for x in OPERAND_NAMES if usual.get(x) is REQUIRED]  # it looks for other names
    absent = [x for x in required if renamed]  # as it may be, under another name
    looks = [
        f"({x}.__class__ is not Tensor and {x}.__class__ not in QUIET and asks({x}))"
        for x in map(theirs, [*required, *operands])
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
        "REQUIRED": REQUIRED,
        "asks": any_handler,
        "asks_things": any_thing,
        "explain": explained,
        "REFUSALS": REFUSALS,
        **{one.check.__name__: one.check for one in TYPED.values()},
    }
    options = kinds_of(function)
    asked = [theirs(x) for x in (*positional[len(required) :], *keywords)]
    take = f"return layer.take_guarded({', '.join([f'({values})', *extra])})"
    # Optional ones, as a bias, are asked where the function would refuse them.
    things = block(f"if asks_things(({', '.join(asked)},))", [take]) if asked else []
    lines = [
        *_renamed_lines(renamed, absent, values),
        *block(f"if {' or '.join(looks) or 'False'}", [take]),
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
    places = [*positional, *renamed]
    head = f"def guard({_parameters(code, places, keywords, more, others)})"
    title = f"{function.__name__}, asking"
    made = code_closing_over(block(head, lines), code.co_freevars, title)
    return with_constants(made, **ours).replace(co_name=function.__name__)


def guard_defaults(function: FunctionType, renamed: Iterable[str]) -> tuple[Any, ...] | None:
    """The defaults for that code: what has other names may stay away, and so may they."""
    own = function.__defaults__ or ()
    absent = function.__code__.co_argcount - len(own)
    others = [None for _ in renamed]
    return (*[REQUIRED] * absent, *own, *others) if others else function.__defaults__


def _renamed_lines(renamed: Iterable[str], absent: list[str], values: str) -> list[str]:
    """Leave where an operand has another name, or an argument is absent."""
    found = [f"{theirs(name)} is not None" for name in renamed]
    found += [f"{theirs(name)} is REQUIRED" for name in absent]
    return either(found, [f"return layer.take_renamed(({values}), {{{by_name([*renamed])}}})"])


def _unnamed(positional: list[str], keywords: list[str], more: Any, others: Any) -> list[str]:
    """The call where `**others` holds nothing, as mostly: handing that on would take 0.3 us."""
    if not others:
        return []
    call = f"return plain({_arguments(positional, keywords, more, None)})"
    return block(f"if not {theirs(others)}", [call])


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

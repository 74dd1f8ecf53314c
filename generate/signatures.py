"""A function as a line of a stub: its parameters with types, its result, what it is for."""

from __future__ import annotations

import inspect
import math
from inspect import Parameter
from typing import Any

from generate import declared, overloads, types_of
from generate.types_of import Imports, ours, spelled
from pullback.operators.declare import OPERATORS, Op

_PLAIN = (type(None), bool, int, str)


def stub(
    name: str, function: Any, imports: Imports, *, method: bool = False, plain: bool = False
) -> str:
    """`def name(...) -> ...` with the first line of its docstring.

    `plain`: of no operator, so that what it does not say is not known.
    """
    op = None if plain else _op(name, function)
    parameters = _parameters(function, op)
    if method and parameters:
        first = parameters[0]
        if first.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
            parameters = parameters[1:]
    listed = _listed(parameters, function, op, imports, plain=plain)
    given = ", ".join((["self"] if method else []) + listed)
    gives = result_of(function, op, imports, plain=plain)
    head = f"def {name}({given}) -> {gives}:"
    said = (inspect.getdoc(function) or "").partition("\n")[0].replace("\\", "\\\\")
    return f'{head}\n    """{said}"""' if said and '"' not in said else f"{head} ..."


def _op(name: str, function: Any) -> Op | None:
    if isinstance(op := getattr(function, "op", None), Op):
        return op
    in_place = OPERATORS.get(function.__name__.removesuffix("_"))
    written = "build_now" in getattr(function, "__globals__", {})
    return in_place if written and in_place is not None else None


def _parameters(function: Any, op: Op | None) -> list[Parameter]:
    parameters = list(inspect.signature(function).parameters.values())
    if op is None:
        return parameters
    for theirs, own in op.spellings.items():  # NumPy's names, where torch's may be left out
        default = next(one.default for one in op.params if one.name == own)
        if any(one.name == own and one.default is not one.empty for one in parameters):
            parameters.append(Parameter(theirs, Parameter.KEYWORD_ONLY, default=default))
    return parameters


def _listed(
    parameters: list[Parameter], function: Any, op: Op | None, imports: Imports, *, plain: bool
) -> list[str]:
    listed, starred = [], False
    for one in parameters:
        mark = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}.get(one.kind, "")
        if one.kind is Parameter.KEYWORD_ONLY and not starred:
            listed.append("*")
        starred = starred or one.kind in (Parameter.KEYWORD_ONLY, Parameter.VAR_POSITIONAL)
        kind = _type(one, function, op, imports, plain=plain)
        text = f"{mark}{one.name}: {kind}"
        if one.default is None and "None" not in text and "_Any" not in text:
            text += " | None"
        if one.default is not one.empty:
            text += f" = {_default(one.default)}"
        listed.append(text)
        if one.kind is Parameter.POSITIONAL_ONLY and not _more_positional(one, parameters):
            listed.append("/")
    return listed


def _more_positional(one: Parameter, parameters: list[Parameter]) -> bool:
    after = parameters[parameters.index(one) + 1 :]
    return any(other.kind is Parameter.POSITIONAL_ONLY for other in after)


def _default(value: Any) -> str:
    if type(value) in _PLAIN or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    return "..."


def _type(
    one: Parameter, function: Any, op: Op | None, imports: Imports, *, plain: bool = False
) -> str:
    if op is not None:
        name = op.spellings.get(one.name, one.name)
        param = next((param for param in op.params if param.name == name), None)
        if param is not None and (known := types_of.of_param(op, param)):
            return ours(known, imports)
        if name == "out":
            several = len(op.outputs) > 1
            return ours("Sequence[Tensor] | None" if several else "Tensor | None", imports)
        function = op.forward
    said = _annotation(function, one.name)
    if said and (known := spelled(said, _scope(function), imports)):
        return known
    if plain:
        return ours("Any", imports)
    spread = one.kind is Parameter.VAR_POSITIONAL
    return ours(types_of.of_name(function.__name__, one.name, spread=spread), imports)


def result_of(function: Any, op: Op | None, imports: Imports, *, plain: bool = False) -> str:
    """What a function gives."""
    if op is not None:
        return ours(types_of.of_result(op), imports)
    if function.__name__ in overloads.RESULTS:
        return ours(overloads.RESULTS[function.__name__], imports)
    if said := _annotation(function, "return"):
        return spelled(said, _scope(function), imports) or ours("Any", imports)
    if plain:
        return ours("Any", imports)
    named = declared.results().get(function.__module__.removeprefix(declared.ROOT), [])
    for known in (function.__name__, f"linalg_{function.__name__}"):
        if known in named:
            return ours(known, imports)
    return ours("Tensor", imports)


def _annotation(function: Any, name: str) -> str:
    said = getattr(inspect.unwrap(function), "__annotations__", {}) or {}
    said = {**said, **(getattr(function, "__annotations__", {}) or {})}
    found = said.get(name, "")
    if not isinstance(found, str):
        found = getattr(found, "__name__", "None") if found is not None else "None"
    return "" if found == "Any" else found


def _scope(function: Any) -> dict[str, Any]:
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    return scope if "build_now" not in scope else {}


def result(function: Any, imports: Imports) -> str:
    """What a property's getter gives."""
    return result_of(function, _op("", function), imports)

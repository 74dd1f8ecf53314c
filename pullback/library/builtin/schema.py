"""Schemas of built-in operators: torch's, or written from our declarations or signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from pullback.core.tensor import Tensor
from pullback.library.schema import NO_DEFAULT, AliasInfo, Argument, Schema
from pullback.library.schema.types import (
    BoolType,
    FloatType,
    IntType,
    ListType,
    NamedType,
    NumberType,
    OptionalType,
    StringType,
    TensorType,
    Type,
)
from pullback.operators.declare import REQUIRED, Op

__all__ = ["other_names", "schema_of", "torchs_schemas"]

_TENSOR = TensorType("Tensor")
_BY_KIND: dict[str, Type] = {
    "tensor": _TENSOR,
    "optional": OptionalType(_TENSOR),
    "tensors": ListType(_TENSOR),
    "dim": IntType("int"),
    "dims": OptionalType(ListType(IntType("int"), 1)),
    "shape": ListType(IntType("SymInt")),
}
_BY_VALUE: dict[type, Type] = {
    bool: BoolType("bool"),
    int: IntType("int"),
    float: FloatType("float"),
    str: StringType("str"),
}
# Torch's names of arguments that Python's spelling calls otherwise.
_RENAMED = {"input": "self"}
_DTYPE = OptionalType(NamedType("ScalarType"))
_ANY = OptionalType(NumberType("Scalar"))


@cache
def torchs_schemas() -> dict[str, str]:
    """The schemas of torch's overloads by `name.overload`, as far as there are such here.

    A table, since types are narrower there than declarations tell; `tools/torch_schemas.py`.
    """
    lines = Path(__file__).with_name("schemas.txt").read_text(encoding="utf-8").splitlines()
    found = {}
    for line in lines[1:]:
        name, _, overload = line.partition("(")[0].partition(".")
        found[f"{name}.{overload or 'default'}"] = f"aten::{line}"
    return found


def other_names(schema: Schema, function: Callable[..., Any]) -> dict[str, str]:
    """The schema's positional names that the function has not -> those it has at their places."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return {}
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return {}
    theirs = [one.name for one in schema.arguments if not one.kwarg_only]
    ours = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]
    known = {one.name for one in parameters}
    return {a: b for a, b in zip(theirs, ours, strict=False) if a not in known and b not in theirs}


def schema_of(namespace: str, name: str, overload: str, function: Callable[..., Any]) -> Schema:
    """What is known of a built-in's arguments; an option that may be anything is a `Scalar?`."""
    op: Op | None = getattr(function, "op", None)
    writes = name.endswith("_") and not name.startswith("_")
    if op is None and writes:  # a written in-place form has the parameters of its function
        op = getattr(getattr(Tensor, name[:-1], None), "op", None)
    arguments = _declared(op) if op is not None else _of_signature(function)
    if not arguments and writes:
        arguments = [Argument("self", _TENSOR)]
    returned: list[Argument] = [Argument("", _TENSOR)]
    if op is not None and len(op.outputs) > 1:
        returned = [Argument(output, _TENSOR) for output in op.outputs]
    elif op is not None and op.outputs == ("*",):
        returned = [Argument("", ListType(_TENSOR))]
    if writes:
        mark = AliasInfo(is_write=True, marks=frozenset("a"), after=frozenset("a"))
        arguments[0].alias_info = mark
        returned = [Argument("", _TENSOR, alias_info=mark)]
    elif op is not None and op.kind == "view":
        mark = AliasInfo(is_write=False, marks=frozenset("a"), after=frozenset("a"))
        arguments[0].alias_info = mark
        returned = [Argument("", one.type, alias_info=mark) for one in returned]
    if overload == "out":
        mark = AliasInfo(is_write=True, marks=frozenset("a"), after=frozenset("a"))
        arguments.append(Argument("out", _TENSOR, kwarg_only=True, alias_info=mark))
    return Schema(
        f"{namespace}::{name}", "" if overload == "default" else overload, arguments, returned
    )


def _declared(op: Op) -> list[Argument]:
    return [
        Argument(
            _RENAMED.get(param.name, param.name),
            _BY_KIND.get(param.kind) or _option(param.name, param.default),
            NO_DEFAULT if param.default is REQUIRED else param.default,
            kwarg_only=param.keyword_only,
        )
        for param in op.params
    ]


def _of_signature(function: Callable[..., Any]) -> list[Argument]:
    arguments = []
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []
    for number, parameter in enumerate(parameters):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        given = parameter.default is not parameter.empty
        first = number == 0 and parameter.name in ("input", "self")
        kind = _TENSOR if first else _option(parameter.name, parameter.default)
        arguments.append(
            Argument(
                _RENAMED.get(parameter.name, parameter.name),
                kind,
                parameter.default if given else NO_DEFAULT,
                kwarg_only=parameter.kind is parameter.KEYWORD_ONLY,
            )
        )
    return arguments


def _option(name: str, default: Any) -> Type:
    if name == "dtype":
        return _DTYPE
    return _BY_VALUE.get(type(default), _ANY)

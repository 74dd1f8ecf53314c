"""From what a caller passed to what a schema declares: every argument checked and converted.

`bind` is the whole of it, for any call; `accepts_as_is` tells the code that is written for an
operator's usual call (calling.py) which Python types need no conversion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from pullback.core.device import device
from pullback.core.dtype import dtype
from pullback.core.layout import layout, memory_format
from pullback.core.tensor import Tensor
from pullback.library.schema import NO_DEFAULT, Argument, Schema
from pullback.library.schema.types import ListType, OptionalType, TupleType, Type, same
from pullback.operators.random.generator import Generator

Convert = Callable[[Any], Any]


class BindingError(RuntimeError):
    """The arguments of a call do not fit the schema."""


class _Refused:
    """What a conversion answers when the value is of no use."""


REFUSED: Any = _Refused()


class Plan:
    """What binding needs of a schema, made once for each."""

    __slots__ = ("arguments", "count", "keywords")

    def __init__(self, schema: Schema) -> None:
        # For each argument: itself, its name and conversion.
        self.arguments = [(one, one.name, _of_argument(one.type)) for one in schema.arguments]
        self.count = len(schema.positional)
        self.keywords = [argument.name for argument in schema.keyword_only]


def _plan_of(schema: Schema) -> Plan:
    plan: Plan | None = schema.__dict__.get("_plan")
    if plan is None:
        plan = schema.__dict__["_plan"] = Plan(schema)
    return plan


def bind(schema: Schema, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """One converted value for each argument of the schema, in its order."""
    plan = _plan_of(schema)
    given = len(args)
    if given > plan.count:
        raise _surplus(schema, given)
    values = []
    left = len(kwargs)
    for position, (argument, name, convert) in enumerate(plan.arguments):
        if position < given:
            if left and name in kwargs:
                raise _error(schema, f"argument {name!r} is given by position and by keyword")
            value = args[position]
        elif left and name in kwargs:
            value = kwargs[name]
            left -= 1
        elif argument._default is not NO_DEFAULT:
            default = argument.passed
            # A kernel that writes to its list must not change the schema.
            values.append(list(default) if default.__class__ is list else default)
            continue
        else:
            raise _missing(schema, argument, position)
        converted = convert(value)
        if converted is REFUSED:
            raise _wrong_type(schema, argument, position, value)
        values.append(converted)
    if left:
        raise _unknown(schema, kwargs)
    return values


def split(schema: Schema, values: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Bound values as the positional arguments and the keyword-only ones."""
    plan = _plan_of(schema)
    if not plan.keywords:
        return tuple(values), {}
    return (
        tuple(values[: plan.count]),
        dict(zip(plan.keywords, values[plan.count :], strict=True)),
    )


# Errors -------------------------------------------------------------------------------------------


def _error(schema: Schema, what: str) -> BindingError:
    return BindingError(f"{schema.name}: {what}. Declaration: {schema}")


def _surplus(schema: Schema, count: int) -> BindingError:
    known = len(schema.positional)
    hint = "; the others go by keyword" if schema.keyword_only else ""
    return _error(
        schema, f"{count} arguments are given by position, but it takes {known} at most{hint}"
    )


def _missing(schema: Schema, argument: Argument, position: int) -> BindingError:
    where = "by keyword" if argument.kwarg_only else f"position {position}"
    return _error(schema, f"argument {argument.name!r} ({where}) is missing; it has no default")


def _unknown(schema: Schema, kwargs: dict[str, Any]) -> BindingError:
    known = [argument.name for argument in schema.arguments]
    name = next(name for name in kwargs if name not in known)
    return _error(schema, f"there is no argument {name!r}; it has {', '.join(known) or 'none'}")


def _wrong_type(schema: Schema, argument: Argument, position: int, value: Any) -> BindingError:
    shown = repr(value)
    shown = shown if len(shown) <= 120 else shown[:117] + "..."
    hint = ""
    if value is None:
        hint = f"; declare it as `{argument.type.text}?` if None is to be accepted"
    elif isinstance(value, float) and same(argument.type, "int"):
        hint = "; a float is not rounded, pass int(...) if that is meant"
    return _error(
        schema,
        f"argument {argument.name!r} (position {position}) must be {argument.type}, but is "
        f"{shown} of type {type(value).__name__}{hint}",
    )


# Conversions --------------------------------------------------------------------------------------


def _tensor(value: Any) -> Any:
    return value if isinstance(value, Tensor) else REFUSED


def _tensor_or_undefined(value: Any) -> Any:
    """None is torch's undefined tensor, which it takes for every argument that is a Tensor."""
    return value if isinstance(value, Tensor) or value is None else REFUSED


def _is_number_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) and value._array.size == 1


def _int(value: Any) -> Any:
    if isinstance(value, int | numpy.integer | numpy.bool_):
        return int(value)
    if _is_number_tensor(value) or (isinstance(value, numpy.ndarray) and value.ndim == 0):
        number = value.item()
        return REFUSED if isinstance(number, complex) else int(number)
    return REFUSED


def _float(value: Any) -> Any:
    if isinstance(value, float | int | numpy.floating | numpy.integer | numpy.bool_):
        return float(value)
    if _is_number_tensor(value) or (isinstance(value, numpy.ndarray) and value.ndim == 0):
        number = value.item()
        return REFUSED if isinstance(number, complex) else float(number)
    return REFUSED


def _complex(value: Any) -> Any:
    if isinstance(value, complex | float | int | numpy.number):
        return complex(value)
    return complex(value.item()) if _is_number_tensor(value) else REFUSED


def _bool(value: Any) -> Any:
    if isinstance(value, bool | int | numpy.bool_ | numpy.integer):
        return bool(value)
    return bool(value.item()) if _is_number_tensor(value) else REFUSED


def _number(value: Any) -> Any:
    if isinstance(value, numpy.generic):
        return value.item()
    if isinstance(value, bool | int | float | complex):
        return value
    return value.item() if _is_number_tensor(value) else REFUSED


def _string(value: Any) -> Any:
    return value if isinstance(value, str) else REFUSED


def _device(value: Any) -> Any:
    if isinstance(value, device):
        return value
    return device(value) if isinstance(value, str) else REFUSED


def _instance(kind: type) -> Convert:
    return lambda value: value if isinstance(value, kind) else REFUSED


def _anything(value: Any) -> Any:
    return value


_BASIC: dict[str, Convert] = {
    "Tensor": _tensor,
    "int": _int,
    "SymInt": _int,
    "float": _float,
    "SymFloat": _float,
    "bool": _bool,
    "SymBool": _bool,
    "complex": _complex,
    "str": _string,
    "Scalar": _number,
    "Device": _device,
    "ScalarType": _instance(dtype),
    "Layout": _instance(layout),
    "MemoryFormat": _instance(memory_format),
    "Generator": _instance(Generator),
}
_converters: dict[Type, Convert] = {}


def _of_argument(kind: Type) -> Convert:
    return _tensor_or_undefined if kind.text == "Tensor" else converter(kind)


def converter(kind: Type) -> Convert:
    """The function that takes a value to what the type wants, or to REFUSED."""
    known = _converters.get(kind)
    if known is None:
        known = _converters[kind] = _made(kind)
    return known


def _made(kind: Type) -> Convert:
    if isinstance(kind, OptionalType):
        inner = converter(kind.element)
        return lambda value: None if value is None else inner(value)
    if isinstance(kind, ListType):
        return _list(kind)
    if isinstance(kind, TupleType):
        return _tuple([converter(element) for element in kind.elements])
    return _BASIC.get(kind.text, _anything)


def _list(kind: ListType) -> Convert:
    inner, size = converter(kind.element), kind.size
    of_numbers = not kind.is_tensor_like

    def convert(value: Any) -> Any:
        if (isinstance(value, Sequence) and not isinstance(value, str)) or (
            of_numbers and isinstance(value, numpy.ndarray) and value.ndim == 1
        ):
            made = [inner(one) for one in value]
        elif size is not None and isinstance(value, int | float):
            made = [inner(value)] * size
        else:
            return REFUSED
        for one in made:
            if one is REFUSED:
                return REFUSED
        return made

    return convert


def _tuple(inner: list[Convert]) -> Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, tuple) or len(value) != len(inner):
            return REFUSED
        made = tuple(one(v) for one, v in zip(inner, value, strict=True))
        return REFUSED if any(one is REFUSED for one in made) else made

    return convert


# The usual case -----------------------------------------------------------------------------------

_AS_IS = {"Tensor": "Tensor", "int": "int", "SymInt": "int", "float": "float", "bool": "bool"}


def accepts_as_is(kind: Type) -> str | None:
    """The name of the Python class whose instances need no conversion, where there is one."""
    return _AS_IS.get(kind.text, "str" if kind.text == "str" else None)

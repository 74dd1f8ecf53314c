"""Schemas: the declaration of an operator, as an object that prints as the text it came from.

    name.overload(Type argument=default, *, Type keyword_only) -> Return

The parser is parser.py; `parse_schema` here is what everyone calls.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

from pullback.library.schema.types import ListType, TupleType, Type

__all__ = ["AliasInfo", "Argument", "Schema", "parse_schema"]


class _NoDefault:
    """Stands where an argument has no default, which None may be."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<no default>"


NO_DEFAULT: Any = _NoDefault()


_DTYPE_NUMBERS = {
    f"torch.{name}": number
    for number, name in enumerate(
        (
            *("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"),
            *("complex32", "complex64", "complex128", "bool"),
        )
    )
} | {"torch.bfloat16": 15}


class AliasInfo(NamedTuple):
    """What a mark such as `(a!)` says: which memory, and whether it is written."""

    is_write: bool
    marks: frozenset[str]
    after: frozenset[str]
    contained: bool = False  # whether the mark is of the elements of a list

    @property
    def before_set(self) -> set[str]:
        """The names of the memory; empty for lists, whose elements have them, as in torch."""
        return set() if self.contained else set(self.marks)

    @property
    def after_set(self) -> set[str]:
        """The names after the call: `*` where nothing is known of it any more."""
        return set() if self.contained else set(self.after)

    @property
    def text(self) -> str:
        """The mark as written."""
        written = "!" if self.is_write else ""
        after = "" if self.after == self.marks else f" -> {'|'.join(sorted(self.after))}"
        return f"({'|'.join(sorted(self.marks))}{written}{after})"


class Argument:
    """One argument or return of a schema."""

    __slots__ = ("_default", "alias_info", "kwarg_only", "name", "passed", "type")

    def __init__(
        self,
        name: str,
        type: Type,
        default: Any = NO_DEFAULT,
        *,
        kwarg_only: bool = False,
        alias_info: AliasInfo | None = None,
    ) -> None:
        self.name = name
        self.type = type
        self._default = default
        # What a kernel gets where nothing is given: the default as the user wrote it.
        self.passed = default
        self.kwarg_only = kwarg_only
        self.alias_info = alias_info

    @property
    def default_value(self) -> Any:
        """The default as torch's schemas show it, a dtype as its number.

        None too where there is none, see `has_default_value`.
        """
        return _DTYPE_NUMBERS.get(str(self._default), self.default)

    @property
    def default(self) -> Any:
        """The default; None too where there is none."""
        return None if self._default is NO_DEFAULT else self._default

    def has_default_value(self) -> bool:
        """Whether the argument can be left out."""
        return self._default is not NO_DEFAULT

    @property
    def N(self) -> int | None:  # noqa: N802 (torch's name)
        """The length of a list type that says it."""
        return self.type.size if isinstance(self.type, ListType) else None

    @property
    def real_type(self) -> Type:
        """The same as `type`; torch tells numbers that stand for enums apart here."""
        return self.type

    @property
    def is_write(self) -> bool:
        """Whether the operator writes to it."""
        return self.alias_info is not None and self.alias_info.is_write

    @property
    def is_out(self) -> bool:
        """Whether it is a tensor given to be written to: keyword-only and written."""
        return self.kwarg_only and self.is_write

    def __str__(self) -> str:
        kind = self.type.text
        if self.alias_info is not None:
            kind = kind.replace("Tensor", f"Tensor{self.alias_info.text}", 1)
        default = "" if self._default is NO_DEFAULT else f"={default_text(self._default, self)}"
        return f"{kind} {self.name}{default}" if self.name else kind

    def __repr__(self) -> str:
        return f"<argument {self}>"


class Schema:
    """The declaration of one overload of an operator."""

    def __init__(
        self,
        name: str,
        overload_name: str,
        arguments: Iterable[Argument],
        returns: Iterable[Argument],
    ) -> None:
        self.name = name
        self.overload_name = overload_name
        self.arguments = list(arguments)
        self.returns = list(returns)

    @cached_property
    def is_mutable(self) -> bool:
        """Whether any argument is written."""
        return any(argument.is_write for argument in self.arguments)

    @cached_property
    def is_view(self) -> bool:
        """Whether a return shares memory with an argument that is not written."""
        return any(
            one.alias_info is not None and not one.alias_info.is_write for one in self.returns
        )

    @cached_property
    def positional(self) -> list[Argument]:
        """The arguments that may be given by position."""
        return [argument for argument in self.arguments if not argument.kwarg_only]

    @cached_property
    def keyword_only(self) -> list[Argument]:
        """The arguments that must be given by keyword."""
        return [argument for argument in self.arguments if argument.kwarg_only]

    @property
    def namespace(self) -> str:
        """The part of the name before `::`."""
        return self.name.partition("::")[0] if "::" in self.name else ""

    def named(self, name: str, overload_name: str | None = None) -> Schema:
        """The same schema under another name."""
        overload = self.overload_name if overload_name is None else overload_name
        return Schema(name, overload, self.arguments, self.returns)

    def __str__(self) -> str:
        overload = f".{self.overload_name}" if self.overload_name else ""
        parts = [str(argument) for argument in self.positional]
        if self.keyword_only:
            parts += ["*", *(str(argument) for argument in self.keyword_only)]
        return f"{self.name}{overload}({', '.join(parts)}) -> {_returns_text(self.returns)}"

    def __repr__(self) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


def _returns_text(returns: list[Argument]) -> str:
    if len(returns) == 1:
        text = str(returns[0])
        return f"({text})" if isinstance(returns[0].type, TupleType) else text
    return f"({', '.join(str(one) for one in returns)})"


def default_text(value: Any, argument: Argument | None = None) -> str:
    """A default as a schema writes it."""
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, float):
        whole = math.isfinite(value) and value.is_integer() and abs(value) < 1e15
        return f"{int(value)}." if whole else repr(value)
    if isinstance(value, list | tuple):
        sized = None if argument is None else argument.N
        if sized is not None and len(value) == sized and len(set(value)) == 1:
            return default_text(value[0])
        return f"[{', '.join(default_text(one) for one in value)}]"
    if isinstance(value, bool | int) or value is None:
        return repr(value)
    return str(value).removeprefix("torch.")


def parse_schema(text: str) -> Schema:
    """The schema that `text` writes; RuntimeError points at the place where it is malformed.

    >>> schema = parse_schema("mine::scale(Tensor x, float by=1.5) -> Tensor")
    >>> schema.name, [argument.name for argument in schema.arguments]
    ('mine::scale', ['x', 'by'])
    >>> print(schema)
    mine::scale(Tensor x, float by=1.5) -> Tensor
    """
    from pullback.library.schema.parser import Parser

    return Parser(text).schema()

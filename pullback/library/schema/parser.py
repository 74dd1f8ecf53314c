"""Reading a schema: a tokenizer and one method for each part of the grammar."""

from __future__ import annotations

import ast
import math
import re
from typing import Any, NamedTuple, NoReturn

from pullback.library.schema import NO_DEFAULT, AliasInfo, Argument, Schema
from pullback.library.schema.types import (
    BASIC,
    BoolType,
    DeviceObjType,
    FloatType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    innermost,
)

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?j?|[+-]?(?:inf|nan)\b)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<mark>->|::|\.\.\.|[()\[\]{}?,.*!=|:])
    )""",
    re.VERBOSE,
)


class Token(NamedTuple):
    """A piece of the text and where it begins."""

    kind: str
    text: str
    place: int


def _tokens(text: str) -> list[Token]:
    tokens, place = [], 0
    while match := _TOKEN.match(text, place):
        assert match.lastgroup is not None
        start = match.start(match.lastgroup)
        tokens.append(Token(match.lastgroup, match.group(match.lastgroup), start))
        place = match.end()
    rest = text[place:].strip()
    if rest:
        raise malformed(text, place + len(text[place:]) - len(text[place:].lstrip()), rest[0])
    tokens.append(Token("end", "the end", len(text)))
    return tokens


def malformed(text: str, place: int, found: str, expected: str = "") -> RuntimeError:
    """The error for a text that is no schema, with a mark under the place."""
    wanted = f"expected {expected}, found {found!r}" if expected else f"{found!r} is not understood"
    return RuntimeError(
        f"The schema is malformed at character {place}: {wanted}.\n  {text}\n  {' ' * place}^\n"
        "A schema reads `name.overload(Type argument=default, *, Type keyword) -> Type`."
    )


class Parser:
    """Reads one schema from front to back."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.number = 0

    # ------------------------------------------------------------------ tokens

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.number]

    def fail(self, expected: str) -> NoReturn:
        """Refuse the next token."""
        raise malformed(self.text, self.token.place, self.token.text, expected)

    def take(self, mark: str) -> bool:
        """Pass `mark` if it comes next."""
        if self.token.kind == "mark" and self.token.text == mark:
            self.number += 1
            return True
        return False

    def need(self, mark: str) -> None:
        """Pass `mark`, which must come next."""
        if not self.take(mark):
            self.fail(f"`{mark}`")

    def word(self, what: str) -> str:
        """A name, which must come next."""
        if self.token.kind != "word":
            self.fail(what)
        self.number += 1
        return self.tokens[self.number - 1].text

    # ------------------------------------------------------------------ grammar

    def schema(self) -> Schema:
        """The whole."""
        name = self.word("the name of the operator")
        if self.take("::"):
            name = f"{name}::{self.word('the name of the operator')}"
        overload = self.word("the name of the overload") if self.take(".") else ""
        arguments = self.arguments()
        self.need("->")
        returns = self.returns()
        if self.token.kind != "end":
            self.fail("the end")
        return Schema(name, overload, arguments, returns)

    def arguments(self) -> list[Argument]:
        """Everything between the parentheses."""
        self.need("(")
        found: list[Argument] = []
        keyword_only = False
        if self.take(")"):
            return found
        while True:
            if not keyword_only and self.take("*"):
                keyword_only = True
            else:
                found.append(self.argument(found, keyword_only=keyword_only))
            if self.take(")"):
                return found
            if not self.take(","):
                self.fail("`,` or `)`")

    def argument(self, before: list[Argument], *, keyword_only: bool) -> Argument:
        """One argument with its default."""
        kind, alias = self.type()
        place = self.token
        name = self.argument_name()
        if any(one.name == name for one in before):
            raise malformed(self.text, place.place, name, "a name that no other argument has")
        default = self.default(kind) if self.take("=") else NO_DEFAULT
        last = before[-1] if before else None
        # Torch's own schemas let tensors and lists without default follow ones that have it.
        if default is NO_DEFAULT and not keyword_only and last and last.has_default_value():
            needs = not (last.type.is_tensor_like and kind.is_tensor_like)
            if needs:
                raise malformed(
                    self.text, place.place, name, "a default, as the argument before has one"
                )
        return Argument(name, kind, default, kwarg_only=keyword_only, alias_info=alias)

    def argument_name(self) -> str:
        """A name, which may be a number's elsewhere: `float? nan=None`."""
        if self.token.text in ("inf", "nan"):
            self.number += 1
            return self.tokens[self.number - 1].text
        return self.word("the name of the argument")

    def type(self) -> tuple[Type, AliasInfo | None]:
        """A type with the mark that it may carry."""
        alias = None
        if self.take("("):
            kind: Type = self.tuple_type()
        else:
            place = self.token
            name = self.word("a type")
            if name not in BASIC:
                known = f"a type, one of {', '.join(BASIC)}"
                raise malformed(self.text, place.place, name, known)
            kind = BASIC[name]
            if kind.__class__ is TensorType and self.take("("):
                alias = self.alias()
        while True:
            if self.take("["):
                kind = ListType(kind, self.size())
                alias = None if alias is None else alias._replace(contained=True)
            elif self.take("?"):
                kind = OptionalType(kind)
            else:
                return kind, alias

    def tuple_type(self) -> TupleType:
        """The rest of a tuple in parentheses."""
        elements = [self.type()[0]]
        while self.take(","):
            elements.append(self.type()[0])
        self.need(")")
        return TupleType(tuple(elements))

    def size(self) -> int | None:
        """The rest of `[]` or `[n]`."""
        if self.take("]"):
            return None
        token = self.token
        if token.kind != "number" or not token.text.isdigit():
            self.fail("the length of the list or `]`")
        self.number += 1
        self.need("]")
        return int(token.text)

    def alias(self) -> AliasInfo:
        """The rest of `(a)`, `(a!)`, `(a|b)` or `(a -> *)`."""
        marks = self.marks()
        write = self.take("!")
        after = self.marks() if self.take("->") else marks
        self.need(")")
        return AliasInfo(write, marks, after)

    def marks(self) -> frozenset[str]:
        """Names of memory, `|` between them."""
        if self.take("*"):
            return frozenset("*")
        found = {self.word("the name of a memory, as `a`")}
        while self.take("|"):
            found.add(self.word("the name of a memory, as `b`"))
        return frozenset(found)

    def returns(self) -> list[Argument]:
        """What follows the arrow."""
        if not self.take("("):
            return [self.result()]
        found: list[Argument] = []
        if self.take(")"):
            return found
        while True:
            found.append(self.result())
            if self.take(")"):
                return found
            if not self.take(","):
                self.fail("`,` or `)`")

    def result(self) -> Argument:
        """One return, which may have a name."""
        kind, alias = self.type()
        name = self.word("a name") if self.token.kind == "word" else ""
        return Argument(name, kind, alias_info=alias)

    # ------------------------------------------------------------------ defaults

    def default(self, kind: Type) -> Any:
        """A default value, in the type of its argument."""
        token = self.token
        value = self.literal()
        return self.converted(value, kind, token)

    def literal(self) -> Any:
        """A number, string, list, or a name such as `None` and `float32`."""
        if self.take("["):
            values: list[Any] = []
            while not self.take("]"):
                values.append(self.literal())
                if not self.take(",") and self.token.text != "]":
                    self.fail("`,` or `]`")
            return values
        token = self.token
        if token.kind == "number":
            self.number += 1
            return _number(token.text)
        if token.kind == "string":
            self.number += 1
            return ast.literal_eval(token.text)
        word = self.word("a default value")
        return {"None": None, "True": True, "False": False}.get(word, _Name(word))

    def converted(self, value: Any, kind: Type, token: Token) -> Any:
        """`value` as an argument of type `kind` would be."""
        element = innermost(kind)
        if isinstance(kind, ListType) and not isinstance(value, list):
            if kind.size is None:
                raise malformed(self.text, token.place, token.text, "a list")
            return [self.converted(value, kind.element, token)] * kind.size
        if isinstance(value, list):
            inner = kind.element if isinstance(kind, ListType | OptionalType) else kind
            inner = inner.element if isinstance(inner, ListType) else inner
            return [self.converted(one, inner, token) for one in value]
        if value is None:
            return None
        if isinstance(element, DeviceObjType):
            return _device(value)
        if isinstance(value, _Name):
            named = _named(value, element)
            if named is None:
                raise malformed(self.text, token.place, token.text, "a default value")
            return named
        if isinstance(element, FloatType) and type(value) is int:
            return float(value)
        if isinstance(element, BoolType) and type(value) is int:
            return bool(value)
        return value


class _Name(str):
    """A default written as a bare word."""

    __slots__ = ()


def _number(text: str) -> Any:
    if text.endswith("j"):
        return complex(text)
    if text.lstrip("+-") in ("inf", "nan"):
        return -math.inf if text == "-inf" else float(text)
    return int(text) if text.lstrip("+-").isdigit() else float(text)


def _device(value: Any) -> Any:
    from pullback.core.device import device

    return device(str(value))


def _named(word: str, kind: Type) -> Any:
    """The dtype, layout or memory format of this name, or None."""
    from pullback.core import layout
    from pullback.core.dtype import ALIASES, DTYPES

    if kind.text in ("ScalarType", "int") and (word in DTYPES or word in ALIASES):
        return DTYPES.get(word, ALIASES.get(word))
    return getattr(layout, word, None) if kind.text in ("Layout", "MemoryFormat") else None

"""The types that a schema names: of arguments and of returns.

`str(type)` is how Python would write it (`Optional[Tensor]`), `type.text` how a schema does
(`Tensor?`). The class names are those of torch's type objects.
"""

from __future__ import annotations

from typing import Any


class Type:
    """A type; two are equal if they are written alike."""

    __slots__ = ("text",)

    text: str

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def kind(self) -> str:
        """The name of the class, as torch's type objects answer."""
        return type(self).__name__

    @property
    def is_tensor_like(self) -> bool:
        """Whether tensors are passed here: `Tensor`, `Tensor?`, `Tensor[]`, `Tensor?[]` ..."""
        return innermost(self).__class__ is TensorType

    @property
    def is_tensor_list(self) -> bool:
        """Whether it is a list of tensors, each of which may be optional; not an optional list."""
        return isinstance(self, ListType) and self.is_tensor_like

    @property
    def is_optional(self) -> bool:
        """Whether None is accepted."""
        return isinstance(self, OptionalType)


class TensorType(Type):
    """A tensor."""

    __slots__ = ()


class IntType(Type):
    """An int, written `int` or `SymInt`."""

    __slots__ = ()

    def __str__(self) -> str:
        return "int"


class FloatType(Type):
    """A float."""

    __slots__ = ()


class BoolType(Type):
    """A bool."""

    __slots__ = ()


class StringType(Type):
    """A str."""

    __slots__ = ()


class NumberType(Type):
    """Any Python number, written `Scalar`."""

    __slots__ = ()

    def __str__(self) -> str:
        return "number"


class DeviceObjType(Type):
    """A device."""

    __slots__ = ()


class NamedType(Type):
    """A type of which nothing needs to be known but its name: `ScalarType`, `Layout` ..."""

    __slots__ = ()


class ContainerType(Type):
    """A type made of another one."""

    __slots__ = ("element",)

    element: Type

    def getElementType(self) -> Type:  # noqa: N802 (torch's name)
        """The type inside."""
        return self.element


class OptionalType(ContainerType):
    """`T?`: a T or None."""

    __slots__ = ()

    def __init__(self, element: Type) -> None:
        super().__init__(f"{element.text}?")
        self.element = element

    def __str__(self) -> str:
        return f"Optional[{self.element}]"


class ListType(ContainerType):
    """`T[]`, or `T[n]`: a list, for which one T may stand if its length n is known."""

    __slots__ = ("size",)

    size: int | None

    def __init__(self, element: Type, size: int | None = None) -> None:
        super().__init__(f"{element.text}[{'' if size is None else size}]")
        self.element = element
        self.size = size

    def __str__(self) -> str:
        return f"List[{self.element}]"


class TupleType(Type):
    """`(A, B)` as one value."""

    __slots__ = ("elements",)

    elements: tuple[Type, ...]

    def __init__(self, elements: tuple[Type, ...]) -> None:
        super().__init__(f"({', '.join(element.text for element in elements)})")
        self.elements = elements

    def __str__(self) -> str:
        return f"Tuple[{', '.join(str(element) for element in self.elements)}]"


def innermost(kind: Type) -> Type:
    """What is left of a type without `?` and `[]`."""
    while isinstance(kind, ContainerType):
        kind = kind.element
    return kind


TENSOR = TensorType("Tensor")
INT = IntType("int")

BASIC: dict[str, Type] = {
    "Tensor": TENSOR,
    "int": INT,
    "SymInt": IntType("SymInt"),
    "float": FloatType("float"),
    "bool": BoolType("bool"),
    "str": StringType("str"),
    "Scalar": NumberType("Scalar"),
    "Device": DeviceObjType("Device"),
    **{
        name: NamedType(name)
        for name in (
            *("ScalarType", "Layout", "MemoryFormat", "Generator", "Dimname", "complex"),
            *("SymFloat", "SymBool", "Storage", "Stream", "QScheme", "NoneType"),
        )
    },
}


def same(kind: Any, text: str) -> bool:
    """Whether a type is written so; `SymInt` counts as `int`."""
    return str(kind.text).replace("SymInt", "int") == text

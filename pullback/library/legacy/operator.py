"""Defining operators by the older interface: its checks, and the `CustomOp` object."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from pullback.core import origin
from pullback.library import registry
from pullback.library.call.keys import EXPLICIT, IMPLICIT, key_of_device
from pullback.library.legacy.formulas import LegacyFormula
from pullback.library.registry import Kernel, Operator, place
from pullback.library.schema import Schema, parse_schema
from pullback.library.schema.infer import infer_schema

RESERVED = frozenset({"prim", "prims", "aten", "at", "torch", "pytorch", "pullback"})
_DEVICES = ("cpu", "cuda")
_RETURNS = ("Tensor", "Tensor[]", "int", "SymInt", "bool", "float")

# Name -> the object of an operator that was made so.
MADE: dict[str, CustomOp] = {}


def warn_deprecated() -> None:
    """Point to the interface that replaced this one."""
    warnings.warn(
        "This is the older interface for custom operators; use pullback.library.custom_op.",
        DeprecationWarning,
        stacklevel=origin.stacklevel(),
    )


def split_name(qualname: str) -> tuple[str, str]:
    """Namespace and name of an operator, whichever it is."""
    parts = qualname.split("::")
    if len(parts) != 2 or not all(parts):
        raise ValueError(f"An operator is named 'ns::op', with its namespace; got {qualname!r}.")
    space, name = parts
    if "." in name:
        raise ValueError(f"{qualname!r}: overloads are not supported here; leave out the '.'.")
    return space, name


def checked_name(qualname: str) -> tuple[str, str]:
    """Namespace and name of an operator that is to be made here."""
    space, name = split_name(qualname)
    if "." in space:
        raise ValueError(f"{qualname!r}: a namespace has no '.'; choose another one.")
    if space in RESERVED:
        raise ValueError(
            f"{qualname!r}: the namespace {space!r} is reserved ({', '.join(sorted(RESERVED))} "
            "are); choose one of your own."
        )
    return space, name


def checked_schema(qualname: str, schema: Schema) -> Schema:
    """A schema of a functional operator, without an argument `self`."""
    if schema.is_mutable or schema.is_view or not schema.returns:
        raise ValueError(
            f"{qualname}: only functional operators are supported: nothing written to, no view "
            f"returned, at least one result. Declaration: {schema}"
        )
    if any(argument.name == "self" for argument in schema.arguments):
        raise ValueError(f"{qualname}: an argument cannot be called 'self'; rename it.")
    return schema


def schema_of(qualname: str, function: Any, manual: str | None) -> Schema:
    """The schema of a function, inferred or given."""
    _, name = checked_name(qualname)
    if not isinstance(function, FunctionType):
        raise ValueError(
            f"{qualname}: custom_op decorates a plain function, got {type(function).__name__}."
        )
    if function.__name__ != name:
        raise ValueError(
            f"{qualname}: the function must have the operator's name {name!r}, but is called "
            f"{function.__name__!r}."
        )
    text = infer_schema(function, mutates_args=()) if manual is None else manual
    schema = parse_schema(f"op{text}" if text.lstrip().startswith("(") else text)
    if manual is not None:
        _check_matches(qualname, function, schema)
    return checked_schema(qualname, schema.named(qualname, ""))


def _check_matches(qualname: str, function: FunctionType, schema: Schema) -> None:
    parameters = list(inspect.signature(function).parameters.values())
    if any(p.annotation is not p.empty for p in parameters) or any(
        p.default is not p.empty for p in parameters
    ):
        raise ValueError(
            f"{qualname}: with manual_schema the function must have no annotations and no "
            "defaults; the schema says both."
        )
    names = [parameter.name for parameter in parameters]
    declared = [argument.name for argument in schema.arguments]
    if names != declared:
        raise ValueError(
            f"{qualname}: the function has the parameters {names}, the schema {declared}; they "
            "must be the same."
        )
    by_keyword = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    declared = [argument.name for argument in schema.keyword_only]
    if by_keyword != declared:
        raise ValueError(
            f"{qualname}: the parameters {by_keyword} of the function are keyword-only, in the "
            f"schema {declared} are; they must be the same."
        )


class CustomOp:
    """An operator of the older interface: call it, and register its parts on it."""

    def __init__(self, operator: Operator, *_more: Any, _private_access: bool = False) -> None:
        if not _private_access:
            raise RuntimeError(
                "CustomOp is not made by hand; use custom_op(...), which returns one."
            )
        self._operator = operator
        self._qualname = operator.qualname
        self.__name__ = operator.qualname

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operator."""
        return self._operator.overload(*args, **kwargs)

    def __repr__(self) -> str:
        return f'<CustomOp(op="{self._qualname}")>'

    def impl(self, device_types: str | Iterable[str], _stacklevel: int = 2) -> Any:
        """Register the kernel for types of devices; a decorator."""
        kinds = [device_types] if isinstance(device_types, str) else list(device_types)
        for kind in kinds:
            if kind not in _DEVICES:
                raise ValueError(
                    f"{self._qualname}: the device types are {', '.join(_DEVICES)}, got {kind!r}."
                )

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            for kind in kinds:
                self._add_kernel(key_of_device(kind), f"{kind} kernel", function)
            return function

        return register

    def impl_factory(self) -> Any:
        """Register the kernel of an operator without tensor arguments; a decorator."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._add_kernel("BackendSelect", "factory", function)
            return function

        return register

    def _add_kernel(self, key: str, kind: str, function: Callable[..., Any]) -> None:
        known = self._operator.kernels
        self._refuse_second(known.get(key) or known.get(EXPLICIT) or known.get(IMPLICIT), kind)
        self._operator.kernels[key] = Kernel(function, registry.where())
        self._operator.settle()

    def _refuse_second(self, known: Kernel | None, kind: str) -> None:
        if known is not None:
            raise RuntimeError(
                f"{self._qualname} has a {kind} already, registered at {place(known.where)}; it "
                "can be registered once."
            )

    def impl_abstract(self, _stacklevel: int = 2) -> Any:
        """Register what the operator returns for tensors without data; a decorator."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._refuse_second(self._operator.fake, "abstract implementation")
            self._operator.fake = Kernel(function, registry.where())
            return function

        return register

    def impl_save_for_backward(self, _stacklevel: int = 2) -> Any:
        """Register what is saved in the forward; a decorator."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._check_can_have_formula()
            formula: LegacyFormula = self._operator.legacy
            self._refuse_second(formula.save, "save_for_backward function")
            formula.save = Kernel(function, registry.where())
            return function

        return register

    def impl_backward(
        self, output_differentiability: list[bool] | None = None, _stacklevel: int = 2
    ) -> Any:
        """Register the backward function; a decorator."""
        if output_differentiability is not None:
            self._check_differentiability(output_differentiability)

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._check_can_have_formula()
            formula: LegacyFormula = self._operator.legacy
            self._refuse_second(formula.backward, "backward function")
            formula.backward = Kernel(function, registry.where())
            formula.differentiability = output_differentiability
            return function

        return register

    def _check_differentiability(self, given: Any) -> None:
        count = len(self._operator.schema.returns)
        is_fit = isinstance(given, list) and all(isinstance(one, bool) for one in given)
        if not is_fit or len(given) != count:
            raise RuntimeError(
                f"{self._qualname}: output_differentiability must be a list of {count} bools, one "
                f"for each output, got {given!r}."
            )

    def _check_can_have_formula(self) -> None:
        schema = self._operator.schema
        if schema.is_mutable or schema.is_view or not schema.returns:
            raise RuntimeError(
                f"{self._qualname} cannot have a backward formula: it writes to an argument, "
                f"returns a view or returns nothing. Declaration: {schema}"
            )
        own = [key for key in self._operator.kernels if key.startswith("Autograd")]
        if own or IMPLICIT in self._operator.kernels:
            raise RuntimeError(
                f"{self._qualname} cannot have a backward formula: it has a kernel for "
                f"{own[0] if own else IMPLICIT}, which is differentiated through."
            )
        for one in schema.returns:
            if one.type.text not in _RETURNS:
                raise RuntimeError(
                    f"{self._qualname} cannot have a backward formula: it returns {one.type}, and "
                    f"only {', '.join(_RETURNS)} are supported. Declaration: {schema}"
                )
        if schema.keyword_only:
            names = [argument.name for argument in schema.keyword_only]
            raise RuntimeError(
                f"{self._qualname} cannot have a backward formula: its arguments {names} are "
                f"keyword-only. Make them positional. Declaration: {schema}"
            )
        if self._operator.legacy is None:  # of an operator that Library.define made
            self._operator.legacy = LegacyFormula()
            self._operator.settle()

    def _destroy(self) -> None:
        registry.remove(self._operator)
        MADE.pop(self._qualname, None)


def made(qualname: str, schema: Schema) -> CustomOp:
    """A new operator of the older interface."""
    if qualname in registry.OPERATORS:
        at = registry.OPERATORS[qualname].where
        raise RuntimeError(
            f"{qualname} is defined already, at {place(at)}; give this one another name."
        )
    operator = Operator(schema, kind="legacy", where=registry.where())
    operator.legacy = LegacyFormula()
    registry.add(operator, [])
    op = MADE[qualname] = CustomOp(operator, _private_access=True)
    return op


def found(qualname: str) -> CustomOp:
    """The operator of this name, whichever interface made it."""
    checked_name(qualname)
    known = MADE.get(qualname)
    if known is not None:
        return known
    operator = registry.OPERATORS.get(qualname)
    if operator is None:
        raise ValueError(
            f"There is no operator {qualname!r}; define it with _custom_ops.custom_op first."
        )
    return CustomOp(operator, _private_access=True)

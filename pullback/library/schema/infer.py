"""From type hints to a schema: `infer_schema`."""

from __future__ import annotations

import collections.abc
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

from pullback.core.device import device
from pullback.core.dtype import dtype
from pullback.core.tensor import Tensor
from pullback.library.schema import default_text

_BASIC: dict[Any, str] = {
    Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    dtype: "ScalarType",
    device: "Device",
}
_NUMBER = frozenset({int, float, bool})
_IN_LISTS = ("Tensor", "SymInt", "float", "bool", "Scalar")
_IN_OPTIONAL_LISTS = ("SymInt", "float", "bool")
_RETURNED = ("Tensor", "SymInt", "float", "bool", "Scalar", "Tensor[]")
_ACCEPTED = (
    "Tensor, int, float, bool, str, types.Number, dtype, device, Optional of these, lists of "
    "Tensor, Optional[Tensor], int, float, bool and Number, and Optional of lists of int, float "
    "and bool"
)


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
) -> str:
    """The schema of a function, from its type hints; without a name it starts at the parenthesis.

    >>> import pullback as torch
    >>> def scale(x: torch.Tensor, by: float = 2.0) -> torch.Tensor: ...
    >>> torch.library.infer_schema(scale, mutates_args=())
    '(Tensor x, float by=2.0) -> Tensor'
    """
    return _Inference(prototype_function, mutates_args).text(op_name or "")


class _Inference:
    """One function on its way to a schema."""

    def __init__(self, function: Callable[..., Any], mutates_args: Any) -> None:
        self.function = function
        try:
            self.signature = inspect.signature(function)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"infer_schema needs a Python function with type hints, got {function!r}."
            ) from error
        self.names = list(self.signature.parameters)
        self.mutated = self._mutated(mutates_args)

    def fail(self, what: str) -> ValueError:
        """The error, with the whole signature."""
        name = getattr(self.function, "__name__", repr(self.function))
        return ValueError(f"infer_schema: {what} (in {name}{self.signature})")

    def _mutated(self, mutates_args: Any) -> set[str] | None:
        """The names of written arguments; None for "unknown", where any tensor may be."""
        if isinstance(mutates_args, str):
            if mutates_args == "unknown":
                return None
            raise self.fail(
                f"mutates_args is the string {mutates_args!r}; it must be a list of names, such as "
                f"[{mutates_args!r}], or 'unknown'."
            )
        names = set(mutates_args)
        if missing := names - set(self.names):
            raise self.fail(
                f"mutates_args names {sorted(missing)}, but the parameters are {self.names}."
            )
        return names

    def text(self, name: str) -> str:
        """The schema."""
        parts: list[str] = []
        starred = False
        for number, parameter in enumerate(self.signature.parameters.values()):
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise self.fail(
                    f"parameter {parameter.name!r} is {parameter.kind.description}; an operator "
                    "has no positional-only parameters, *args or **kwargs. Name each argument."
                )
            if parameter.kind is parameter.KEYWORD_ONLY and not starred:
                parts.append("*")
                starred = True
            parts.append(self._argument(number, parameter))
        return f"{name}({', '.join(parts)}) -> {self._returns()}"

    def _argument(self, number: int, parameter: inspect.Parameter) -> str:
        if parameter.annotation is inspect.Parameter.empty:
            raise self.fail(f"parameter {parameter.name!r} has no type annotation.")
        annotation = self._evaluated(parameter.annotation, f"of parameter {parameter.name!r}")
        kind = schema_type(annotation)
        if kind is None:
            raise self.fail(self._unsupported(parameter.name, annotation))
        kind = self._marked(number, parameter.name, kind)
        if parameter.default is inspect.Parameter.empty:
            return f"{kind} {parameter.name}"
        return f"{kind} {parameter.name}={self._default(parameter)}"

    def _marked(self, number: int, name: str, kind: str) -> str:
        is_tensor = kind.startswith("Tensor")
        if self.mutated is None:
            written = is_tensor
        else:
            written = name in self.mutated
            if written and not is_tensor:
                raise self.fail(
                    f"mutates_args names {name!r}, which is a {kind}; only tensors, optional "
                    "tensors and lists of tensors can be written to."
                )
        return f"Tensor(a{number}!){kind[len('Tensor') :]}" if written else kind

    def _unsupported(self, name: str, annotation: Any) -> str:
        advice = ""
        if typing.get_origin(annotation) is tuple or annotation is tuple:
            inside = typing.get_args(annotation)
            element = getattr(inside[0], "__name__", str(inside[0])) if inside else "int"
            advice = f" Tuples are not taken as arguments; use a list instead: list[{element}]."
        return (
            f"parameter {name!r} has the unsupported type {_shown(annotation)}.{advice} Accepted "
            f"are {_ACCEPTED}."
        )

    def _default(self, parameter: inspect.Parameter) -> str:
        value = parameter.default
        if value is None or isinstance(value, bool | int | str | dtype):
            return default_text(value)
        if isinstance(value, float):
            return repr(value)
        if isinstance(value, device):
            return f'"{value}"'
        raise self.fail(
            f"parameter {parameter.name!r} has a default of the unsupported type "
            f"{type(value).__name__}; it can be None, a number, a str, a dtype or a device."
        )

    def _returns(self) -> str:
        annotation = self.signature.return_annotation
        if annotation is inspect.Signature.empty:
            raise self.fail("the function has no return annotation; write `-> None` for nothing.")
        annotation = self._evaluated(annotation, "of the return")
        if annotation is None or annotation is type(None):
            return "()"
        if typing.get_origin(annotation) is tuple:
            inside = typing.get_args(annotation)
            parts = [self._returned(one, annotation) for one in inside]
            return f"(({parts[0]}))" if len(parts) == 1 else f"({', '.join(parts)})"
        return self._returned(annotation, annotation)

    def _returned(self, annotation: Any, whole: Any) -> str:
        kind = None if annotation is Ellipsis else schema_type(annotation)
        is_sequence = typing.get_origin(annotation) is collections.abc.Sequence
        if kind not in _RETURNED or is_sequence:
            raise self.fail(
                f"the return has the unsupported type {_shown(whole)}. Accepted are None, Tensor, "
                "list[Tensor], int, float, bool, types.Number, and tuples of these."
            )
        return kind

    def _evaluated(self, annotation: Any, which: str) -> Any:
        """An annotation with strings in it replaced by what they name."""
        if isinstance(annotation, typing.ForwardRef):
            annotation = annotation.__forward_arg__
        if isinstance(annotation, str):
            scope = getattr(self.function, "__globals__", {})
            try:
                return self._evaluated(eval(annotation, scope), which)  # the user's own text
            except Exception as error:
                raise self.fail(
                    f"the annotation {annotation!r} {which} does not name a type. It is looked up "
                    "among the globals of the function's module, so it must be importable there."
                ) from error
        inside = typing.get_args(annotation)
        if not any(isinstance(one, str | typing.ForwardRef) for one in inside):
            return annotation
        made = tuple(self._evaluated(one, which) for one in inside)
        origin: Any = typing.get_origin(annotation)
        if origin in (typing.Union, types.UnionType):
            return typing.Union[made]  # noqa: UP007 (made of values)
        return origin[made if len(made) > 1 else made[0]]


def _shown(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) and not typing.get_args(
        annotation
    ) else str(annotation)  # fmt: skip


def schema_type(annotation: Any) -> str | None:
    """How a schema writes the type of an argument with this annotation; None if it cannot."""
    annotation = _plain_alias(annotation)
    basic = _scalar(annotation)
    if basic is not None:
        return basic
    listed = _list(annotation)
    if listed is not None:
        return listed
    inner = _without_none(annotation)
    if inner is None:
        return None
    basic = _scalar(inner)
    if basic is not None:
        return f"{basic}?"
    listed = _list(inner)
    return f"{listed}?" if listed and listed[:-2] in _IN_OPTIONAL_LISTS else None


def _plain_alias(annotation: Any) -> Any:
    if sys.version_info >= (3, 12) and isinstance(annotation, typing.TypeAliasType):
        return annotation.__value__
    return annotation


def _scalar(annotation: Any) -> str | None:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return "Scalar" if frozenset(typing.get_args(annotation)) == _NUMBER else None
    try:
        return _BASIC.get(annotation)
    except TypeError:  # not hashable
        return None


def _without_none(annotation: Any) -> Any:
    """The type inside an Optional, or None."""
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return None
    inside = typing.get_args(annotation)
    rest = tuple(one for one in inside if one is not type(None))
    if len(rest) == len(inside):
        return None
    return rest[0] if len(rest) == 1 else typing.Union[rest]  # noqa: UP007 (made of values)


def _list(annotation: Any) -> str | None:
    if typing.get_origin(annotation) not in (list, collections.abc.Sequence):
        return None
    (element,) = typing.get_args(annotation)
    basic = _scalar(element)
    if basic in _IN_LISTS:
        return f"{basic}[]"
    return "Tensor?[]" if _without_none(element) is Tensor else None

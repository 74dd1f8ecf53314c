"""Arguments of functions and modules by name, with their defaults."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

from pullback.core.listing import only_public as _only_public
from pullback.nn.modules.module import Module

__all__ = [
    *("ArgsKwargsPair", "create_type_hint", "get_signature_for_torch_op", "normalize_function"),
    *("normalize_module", "type_matches"),
]


class ArgsKwargsPair(NamedTuple):
    """Arguments by position and by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def get_signature_for_torch_op(op: Any, return_schemas: bool = False) -> Any:
    """The signatures of a function of the package; None where they are not known."""
    try:
        found = [inspect.signature(op)]
    except (TypeError, ValueError):
        return (None, None) if return_schemas else None
    return (found, None) if return_schemas else found


def normalize_function(
    target: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Arguments of a call with defaults filled in; None if they do not fit.

    >>> import pullback as torch
    >>> from pullback.fx.operator_schemas import normalize_function
    >>> pair = normalize_function(
    ...     torch.nn.functional.relu, ("x",), normalize_to_only_use_kwargs=True
    ... )
    >>> pair.kwargs
    {'input': 'x', 'inplace': False}
    """
    signatures = get_signature_for_torch_op(target)
    if not signatures:
        return None
    return _bound(signatures[0], args, kwargs or {}, normalize_to_only_use_kwargs)


def normalize_module(
    root: Module,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The same for a call of a submodule."""
    module = root.get_submodule(target)
    signature = inspect.signature(module.forward)
    return _bound(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def _bound(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], only_names: bool
) -> ArgsKwargsPair | None:
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    kinds = {param.kind for param in signature.parameters.values()}
    if only_names and not kinds & {inspect.Parameter.VAR_POSITIONAL}:
        named = dict(bound.arguments)
        for name, param in signature.parameters.items():
            if param.kind is param.VAR_KEYWORD:
                named.update(named.pop(name))
        return ArgsKwargsPair((), named)
    return ArgsKwargsPair(bound.args, bound.kwargs)


def create_type_hint(x: Any) -> Any:
    """The type of nested lists and tuples of types, as far as it is one."""
    if isinstance(x, list | tuple) and x:
        kinds = [create_type_hint(one) for one in x]
        common = kinds[0] if all(kind == kinds[0] for kind in kinds) else Any
        return list[common] if isinstance(x, list) else tuple[common, ...]  # type: ignore[valid-type]  # a type made at run time
    return x


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Whether a value of one type may be passed where another is declared.

    >>> from pullback.fx.operator_schemas import type_matches
    >>> type_matches(float, int), type_matches(int, float)
    (True, False)
    """
    if signature_type is argument_type or signature_type in (Any, inspect.Parameter.empty):
        return True
    if signature_type is float and argument_type is int:
        return True
    try:
        return issubclass(argument_type, signature_type)
    except TypeError:
        return bool(signature_type == argument_type)


__dir__ = _only_public(globals())

"""The older interface for custom operators, as functions; `pullback.library` is the present one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pullback.library.call.fake import get_ctx
from pullback.library.legacy import operator as legacy_op
from pullback.library.schema import parse_schema

__all__ = [
    "custom_op",
    "get_ctx",
    "impl",
    "impl_abstract",
    "impl_backward",
    "impl_save_for_backward",
]


def custom_op(qualname: str, func_or_schema: Callable[..., Any] | str | None = None) -> Any:
    """Define an operator by a function with type hints, or by a schema; deprecated.

    >>> import warnings
    >>> import pullback as torch
    >>> from pullback import _custom_ops
    >>> with warnings.catch_warnings(action="ignore"):
    ...     _custom_ops.custom_op("doc_old::twice", "(Tensor x) -> Tensor")
    >>> @_custom_ops.impl("doc_old::twice")
    ... def _(x):
    ...     return x * 2
    >>> torch.ops.doc_old.twice(torch.ones(1))
    tensor([2.])
    """
    legacy_op.checked_name(qualname)
    legacy_op.warn_deprecated()
    if isinstance(func_or_schema, str):
        try:
            schema = parse_schema(f"op{func_or_schema}").named(qualname, "")
        except RuntimeError as error:
            raise AssertionError(f"{qualname}: {error}") from error  # torch's type
        legacy_op.made(qualname, legacy_op.checked_schema(qualname, schema))
        return None

    def define(function: Callable[..., Any]) -> Callable[..., Any]:
        legacy_op.made(qualname, legacy_op.schema_of(qualname, function, None))
        return function

    return define if func_or_schema is None else define(func_or_schema)


def _registered(register: Any, func: Callable[..., Any] | None) -> Any:
    return register if func is None else register(func)


def impl(
    qualname: str,
    *,
    device_types: str | Iterable[str] = ("cpu", "cuda"),
    func: Callable[..., Any] | None = None,
) -> Any:
    """Register the kernel for types of devices; one kernel may serve several."""
    op = legacy_op.found(qualname)
    if not any(a.type.is_tensor_like for a in op._operator.schema.arguments):
        return _registered(op.impl_factory(), func)
    return _registered(op.impl(device_types), func)


def impl_abstract(qualname: str, *, func: Callable[..., Any] | None = None) -> Any:
    """Register what the operator returns for tensors without data."""
    return _registered(legacy_op.found(qualname).impl_abstract(), func)


def impl_save_for_backward(qualname: str, *, func: Callable[..., Any] | None = None) -> Any:
    """Register `save(inputs, output)`, whose result backward gets; a tree of any values."""
    return _registered(legacy_op.found(qualname).impl_save_for_backward(), func)


def impl_backward(
    qualname: str,
    output_differentiability: list[bool] | None = None,
    *,
    func: Callable[..., Any] | None = None,
) -> Any:
    """Register `backward(ctx, saved, *grads)`, which returns gradients by argument name."""
    return _registered(legacy_op.found(qualname).impl_backward(output_differentiability), func)


def _destroy(qualname: str) -> None:
    """Take an operator away."""
    legacy_op.found(qualname)._destroy()

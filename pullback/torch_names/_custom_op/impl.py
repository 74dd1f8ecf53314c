"""`custom_op` of the older interface, which returns a `CustomOp` to register the rest on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.library.call.fake import get_ctx
from pullback.library.legacy import operator as legacy_op
from pullback.library.legacy.operator import RESERVED as RESERVED_NS
from pullback.library.legacy.operator import CustomOp, warn_deprecated

__all__ = ["RESERVED_NS", "CustomOp", "custom_op", "get_ctx", "warn_deprecated"]


def custom_op(qualname: str, manual_schema: str | None = None) -> Any:
    """Define an operator by a function that is never called: its hints (or the schema) count.

    >>> import warnings
    >>> import pullback as torch
    >>> from pullback._custom_op.impl import custom_op
    >>> with warnings.catch_warnings(action="ignore"):
    ...     @custom_op("doc_older::thrice")
    ...     def thrice(x: torch.Tensor) -> torch.Tensor: ...
    >>> @thrice.impl("cpu")
    ... def _(x):
    ...     return x * 3
    >>> thrice(torch.ones(1))
    tensor([3.])
    """
    warn_deprecated()
    legacy_op.checked_name(qualname)

    def define(function: Callable[..., Any]) -> CustomOp:
        return legacy_op.made(qualname, legacy_op.schema_of(qualname, function, manual_schema))

    return define

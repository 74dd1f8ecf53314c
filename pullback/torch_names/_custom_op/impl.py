"""`custom_op` of the older interface, which returns a `CustomOp` to register the rest on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.library.call.fake import get_ctx
from pullback.library.legacy import operator as legacy_op
from pullback.library.legacy.operator import RESERVED as RESERVED_NS
from pullback.library.legacy.operator import CustomOp, warn_deprecated
from pullback.library.schema.infer import infer_schema

__all__ = [
    "RESERVED_NS",
    "SUPPORTED_DEVICE_TYPE_TO_KEY",
    "CustomOp",
    "custom_op",
    "get_ctx",
    "get_op",
    "global_registry",
    "infer_schema",
    "warn_deprecated",
]

SUPPORTED_DEVICE_TYPE_TO_KEY = {"cpu": "CPU", "cuda": "CUDA"}
# Name -> operator of this interface, in the order of their making.
global_registry = legacy_op.MADE


def get_op(qualname: str) -> Any:
    """The overload `torch.ops.ns.name.default`, of any operator.

    >>> from pullback._custom_op.impl import get_op
    >>> get_op("aten::sin")
    <OpOverload(op='aten.sin', overload='default')>
    """
    from pullback import ops

    space, name = legacy_op.split_name(qualname)
    packet = getattr(getattr(ops, space), name, None)
    found = getattr(packet, "default", None)
    if found is None:
        raise ValueError(f"There is no operator {qualname}; define it first.")
    return found


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

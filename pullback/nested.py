"""`pullback.nested`: batches of tensors of different sizes, under torch's names."""

from __future__ import annotations

from pullback.core.listing import only_public as _only_public
from pullback.operators.nested.create import (
    as_nested_tensor,
    masked_select,
    narrow,
    nested_tensor,
    nested_tensor_from_jagged,
)
from pullback.operators.nested.parts import to_padded_tensor

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]

__dir__ = _only_public(globals())

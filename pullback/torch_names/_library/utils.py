"""Small questions about operators and their schemas, under torch's private path."""

from __future__ import annotations

from typing import Any

from pullback.library import Tag
from pullback.library.overload import OpOverload
from pullback.library.schema import Schema, parse_schema
from pullback.library.schema.types import ListType, OptionalType, TensorType, Type

__all__ = [
    "get_layout_constraint_tag",
    "is_functional_schema",
    "is_tensor_like_type",
    "is_tensorlist_like_type",
    "lookup_op",
    "parse_namespace",
    "tags_by_priority",
]

tags_by_priority = [
    Tag.needs_exact_strides,
    Tag.needs_contiguous_strides,
    Tag.needs_fixed_stride_order,
    Tag.flexible_layout,
]


def parse_namespace(qualname: str) -> tuple[str, str]:
    """Namespace and name of "ns::name"."""
    parts = qualname.split("::", 1)
    if len(parts) != 2:
        raise ValueError(f"An operator is named 'namespace::name', got {qualname!r}.")
    return parts[0], parts[1]


def lookup_op(qualname: str) -> OpOverload:
    """The overload that "ns::name" (the one without a name) or "ns::name.overload" means.

    >>> from pullback._library.utils import lookup_op
    >>> lookup_op("aten::add.Tensor")
    <OpOverload(op='aten.add', overload='Tensor')>
    """
    from pullback import ops

    space, name = parse_namespace(qualname)
    name, _, overload = name.partition(".")
    found: OpOverload = getattr(getattr(getattr(ops, space), name), overload or "default")
    return found


def is_functional_schema(schema: Any, *, allow_valid_view: bool = False) -> bool:
    """Whether nothing is written, something is returned, and no result shares memory.

    With `allow_valid_view` one tensor may be returned as a view of the only tensor that goes in.
    """
    if isinstance(schema, str):
        schema = parse_schema(schema)
    if not isinstance(schema, Schema):
        raise AssertionError(
            f"A schema is needed, as text or as an overload's `_schema`, got {type(schema)}."
        )
    if schema.is_mutable or not schema.returns:
        return False
    if not schema.is_view:
        return True
    return allow_valid_view and _is_valid_view(schema)


def _is_valid_view(schema: Schema) -> bool:
    taken = [one for one in schema.arguments if one.type.is_tensor_like]
    given = [one for one in schema.returns if one.type.is_tensor_like]
    if len(taken) != 1 or len(given) != 1:
        return False
    source, view = taken[0].alias_info, given[0].alias_info
    return source is not None and view is not None and source.marks == view.marks


def is_tensorlist_like_type(kind: Any) -> bool:
    """Whether it is a list of tensors; the list, or each tensor, may be optional."""
    inner = kind.element if isinstance(kind, OptionalType) else kind
    return isinstance(inner, ListType) and inner.is_tensor_like


def is_tensor_like_type(kind: Any) -> bool:
    """Whether it is a tensor, or an optional one."""
    inner: Type = kind.element if isinstance(kind, OptionalType) else kind
    return isinstance(inner, TensorType)


def get_layout_constraint_tag(fn: Any, *, with_default: bool = True) -> Any:
    """What an operator says of the strides that it needs; else the default, or None."""
    for tag in tags_by_priority:
        if tag in fn.tags:
            return tag
    if not with_default:
        return None
    # A user's kernel may look at strides; the built-in operators take any.
    return Tag.needs_exact_strides if fn._defined_in_python else Tag.flexible_layout

"""Tags: what is known of an operator beyond its schema."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

from pullback.library.registry import Operator
from pullback.library.schema import Schema


class Tag(enum.Enum):
    """The tags that torch gives operators; two of them hold users' operators to a rule.

    `inplace`: the first argument is written and returned. `out`: keyword-only tensors are written
    and returned in order.

    >>> import pullback as torch
    >>> with torch.library._scoped_library("doc_tags", "FRAGMENT") as lib:
    ...     _ = lib.define("drawn(Tensor x) -> Tensor", tags=torch.Tag.nondeterministic_seeded)
    ...     torch.ops.doc_tags.drawn.default.tags
    [<Tag.nondeterministic_seeded>]
    """

    core = "core"
    cudagraph_unsafe = "cudagraph_unsafe"
    data_dependent_output = "data_dependent_output"
    dynamic_output_shape = "dynamic_output_shape"
    flexible_layout = "flexible_layout"
    generated = "generated"
    inplace = "inplace"
    inplace_view = "inplace_view"
    maybe_aliasing_or_mutating = "maybe_aliasing_or_mutating"
    needs_contiguous_strides = "needs_contiguous_strides"
    needs_exact_strides = "needs_exact_strides"
    needs_fixed_stride_order = "needs_fixed_stride_order"
    nondeterministic_bitwise = "nondeterministic_bitwise"
    nondeterministic_seeded = "nondeterministic_seeded"
    out = "out"
    out_variant = "out_variant"
    pointwise = "pointwise"
    pt2_compliant_tag = "pt2_compliant_tag"
    reduction = "reduction"
    view_copy = "view_copy"

    def __repr__(self) -> str:
        return f"<Tag.{self.name}>"


def as_list(tags: Any) -> list[Any]:
    """One tag, several or None, as a list."""
    if tags is None:
        return []
    return list(tags) if isinstance(tags, Iterable) and not isinstance(tags, str) else [tags]


def check_inplace(schema: Schema) -> None:
    """What Tag.inplace asks of a schema."""
    first = schema.arguments[0] if schema.arguments else None
    writes = [argument for argument in schema.arguments if argument.is_write]
    fits = (
        first is not None
        and not first.kwarg_only
        and first.type.text == "Tensor"
        and first.is_write
        and len(writes) == 1
        and len(schema.returns) == 1
        and schema.returns[0].type.text == "Tensor"
    )
    if not fits:
        raise ValueError(
            f"{schema.name}: with Tag.inplace the first positional argument must be a written "
            "Tensor, the only one that is written, and the one return must be that Tensor. "
            f"Declaration: {schema}"
        )


def check_out(schema: Schema) -> None:
    """What Tag.out asks of a schema."""
    writes = [argument for argument in schema.arguments if argument.is_write]
    fits = bool(writes) and all(
        argument.kwarg_only and argument.type.text == "Tensor" for argument in writes
    )
    if not fits or len(schema.returns) != len(writes):
        raise ValueError(
            f"{schema.name}: with Tag.out the written arguments must be keyword-only Tensors, and "
            "exactly they must be returned, in this order. "
            f"Declaration: {schema}"
        )


def returns_written(operator: Operator, values: list[Any], result: Any) -> None:
    """Hold the results to the rule: the very tensors that were written, in order."""
    written = [
        value
        for argument, value in zip(operator.schema.arguments, values, strict=True)
        if argument.is_write
    ]
    results = result if isinstance(result, tuple) else (result,)
    for number, (one, given) in enumerate(zip(results, written, strict=True)):
        if one is not given:
            raise RuntimeError(
                f"{operator.qualname}: result {number} must be the very tensor that was written, "
                f"but the kernel returned another one. Return the argument itself."
            )


def recorded_out(operator: Operator) -> RuntimeError:
    """A call with `out=` that autograd would have to record."""
    return RuntimeError(
        f"{operator.qualname} writes to tensors given to it (Tag.out), which cannot be "
        "differentiated, and an argument requires grad. Call it under no_grad."
    )

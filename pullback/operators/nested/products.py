"""Products of jagged tensors: linear layers, matrix products, attention, embeddings."""

from __future__ import annotations

from typing import Any

from pullback.core.explain import layout_errors as errors
from pullback.operators.linalg.products import matmul as dense_matmul
from pullback.operators.nested.array import form_of, is_nested
from pullback.operators.nested.parts import as_padded, filled, from_padded, joined, unbind
from pullback.operators.nested.pointwise import wrapped
from pullback.operators.nested.primitives import values_of
from pullback.operators.running.naming import shown_as

__all__ = ["embedding", "linear", "matmul", "scaled_dot_product_attention"]


def linear(func: Any, input: Any, weight: Any, bias: Any = None) -> Any:
    """A linear layer over the last, dense dimension."""
    form = form_of(input)
    if form.dim == input._array.ndim - 1:
        raise errors.not_taken_nested("linear", "torch.jagged", " whose last dim is ragged")
    made = wrapped(func(values_of(input), weight, bias), form)
    return shown_as("LinearBackward0", made)


def embedding(func: Any, input: Any, weight: Any, *args: Any, **kwargs: Any) -> Any:
    """A row of the weight for each index."""
    if is_nested(weight):
        raise errors.not_taken_nested("embedding", weight.layout, " as weight")
    return wrapped(func(values_of(input), weight, *args, **kwargs), form_of(input))


# Matrix products ----------------------------------------------------------------------------------


def matmul(func: Any, input: Any, other: Any, **named: Any) -> Any:
    """Matrices of a nested tensor times dense ones, or nested ones that fit."""
    made = _product(input, named.get("mat2", other))
    return shown_as("MatmulBackward0", made)


def _ragged(x: Any) -> int | None:
    """Where a matrix is ragged, from the end: 1 columns, 2 rows; None of a dense tensor."""
    return int(x._array.ndim - form_of(x).dim) if is_nested(x) else None


def _refused(a: Any, b: Any) -> RuntimeError:
    return RuntimeError(
        f"matmul: shapes {tuple(a._array.shape)} and {tuple(b._array.shape)} of nested tensors do "
        "not go together; the result may be ragged in one dimension. Use unbind()."
    )


def _product(a: Any, b: Any) -> Any:
    left, right = _ragged(a), _ragged(b)
    if (left is not None and a._array.ndim < 3) or (right is not None and b._array.ndim < 3):
        raise _refused(a, b)
    if left is not None and right is not None:
        return _both(a, b, left, right)
    if left is not None:
        if left == 1 or b._array.ndim < 2:
            raise _refused(a, b)
        if b._array.ndim == 2:
            return wrapped(dense_matmul(values_of(a), b), form_of(a))
        return _through_padding(a, a, b)
    if right == 2 or a._array.ndim < 2:
        raise _refused(a, b)
    if a._array.ndim == 2 and right is not None and right > 2:
        return wrapped(dense_matmul(a, values_of(b)), form_of(b))
    return _through_padding(b, a, b)


def _both(a: Any, b: Any, left: int, right: int) -> Any:
    if not form_of(a).rows.same_lengths(form_of(b).rows) or a._array.ndim != b._array.ndim:
        raise _refused(a, b)
    if (left, right) == (1, 2):  # summed over the ragged dimension: padding adds nothing
        return dense_matmul(as_padded(a, 0), as_padded(b, 0))
    if left == right and left > 2:
        a, b = filled(a), filled(b)
        return wrapped(dense_matmul(values_of(a), values_of(b)), form_of(a))
    raise _refused(a, b)


def _through_padding(nested: Any, a: Any, b: Any) -> Any:
    """The product of padded matrices, without the padding."""
    form = form_of(nested)
    if (b if nested is a else a)._array.ndim > nested._array.ndim:
        raise _refused(a, b)
    left, right = (as_padded(one, 0) if one is nested else one for one in (a, b))
    made = dense_matmul(left, right)
    return wrapped(from_padded(made, form, nested._array.values.shape[form.axis]), form)


# Attention ----------------------------------------------------------------------------------------


def scaled_dot_product_attention(
    func: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **kwargs: Any
) -> Any:
    """Attention of each component by itself; queries and keys may have different lengths."""
    if not (is_nested(query) and is_nested(key) and is_nested(value)):
        raise errors.not_taken_nested(
            "scaled_dot_product_attention", "torch.jagged", " together with dense ones"
        )
    if is_nested(attn_mask):
        raise errors.not_taken_nested("scaled_dot_product_attention", "torch.jagged", " as mask")
    form, other = form_of(query), form_of(key)
    if form.dim > query._array.ndim - 2 or other.dim != form.dim:
        raise RuntimeError(
            "scaled_dot_product_attention: nested tensors need their ragged dimension before the "
            f"last, as (batch, heads, {form.rows.symbol}, size); got {tuple(query._array.shape)} "
            f"and {tuple(key._array.shape)}. Call transpose(1, 2) first."
        )
    if form.dim < query._array.ndim - 2 and not form.rows.same_lengths(other.rows):
        raise RuntimeError(
            "scaled_dot_product_attention: query and key have different lengths in the dimension "
            f"{form.rows.symbol}, which stands beside the batch. Call transpose(1, 2) first."
        )
    if not other.rows.same_lengths(form_of(value).rows):
        raise RuntimeError("scaled_dot_product_attention: key and value have different lengths.")
    parts = zip(unbind(query), unbind(key), unbind(value), strict=True)
    made = [func(q, k, v, attn_mask, *args, **kwargs) for q, k, v in parts]
    return joined(made, form)

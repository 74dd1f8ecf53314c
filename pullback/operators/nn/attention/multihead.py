"""Attention with several heads, projections and masks: `multi_head_attention_forward`."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.arrays import namespace
from pullback.core.tensor import wrap
from pullback.operators.linalg.affine import linear
from pullback.operators.linalg.products import bmm, matmul
from pullback.operators.nn.activation.dropout import dropout
from pullback.operators.nn.activation.softmax import softmax
from pullback.operators.nn.attention.dot_product import scaled_dot_product_attention
from pullback.operators.nn.attention.instead import instead
from pullback.operators.reduce.sums import mean
from pullback.operators.shape.joining import cat, chunk, unbind
from pullback.operators.shape.reshaping import expand, permute, reshape, transpose

FOUND_IN = {"nn.functional": "multi_head_attention_forward"}

_OP = "multi_head_attention_forward"


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Any, Any]:
    """Project, attend with each head, project back: (length, batch, width), and weights or None.

    Without a batch, inputs are (length, width).

    >>> import pullback as torch
    >>> x = torch.ones(3, 2, 4)
    >>> into, bias, out = torch.ones(12, 4), torch.zeros(12), torch.eye(4)
    >>> attended, weights = torch.nn.functional.multi_head_attention_forward(
    ...     x, x, x, 4, 2, into, bias, None, None, False, 0.0, out, torch.zeros(4)
    ... )
    >>> attended.shape, weights.shape
    (torch.Size([3, 2, 4]), torch.Size([2, 3, 3]))
    """
    if (
        query is key is value
        and not (use_separate_proj_weight or is_causal or add_zero_attn)
        and attn_mask is key_padding_mask is bias_k is bias_v is static_k is static_v is None
        and query.ndim == 3
    ):
        p = dropout_p if training else 0.0
        projections = in_proj_weight, in_proj_bias, out_proj_weight, out_proj_bias
        _check(query, key, value, embed_dim_to_check, num_heads)
        return _to_itself(query, num_heads, projections, p, need_weights, average_attn_weights)
    batched = _check(query, key, value, embed_dim_to_check, num_heads)
    if is_causal and attn_mask is None:
        raise RuntimeError(f"{_OP}: is_causal says what attn_mask is; it needs that mask, too.")
    _check_keys(key, value, key_padding_mask, batched=batched)
    # The hint is taken at its word where torch does: without padding, and weights that are wanted.
    causal = is_causal and key_padding_mask is None and not need_weights
    attn_mask = None if causal else attn_mask
    if not batched:
        query, key, value = (one[:, None] for one in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
    dtype = query._array.dtype
    length, batch, width = query.shape
    mask = _full_mask(_additive(attn_mask, dtype), length, batch * num_heads, batched=batched)
    padding = _additive(key_padding_mask, dtype)
    if use_separate_proj_weight:
        weights: tuple[Any, ...] = (q_proj_weight, k_proj_weight, v_proj_weight)
        if any(one is None for one in weights):
            raise RuntimeError(f"{_OP}: separate projections need q_, k_ and v_proj_weight.")
    else:
        weights = chunk(in_proj_weight, 3)
    _check_additions(bias_k, bias_v, static_k, static_v, (batch * num_heads, width // num_heads))
    biases = (None,) * 3 if in_proj_bias is None else chunk(in_proj_bias, 3)
    inputs = (query, key, value)
    q, k, v = (linear(*each) for each in zip(inputs, weights, biases, strict=True))
    extra = 0
    if bias_k is not None:
        k = cat([k, expand(bias_k, (1, batch, width))])
        v = cat([v, expand(bias_v, (1, batch, width))])
        extra += 1
    q = _by_head(q, num_heads)
    k = _by_head(k, num_heads) if static_k is None else static_k
    v = _by_head(v, num_heads) if static_v is None else static_v
    if add_zero_attn:
        zeros = wrap(namespace(k._array).zeros((k.shape[0], 1, k.shape[2]), dtype))
        k, v = cat([k, zeros], 1), cat([v, zeros], 1)
        extra += 1
    merged = _merged(_longer(mask, extra), _longer(padding, extra), batch, num_heads)
    p = dropout_p if training else 0.0
    attention: Any
    if causal:
        mixed, attention = scaled_dot_product_attention(q, k, v, None, p, is_causal=True), None
    else:
        mixed, attention = _attend(q, k, v, merged, p, need_weights)
    joined = reshape(transpose(mixed, 0, 1), (length, batch, width))
    result = linear(joined, out_proj_weight, out_proj_bias)
    if need_weights:
        attention = reshape(attention, (batch, num_heads, length, -1))
        attention = mean(attention, 1) if average_attn_weights else attention
    if batched:
        return result, attention if need_weights else None
    return result[:, 0], attention[0] if need_weights else None


def _to_itself(
    x: Any, heads: int, projections: Any, p: float, need_weights: bool, average_weights: bool
) -> tuple[Any, Any]:
    """What a batch attends to in itself, without a mask: all three projections in one product."""
    into, bias, out, out_bias = projections
    length, batch, width = x._array.shape
    parts = reshape(linear(x, into, bias), (length, batch, 3, heads, width // heads))
    q, k, v = unbind(permute(parts, (2, 1, 3, 0, 4)), 0)
    if not need_weights:
        mixed, attention = scaled_dot_product_attention(q, k, v, None, p), None
    else:
        if instead.get() is not None:
            raise _of_parts()
        scores = matmul(q * (1 / math.sqrt(width // heads)), transpose(k, 2, 3))
        attention = softmax(scores, -1)
        attention = dropout(attention, p) if p else attention
        mixed = matmul(attention, v)
        attention = mean(attention, 1) if average_weights else attention
    joined = reshape(permute(mixed, (2, 0, 1, 3)), (length, batch, width))
    return linear(joined, out, out_bias), attention


def _check(query: Any, key: Any, value: Any, width: int, heads: int) -> bool:
    """Refuse what does not fit; tell whether there is a batch."""
    if query.ndim not in (2, 3) or not query.ndim == key.ndim == value.ndim:
        shapes = ", ".join(str(tuple(one.shape)) for one in (query, key, value))
        raise AssertionError(f"{_OP}: query, key and value must all be 2-d or 3-d, got {shapes}.")
    if query.shape[-1] != width:
        raise AssertionError(
            f"{_OP}: the width of query is {query.shape[-1]}, embed_dim_to_check is {width}."
        )
    if width % heads:
        raise AssertionError(f"{_OP}: width {width} does not divide into {heads} heads.")
    return bool(query.ndim == 3)


def _of_parts() -> Exception:
    return NotImplementedError(
        f"{_OP}: no rank has the weights of attention whose sequence is shared out; pass "
        "need_weights=False."
    )


def _check_keys(key: Any, value: Any, padding: Any, *, batched: bool) -> None:
    """Refuse keys and values, or a mask of keys, that do not fit each other."""
    if key.shape[:-1] != value.shape[:-1]:
        raise AssertionError(
            f"{_OP}: key and value must have one length and batch, got {tuple(key.shape)} and "
            f"{tuple(value.shape)}."
        )
    if padding is not None:
        wanted = (key.shape[1], key.shape[0]) if batched else (key.shape[0],)
        if tuple(padding.shape) != wanted:
            raise AssertionError(
                f"{_OP}: key_padding_mask must have the shape {wanted}, got {tuple(padding.shape)}."
            )


def _additive(mask: Any, dtype: Any) -> Any:
    """A mask that is added to the scores: what a bool one hides becomes minus infinity."""
    if mask is None:
        return None
    kind = mask._array.dtype.kind
    if kind == "b":
        return wrap(namespace(mask._array).where(mask._array, -math.inf, 0.0).astype(dtype))
    if kind != "f":
        raise AssertionError(f"{_OP}: masks must be bool or floating point, got {mask.dtype}.")
    return mask


def _check_additions(
    bias_k: Any, bias_v: Any, static_k: Any, static_v: Any, sizes: tuple[int, int]
) -> None:
    """Refuse biases of keys and values, or given ones, that do not go together."""
    if (bias_k is None) != (bias_v is None):
        raise AssertionError(f"{_OP}: bias_k and bias_v go together, but one is None.")
    if bias_k is not None and (static_k is not None or static_v is not None):
        raise AssertionError(f"{_OP}: bias_k and bias_v cannot be added to static_k, static_v.")
    for name, one in (("static_k", static_k), ("static_v", static_v)):
        if one is not None and (one.shape[0], one.shape[2]) != sizes:
            raise AssertionError(
                f"{_OP}: {name} must be ({sizes[0]}, keys, {sizes[1]}), got {tuple(one.shape)}."
            )


def _full_mask(mask: Any, length: int, heads: int, *, batched: bool) -> Any:
    """A mask for each head of each example, or one for all."""
    if mask is None:
        return None
    if mask.ndim == 2 and mask.shape[0] == length:
        return mask[None]
    if mask.ndim == 3 and tuple(mask.shape[:2]) == (heads, length):
        return mask
    # As torch: a wrong size is no failed assertion where there is a batch.
    wrong_size = batched and mask.ndim in (2, 3)
    raise (RuntimeError if wrong_size else AssertionError)(
        f"{_OP}: attn_mask must be ({length}, keys) or ({heads}, {length}, keys), got "
        f"{tuple(mask.shape)}."
    )


def _by_head(x: Any, heads: int) -> Any:
    """(length, batch, width) as (batch * heads, length, width of a head)."""
    length, batch, width = x.shape
    return transpose(reshape(x, (length, batch * heads, width // heads)), 0, 1)


def _longer(mask: Any, count: int) -> Any:
    """The mask with `count` more keys, which everyone may see."""
    if mask is None or not count:
        return mask
    more = namespace(mask._array).zeros((*mask.shape[:-1], count), mask._array.dtype)
    return cat([mask, wrap(more)], -1)


def _merged(mask: Any, padding: Any, batch: int, heads: int) -> Any:
    if padding is None:
        return mask
    keys = padding.shape[-1]
    spread = expand(reshape(padding, (batch, 1, 1, keys)), (batch, heads, 1, keys))
    spread = reshape(spread, (batch * heads, 1, keys))
    return spread if mask is None else mask + spread


def _attend(q: Any, k: Any, v: Any, mask: Any, p: float, need_weights: bool) -> tuple[Any, Any]:
    """Rows of `v`, mixed for each head; the weights as well where they are wanted."""
    if not need_weights:
        return scaled_dot_product_attention(q, k, v, mask, p), None
    if instead.get() is not None:
        raise _of_parts()
    scores = bmm(q * (1 / math.sqrt(q.shape[-1])), transpose(k, -2, -1))
    weights = softmax(scores if mask is None else scores + mask, -1)
    weights = dropout(weights, p) if p else weights
    return bmm(weights, v), weights

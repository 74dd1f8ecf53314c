"""Scaled dot-product attention."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy

from pullback.core.arrays import F32, LIBRARIES, namespace, some
from pullback.core.mode import fast, get_mode, settle
from pullback.operators.arrays import programs
from pullback.operators.arrays.native import by_machine_code
from pullback.operators.arrays.products import LEAST
from pullback.operators.arrays.rows import FEW, column
from pullback.operators.arrays.sums import sums, totals
from pullback.operators.batching import filled
from pullback.operators.conditions import above, at_least, floating, given, host, says
from pullback.operators.create.constants import constant_like
from pullback.operators.declare import Array, Namespace, Op, kernel, multilinear, primitive
from pullback.operators.indexing.selection import masked_fill
from pullback.operators.linalg.batch import product as product_of_batches
from pullback.operators.linalg.products import are_halves, for_blas, matmul, product, total
from pullback.operators.nn.activation.dropout import dropout
from pullback.operators.nn.activation.softmax import are_safe, softmax, softmax_adjoint, softmax_of
from pullback.operators.nn.attention.instead import instead
from pullback.operators.shape.reshaping import reshape, transpose
from pullback.operators.shape.views import expand_view
from pullback.operators.tensor.convert import astype

FOUND_IN = {"nn.functional": "scaled_dot_product_attention"}


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention: `softmax(query @ key.mT * scale) @ value`, optionally masked or causal.

    A bool mask says which keys a query may attend to; a float mask is added to the scores. A query
    that may attend to none gets zeros.

    >>> import pullback as torch
    >>> q = torch.zeros(1, 2, 3)
    >>> torch.nn.functional.scaled_dot_product_attention(q, q, torch.ones(1, 2, 3))
    tensor([[[1., 1., 1.],
             [1., 1., 1.]]])
    """
    if (answer := instead.get()) is not None:
        return answer(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if query._array.dtype.itemsize == 2 and are_halves(
        namespace(query._array), query._array, key._array, value._array
    ):  # all steps in single, rounded once
        dtype = query._array.dtype
        if attn_mask is not None and attn_mask._array.dtype == dtype:
            attn_mask = astype(attn_mask, F32)
        q, k, v = (astype(one, F32) for one in (query, key, value))
        options = dropout_p, is_causal, scale, enable_gqa
        return astype(scaled_dot_product_attention(q, k, v, attn_mask, *options), dtype)
    # Who takes operators gets those that torch has too, but no mask of one size as a constant.
    usual = attn_mask is None and not enable_gqa and (is_causal or not get_mode().dispatch)
    if usual and _fit(query._array, key._array, value._array):
        factor = 1 / math.sqrt(query._array.shape[-1] or 1) if scale is None else scale
        if not dropout_p and type(query._array) in LIBRARIES and _is_whole(query, key, value):
            return _attention(query, key, value, factor, is_causal)[0]
        weights = _attention_weights(query, key, factor, is_causal)
        return _mix(dropout(weights, dropout_p) if dropout_p else weights, value)
    _check(query, key, value, attn_mask, is_causal=is_causal)
    if enable_gqa:
        key, value = _repeated(key, query.shape[-3]), _repeated(value, query.shape[-3])
    factor = 1 / math.sqrt(query.shape[-1] or 1) if scale is None else scale
    products = matmul(query, transpose(key, -2, -1)) * factor
    hidden = _hidden(query, attn_mask, products._array.shape[-2:], is_causal=is_causal)
    if hidden is None:
        if attn_mask is not None:
            products = products + attn_mask
        hidden = None if attn_mask is None else products == -math.inf
    else:
        products = masked_fill(products, hidden, -math.inf)
    blind = None if hidden is None else hidden.all(-1, True)
    # Examples of vmap have no values to ask, nor do tensors on device "meta"; who takes operators
    # may run them again on other values.
    mode = get_mode()
    unseen = mode.levels or mode.dispatch or mode.tracing is not None
    if blind is not None and (unseen or blind.is_meta or some(blind._array)):
        # Softmax of nothing is NaN, as its gradient: it is taken of zeros instead, and dropped.
        weights = softmax(masked_fill(products, blind, 0.0), -1)
        weights = masked_fill(weights, blind, 0.0)
    else:
        weights = softmax(products, -1)
    if dropout_p:
        return matmul(dropout(weights, dropout_p), value)
    learned = attn_mask is not None and attn_mask.requires_grad
    if learned or mode.dispatch or weights._array.shape[:-2] != value._array.shape[:-2]:
        return matmul(weights, value)
    return _mix(weights, value)


def _fit(query: Array, key: Array, value: Array) -> bool:
    """Whether query, key and value are the usual ones: of one dtype and batch, with rows that fit.

    If not, it is done step by step, which tells what is wrong.
    """
    shape, keys = query.shape, key.shape
    return (
        len(shape) > 1
        and shape[-1] == keys[-1] > 0
        and shape[:-2] == keys[:-2]
        and keys[:-1] == value.shape[:-1]
        and keys[-2] > 0
        and query.dtype is key.dtype is value.dtype
        and (query.dtype.kind == "f" or type(query) in LIBRARIES)
    )


# All of it at once, where a device has a kernel for it --------------------------------------------


def _is_whole(query: Any, key: Any, value: Any) -> bool:
    """Whether a device does it whole; who looks at each operator sees its steps."""
    mode = settle()
    if mode is not fast.plain and mode is not fast.no_grad and mode is not fast.inference:
        return False
    library: Any = LIBRARIES[type(query._array)]
    fits: Any = library.specialised(_has_kernel)
    return bool(fits(query._array, key._array, value._array))


def _has_kernel(query: Array, key: Array, value: Array) -> bool:
    """Of the host none: weights that fit its cache are quicker."""
    return False


def _all_gradients(
    edges: Any,
    g_out: Any,
    query: Any,
    key: Any,
    value: Any,
    out: Any,
    lse: Any,
    factor: float,
    causal: bool,
) -> Any:
    """On arrays; a device has a kernel for it."""
    weights = _attention_weights(query, key, factor, causal)
    made = _scores_gradient(matmul(g_out, transpose(value, -2, -1)), weights, factor)
    of_key, of_value = transpose(made, -2, -1), transpose(weights, -2, -1)
    return _mix(made, key), _mix(of_key, query), _mix(of_value, g_out)


def _changes(g_out: Any, query: Any, key: Any, value: Any, factor: float, causal: bool) -> Any:
    """The gradient of the products of queries and keys."""
    weights = _attention_weights(query, key, factor, causal)
    return _scores_gradient(matmul(g_out, transpose(value, -2, -1)), weights, factor)


def _mixed_tangent(
    d_query: Any,
    d_key: Any,
    d_value: Any,
    query: Any,
    key: Any,
    value: Any,
    factor: float,
    causal: bool,
) -> Any:
    weights = _attention_weights(query, key, factor, causal)
    moved = None
    if d_query is not None or d_key is not None:
        moved = _weights_tangent(d_query, d_key, query, key, weights, factor)
    tangent = total(
        moved is not None and matmul(moved, value), d_value is not None and matmul(weights, d_value)
    )
    return tangent, None


def _filled_batches(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    return op.function(
        *[filled(split[name], size) for name in ("query", "key", "value")], **options
    )


@primitive(
    batch=_filled_batches,
    # `out` and `lse` are asked for as `fused_backward` needs them.
    query=lambda g_out, query, key, value, out, lse, factor, causal: matmul(
        _changes(g_out, query, key, value, factor, causal), key
    ),
    key=lambda g_out, query, key, value, factor, causal: matmul(
        transpose(_changes(g_out, query, key, value, factor, causal), -2, -1), query
    ),
    value=lambda g_out, query, key, factor, causal: matmul(
        transpose(_attention_weights(query, key, factor, causal), -2, -1), g_out
    ),
    fused_backward=_all_gradients,
    jvp=_mixed_tangent,
    outputs="out lse",
    fixed="lse",
    node="ScaledDotProductAttentionBackward0",
    has_out=False,
)
def _attention(
    xp: Namespace, query: Array, key: Array, value: Array, factor: float, causal: bool
) -> Any:
    """The mixed values, and the log of each query's sum of exponentials."""
    op = "scaled_dot_product_attention"
    products = product(xp, op, query, key.swapaxes(-2, -1))
    products *= factor
    if causal:
        xp.copyto(products, -math.inf, where=_later(*products.shape[-2:]))
    top = products.max(-1, keepdims=True)
    products -= top
    xp.exp(products, products)
    whole = sums(xp, products, (products.ndim - 1,), keepdim=True)
    products /= whole
    return product(xp, op, products, value), (xp.log(whole) + top)[..., 0]


# The weights of all keys for each query -----------------------------------------------------------


def _scores_gradient(g: Any, out: Any, factor: float) -> Any:
    return softmax_adjoint(g, out, out.ndim - 1) * factor


def _gradients(edges: Any, g: Any, query: Any, key: Any, out: Any, factor: float) -> Any:
    """Both at once, on arrays: they share the gradient of the products."""
    made = _scores_gradient(g, out, factor)
    return _mix(made, key), _mix(transpose(made, -2, -1), query)


def _weights_tangent(
    d_query: Any, d_key: Any, query: Any, key: Any, out: Any, factor: float
) -> Any:
    moved = total(
        d_query is not None and matmul(d_query, transpose(key, -2, -1)),
        d_key is not None and matmul(query, transpose(d_key, -2, -1)),
    )
    return _scores_gradient(moved, out, factor)


def _in_batches(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    """Examples are one more dimension of the batch."""
    return op.function(filled(split["query"], size), filled(split["key"], size), **options)


@primitive(
    batch=_in_batches,
    # `query` is asked for as `fused_backward` needs it.
    query=lambda g, query, key, out, factor: _mix(_scores_gradient(g, out, factor), key),
    key=lambda g, query, out, factor: _mix(
        transpose(_scores_gradient(g, out, factor), -2, -1), query
    ),
    fused_backward=_gradients,
    jvp=_weights_tangent,
    node="SoftmaxBackward0",
    has_out=False,
)
def _attention_weights(
    xp: Namespace, query: Array, key: Array, factor: float, causal: bool
) -> Array:
    """The softmax over the keys of `query @ key.T * factor`; causal queries see no later keys."""
    products = product(xp, "scaled_dot_product_attention", query, key.swapaxes(-2, -1))
    products *= factor
    if causal:
        xp.copyto(products, -math.inf, where=_later(*products.shape[-2:]))
    return softmax_of(xp, products, products.ndim - 1)


_worth_it = at_least(LEAST, "query_size * key_shape[-2]")
_several = above(FEW, "query_size // query_shape[-1] * key_shape[-2]")  # weights


@kernel(_attention_weights, when=_worth_it & floating, machine_code=True)
def _all_at_once(query: Array, key: Array, factor: float, causal: bool) -> Array | None:
    made = by_machine_code(programs.ATTENTION_WEIGHTS, (query, key), factor, causal)
    return None if made is None else made[0]


@kernel(_attention_weights, when=host & given(causal=True) & _several)
def _without_a_mask(xp: Namespace, query: Array, key: Array, factor: float) -> Array:
    products = product(xp, "scaled_dot_product_attention", query, key.swapaxes(-2, -1))
    products *= factor
    if are_safe(xp, products):
        return _causal_softmax(xp, products)
    xp.copyto(products, -math.inf, where=_later(*products.shape[-2:]))
    return softmax_of(xp, products, products.ndim - 1)


def _causal_softmax(xp: Namespace, products: Array) -> Array:
    """In place, of what needs no shift: a product makes later keys 0, in a third of a mask's time.

    Causal attention over 32 x 32 x 32 scores: 38 us and not 62.
    """
    # A product keeps the order of its operands' axes, and only rows in order are views below.
    products = xp.ascontiguousarray(products)
    shape = products.shape
    xp.exp(products, products)
    whole = products.reshape(-1, shape[-2] * shape[-1])
    whole *= _earlier(*shape[-2:], products.dtype)
    rows = products.reshape(-1, shape[-1])
    rows *= column(xp.reciprocal(totals(xp, rows)), rows.shape)
    return products


@lru_cache(maxsize=16)
def _earlier(queries: int, keys: int, dtype: Any) -> Array:
    """1 for the keys that each query sees and 0 for others, in one row."""
    made = numpy.tri(queries, keys, dtype=dtype).reshape(-1)
    made.flags.writeable = False
    return made


@lru_cache(maxsize=16)
def _later(queries: int, keys: int) -> Array:
    """Which keys come after each query."""
    made = numpy.logical_not(numpy.tri(queries, keys, dtype=numpy.bool_))
    made.flags.writeable = False
    return made


@multilinear(
    batch=product_of_batches,
    weights=lambda g, value: matmul(g, transpose(value, -2, -1)),
    value=lambda g, weights: _mix(transpose(weights, -2, -1), g),
    node="UnsafeViewBackward0",
    has_out=False,
)
def _mix(xp: Namespace, weights: Array, value: Array) -> Array:
    """`weights @ value` of equal batches, its rows in memory as those of `value` are.

    Heads that came from one matrix so go back to one without a copy, as in torch.
    """
    if value.ndim == 4 == weights.ndim and xp is numpy and value.dtype.char in "fd":
        _, head, row, _ = value.strides
        if head < row:
            return _by_heads(xp, weights, value)
    return product(xp, "scaled_dot_product_attention", weights, value)


def _by_heads(xp: Namespace, weights: Array, value: Array) -> Array:
    batch, heads, rows, _ = weights.shape
    out = xp.empty((batch, rows, heads, value.shape[3]), value.dtype).swapaxes(1, 2)
    return xp.matmul(for_blas(xp, weights), for_blas(xp, value), out)


_of_heads = host & says("value_ndim == 4 == weights_ndim") & floating.of("value")
_of_heads &= says("value.strides[1] < value.strides[2]")


@kernel(_mix, when=_of_heads & at_least(LEAST, "weights_size * value_shape[3]"), machine_code=True)
def _heads_at_once(weights: Array, value: Array) -> Array | None:
    made = by_machine_code(programs.MIXED_HEADS, (weights, value))
    return None if made is None else made[0].swapaxes(1, 2)


@kernel(_mix, when=_of_heads)
def _few_heads(xp: Namespace, weights: Array, value: Array) -> Array:
    return _by_heads(xp, weights, value)


# Step by step, for any mask -----------------------------------------------------------------------


def _check(query: Any, key: Any, value: Any, mask: Any, *, is_causal: bool) -> None:
    op = "scaled_dot_product_attention"
    if is_causal and mask is not None:
        raise RuntimeError(f"{op}: is_causal=True makes a mask; attn_mask must be None then.")
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(
            f"{op}: query, key and value must have one dtype, got {query.dtype}, {key.dtype} and "
            f"{value.dtype}."
        )
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(f"{op}: query, key and value need at least 2 dimensions.")
    if mask is not None and mask.dtype != query.dtype and mask._array.dtype.kind != "b":
        raise RuntimeError(
            f"{op}: attn_mask must be bool or have the dtype of query, {query.dtype}; got "
            f"{mask.dtype}."
        )


def _hidden(like: Any, mask: Any, shape: tuple[int, ...], *, is_causal: bool) -> Any:
    """Which keys each query may not see, where a mask of bools tells."""
    if is_causal:
        return constant_like(like, _later(*shape))
    return ~mask if mask is not None and mask._array.dtype.kind == "b" else None


def _repeated(heads: Any, count: int) -> Any:
    """Each head of `heads` as often as there are heads of the query for it."""
    *batch, own, length, width = heads.shape
    if count % own:
        raise RuntimeError(
            f"scaled_dot_product_attention: {count} query heads do not divide into {own} groups."
        )
    grouped = expand_view(heads[..., :, None, :, :], (*batch, own, count // own, length, width))
    return reshape(grouped, (*batch, count, length, width))

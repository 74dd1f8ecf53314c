"""Attention whole, and its gradients where its operands are slices of one array."""

from __future__ import annotations

from typing import Any

from pullback.operators.cuda.found import found
from pullback.operators.cuda.kernel_overrides import replace

__all__ = ["enter"]


def _has_kernel(query: Any, key: Any, value: Any) -> bool:
    fits: bool = found.library.attention.fits(query, key, value)
    return fits


def _attention(xp: Any, query: Any, key: Any, value: Any, factor: float, causal: bool) -> Any:
    from pullback.operators.nn.attention import dot_product

    kernels = found.library.attention
    if kernels.fits(query, key, value):
        return kernels.forward(query, key, value, factor, causal)
    declared: Any = dot_product._attention
    original = found.library.original(declared.op.forward)
    return original(xp, query, key, value, factor, causal)


def _all_gradients(
    edges: Any,
    g: Any,
    query: Any,
    key: Any,
    value: Any,
    out: Any,
    lse: Any,
    factor: float,
    causal: bool,
) -> Any:
    from pullback.operators.nn.attention import dot_product

    kernels = found.library.attention
    if g.dtype is query.dtype and kernels.fits(query, key, value):
        return kernels.gradients(g, query, key, value, out, lse, factor, causal)
    original = found.library.original(dot_product._all_gradients)
    return original(edges, g, query, key, value, out, lse, factor, causal)


def _together(g: Any, dim: int) -> Any:
    """A view of the one array whose slices the gradients are, in order; else a new array."""
    from pullback.operators.shape import joining

    whole = _whole(g, dim)
    return found.library.original(joining._together)(g, dim) if whole is None else whole


def _whole(slices: Any, dim: int) -> Any:
    first = slices[0]
    kind = found.library.cupy.ndarray
    if len(slices) < 2 or any(type(one) is not kind or one.base is None for one in slices):
        return None
    block, at = first.data.mem.ptr, first.data.ptr
    step = slices[1].data.ptr - at
    if step <= 0:
        return None
    for number, one in enumerate(slices):
        same = one.shape == first.shape and one.strides == first.strides
        there = one.data.mem.ptr == block and one.data.ptr == at + number * step
        if not same or not there or one.dtype is not first.dtype:
            return None
    dim = dim if dim >= 0 else dim + first.ndim + 1
    shape = (*first.shape[:dim], len(slices), *first.shape[dim:])
    strides = (*first.strides[:dim], step, *first.strides[dim:])
    return found.library.window(first, shape, strides, 0)


def enter() -> None:
    """Into the table."""
    from pullback.operators.nn.attention import dot_product
    from pullback.operators.shape import joining

    replace(
        {
            dot_product._has_kernel: _has_kernel,
            dot_product._attention: _attention,
            dot_product._all_gradients: _all_gradients,
            joining._together: _together,
        }
    )

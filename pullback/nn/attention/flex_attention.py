"""Attention whose scores a function of yours may change, and whose masks are functions too.

Functions are called once, with tensors of all scores and numbers at a time: what they compute of a
score and of the numbers of batch, head, query and key must be elementwise, as lookups in tables by
those numbers are.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypedDict

import numpy

from pullback.core.dtype import DTYPES
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor, wrap
from pullback.nn.attention.block_mask import (
    BlockMask,
    Mod,
    create_block_mask,
    create_mask,
    indices,
    noop_mask,
)

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]


class AuxRequest(NamedTuple):
    """What flex_attention is to return besides its result.

    >>> import pullback as torch
    >>> from pullback.nn.attention.flex_attention import AuxRequest, flex_attention
    >>> x = torch.zeros(1, 1, 2, 4)
    >>> out, aux = flex_attention(x, x, x, return_aux=AuxRequest(lse=True))
    >>> aux.lse
    tensor([[[0.6931, 0.6931]]])
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What flex_attention returned besides its result.

    >>> import pullback as torch
    >>> from pullback.nn.attention.flex_attention import AuxRequest, flex_attention
    >>> x = torch.zeros(1, 1, 2, 4)
    >>> out, aux = flex_attention(x, x, x, return_aux=AuxRequest(lse=True))
    >>> aux.lse
    tensor([[[0.6931, 0.6931]]])
    """

    lse: Any = None
    max_scores: Any = None


class FlexKernelOptions(TypedDict, total=False):
    """Settings of GPU kernels, which change no result.

    >>> from pullback.nn.attention.flex_attention import FlexKernelOptions
    >>> FlexKernelOptions(BLOCK_M=64)
    {'BLOCK_M': 64}
    """

    BACKEND: str


def and_masks(*mask_mods: Mod) -> Mod:
    """A mask that shows what all of these masks show.

    >>> from pullback.nn.attention.flex_attention import and_masks, create_mask
    >>> past, near = (lambda b, h, q, k: q >= k), (lambda b, h, q, k: (q - k).abs() <= 1)
    >>> create_mask(and_masks(past, near), None, None, 3, 3)[0, 0].int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [0, 1, 1]], dtype=torch.int32)
    """
    return _combined("and_masks", mask_mods, lambda a, b: a & b, start=True)


def or_masks(*mask_mods: Mod) -> Mod:
    """A mask that shows what any of these masks shows.

    >>> from pullback.nn.attention.flex_attention import create_mask, or_masks
    >>> past, near = (lambda b, h, q, k: q >= k), (lambda b, h, q, k: (q - k).abs() <= 1)
    >>> create_mask(or_masks(past, near), None, None, 3, 3)[0, 0].int()
    tensor([[1, 1, 0],
            [1, 1, 1],
            [1, 1, 1]], dtype=torch.int32)
    """
    return _combined("or_masks", mask_mods, lambda a, b: a | b, start=False)


def _combined(name: str, mods: tuple[Mod, ...], combine: Mod, *, start: bool) -> Mod:
    if not all(callable(mod) for mod in mods):
        raise RuntimeError(f"{name}: all arguments must be functions, got {mods}.")

    def combined(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        seen: Any = wrap(numpy.array(start))
        for mod in mods:
            seen = combine(seen, mod(b, h, q_idx, kv_idx))
        return seen

    return combined


def flex_attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Mod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Attention with `score_mod(score, batch, head, query, key)` in place of the scores.

    >>> import pullback as torch
    >>> from pullback.nn.attention.flex_attention import flex_attention
    >>> x = torch.zeros(1, 2, 3, 4)
    >>> flex_attention(x, x, x, score_mod=lambda score, b, h, q, k: score + (q - k)).shape
    torch.Size([1, 2, 3, 4])
    """
    _check(query, key, value, block_mask, enable_gqa=enable_gqa)
    batch, heads, queries, _ = query.shape
    keys = key.shape[-2]
    if key.shape[0] != batch:
        key, value = (one.expand((batch, *one.shape[1:])) for one in (key, value))
    if key.shape[1] != heads:
        times = heads // key.shape[1]
        key, value = (one.repeat_interleave(times, 1) for one in (key, value))
    exact = query.dtype if query.dtype is DTYPES["float64"] else DTYPES["float32"]
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query.to(exact) @ key.to(exact).mT) * factor
    shape = (batch, heads, queries, keys)
    if score_mod is not None:
        scores = score_mod(scores, *indices(*shape)).to(exact).expand(shape)
    if block_mask is not None:
        scores = scores.masked_fill(~block_mask.elements(shape), -math.inf)
    hidden = (scores == -math.inf).all(-1, keepdim=True)  # a query that sees nothing gives zeros
    weights = scores.masked_fill(hidden, 0.0).softmax(-1).masked_fill(hidden, 0.0)
    out = (weights @ value.to(exact)).to(query.dtype)
    if return_aux is not None:
        return out, AuxOutput(
            scores.logsumexp(-1) if return_aux.lse else None,
            scores.amax(-1) if return_aux.max_scores else None,
        )
    return (out, scores.logsumexp(-1)) if return_lse else out


def _check(query: Any, key: Any, value: Any, block_mask: Any, *, enable_gqa: bool) -> None:
    given = (query, key, value)
    if any(not isinstance(one, Tensor) or one.ndim != 4 for one in given):
        raise NotImplementedError("flex_attention: query, key and value must be 4-d tensors.")
    if not query.dtype == key.dtype == value.dtype:
        raise ValueError("flex_attention: query, key and value must have one dtype.")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"flex_attention: query and key have {query.shape[-1]} and {key.shape[-1]} features."
        )
    heads, of_keys = query.shape[1], key.shape[1]
    if heads != of_keys and not enable_gqa:
        raise ValueError(
            f"flex_attention: {heads} heads of queries and {of_keys} of keys; pass "
            "enable_gqa=True to share them."
        )
    if heads % of_keys:
        raise ValueError(f"flex_attention: {heads} heads cannot share {of_keys}.")
    if block_mask is not None:
        lengths = (query.shape[-2], key.shape[-2])
        if tuple(block_mask.seq_lengths) != lengths:
            raise ValueError(
                f"flex_attention: block_mask is for {tuple(block_mask.seq_lengths)} queries and "
                f"keys, given are {lengths}; make one for these."
            )


_DEFAULT_SPARSE_BLOCK_SIZE = 128
__dir__ = _only_public(globals())

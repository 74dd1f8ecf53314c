"""Causal masks for scaled_dot_product_attention, by how they lie in the matrix of scores."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor, new, wrap
from pullback.core.version import own_cell

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """Which corner of the scores the diagonal of a causal mask starts from.

    >>> from pullback.nn.attention import bias
    >>> bias.causal_upper_left(2, 3).variant is bias.CausalVariant.UPPER_LEFT
    True
    """

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A mask by which each query sees the keys up to its own place.

    They differ where there are more keys than queries: the last query sees all keys
    (LOWER_RIGHT), or the first query sees only the first key (UPPER_LEFT).

    >>> from pullback.nn.attention.bias import causal_lower_right
    >>> causal_lower_right(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """

    __slots__ = ()

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        """Write the mask out."""
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"CausalBias: a CausalVariant is needed, got {variant!r}.")
        lower_right = variant is CausalVariant.LOWER_RIGHT
        diagonal = seq_len_kv - seq_len_q if lower_right else 0
        data = wrap(numpy.tri(seq_len_q, seq_len_kv, diagonal, bool))
        made = new(cls)
        made._array = data._array
        made._node = None
        made._cell = own_cell(data)
        made.variant = variant
        made.seq_len_q = seq_len_q
        made.seq_len_kv = seq_len_kv
        return made

    def __repr__(self) -> str:
        return repr(self._materialize())

    def _materialize(self, device: Any = None) -> Tensor:
        """The mask as a plain tensor."""
        plain = wrap(self._array)
        return plain if device is None else plain.to(device)


def causal_upper_left(*size: int) -> CausalBias:
    """A causal mask of (queries, keys) whose diagonal starts at the upper left.

    >>> from pullback.nn.attention import bias
    >>> bias.causal_upper_left(2, 3)
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    return _sized(CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size: int) -> CausalBias:
    """A causal mask of (queries, keys) whose diagonal ends at the lower right.

    >>> from pullback.nn.attention import bias
    >>> bias.causal_lower_right(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    return _sized(CausalVariant.LOWER_RIGHT, size)


def _sized(variant: CausalVariant, size: tuple[int, ...]) -> CausalBias:
    if len(size) != 2:
        raise AssertionError(f"A causal mask has two sizes, queries and keys; got {size}.")
    return CausalBias(variant, *size)


__dir__ = _only_public(globals())

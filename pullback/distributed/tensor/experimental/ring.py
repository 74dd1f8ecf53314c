"""Attention over a sequence of which each rank has a part: keys and values go round a ring.

Each rank keeps its queries. Blocks of keys and values come from the rank before and go on to the
one after, so that no rank ever has all of them; what was mixed so far is put together with each
block by the logarithms of its sums. Backward sends the gradients of keys and values along.

A part is one or two chunks of the sequence, by their numbers: with causal masks a rank has an early
and a late one, so that all have as much to do. Chunks that no query may see are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pullback.autograd.function import Function, once_differentiable
from pullback.core.dtype import DTYPES
from pullback.core.tensor import Tensor
from pullback.distributed.group import ProcessGroup
from pullback.distributed.messages import isend, recv
from pullback.operators.create.sizes import empty_like, full, ones, zeros_like
from pullback.operators.linalg.products import matmul
from pullback.operators.shape.joining import cat

__all__ = ["chunks_of", "ring_attention"]


def chunks_of(rank: int, ranks: int, *, balanced: bool) -> list[int]:
    """The numbers of the chunks that a rank has, of `2 * ranks` if balanced, else of `ranks`."""
    return [rank, 2 * ranks - 1 - rank] if balanced else [rank]


class _Ring:
    """This rank's place, and what it computes with whom."""

    def __init__(self, group: ProcessGroup, *, causal: bool, balanced: bool) -> None:
        self.group, self.causal, self.balanced = group, causal, balanced
        self.rank, self.ranks = group.rank(), group.size()

    def pairs(self, step: int) -> Iterator[tuple[int, int, bool]]:
        """Places of a chunk of queries and one of keys here, and whether some are hidden."""
        own = chunks_of(self.rank, self.ranks, balanced=self.balanced)
        source = (self.rank - step) % self.ranks
        others = chunks_of(source, self.ranks, balanced=self.balanced)
        for i, query in enumerate(own):
            for j, key in enumerate(others):
                if not self.causal or key <= query:
                    yield i, j, self.causal and key == query

    def passed_on(self, tensors: list[Tensor]) -> list[Tensor]:
        """What the rank before sends, while these go to the one after."""
        if self.ranks == 1:
            return tensors
        after, before = (self.rank + 1) % self.ranks, (self.rank - 1) % self.ranks
        works = [isend(one.contiguous(), group=self.group, group_dst=after) for one in tensors]
        came = [empty_like(one.contiguous()) for one in tensors]
        for one in came:
            recv(one, group=self.group, group_src=before)
        for work in works:
            if work is not None:
                work.wait()
        return came

    def cut(self, one: Tensor) -> list[Tensor]:
        """A part in its chunks, along the sequence."""
        return list(one.chunk(2, -2)) if self.balanced else [one]


def _products(query: Tensor, key: Tensor, factor: float, *, hidden: bool) -> Tensor:
    made: Tensor = matmul(query, key.transpose(-2, -1)) * factor
    if not hidden:
        return made
    later = ones(made.shape[-2:], dtype=DTYPES["bool"]).triu(1)
    return made.masked_fill(later, -math.inf)


class _RingAttention(Function):
    @staticmethod
    def forward(
        ctx: Any, ring: _Ring, factor: float, query: Tensor, key: Tensor, value: Tensor
    ) -> Tensor:
        queries = ring.cut(query)
        mixed = [_like_values(one, value) for one in queries]
        sums = [full(one.shape[:-1], -math.inf, dtype=query.dtype) for one in queries]
        moving = [key, value]
        for step in range(ring.ranks):
            keys, values = (ring.cut(one) for one in moving)
            for i, j, hidden in ring.pairs(step):
                products = _products(queries[i], keys[j], factor, hidden=hidden)
                block = products.logsumexp(-1)
                total = sums[i].logaddexp(block)
                weights = (products - total.unsqueeze(-1)).exp()
                before = (sums[i] - total).exp().unsqueeze(-1)
                mixed[i] = mixed[i] * before + matmul(weights, values[j])
                sums[i] = total
            if step < ring.ranks - 1:
                moving = ring.passed_on(moving)
        out = _joined(mixed, -2)
        ctx.ring, ctx.factor = ring, factor
        ctx.save_for_backward(query, key, value, out, _joined(sums, -1))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        ring, factor = ctx.ring, ctx.factor
        query, key, value, out, sums = ctx.saved_tensors
        queries, gradients = ring.cut(query), ring.cut(g)
        weighted = ring.cut((g * out).sum(-1, keepdim=True))
        totals = ring.cut(sums.unsqueeze(-1))
        of_queries = [zeros_like(one) for one in queries]
        moving = [key, value, zeros_like(key), zeros_like(value)]
        for step in range(ring.ranks):
            keys, values, of_keys, of_values = (ring.cut(one) for one in moving)
            for i, j, hidden in ring.pairs(step):
                products = _products(queries[i], keys[j], factor, hidden=hidden)
                weights = (products - totals[i]).exp()
                of_values[j] = of_values[j] + matmul(weights.transpose(-2, -1), gradients[i])
                slopes = matmul(gradients[i], values[j].transpose(-2, -1)) - weighted[i]
                slopes = weights * slopes * factor
                of_queries[i] = of_queries[i] + matmul(slopes, keys[j])
                of_keys[j] = of_keys[j] + matmul(slopes.transpose(-2, -1), queries[i])
            moving = [*moving[:2], _joined(of_keys, -2), _joined(of_values, -2)]
            moving = ring.passed_on(moving)  # the last time to whom the keys belong
        return None, None, _joined(of_queries, -2), moving[2], moving[3]


def _like_values(query: Tensor, value: Tensor) -> Tensor:
    made: Tensor = query.new_zeros((*query.shape[:-1], value.shape[-1]))
    return made


def _joined(parts: list[Tensor], dim: int) -> Tensor:
    return parts[0] if len(parts) == 1 else cat(parts, dim)


def ring_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    group: ProcessGroup,
    *,
    causal: bool,
    scale: float | None,
    balanced: bool,
) -> Tensor:
    """Attention of all ranks' queries to all ranks' keys; this rank's rows of the result."""
    factor = 1 / math.sqrt(query.shape[-1] or 1) if scale is None else scale
    ring = _Ring(group, causal=causal, balanced=balanced)
    made: Tensor = _RingAttention.apply(ring, factor, query, key, value)
    return made

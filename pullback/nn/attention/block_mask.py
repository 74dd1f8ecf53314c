"""Masks in blocks: which blocks of queries see which blocks of keys, whole or in part."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from pullback.core.tensor import Tensor, wrap
from pullback.nn.base.fields import sized

__all__ = ["BlockMask", "create_block_mask", "create_mask"]

Mod = Callable[..., Any]


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """A mask that hides nothing.

    >>> from pullback.nn.attention.flex_attention import create_mask, noop_mask
    >>> create_mask(noop_mask, None, None, 1, 2)
    tensor([[[[True, True]]]])
    """
    return batch.new_ones(size=(), dtype=_BOOL, device=batch.device)


_BOOL = wrap(numpy.zeros(1, bool)).dtype


def indices(*sizes: int) -> list[Any]:
    """The number of each element along each dimension, to broadcast against one another."""
    return [
        wrap(numpy.arange(size).reshape((-1,) + (1,) * (len(sizes) - 1 - place)))
        for place, size in enumerate(sizes)
    ]


def create_mask(
    mod_fn: Mod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Any:
    """The mask of all batches, heads, queries and keys, from a function of their numbers.

    >>> from pullback.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q, k: q >= k, None, None, 2, 2)
    tensor([[[[ True, False],
              [ True,  True]]]])
    """
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    numbers = indices(*shape)
    if takes_score(mod_fn):
        zeros = wrap(numpy.zeros(shape, numpy.float32))
        return (mod_fn(zeros, *numbers) != -math.inf).expand(shape)
    return mod_fn(*numbers).expand(shape).clone()


def takes_score(mod: Mod) -> bool:
    """Whether a function changes scores (five arguments) or tells what is seen (four)."""
    import inspect

    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    given = [
        one
        for one in inspect.signature(mod).parameters.values()
        if one.kind in kinds and one.default is inspect.Parameter.empty
    ]
    return len(given) == 5


def create_block_mask(
    mask_mod: Mod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: Any = 128,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:
    """The blocks of a mask that a function of batch, head, query and key describes.

    >>> from pullback.nn.attention.flex_attention import create_block_mask
    >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256)
    >>> mask.sparsity()
    25.0
    """
    rows, columns = sized(BLOCK_SIZE, 2)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device).numpy()
    padded = numpy.pad(mask, [(0, 0), (0, 0), (0, -Q_LEN % rows), (0, -KV_LEN % columns)])
    batch, heads, height, width = padded.shape
    blocks = padded.reshape(batch, heads, height // rows, rows, width // columns, columns)
    count = blocks.sum((3, 5))
    full = count == rows * columns if separate_full_blocks else numpy.zeros_like(count, bool)
    partial = (count > 0) & ~full
    whole = _listed(full) if separate_full_blocks else (None, None)
    return BlockMask.from_kv_blocks(
        *_listed(partial),
        whole[0],
        whole[1],
        BLOCK_SIZE=(rows, columns),
        mask_mod=mask_mod,
        seq_lengths=(Q_LEN, KV_LEN),
    )


def _listed(blocks: Any) -> tuple[Any, Any]:
    """How many blocks each row has, and their numbers, those of the others behind."""
    order = numpy.argsort(~blocks, axis=-1, kind="stable").astype(numpy.int32)
    return wrap(blocks.sum(-1).astype(numpy.int32)), wrap(order)


def _dense(counts: Any, order: Any, columns: int) -> Any:
    """The reverse of `_listed`."""
    numbers, places = counts.numpy(), order.numpy()
    dense = numpy.zeros((*places.shape[:-1], columns), bool)
    used = numpy.arange(places.shape[-1]) < numbers[..., None]
    # Columns that are not used are written first, to where nothing is lost.
    *outer, rows, slots = numpy.nonzero(used)
    dense[(*outer, rows, places[(*outer, rows, slots)])] = True
    return dense


def _numbers_have_changed(*numbers: Any) -> Any:
    raise RuntimeError(
        "A part of a BlockMask has other numbers of batches, heads and queries than its mask_mod "
        "was written for; assign mask_mod anew before using it."
    )


class BlockMask:
    """Which blocks of keys each block of queries sees in part (`kv_`) or whole (`full_kv_`).

    In blocks seen in part, `mask_mod` tells which elements.

    >>> from pullback.nn.attention.flex_attention import create_block_mask
    >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256)
    >>> mask.kv_num_blocks.tolist(), mask.full_kv_num_blocks.tolist()
    ([[[1, 1]]], [[[0, 1]]])
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        q_num_blocks: Tensor | None = None,
        q_indices: Tensor | None = None,
        full_q_num_blocks: Tensor | None = None,
        full_q_indices: Tensor | None = None,
        BLOCK_SIZE: tuple[int, int] = (128, 128),
        mask_mod: Mod = noop_mask,
    ) -> None:
        if kv_indices.ndim < 2:
            raise RuntimeError("BlockMask: kv_indices needs at least 2 dimensions.")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("BlockMask: full blocks need both their numbers and indices.")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any = None,
        full_kv_indices: Any = None,
        BLOCK_SIZE: Any = 128,
        mask_mod: Mod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """A mask from the blocks of keys that each block of queries sees."""
        if kv_indices.ndim < 2:
            raise RuntimeError("BlockMask: kv_indices needs at least 2 dimensions.")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("BlockMask: full blocks need both their numbers and indices.")
        size = sized(BLOCK_SIZE, 2)
        columns = kv_indices.shape[-1]
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * size[0], columns * size[1])
        backwards: list[Any] = [None] * 4
        if compute_q_blocks:
            turned = numpy.swapaxes(_dense(kv_num_blocks, kv_indices, columns), -1, -2)
            backwards[:2] = _listed(turned)
            if full_kv_indices is not None:
                whole = _dense(full_kv_num_blocks, full_kv_indices, columns)
                backwards[2:] = _listed(numpy.swapaxes(whole, -1, -2))
        return cls(
            seq_lengths,
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            backwards[0],
            backwards[1],
            backwards[2],
            backwards[3],
            size,
            noop_mask if mask_mod is None else mask_mod,
        )

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """Lengths, blocks, block sizes and the function."""
        blocks = (
            *(self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices),
            *(self.q_num_blocks, self.q_indices, self.full_q_num_blocks, self.full_q_indices),
        )
        if flatten:
            return (*self.seq_lengths, *blocks, *self.BLOCK_SIZE, self.mask_mod)
        return (self.seq_lengths, *blocks, self.BLOCK_SIZE, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """Batches, heads, queries and keys."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """How many pairs of query and key there are."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """The share of pairs, in percent, that no block covers."""
        seen = int(self.kv_num_blocks.sum())
        if self.full_kv_num_blocks is not None:
            seen += int(self.full_kv_num_blocks.sum())
        return 100 * (1 - seen * math.prod(self.BLOCK_SIZE) / self.numel())

    def _blocks(self) -> tuple[Any, Any]:
        columns = self.kv_indices.shape[-1]
        partial = _dense(self.kv_num_blocks, self.kv_indices, columns)
        if self.full_kv_indices is None:
            return partial, None
        return partial, _dense(self.full_kv_num_blocks, self.full_kv_indices, columns)

    def to_dense(self) -> Any:
        """One number for each block: whether any of it is seen."""
        partial, full = self._blocks()
        return wrap((partial if full is None else partial | full).astype(numpy.int32))

    def elements(self, shape: tuple[int, ...]) -> Any:
        """The mask of single elements, for (batch, heads, queries, keys)."""
        seen = self.mask_mod(*indices(*shape)).expand(shape)
        partial, full = (None if one is None else self._spread(one) for one in self._blocks())
        seen = seen & wrap(partial)
        return seen if full is None else seen | wrap(full)

    def _spread(self, blocks: Any) -> Any:
        rows, columns = self.BLOCK_SIZE
        spread = blocks.repeat(rows, -2).repeat(columns, -1)
        return spread[..., : self.seq_lengths[0], : self.seq_lengths[1]]

    def __getitem__(self, index: Any) -> BlockMask:
        """Some of the batches, heads and blocks of queries."""
        given = index if isinstance(index, tuple) else (index,)
        # A number keeps its dimension, as a slice of one.
        place = tuple(slice(one, one + 1 or None) if isinstance(one, int) else one for one in given)
        counts, order = self.kv_num_blocks[place], self.kv_indices[place]
        whole: tuple[Any, Any] = (None, None)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            whole = self.full_kv_num_blocks[place], self.full_kv_indices[place]
        lengths = (
            min(order.shape[-2] * self.BLOCK_SIZE[0], self.seq_lengths[0]),
            self.seq_lengths[1],
        )
        return BlockMask.from_kv_blocks(
            counts, order, whole[0], whole[1], self.BLOCK_SIZE, _numbers_have_changed, lengths
        )

    def to(self, device: Any) -> BlockMask:
        """The same on another device."""
        lengths, *blocks, size, mod = self.as_tuple(flatten=False)
        moved: list[Any] = [None if one is None else one.to(device) for one in blocks]
        made = BlockMask(lengths, moved[0], moved[1], *moved[2:4], *moved[4:])
        made.BLOCK_SIZE, made.mask_mod = size, mod
        return made

    def to_string(self, grid_size: Any = (20, 20), limit: int = 4) -> str:
        """A picture of the first batches and heads."""
        dense = self.to_dense().numpy()
        outer = list(numpy.ndindex(dense.shape[:-2]))
        lines = []
        for place in outer[:limit]:
            lines.append(str(tuple(int(one) for one in place)))
            lines += ["".join("██" if one else "  " for one in row) for row in dense[place]]
        if len(outer) > limit:
            lines.append("...")
        return "\n".join(lines) + "\n"

    def __repr__(self) -> str:
        return (
            f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string()})"
        )

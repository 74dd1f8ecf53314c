"""`torch.distributed.pipelining.microbatch`: batches in pieces, and results together again."""

from __future__ import annotations

from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.operators.shape.joining import cat
from pullback.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]


class TensorChunkSpec:
    """Along which dimension a tensor is cut.

    >>> from pullback.distributed.pipelining.microbatch import TensorChunkSpec
    >>> TensorChunkSpec(1)
    TensorChunkSpec(1)
    """

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims: tuple[int, ...]) -> tuple[TensorChunkSpec, ...]:
        """One for each argument."""
        return tuple(TensorChunkSpec(dim) for dim in chunk_dims)

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> dict[str, TensorChunkSpec]:
        """One for each keyword."""
        return {name: TensorChunkSpec(dim) for name, dim in chunk_dims.items()}


def _dims(value: Any, spec: Any) -> list[int]:
    """The dimension of each leaf of a value; 0 where nothing is said."""
    leaves = tree_flatten(value)[0]
    if spec is None:
        return [0] * len(leaves)
    said = [getattr(one, "split_dim", 0) for one in tree_flatten(spec)[0]]
    if len(said) != len(leaves):
        raise ValueError(f"A chunk spec for {len(said)} values was given, there are {len(leaves)}.")
    return said


def split(value: Any, chunks: int, spec: Any = None) -> list[Any]:
    """A nested value so many times, with tensors cut; other values are the same in all.

    >>> import pullback as torch
    >>> [x.tolist() for x in split(torch.arange(3), 2)]
    [[0, 1], [2]]
    """
    leaves, form = tree_flatten(value)
    cut: list[list[Any]] = []
    for leaf, dim in zip(leaves, _dims(value, spec), strict=True):
        if not isinstance(leaf, Tensor) or not leaf.ndim:
            cut.append([leaf] * chunks)
            continue
        if leaf.shape[dim] < chunks:
            raise ValueError(
                f"A tensor of shape {tuple(leaf.shape)} does not make {chunks} microbatches along "
                f"dimension {dim}; give larger batches or fewer n_microbatches."
            )
        cut.append(list(leaf.tensor_split(chunks, dim)))
    return [tree_unflatten(list(one), form) for one in zip(*cut, strict=True)] or [value] * chunks


def split_args_kwargs_into_chunks(
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    chunks: int,
    args_chunk_spec: Any = None,
    kwargs_chunk_spec: Any = None,
) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
    """The arguments of each microbatch.

    >>> import pullback as torch
    >>> from pullback.distributed.pipelining.microbatch import split_args_kwargs_into_chunks
    >>> split_args_kwargs_into_chunks((torch.arange(2),), {"p": 0.5}, 2)
    ([(tensor([0]),), (tensor([1]),)], [{'p': 0.5}, {'p': 0.5}])
    """
    return split(args, chunks, args_chunk_spec), split(kwargs or {}, chunks, kwargs_chunk_spec)


def merge_chunks(chunks: list[Any], chunk_spec: Any = None) -> Any:
    """The results of microbatches as one; of what is no tensor, or has no dimension, the first.

    >>> import pullback as torch
    >>> from pullback.distributed.pipelining.microbatch import merge_chunks
    >>> merge_chunks([torch.ones(1), torch.zeros(1)])
    tensor([1., 0.])
    """
    flat = [tree_flatten(chunk)[0] for chunk in chunks]
    form = tree_flatten(chunks[0])[1]
    made = [
        cat(list(pieces), dim) if isinstance(pieces[0], Tensor) and pieces[0].ndim else pieces[0]
        for pieces, dim in zip(zip(*flat, strict=True), _dims(chunks[0], chunk_spec), strict=True)
    ]
    return tree_unflatten(made, form)


__dir__ = _only_public(globals())

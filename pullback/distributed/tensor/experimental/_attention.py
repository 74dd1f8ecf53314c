"""`context_parallel`: a program's attention over sequences of which each rank has a part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pullback.autograd.grad_mode import no_grad
from pullback.core.tensor import Tensor
from pullback.distributed.collectives import all_gather
from pullback.distributed.device_mesh import DeviceMesh
from pullback.distributed.tensor.experimental.ring import chunks_of, ring_attention
from pullback.operators.create.sizes import empty_like
from pullback.operators.nn.attention.instead import instead
from pullback.operators.shape.joining import cat
from pullback.overrides import TorchFunctionMode

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]


@dataclass
class _ContextParallelOptions:
    enable_load_balance: bool = True


_cp_options = _ContextParallelOptions()


def set_rotate_method(rotate_method: str) -> None:
    """Taken, as `"alltoall"` or `"allgather"`; keys and values go round a ring in any case."""
    if rotate_method not in ("alltoall", "allgather"):
        raise NotImplementedError(f"set_rotate_method: there is no method {rotate_method!r}.")


class _Eagerly(TorchFunctionMode):
    """Programs that were compiled before know of no other ranks: while this is on none runs."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


@contextmanager
def context_parallel(
    mesh: DeviceMesh,
    *,
    buffers: list[Tensor] | None = None,
    buffer_seq_dims: list[int] | None = None,
    no_restore_buffers: set[Tensor] | None = None,
) -> Iterator[None]:
    """Share sequences out over a mesh of one dimension, and let attention see all of them.

    Inside, `buffers` are this rank's parts along `buffer_seq_dims`, and
    `scaled_dot_product_attention` sends keys and values round a ring; afterwards they are whole
    again, but for `no_restore_buffers`. Each rank has an early and a late part, so that causal
    attention is as much work on all; the length is a multiple of twice the number of ranks.
    Compiled functions run as they are, one operator after the other.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.tensor.experimental import context_parallel
    >>> def parts():
    ...     x = torch.arange(8.0).reshape(1, 8, 1)
    ...     mesh = dist.init_device_mesh("cpu", (2,))
    ...     with context_parallel(mesh, buffers=[x], buffer_seq_dims=[1]):
    ...         torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    ...         return x.flatten().tolist()
    >>> dist.threads.run(parts, 2)
    [[0.0, 1.0, 6.0, 7.0], [2.0, 3.0, 4.0, 5.0]]
    """
    if mesh.ndim != 1:
        raise ValueError(f"context_parallel takes a mesh of one dimension, got {mesh}.")
    given, dims = list(buffers or ()), list(buffer_seq_dims or ())
    if len(given) != len(dims):
        raise ValueError("context_parallel: buffer_seq_dims has one dimension for each buffer.")
    kept = {id(one) for one in no_restore_buffers or ()}
    if not kept <= {id(one) for one in given}:
        raise ValueError("context_parallel: no_restore_buffers are among the buffers.")
    balanced = _cp_options.enable_load_balance
    wholes = [one.detach() for one in given]
    parts = [_part(one, dim, mesh, balanced) for one, dim in zip(given, dims, strict=True)]
    before = instead.get()
    try:
        for buffer, part in zip(given, parts, strict=True):
            buffer.data = part
        instead.set(_attention_over(mesh, balanced))
        with _Eagerly():
            yield
    finally:
        instead.set(before)
        for buffer, whole in zip(given, wholes, strict=True):
            if id(buffer) not in kept:
                buffer.data = whole


def _part(buffer: Tensor, dim: int, mesh: DeviceMesh, balanced: bool) -> Tensor:
    """This rank's chunks of a buffer."""
    if buffer.requires_grad:
        raise ValueError(
            "context_parallel: a buffer that requires a gradient would get one of another shape; "
            "give it without, or give what is computed from it."
        )
    ranks = mesh.size()
    count = 2 * ranks if balanced else ranks
    if buffer.shape[dim] % count:
        raise ValueError(
            f"context_parallel: a sequence of {buffer.shape[dim]} does not part into {count} equal "
            f"chunks for {ranks} ranks; pad it."
        )
    chunks = buffer.detach().chunk(count, dim)
    own = chunks_of(mesh.get_local_rank(), ranks, balanced=balanced)
    made: Tensor = cat([chunks[number] for number in own], dim)
    return made


def _attention_over(mesh: DeviceMesh, balanced: bool) -> Any:
    group = mesh.get_group()

    def attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None,
        dropout_p: float,
        is_causal: bool,
        scale: float | None,
        enable_gqa: bool,
    ) -> Tensor:
        if attn_mask is not None:
            raise NotImplementedError(
                "context_parallel: attention takes is_causal=True, but no mask: no rank has all "
                "of its rows and columns."
            )
        if dropout_p:
            raise NotImplementedError("context_parallel: attention has no dropout.")
        if query.shape[-2] != key.shape[-2]:
            raise NotImplementedError(
                f"context_parallel: queries and keys are parts of one sequence, got "
                f"{query.shape[-2]} and {key.shape[-2]} rows."
            )
        if enable_gqa:
            times = query.shape[-3] // key.shape[-3]
            key, value = (one.repeat_interleave(times, -3) for one in (key, value))
        dtype = query.dtype
        if dtype.itemsize == 2:  # sums of blocks in single precision
            query, key, value = (one.float() for one in (query, key, value))
        made = ring_attention(
            query, key, value, group, causal=is_causal, scale=scale, balanced=balanced
        )
        return made.to(dtype)

    return attention


def context_parallel_unshard(
    mesh: DeviceMesh, buffers: Sequence[Tensor], seq_dims: Sequence[int], load_balancer: Any = None
) -> list[Tensor]:
    """Put parts of sequences together again: what all ranks have, in the sequence's order.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.tensor.experimental._attention import context_parallel_unshard
    >>> def whole():
    ...     mesh = dist.init_device_mesh("cpu", (2,))
    ...     own = torch.tensor([[0.0, 3.0], [1.0, 2.0]])[dist.get_rank()]
    ...     return context_parallel_unshard(mesh, [own], [0])[0].tolist()
    >>> dist.threads.run(whole, 2)[0]
    [0.0, 1.0, 2.0, 3.0]
    """
    if load_balancer is not None:
        raise NotImplementedError("context_parallel_unshard: a load_balancer of one's own.")
    balanced, ranks = _cp_options.enable_load_balance, mesh.size()
    made = []
    with no_grad():
        for buffer, dim in zip(buffers, seq_dims, strict=True):
            part = buffer.detach().contiguous()
            came = [empty_like(part) for _ in range(ranks)]
            all_gather(came, part, group=mesh.get_group())
            chunks: dict[int, Tensor] = {}
            for rank, one in enumerate(came):
                own = chunks_of(rank, ranks, balanced=balanced)
                chunks.update(zip(own, one.chunk(len(own), dim), strict=True))
            made.append(cat([chunks[number] for number in sorted(chunks)], dim))
    return made

"""Channels and pixels exchanged: what is depth becomes resolution, and back."""

from __future__ import annotations

from typing import Any

from pullback.operators.arrays.formats import keeps_format
from pullback.operators.declare import Array, Namespace, linear

FOUND_IN = {
    "torch": "channel_shuffle native_channel_shuffle=channel_shuffle pixel_shuffle pixel_unshuffle",
    "nn.functional": """
        channel_shuffle native_channel_shuffle=channel_shuffle pixel_shuffle pixel_unshuffle
    """,
}


def _check(op: str, input: Array, name: str, factor: int) -> None:
    if input.ndim < 3:
        raise RuntimeError(f"{op}: input must have at least 3 dimensions, got shape {input.shape}.")
    if factor < 1:
        raise RuntimeError(f"{op}: {name} must be at least 1, got {factor}.")


@linear(
    input=lambda g, upscale_factor: pixel_unshuffle(g, upscale_factor), method=False, has_out=False
)
@keeps_format
def pixel_shuffle(xp: Namespace, input: Array, upscale_factor: int) -> Array:
    """(..., channels * r * r, height, width) as (..., channels, height * r, width * r).

    >>> import pullback as torch
    >>> torch.pixel_shuffle(torch.arange(4.0).reshape(4, 1, 1), 2)
    tensor([[[0., 1.],
             [2., 3.]]])
    """
    r = upscale_factor
    _check("pixel_shuffle", input, "upscale_factor", r)
    *lead, channels, height, width = input.shape
    if channels % (r * r):
        raise RuntimeError(
            f"pixel_shuffle: {channels} channels (shape {input.shape}) must be divisible by "
            f"upscale_factor ** 2 = {r * r}."
        )
    n = len(lead)
    parts = input.reshape(*lead, channels // (r * r), r, r, height, width)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    moved = parts.transpose(order).copy()
    return moved.reshape(*lead, channels // (r * r), height * r, width * r)


@linear(
    input=lambda g, downscale_factor: pixel_shuffle(g, downscale_factor),
    method=False,
    has_out=False,
)
@keeps_format
def pixel_unshuffle(xp: Namespace, input: Array, downscale_factor: int) -> Array:
    """The inverse of `pixel_shuffle`.

    >>> import pullback as torch
    >>> torch.pixel_unshuffle(torch.arange(4.0).reshape(1, 2, 2), 2).flatten()
    tensor([0., 1., 2., 3.])
    """
    r = downscale_factor
    _check("pixel_unshuffle", input, "downscale_factor", r)
    *lead, channels, height, width = input.shape
    if height % r or width % r:
        raise RuntimeError(
            f"pixel_unshuffle: height and width of shape {input.shape} must be multiples of "
            f"downscale_factor={r}."
        )
    n = len(lead)
    parts = input.reshape(*lead, channels, height // r, r, width // r, r)
    moved = parts.transpose(*range(n), n, n + 2, n + 4, n + 1, n + 3).copy()
    return moved.reshape(*lead, channels * r * r, height // r, width // r)


@linear(
    input=lambda g, groups, dim: _channel_shuffle(g, g.shape[dim] // groups, dim),
    node="ChannelShuffleBackward0",
    has_out=False,
    aten="channel_shuffle.default(input groups)",
)
@keeps_format
def _channel_shuffle(xp: Namespace, input: Array, groups: int, dim: int) -> Array:
    # `dim` is counted from the end, so that a batch in front does not move it.
    axis = input.ndim + dim
    shape = input.shape
    parts = input.reshape(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
    return parts.swapaxes(axis, axis + 1).copy().reshape(shape)


def channel_shuffle(input: Any, groups: int) -> Any:
    """Take the channels of `groups` in turn: of (1, 2, 3, 4) in two groups, (1, 3, 2, 4).

    >>> import pullback as torch
    >>> torch.channel_shuffle(torch.arange(4.0).reshape(1, 4, 1), 2).flatten()
    tensor([0., 2., 1., 3.])
    """
    if input.ndim < 3:
        raise RuntimeError(
            "channel_shuffle: input must have at least 3 dimensions, got shape "
            f"{tuple(input.shape)}."
        )
    if groups < 1 or input.shape[1] % groups:
        raise RuntimeError(
            f"channel_shuffle: groups={groups} must divide the channels of shape "
            f"{tuple(input.shape)}."
        )
    return _channel_shuffle(input, groups, 1 - input.ndim)

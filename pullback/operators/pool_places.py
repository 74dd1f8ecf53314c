"""Elements of images by their position, counted over all pooled dimensions, and the way back.

Shared by the poolings that know places: adaptive, fractional, and `max_unpool`.
"""

from __future__ import annotations

import math
from typing import Any

from pullback.operators.batching import together
from pullback.operators.declare import Array, Namespace, primitive
from pullback.operators.windows import Sizes, volume

__all__ = ["declare_take", "has_nan", "over_images", "put_places", "take_places", "window_places"]


def has_nan(array: Array) -> bool:
    """Whether some element is no number: then the maximum is none."""
    return array.dtype.kind in "fV" and bool(array.size) and math.isnan(array.max())


def window_places(xp: Namespace, input: Array, windows: Array, dims: int) -> Array:
    """Positions of the maxima of windows, given as positions `(*number, points)`.

    In front may be the dimensions that `input` has in front, where each image has windows of its
    own. The first maximum of a window, or its last NaN.
    """
    lead, length = input.shape[:-dims], volume(input.shape[-dims:])
    flat = input.reshape(*lead, length)
    if windows.ndim == dims + 1:
        seen = flat.take(windows, -1)
        windows = xp.broadcast_to(windows, seen.shape)
    else:
        each = windows.reshape(*lead, volume(windows.shape[len(lead) :]))
        seen = xp.take_along_axis(flat, each, -1).reshape(windows.shape)
    best = seen.argmax(-1)
    if has_nan(input):
        missing = xp.isnan(seen)
        last = seen.shape[-1] - 1 - missing[..., ::-1].argmax(-1)
        best = xp.where(missing.any(-1), last, best)
    return xp.take_along_axis(windows, best[..., None], -1)[..., 0]


@primitive(
    gradient=lambda g, places, size: take_places(g, places, len(size)),
    jvp=lambda d_gradient, places, size: put_places(d_gradient, places, size),
    batch=together,
    has_out=False,
    method=False,
)
def put_places(xp: Namespace, gradient: Array, places: Array, size: Sizes) -> Array:
    """Add `gradient` up at `places` of zeros: the adjoint of `take_places`."""
    lead, length = gradient.shape[: gradient.ndim - len(size)], volume(size)
    out = xp.zeros((*lead, *size), gradient.dtype)
    xp.add.at(out.reshape(-1), over_images(xp, places, lead, length), gradient.reshape(-1))
    return out


def over_images(xp: Namespace, places: Array, lead: Any, length: int) -> Array:
    """Positions within all images together, flat."""
    rows = math.prod(lead)
    each = places.reshape(rows, volume(places.shape[len(lead) :]))
    return (each + xp.arange(rows)[:, None] * length).reshape(-1)


def _take(xp: Namespace, input: Array, places: Array, dims: int) -> Array:
    """`input` at `places`, image by image."""
    lead = input.shape[: input.ndim - dims]
    flat = input.reshape(*lead, volume(input.shape[len(lead) :]))
    each = places.reshape(*lead, volume(places.shape[len(lead) :]))
    return xp.take_along_axis(flat, each, -1).reshape(places.shape)


def declare_take(name: str, node: str) -> Any:
    """The operator under the name that the graph is to show."""
    return primitive(
        input=lambda g, places, input_shape, dims: put_places(g, places, input_shape[-dims:]),
        jvp=lambda d_input, places, dims: take_places(d_input, places, dims),
        batch=together,
        has_out=False,
        method=False,
        name=name,
        node=node,
    )(_take)


take_places: Any = declare_take("take_places", "TakePlacesBackward0")

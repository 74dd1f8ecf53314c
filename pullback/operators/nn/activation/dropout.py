"""Dropout: of elements or whole channels, to 0 or to a value that keeps mean and variance.

The mask is drawn once and is no part of what is differentiated, so each is a product with it.
"""

from __future__ import annotations

import math
import warnings
from functools import partial
from typing import Any

import numpy

from pullback.core import origin
from pullback.core.arrays import LIBRARIES, namespace
from pullback.core.layout import empty_like as memory_like
from pullback.core.mode import get_mode
from pullback.core.overriding import DISPATCH
from pullback.core.ports import ports
from pullback.core.tensor import Tensor, wrap
from pullback.operators.create.constants import constant_like
from pullback.operators.create.sizes import empty_like
from pullback.operators.pointwise.arithmetic import add, mul
from pullback.operators.random import samplers as draw
from pullback.operators.random.generator import default_generator, drawn
from pullback.operators.running.inplace import inplace_of

FOUND_IN = {
    "nn.functional": "alpha_dropout dropout dropout1d dropout2d dropout3d feature_alpha_dropout",
}

_mul_ = inplace_of(mul, "dropout_")
_add_ = inplace_of(add, "alpha_dropout_")


def _check(op: str, input: Any, p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueError(f"{op}: p is a probability, between 0 and 1, got {p}.")
    if not isinstance(input, Tensor):
        raise TypeError(f"{op}(): argument `input` must be a Tensor, got {type(input).__name__}.")


def kept(input: Tensor, p: float, *, channels: bool) -> Any:
    """Which elements, or channels (of the first two dimensions), are kept: an array of bools."""
    shape = input._array.shape
    if channels:
        shape = shape[:2] + (1,) * (len(shape) - 2)
    array = input._array
    if type(array) in LIBRARIES:
        mask = namespace(array).empty(shape, bool)
        ports.filled_there(mask, partial(draw.bernoulli, p=1 - p))
        return mask
    if channels or type(array) is not numpy.ndarray:  # an example of vmap has no memory of its own
        mask = numpy.empty(shape, bool)
    else:
        mask = memory_like(numpy, array, numpy.dtype(bool))  # torch draws in the order of this
    draw.bernoulli(default_generator.draw_from(), mask, 1 - p)
    return mask


def _dropped(op: str, input: Any, p: float, *, inplace: bool, channels: bool = False) -> Any:
    array = input._array
    if array.dtype.kind not in "fcV":
        raise RuntimeError(f"{op}: the result can't be cast to {input.dtype}; convert it first.")
    if p == 0:
        return input
    if p == 1:  # nothing is left to chance
        none = wrap(numpy.zeros((), array.dtype))
        return _mul_(input, none) if inplace else mul(input, none)
    if _is_answered(input):
        mask = mask_by_operators(input, p, channels=channels).div_(1 - p)
        return _mul_(input, mask) if inplace else mul(input, mask)
    factor = array.dtype.type(1 / (1 - p))
    mask = drawn(op, lambda: _scaled(input, kept(input, p, channels=channels), factor))
    return _mul_(input, mask) if inplace else mul(input, mask)


def _is_answered(input: Tensor) -> bool:
    """Whether a mode, or the input's class, is to see how the mask is drawn."""
    return bool(get_mode().dispatch or input._overrides & DISPATCH)


def mask_by_operators(input: Any, p: float, *, channels: bool) -> Any:
    """1 for what is kept and 0 for the rest, drawn where a mode that takes operators sees it.

    One that writes them down would otherwise have this mask as a constant.
    """
    shape = [*input.shape[:2], *(1,) * (input.ndim - 2)]
    mask = input.new_empty(shape) if channels else empty_like(input)
    return mask.bernoulli_(1 - p)


def _scaled(input: Tensor, mask: Any, factor: Any) -> Tensor:
    """What is kept, with the factor that it is multiplied by."""
    return wrap(mask * factor) if type(mask) in LIBRARIES else constant_like(input, mask * factor)


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zero elements with probability `p`, and scale the others to keep the expected value.

    >>> import pullback as torch
    >>> torch.nn.functional.dropout(torch.ones(2), p=0.9, training=False)
    tensor([1., 1.])
    """
    _check("dropout", input, p)
    return _dropped("dropout", input, p, inplace=inplace) if training else input


# Whole channels -----------------------------------------------------------------------------------


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """`dropout` of whole channels: (N, C, L) or (C, L).

    >>> import pullback as torch
    >>> torch.nn.functional.dropout1d(torch.ones(1, 2, 3), training=False).shape
    torch.Size([1, 2, 3])
    """
    return _by_channel("dropout1d", input, p, 1, training=training, inplace=inplace)


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """`dropout` of whole channels: (N, C, H, W).

    >>> import pullback as torch
    >>> torch.nn.functional.dropout2d(torch.ones(1, 2, 3, 3), training=False).shape
    torch.Size([1, 2, 3, 3])
    """
    return _by_channel("dropout2d", input, p, 2, training=training, inplace=inplace)


def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """`dropout` of whole channels: (N, C, D, H, W).

    >>> import pullback as torch
    >>> torch.nn.functional.dropout3d(torch.ones(1, 2, 3, 3, 3), training=False).shape
    torch.Size([1, 2, 3, 3, 3])
    """
    return _by_channel("dropout3d", input, p, 3, training=training, inplace=inplace)


def drop_channels(input: Any, p: float, training: bool, inplace: bool) -> Any:
    """`dropout` of whole channels, whatever follows the first two dimensions."""
    _check("feature_dropout", input, p)
    if input.ndim < 2:
        raise RuntimeError(
            f"feature_dropout: needs a batch and channels, got shape {tuple(input.shape)}."
        )
    if not training:
        return input
    return _dropped("feature_dropout", input, p, inplace=inplace, channels=True)


def _by_channel(
    op: str, input: Any, p: float, spatial: int, *, training: bool, inplace: bool
) -> Any:
    _check(op, input, p)
    ndim = input.ndim
    # As torch has it: the first knows of inputs without a batch, the last takes all others so.
    unbatched = (spatial == 1 and ndim == 2) or (spatial == 3 and ndim != 5)
    if spatial == 1 and ndim not in (2, 3):
        raise RuntimeError(f"{op}: needs 2 or 3 dimensions, got shape {tuple(input.shape)}.")
    if ndim != spatial + 2 and not (unbatched and ndim == spatial + 1):
        warnings.warn(
            f"{op}: expects {spatial + 2} dimensions; this input of {ndim} is read as (batch, "
            "channels, ...).",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )
    if ndim < 2:
        raise RuntimeError(f"{op}: needs a batch and channels, got shape {tuple(input.shape)}.")
    if not training:
        return input
    if unbatched:
        made = _dropped(op, input[None], p, inplace=inplace, channels=True)
        return input if inplace else made[0]
    return _dropped(op, input, p, inplace=inplace, channels=True)


# Alpha dropout ------------------------------------------------------------------------------------

_SATURATED = -1.7580993408473766  # where selu ends at the left: - scale * alpha


def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """Set elements to selu's lower limit, then shift and scale so that mean and variance stay.

    >>> import pullback as torch
    >>> torch.nn.functional.alpha_dropout(torch.tensor([1.0, 2.0]), training=False)
    tensor([1., 2.])
    """
    _check("alpha_dropout", input, p)
    return _saturated(input, p, inplace=inplace, channels=False) if training else input


def feature_alpha_dropout(
    input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Any:
    """`alpha_dropout` of whole channels.

    >>> import pullback as torch
    >>> torch.nn.functional.feature_alpha_dropout(torch.ones(1, 2, 3), training=False).shape
    torch.Size([1, 2, 3])
    """
    _check("feature_alpha_dropout", input, p)
    if training and input.ndim < 2:
        raise RuntimeError(
            f"feature_alpha_dropout: needs a batch and channels, got shape {tuple(input.shape)}."
        )
    return _saturated(input, p, inplace=inplace, channels=True) if training else input


def _saturated(input: Any, p: float, *, inplace: bool, channels: bool) -> Any:
    if p == 0:
        return input
    if p == 1:
        zero = wrap(numpy.zeros((), input._array.dtype))
        return _mul_(input, zero) if inplace else mul(input, zero)
    kind = input._array.dtype.type
    if _is_answered(input):
        mask = mask_by_operators(input, p, channels=channels)
    else:
        mask = drawn(
            "alpha_dropout",
            lambda: constant_like(input, kept(input, p, channels=channels).astype(kind)),
        )
    scale = 1 / math.sqrt((_SATURATED**2 * p + 1) * (1 - p))
    factor = mask * scale
    shift = (1 - mask) * (scale * _SATURATED) - scale * _SATURATED * p
    if inplace:
        return _add_(_mul_(input, factor), shift)
    return add(mul(input, factor), shift)

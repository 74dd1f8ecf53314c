"""Padding: constants around a tensor, or its own elements reflected, repeated or wrapped around.

All but constants are look-ups along dimensions (taps.py). `pad` counts from the last dimension:
before it, after it, before the one in front of it, and so on.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy

from pullback.core.tensor import Tensor
from pullback.operators.arrays.formats import copy_kept, keeps_format
from pullback.operators.arrays.windows import (
    Pads,
    Sizes,
    check_not_empty,
    check_tensor,
    padded,
    remembering,
    whole_size,
)
from pullback.operators.declare import Array, Namespace, primitive
from pullback.operators.nn.image.taps import Taps, declare_resample
from pullback.operators.options import as_number
from pullback.operators.shape.reshaping import contiguous

FOUND_IN = {"torch": "constant_pad_nd", "nn.functional": "pad"}


def _pairs(op: str, pad: Any) -> Pads:
    """Before and after, in the order of the dimensions."""
    if not isinstance(pad, Sequence) or isinstance(pad, str):
        raise TypeError(f"{op}: pad must be a sequence of ints, got {pad!r}.")
    try:
        checked = [operator.index(size) for size in pad]
    except TypeError:
        raise TypeError(f"{op}: pad must be a sequence of ints, got {pad!r}.") from None
    if len(checked) % 2:
        raise RuntimeError(f"{op}: pad {tuple(checked)} must have two numbers for each dimension.")
    return tuple(zip(checked[::2], checked[1::2], strict=True))[::-1]


# Not of the kind `linear`: a value other than 0 must not come into tangents.
@primitive(
    input=lambda g, pads: _constant_pad(g, _opposite(pads), 0),
    jvp=lambda d_input, pads: _constant_pad(d_input, pads, 0),
    node="ConstantPadNdBackward0",
    has_out=False,
)
@keeps_format
def _constant_pad(xp: Namespace, input: Array, pads: Pads, value: Any) -> Array:
    out = padded(xp, input, pads, value) if pads else input
    return copy_kept(xp, out) if out is input else out


def _opposite(pads: Pads) -> Pads:
    return tuple((-before, -after) for before, after in pads)


def constant_pad_nd(input: Any, pad: Any, value: Any = 0) -> Any:
    """`input` with `value` around its last dimensions; negative numbers cut off.

    >>> import pullback as torch
    >>> torch.constant_pad_nd(torch.ones(2), (1, -1), 5)
    tensor([5., 1.])
    """
    if not isinstance(input, Tensor):
        check_tensor("constant_pad_nd", input)
    options = [pad]
    pads = remembering(_constant_pads, options)(input._array.shape, *options)
    return _constant_pad(input, pads, as_number(value, "constant_pad_nd", "value"))


@functools.lru_cache(256)
def _constant_pads(shape: Sizes, pad: Any) -> Pads:
    """What to add to each of the last dimensions, before and after it."""
    pads = _pairs("constant_pad_nd", pad)
    if len(pads) > len(shape):
        raise RuntimeError(
            f"constant_pad_nd: pad {tuple(pad)} is for {len(pads)} dimensions, input of shape "
            f"{shape} has {len(shape)}."
        )
    for n, pair in zip(shape[len(shape) - len(pads) :], pads, strict=True):
        if n + min(pair[0], 0) + min(pair[1], 0) < 0 or n + pair[0] + pair[1] < 0:
            raise RuntimeError(
                f"constant_pad_nd: pad {tuple(pad)} cuts off more than there is of input of shape "
                f"{shape}."
            )
    return pads


# Elements of the tensor itself --------------------------------------------------------------------


def _reflected(place: Any, size: int) -> Any:
    last = size - 1
    return last - numpy.abs(last - numpy.abs(place))


def _repeated(place: Any, size: int) -> Any:
    return numpy.clip(place, 0, size - 1)


_PLACES = {"reflect": _reflected, "replicate": _repeated}
_NAMES = {"reflect": "Reflection", "replicate": "Replication", "circular": "Circular"}
_PADS = {
    (mode, dims): declare_resample(f"_{mode}_pad{dims}d", f"{name}Pad{dims}DBackward0")
    for mode, name in _NAMES.items()
    for dims in (1, 2, 3)
}


@functools.lru_cache(256)
def _table(mode: str, size: int, before: int, after: int) -> Taps:
    places = numpy.arange(-before, size + after)
    if mode == "circular":  # around what is left of it, if something is cut off
        first, last = max(-before, 0), size + min(after, 0)
        columns = first + (places - first) % max(last - first, 1)
    else:
        columns = _PLACES[mode](places, size)
    return Taps(numpy.arange(places.size), columns, None, places.size, size)


def _check(shape: Sizes, mode: str, pads: Pads) -> None:
    """Refuse paddings that the mode has no elements for."""
    dims = len(pads)
    if dims not in (1, 2, 3) or len(shape) not in (dims + 1, dims + 2):
        raise NotImplementedError(
            f"pad: mode {mode!r} pads the last 1, 2 or 3 dimensions of tensors with one or two "
            f"more; got pad for {dims} and shape {shape}."
        )
    check_not_empty("pad", shape, dims)
    for n, pair in zip(shape[-dims:], pads, strict=True):
        most = {"reflect": n - 1, "circular": n}.get(mode, max(pair))
        if max(pair) > most:
            raise RuntimeError(
                f"pad: mode {mode!r} can add at most {most} to a dimension of size {n}, got {pair} "
                f"(input shape {shape})."
            )
        if mode == "circular" and max(pair) > 0 and n + min(pair) < 1:
            raise RuntimeError(
                f"pad: {pair} leaves nothing to repeat of a dimension of size {n} (input shape "
                f"{shape})."
            )
    # torch's rule: some of several dimensions may come to nothing, not all.
    least = 0 if mode == "circular" else 1
    new = whole_size(shape[-dims:], pads)
    if min(new) < 0 or max(new) < least:
        raise RuntimeError(f"pad: {pads} leaves size {new} of input of shape {shape}.")


@functools.lru_cache(256)
def _tables(shape: Sizes, mode: str, pad: Any) -> tuple[Taps | None, ...]:
    pads = _pairs("pad", pad)
    _check(shape, mode, pads)
    return tuple(
        None if not any(pair) else _table(mode, n, *pair)
        for n, pair in zip(shape[-len(pads) :], pads, strict=True)
    )


def pad(input: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Any:
    """Pad the last dimensions with a constant, or by "reflect", "replicate" or "circular".

    >>> import pullback as torch
    >>> x = torch.tensor([[1.0, 2.0, 3.0]])
    >>> torch.nn.functional.pad(x, (1, 2))
    tensor([[0., 1., 2., 3., 0., 0.]])
    >>> torch.nn.functional.pad(x, (1, 2), mode="circular")
    tensor([[3., 1., 2., 3., 1., 2.]])
    """
    if mode == "constant":
        return constant_pad_nd(input, pad, 0 if value is None else value)
    if mode not in _NAMES:
        raise NotImplementedError(
            f"pad: mode must be 'constant', 'reflect', 'replicate' or 'circular', got {mode!r}."
        )
    if value:
        raise RuntimeError(f"pad: value is for mode 'constant'; mode {mode!r} takes none.")
    if not isinstance(input, Tensor):
        check_tensor("pad", input)
    options = [pad]
    tables = remembering(_tables, options)(input._array.shape, mode, *options)
    made = _PADS[mode, len(tables)](input, tables)
    return contiguous(made) if mode == "circular" else made

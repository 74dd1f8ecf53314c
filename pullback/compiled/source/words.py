"""Operators that only this library has, in torch's words.

The rules of backward call a few operators that torch does not have (`_softmax_adjoint`). Each is
written here with public ones; those of a formula follow from it. What is in neither has no words,
and whoever writes source says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from string import ascii_letters
from typing import Any

import pullback
from pullback.core.mode import change, current
from pullback.fx.experimental.proxy_tensor import get_proxy_mode
from pullback.operators.declare import OPERATORS

__all__ = ["SPELLED", "in_words"]

_WORDS: dict[str, Callable[..., Any]] = {}


def in_words(name: str) -> Callable[..., Any] | None:
    """A function of public operators that does what the operator of this name does, or None."""
    known = _WORDS.get(name)
    op = OPERATORS.get(name)
    if known is not None or op is None or op.formula is None:
        return known
    return partial(op.formula.formula.function, None)


def _word(function: Callable[..., Any]) -> Callable[..., Any]:
    _WORDS[function.__name__] = function
    return function


# Places -------------------------------------------------------------------------------------------


@_word
def zeros_of(input: Any) -> Any:
    return pullback.zeros_like(input)


@_word
def keep_where(input: Any, mask: Any) -> Any:
    return pullback.where(mask, input, 0)


@_word
def _select_adjoint(g: Any, shape: Any, dim: int, index: int) -> Any:
    return pullback.select_scatter(g.new_zeros(shape), g, dim, index)


@_word
def _slice_adjoint(g: Any, shape: Any, dim: int, start: Any, stop: Any, step: int) -> Any:
    first, last, step = slice(start, stop, step).indices(shape[dim])
    if step < 0:  # torch's slices go forwards
        count = len(range(first, last, step))
        first, last, step, g = first + (count - 1) * step, first + 1, -step, pullback.flip(g, [dim])
    return pullback.slice_scatter(g.new_zeros(shape), g, dim, first, last, step)


@_word
def _diagonal_adjoint(g: Any, shape: Any, offset: int, dim1: int, dim2: int) -> Any:
    whole = g.new_zeros(shape)
    src = g.expand(pullback.diagonal(whole, offset, dim1, dim2).shape)
    return pullback.diagonal_scatter(whole, src, offset, dim1, dim2)


@_word
def _gather_adjoint(input: Any, shape: Any, dim: int, index: Any) -> Any:
    return pullback.scatter_add(input.new_zeros(shape), dim, index, input)


@_word
def _index_select_adjoint(input: Any, shape: Any, dim: int, index: Any) -> Any:
    return pullback.index_add(input.new_zeros(shape), dim, index, input)


@_word
def _take_adjoint(input: Any, shape: Any, index: Any) -> Any:
    flat = input.new_zeros((prod(shape),))
    index = pullback.reshape(index, (-1,))
    index = pullback.where(index < 0, index + prod(shape), index)
    flat = pullback.index_add(flat, 0, index, pullback.reshape(input, (-1,)))
    return pullback.reshape(flat, shape)


@_word
def _masked_select_adjoint(input: Any, shape: Any, mask: Any) -> Any:
    common = pullback.broadcast_shapes(shape, mask.shape)
    whole = input.new_zeros(common)
    return pullback.masked_scatter(whole, mask.expand(common), input)


@_word
def _clear(input: Any, dims: Any, indices: Any) -> Any:
    at = _places(input.shape, dims, indices)
    flat = pullback.reshape(input, (-1,))
    return pullback.reshape(pullback.index_fill(flat, 0, at, 0), input.shape)


@_word
def _place(input: Any, shape: Any, dims: Any, first: Any, second: Any = None) -> Any:
    given = [first] if second is None else [first, second]
    return _put(input, shape, dims, given)


@_word
def _place_many(input: Any, shape: Any, dims: Any, indices: Any) -> Any:
    return _put(input, shape, dims, indices)


def _put(input: Any, shape: Any, dims: Any, indices: Any) -> Any:
    at = _places(shape, dims, indices)
    flat = pullback.index_add(
        input.new_zeros((prod(shape),)), 0, at, pullback.reshape(input, (-1,))
    )
    return pullback.reshape(flat, shape)


def _places(shape: Any, dims: Any, indices: Any) -> Any:
    """Where indices lead in a tensor of this shape, as places in its elements in order."""
    given = dict(zip(dims, indices, strict=True))
    key: list[Any] = []
    dim = 0
    while dim < len(shape):
        index = given.get(dim, slice(None))
        key.append(index)
        dim += index.ndim if getattr(index, "dtype", None) == pullback.bool else 1
    every = pullback.reshape(pullback.arange(prod(shape)), tuple(shape))
    return pullback.reshape(every[tuple(key)], (-1,))


@_word
def put_back(g: Any, indices: Any, size: int, dim: int) -> Any:
    if not g.ndim:
        return g
    shape = (*g.shape[:dim], size, *g.shape[dim + 1 :])
    return pullback.scatter_add(g.new_zeros(shape), dim, indices, g)


add_back = _WORDS["add_back"] = put_back


@_word
def put_places(gradient: Any, places: Any, size: Any, apart: bool = False) -> Any:
    lead, dims = places.shape[: -len(size)], len(size)
    flat = gradient.new_zeros((*lead, prod(size)))
    at, what = (pullback.flatten(one, -dims) for one in (places, gradient))
    return pullback.scatter_add(flat, -1, at, what).reshape((*lead, *size))


@_word
def take_places(input: Any, places: Any, dims: int) -> Any:
    flat = pullback.flatten(input, -dims)
    return pullback.gather(flat, -1, pullback.flatten(places, -dims)).reshape(places.shape)


@_word
def _embedding_adjoint(
    gradient: Any, indices: Any, shape: Any, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    index = pullback.reshape(indices, (-1,))
    rows = pullback.reshape(gradient, (index.shape[0], shape[1]))
    if scale_grad_by_freq:
        counts = pullback.bincount(index, None, shape[0])
        rows = rows / pullback.index_select(counts, 0, index).to(rows.dtype).unsqueeze(-1)
    whole = pullback.index_add(gradient.new_zeros(shape), 0, index, rows)
    if padding_idx < 0:
        return whole
    return pullback.select_scatter(whole, gradient.new_zeros((shape[1],)), 0, padding_idx)


# Arithmetic and scans -----------------------------------------------------------------------------


@_word
def divide_or_zero(input: Any, other: Any) -> Any:
    return pullback.where(other == 0, 0, input / other)


@_word
def _times(input: Any, factor: float) -> Any:
    return input * factor


@_word
def _log(input: Any) -> Any:
    return pullback.log(input)


@_word
def _real(input: Any) -> Any:
    return pullback.select(pullback.view_as_real(input), -1, 0)


@_word
def _imag(input: Any) -> Any:
    return pullback.select(pullback.view_as_real(input), -1, 1)


@_word
def reverse_cumsum(input: Any, dim: int) -> Any:
    return pullback.flip(pullback.cumsum(pullback.flip(input, [dim]), dim), [dim])


@_word
def shifted(input: Any, dim: int, by: int, fill: float = 0) -> Any:
    if not input.ndim or not input.shape[dim]:
        return pullback.full_like(input, fill)
    size = input.shape[dim]
    edge = pullback.full_like(pullback.narrow(input, dim, 0, 1), fill)
    if by > 0:
        return pullback.cat([edge, pullback.narrow(input, dim, 0, size - 1)], dim)
    return pullback.cat([pullback.narrow(input, dim, 1, size - 1), edge], dim)


@_word
def _half(input: Any, lower: bool) -> Any:
    part = pullback.tril(input) if lower else pullback.triu(input)
    return part - 0.5 * pullback.diag_embed(pullback.diagonal(input, 0, -2, -1))


@_word
def _multiply(input: Any, other: Any, plan: Any) -> Any:
    return _aligned(input, plan.labels, plan.kept) * _aligned(other, plan.others, plan.kept)


def _aligned(value: Any, labels: Any, kept: Any) -> Any:
    """The dimensions in the order of `kept`, of length 1 where there is none."""
    order = [labels.index(label) for label in kept if label in labels]
    value = pullback.permute(value, order)
    for at, label in enumerate(kept):
        if label not in labels:
            value = pullback.unsqueeze(value, at)
    return value


@_word
def _mix(weights: Any, value: Any) -> Any:
    return pullback.matmul(weights, value)


@_word
def share(g: Any, input: Any, reached: Any, dim: Any = None, nan: bool = False) -> Any:
    """`g` in equal parts to all that reached the extreme."""
    ties = input == reached
    if nan:
        ties = ties | ((input != input) & (reached != reached))
    parts = ties.to(g.dtype)
    dims = list(range(input.ndim)) if dim is None else dim
    count = pullback.sum(parts, dims, keepdim=True) if input.ndim else parts
    return parts * (g / count)


@_word
def _enlarge(input: Any, shape: Any) -> Any:
    pads = [side for new, old in zip(reversed(shape), reversed(input.shape), strict=True)
            for side in (0, new - old)]  # fmt: skip
    return pullback.constant_pad_nd(input, pads, 0)


@_word
def _in_order(input: Any, shape: Any) -> Any:
    flat = pullback.constant_pad_nd(input, [0, prod(shape) - input.shape[0]], 0)
    return pullback.reshape(flat, tuple(shape))


@_word
def resample(input: Any, tables: Any) -> Any:
    """Each table as the matrix that it stands for, a constant of the program."""
    for at, table in enumerate(tables):
        if table is None:
            continue
        dim = input.ndim - len(tables) + at
        matrix = _unseen(_matrix, input.shape[dim], input.dtype, table)
        last = pullback.transpose(input, dim, -1)
        rows = pullback.mm(pullback.reshape(last, (-1, last.shape[-1])), matrix)
        made = pullback.reshape(rows, (*last.shape[:-1], rows.shape[-1]))
        input = pullback.transpose(made, dim, -1)
    return input


def _matrix(size: int, dtype: Any, table: Any) -> Any:
    return OPERATORS["resample"].function(pullback.eye(size, dtype=dtype), (table,))


def _unseen(make: Callable[..., Any], *args: Any) -> Any:
    """What a function makes while nobody writes it down."""
    noting: Any = get_proxy_mode()
    before = change(dispatch=(), levels=())
    try:
        made = make(*args)
    finally:
        current.set(before)
    noting.constants.update([made])
    return made


# Layers -------------------------------------------------------------------------------------------


@_word
def _softmax_adjoint(gradient: Any, output: Any, dim: int) -> Any:
    return output * (gradient - pullback.sum(gradient * output, dim, keepdim=True))


@_word
def _log_softmax_adjoint(gradient: Any, output: Any, dim: int) -> Any:
    return gradient - pullback.exp(output) * pullback.sum(gradient, dim, keepdim=True)


@_word
def _nll_adjoint(
    gradient: Any, target: Any, weight: Any, shape: Any, ignore_index: int, reduction: str
) -> Any:
    classes = 1 if len(shape) > 1 else 0
    counts = target != ignore_index
    index = pullback.where(counts, target, 0)
    share = counts.to(gradient.dtype)
    if weight is not None:
        flat = pullback.index_select(weight, 0, pullback.reshape(index, (-1,)))
        share = share * pullback.reshape(flat, index.shape)
    factor = gradient * (share / pullback.sum(share) if reduction == "mean" else share)
    at, what = (pullback.unsqueeze(one, classes) for one in (index, factor))
    return pullback.scatter(gradient.new_zeros(shape), classes, at, -what)


@_word
def _cross_entropy_adjoint(
    gradient: Any, input: Any, target: Any, weight: Any, ignore_index: int, reduction: str
) -> Any:
    classes = 1 if input.ndim > 1 else 0
    of_log = _nll_adjoint(gradient, target, weight, input.shape, ignore_index, reduction)
    total = pullback.sum(of_log, classes, keepdim=True)
    return of_log - pullback.softmax(input, classes) * total


def _normed(input: Any, over: Any) -> tuple[Any, Any, Any]:
    """What a norm is taken of, with groups as a dimension, without its mean, and its 1 / std."""
    if over.groups is not None:
        channels = over.channel
        groups = (over.groups, input.shape[channels] // over.groups)
        shape = (*input.shape[:channels], *groups, *input.shape[channels + 1 :])
        input = pullback.reshape(input, shape)
    dims = list(over.dims)
    if over.centred:
        input = input - pullback.mean(input, dims, keepdim=True)
    square = pullback.mean(input * input, dims, keepdim=True)
    return input, pullback.rsqrt(square + over.eps), dims


def _per_channel(weight: Any, ndim: int, channel: int | None) -> Any:
    if channel is None:
        return weight
    return pullback.reshape(weight, (-1, *(1,) * (ndim - channel - 1)))


@_word
def _standardise_adjoint(
    gradient: Any, input: Any, weight: Any, over: Any, known: Any = None
) -> Any:
    shape = input.shape
    if weight is not None:
        gradient = gradient * _per_channel(weight, input.ndim, over.channel)
    centred, scale, dims = _normed(input, over)
    gradient = pullback.reshape(gradient, centred.shape)
    normal = centred * scale
    made = gradient - normal * pullback.mean(gradient * normal, dims, keepdim=True)
    if over.centred:
        made = made - pullback.mean(gradient, dims, keepdim=True)
    return pullback.reshape(made * scale, shape)


@_word
def _weight_adjoint(gradient: Any, input: Any, shape: Any, over: Any) -> Any:
    centred, scale, _ = _normed(input, over)
    product = gradient * pullback.reshape(centred * scale, input.shape)
    if over.channel is None:
        lead = list(range(input.ndim - len(shape)))
    else:
        lead = [dim for dim in range(input.ndim) if dim != over.channel]
    return pullback.reshape(pullback.sum(product, lead) if lead else product, shape)


@_word
def _given_standardise(
    input: Any, weight: Any, bias: Any, average: Any, variance: Any, eps: float
) -> Any:
    factor = pullback.rsqrt(variance + eps)
    if weight is not None:
        factor = factor * weight
    made = input if average is None else input - _per_channel(average, input.ndim, 1)
    made = made * _per_channel(factor, input.ndim, 1)
    return made if bias is None else made + _per_channel(bias, input.ndim, 1)


@_word
def convolution_weight(
    gradient: Any, input: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """The windows of the input times the gradient, summed over examples and places."""
    dims = len(kernel)
    pads = [side for pair in reversed(padding) for side in pair]
    if any(pads):
        input = pullback.constant_pad_nd(input, pads, 0)
    for at, (size, step, gap) in enumerate(zip(kernel, stride, dilation, strict=True)):
        reach = (size - 1) * gap + 1
        input = pullback.unfold_copy(input, 2 + at, reach, step)
        count = gradient.shape[2 + at]
        input = pullback.narrow(input, 2 + at, 0, count)
        if gap > 1:
            input = pullback.slice_copy(input, -1, 0, reach, gap)
    places = ascii_letters[3 : 3 + dims]
    taps = ascii_letters[10 : 10 + dims]
    examples, channels, outs = input.shape[0], input.shape[1], gradient.shape[1]
    split = pullback.reshape(input, (examples, groups, channels // groups, *input.shape[2:]))
    of_outs = (examples, groups, outs // groups, *gradient.shape[2:])
    letters = f"ZGC{places}{taps},ZGO{places}->GOC{taps}"
    made = pullback.einsum(letters, [split, pullback.reshape(gradient, of_outs)])
    return pullback.reshape(made, (outs, channels // groups, *kernel))


@_word
def _unfold_adjoint(g: Any, shape: Any, dimension: int, size: int, step: int) -> Any:
    if not shape:
        return pullback.sum(g)
    whole = g.new_zeros(shape)
    count = g.shape[dimension]
    for place in range(size):
        stop = place + (count - 1) * step + 1
        part = pullback.select(g, -1, place)
        if count:
            empty = g.new_zeros(shape)
            whole = whole + pullback.slice_scatter(empty, part, dimension, place, stop, step)
    return whole


@_word
def _spread_average(input: Any, size: Any, geometry: Any, divisor: Any) -> Any:
    """Each gradient's share, added up over the windows; `divisor` is a number or one per window."""
    kernel, stride, pads, dilation, number = geometry
    if type(divisor) is not int:  # windows that count their own elements
        raise NotImplementedError
    share = input / divisor
    whole = [length + low + high for length, (low, high) in zip(size, pads, strict=True)]
    lead = share.shape[: -len(size)]
    made = share.new_zeros((*lead, *whole))
    for at in _corners(kernel):
        part = share
        for dim, (place, step, gap, count) in enumerate(
            zip(at, stride, dilation, number, strict=True)
        ):
            first = place * gap
            shape = (*part.shape[: len(lead) + dim], whole[dim], *part.shape[len(lead) + dim + 1 :])
            stop = first + (count - 1) * step + 1
            empty = part.new_zeros(shape)
            part = pullback.slice_scatter(empty, part, len(lead) + dim, first, stop, step)
        made = made + part
    for dim, (length, (low, _)) in enumerate(zip(size, pads, strict=True)):
        made = pullback.narrow(made, len(lead) + dim, low, length)
    return made


def _corners(kernel: Any) -> list[tuple[int, ...]]:
    from itertools import product

    return list(product(*(range(size) for size in kernel)))


@_word
def _restride(input: Any, taken: Any, given: Any) -> Any:
    size = max(_extent(taken), _extent(given), 1)
    places = pullback.as_strided(pullback.arange(size), *taken)
    flat = pullback.index_add(
        input.new_zeros((size,)), 0, pullback.reshape(places, (-1,)),
        pullback.reshape(input, (-1,)),
    )  # fmt: skip
    return pullback.as_strided(flat, *given)


def _extent(geometry: Any) -> int:
    size, stride, offset = (*geometry, 0)[:3]
    if 0 in size:
        return 0
    reach = sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    return int((offset or 0) + reach + 1)


# The same under another name ----------------------------------------------------------------------


def _flat(pads: Any) -> list[int]:
    return [side for pair in reversed(pads) for side in pair]


def _letters(plan: Any) -> str:
    known = dict.fromkeys((*plan.labels, *plan.others, *plan.kept))
    letter = dict(zip(known, ascii_letters, strict=False))
    parts = ["".join(letter[one] for one in labels)
             for labels in (plan.labels, plan.others, plan.kept)]  # fmt: skip
    return "{},{}->{}".format(*parts)


# By what a transform is divided, as torch says it: forwards, and back.
_NORMS = (
    {"none": "backward", "root": "ortho", "n": "forward"},
    {"none": "forward", "root": "ortho", "n": "backward"},
)

# Operators that torch has: the text of its function, and its arguments.
SPELLED: dict[str, Callable[..., tuple[str, list[Any], dict[str, Any]]]] = {
    "_strided_scatter": lambda x, src, geometry: (
        "torch.as_strided_scatter", [x, src, *geometry], {}
    ),
    "_constant_pad": lambda x, pads, value: (
        "torch.constant_pad_nd", [x, _flat(pads), value], {}
    ),
    "_rot90": lambda x, k, dims: ("torch.rot90", [x, k, list(dims)], {}),
    "_solve": lambda a, b, strict: ("torch.linalg.solve_ex", [a, b], {}),
    "_inv": lambda a, strict: ("torch.linalg.inv_ex", [a], {}),
    "_c2c": lambda x, dims, scale, inverse: (
        f"torch.fft.{'ifftn' if inverse else 'fftn'}", [x],
        {"dim": tuple(dims), "norm": _NORMS[inverse][scale]},
    ),
    "_reshape_alias": lambda x, size: ("torch.reshape", [x, tuple(size)], {}),
    "_contract": lambda x, y, plan: ("torch.einsum", [_letters(plan), x, y], {}),
}  # fmt: skip

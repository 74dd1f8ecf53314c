"""Connectionist temporal classification: the loss of a sequence of labels under frames of scores.

A path gives each frame a label or a blank; it spells the target once repeats and blanks are
dropped. `alpha[t, s]` is the log-probability of all paths up to frame t that end at place s of the
target with blanks around its labels, `beta` the same from the end. Frames follow one another, so
there is a loop over them; examples and places go through together.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy

from pullback.core import errors
from pullback.core.arrays import LIBRARIES
from pullback.core.device import CPU, META
from pullback.core.dtype import from_numpy_dtype
from pullback.core.memory.meta import MetaArray
from pullback.core.ports import ports
from pullback.core.tensor import Tensor
from pullback.operators.batching import filled
from pullback.operators.create.constants import constant_like
from pullback.operators.declare import Array, Namespace, Op, primitive
from pullback.operators.indexing.selection import masked_fill
from pullback.operators.nn.loss.elementwise import reduced, reduction_of
from pullback.operators.reduce.sums import mean
from pullback.operators.tensor.convert import astype

FOUND_IN = {"nn.functional": "ctc_loss"}


class Places(NamedTuple):
    """The targets with blanks around every label, for each example."""

    labels: Array  # (batch, places)
    may_skip: Array  # whether the blank before a place may be left out
    ends: Array  # (batch,) the last place


def _places(xp: Namespace, targets: Array, lengths: Array, blank: int) -> Places:
    batch, longest = targets.shape
    labels = xp.full((batch, 2 * longest + 1), blank)
    labels[:, 1::2] = targets
    may_skip = xp.zeros(labels.shape, bool)
    # Between blanks nothing can be skipped, as both are the same; a label of the target may itself
    # be the blank, and is then a label like others.
    may_skip[:, 2:] = labels[:, 2:] != labels[:, :-2]
    return Places(labels, may_skip, 2 * lengths)


def _emitted(log_probs: Array, labels: Array) -> Array:
    """Log-probabilities of the label at each place: (frames, batch, places)."""
    return numpy.take_along_axis(log_probs, labels[None], 2)


def _step(xp: Namespace, before: Array, may_skip: Array) -> Array:
    """From each place on to itself, to the next, and over a blank to the one after."""
    after = before.copy()
    xp.logaddexp(after[:, 1:], before[:, :-1], out=after[:, 1:])
    skipped = xp.where(may_skip[:, 2:], before[:, :-2], -xp.inf)
    xp.logaddexp(after[:, 2:], skipped, out=after[:, 2:])
    return after


def _alphas(xp: Namespace, emitted: Array, places: Places) -> Array:
    alphas = xp.full(emitted.shape, -xp.inf, emitted.dtype)
    if len(alphas):
        alphas[0, :, :2] = emitted[0, :, :2]
    for t in range(1, len(alphas)):
        alphas[t] = _step(xp, alphas[t - 1], places.may_skip) + emitted[t]
    return alphas


def _betas(xp: Namespace, emitted: Array, places: Places, lengths: Array) -> Array:
    betas = xp.full(emitted.shape, -xp.inf, emitted.dtype)
    rows = xp.arange(len(lengths))
    # Seen from the end, a skip starts at the place that it arrives at otherwise.
    backwards = xp.zeros_like(places.may_skip)
    backwards[:, 2:] = places.may_skip[:, :1:-1]
    for t in range(len(betas) - 1, -1, -1):
        if t + 1 < len(betas):
            following = _step(xp, betas[t + 1][:, ::-1], backwards)[:, ::-1]
            betas[t] = following + emitted[t]
        last = rows[lengths == t + 1]
        ends = places.ends[last]
        betas[t, last] = -xp.inf
        betas[t, last, ends] = emitted[t, last, ends]
        before = xp.maximum(ends - 1, 0)
        betas[t, last, before] = emitted[t, last, before]
    return betas


def _losses(xp: Namespace, alphas: Array, places: Places, lengths: Array) -> Array:
    rows = xp.arange(len(lengths))
    losses = xp.where(places.ends > 0, xp.inf, 0.0).astype(alphas.dtype)  # of no frames
    there = rows[lengths > 0]
    last, ends = lengths[there] - 1, places.ends[there]
    final = alphas[last, there, ends]
    before = xp.where(ends > 0, alphas[last, there, xp.maximum(ends - 1, 0)], -xp.inf)
    losses[there] = -xp.logaddexp(final, before)
    return losses


def _in_batches(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    """Examples of vmap join the batch that the operator has already."""
    values = {name: filled(pair, size) for name, pair in split.items()}
    frames = values.pop("log_probs").movedim(0, 1)
    length, _, batch, classes = frames.shape
    joined = {name: one.reshape((size * batch, *one.shape[2:])) for name, one in values.items()}
    made = op.function(
        log_probs=frames.reshape((length, size * batch, classes)), **joined, **options
    )
    if made.ndim == 1:
        return made.reshape((size, batch))
    return made.reshape((length, size, batch, classes)).movedim(1, 0)


@primitive(
    batch=_in_batches,
    log_probs=lambda g, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity: (
        _ctc_adjoint(g, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
    ),
    node="CtcLossBackward0",
    method=False,
    has_out=False,
)
def _ctc_loss(
    xp: Namespace,
    log_probs: Array,
    targets: Array,
    input_lengths: Array,
    target_lengths: Array,
    blank: int,
    zero_infinity: bool,
) -> Array:
    places = _places(xp, targets, target_lengths, blank)
    alphas = _alphas(xp, _emitted(log_probs, places.labels), places)
    losses = _losses(xp, alphas, places, input_lengths)
    return xp.where(losses == xp.inf, 0, losses) if zero_infinity else losses


def _refuse(g: Any) -> Any:
    raise RuntimeError(
        "ctc_loss: its gradient has no derivative: it is that of the scores before log_softmax."
    )


@primitive(batch=_in_batches, gradient=_refuse, log_probs=_refuse, method=False, has_out=False)
def _ctc_adjoint(
    xp: Namespace,
    gradient: Array,
    log_probs: Array,
    targets: Array,
    input_lengths: Array,
    target_lengths: Array,
    blank: int,
    zero_infinity: bool,
) -> Array:
    """Probabilities of the labels, less those given the target: what reaches the scores."""
    places = _places(xp, targets, target_lengths, blank)
    emitted = _emitted(log_probs, places.labels)
    alphas = _alphas(xp, emitted, places)
    losses = _losses(xp, alphas, places, input_lengths)
    alphas += _betas(xp, emitted, places, input_lengths)
    alphas -= xp.where(emitted == -xp.inf, 0, emitted)  # both count it
    given = xp.exp(alphas + losses[:, None])
    classes = xp.arange(log_probs.shape[2])
    spread = (places.labels[:, :, None] == classes).astype(log_probs.dtype)
    out = xp.exp(log_probs)
    out -= xp.matmul(given.transpose(1, 0, 2), spread).transpose(1, 0, 2)
    out *= gradient[:, None]
    out[xp.arange(len(out))[:, None] >= input_lengths] = 0
    if zero_infinity:
        out[:, losses == xp.inf] = 0
    return out


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """Minus the log-probability of the labels `targets` under frames `log_probs`.

    Frames are (frames, batch, classes), or (frames, classes); targets (batch, labels), or all
    labels in one row. The mean is over examples, each divided by its number of labels.

    >>> import pullback as torch
    >>> log_probs = torch.log_softmax(torch.zeros(3, 1, 4), 2)
    >>> torch.nn.functional.ctc_loss(
    ...     log_probs, torch.tensor([[1, 2]]), torch.tensor([3]), torch.tensor([2])
    ... )
    tensor(1.2747)
    """
    name = reduction_of("ctc_loss", reduction)
    batched = log_probs.ndim == 3
    if log_probs.device is META:
        raise errors.no_data("ctc_loss()")
    if log_probs._array.dtype.char not in "fd":
        dtype = from_numpy_dtype(log_probs._array.dtype)
        raise RuntimeError(
            f"ctc_loss: defined for float32 and float64, not {dtype}; convert first."
        )
    if not log_probs.numel():
        raise RuntimeError(
            f"ctc_loss: log_probs of shape {tuple(log_probs.shape)} have no elements: there is no "
            "frame, example or class that a loss could be of."
        )
    if not batched:
        log_probs = log_probs[:, None]
    frames, batch, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise RuntimeError(f"ctc_loss: blank {blank} is not one of the {classes} classes.")
    given = _lengths("input_lengths", input_lengths, batch)
    wanted = _lengths("target_lengths", target_lengths, batch)
    if batch and given.max() > frames:
        raise RuntimeError(
            f"ctc_loss: input_lengths must be at most {frames}, the frames there are; got "
            f"{given.max()}."
        )
    rows = _rows(targets, wanted)
    lengths = constant_like(log_probs, given), constant_like(log_probs, wanted)
    losses = _ctc_loss(log_probs, rows, *lengths, blank, zero_infinity)
    if name == "mean":
        dtype = log_probs._array.dtype
        return mean(losses / constant_like(log_probs, numpy.maximum(wanted, 1).astype(dtype)))
    return reduced(losses if batched else losses[0], name)


def _lengths(name: str, lengths: Any, batch: int) -> Array:
    values: Any = lengths
    if isinstance(lengths, Tensor):  # the array of a class that overrides calls may have no data
        if lengths._array.dtype.kind not in "iu":
            raise RuntimeError(f"ctc_loss: {name} must be integers, got {lengths.dtype}.")
        values = [int(one) for one in lengths] if lengths._overrides else lengths._array
    if type(values) in LIBRARIES:
        values = ports.placed(values, CPU)  # they say how long results are
    if isinstance(values, tuple | list):
        values = [operator.index(length) for length in values]
    # What has no data stays what it is, and says so; examples of a vmap share their lengths.
    taken = numpy.asanyarray if isinstance(values, MetaArray) else numpy.asarray
    array = taken(values, numpy.int64).reshape(-1)
    if array.shape != (batch,):
        raise RuntimeError(f"ctc_loss: {name} must have {batch} elements, one for each example.")
    if batch and array.min() < 0:
        raise RuntimeError(f"ctc_loss: {name} must not be negative, got {array.min()}.")
    return array


def _rows(targets: Any, lengths: Array) -> Any:
    """Targets as (batch, longest), zeros where there are none."""
    targets = astype(targets, numpy.dtype(numpy.int64))
    longest = int(lengths.max(initial=0))
    outside = numpy.arange(longest) >= lengths[:, None]
    shape = tuple(targets.shape)
    if len(shape) == 2:
        if shape[1] < longest or shape[0] != len(lengths):
            raise RuntimeError(
                f"ctc_loss: targets of shape {shape} do not hold {len(lengths)} rows of up to "
                f"{longest} labels."
            )
        return masked_fill(targets[:, :longest], constant_like(targets, outside), 0)
    if len(shape) != 1 or shape[0] != lengths.sum():
        raise RuntimeError(
            f"ctc_loss: targets in one row must be {lengths.sum()} labels, the sum of "
            f"target_lengths; got shape {shape}."
        )
    if not shape[0]:
        return constant_like(targets, numpy.zeros(outside.shape, numpy.int64))
    places = (lengths.cumsum() - lengths)[:, None] + numpy.arange(longest)
    chosen = targets[constant_like(targets, numpy.where(outside, 0, places))]
    return masked_fill(chosen, constant_like(targets, outside), 0)

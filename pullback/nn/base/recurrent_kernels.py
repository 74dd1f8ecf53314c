"""Recurrent layers on arrays, all times in one go: values, and the adjoint by hand.

Inside, a state is (features, batch), so that each gate is one piece of memory: NumPy takes a third
of the time that columns of a matrix take it. What does not wait for the state before is done for
all times together. Times are in the order in which they are gone through; examples that have ended
(or not begun) in packed sequences keep their states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

from pullback.core.arrays import F32, Array, number_array, numbers32, numbers64
from pullback.operators.arrays.rows import ones

__all__ = ["KINDS", "Gradients", "Kept", "Times", "Weights", "of_weights"]


class Times:
    """How many examples take part at which time, and in which direction it goes."""

    def __init__(self, sizes: list[int], *, backwards: bool) -> None:
        self.batch = max(sizes)
        self.count = len(sizes)
        self.backwards = backwards
        self.sizes = sizes[::-1] if backwards else sizes
        self.taking_part: Array | None = None  # (times, batch), where not all do
        if min(sizes) < self.batch:
            self.taking_part = numpy.arange(self.batch) < numpy.array(sizes)[:, None]

    def padded(self, rows: Array) -> Array:
        """Rows of all times, one time after the other, as (times, batch, features)."""
        if self.taking_part is None:
            return rows.reshape(self.count, self.batch, rows.shape[-1])
        whole = numpy.zeros((self.count, self.batch, rows.shape[-1]), rows.dtype)
        whole[self.taking_part] = rows
        return whole

    def columns(self, rows: Array) -> Array:
        """The same as (times, features, batch), in the order gone through; memory of its own."""
        return self._ordered(self.padded(rows)).transpose(0, 2, 1).copy()

    def rows(self, columns: Array) -> Array:
        """What `columns` made, as (times, batch, features); memory of its own."""
        return self._ordered(columns).transpose(0, 2, 1).copy()

    def packed(self, whole: Array) -> Array:
        """The rows of those that take part, of (times, batch, features)."""
        return whole if self.taking_part is None else whole[self.taking_part]

    def _ordered(self, times: Array) -> Array:
        return times[::-1] if self.backwards else times

    def states(self, first: Array) -> Array:
        """Room for the states before each time, and after the last; the first is known."""
        states = numpy.empty((self.count + 1, first.shape[1], first.shape[0]), first.dtype)
        states[0] = first.T
        return states

    def keep_rest(self, number: int, *all_states: Array) -> None:
        """The states of those that do not take part at a time stay."""
        size = self.sizes[number]
        if size < self.batch:
            for states in all_states:
                states[number + 1, :, size:] = states[number, :, size:]


class Weights(NamedTuple):
    """The parameters of a layer in one direction."""

    of_input: Array
    of_state: Array
    input_bias: Array | None
    state_bias: Array | None
    project: Array | None = None


class Kept(NamedTuple):
    """What the adjoint needs of the values; `more` depends on the kind."""

    hidden: Array  # the states before each time, and after the last
    cell: Array | None
    gates: Array  # (times, gates * width, batch)
    more: Array | None


class Gradients(NamedTuple):
    """Of what the gates are made of, and of the first states, as columns."""

    from_input: Array
    from_state: Array
    hidden: Array
    cell: Array | None = None
    project: Array | None = None


class Kind(NamedTuple):
    """A kind of layer: its gates, in what order and with which sign, and its two directions."""

    order: tuple[int, ...]
    negated: int  # of so many gates in front the negative is worked out: 1 / (1 + exp(-x))
    values: Callable[..., Kept]
    adjoint: Callable[..., Gradients]


def _arranged(kind: Kind, weight: Array, out: Array | None = None) -> Array:
    """A weight or a bias, with its gates in the order of the kind."""
    if len(kind.order) == 1 and out is None:
        return weight
    width = len(weight) // len(kind.order)
    if out is None:
        out = numpy.empty(weight.shape, weight.dtype)
    for place, gate in enumerate(kind.order):
        made, given = out[place * width : (place + 1) * width], weight[gate * width :][:width]
        if place < kind.negated:
            numpy.negative(given, made)
        else:
            made[...] = given
    return out


# A product for each time leaves what a time needs in one piece, which is added in a third of the
# time; for few examples, or weights that leave the cache in between, one product of all is faster.
# 32 times 16 examples, 16 to 64 features: 63 us and not 119, and 2 us less at each time.
_EXAMPLES = 8
_WEIGHTS = 1 << 17


def _inputs_share(kind: Kind, x: Array, weights: Weights, times: Times, bias: Any) -> Array:
    """What gates get of the inputs, at all times: (times, gates * width, batch)."""
    weight = weights.of_input
    if times.batch >= _EXAMPLES and weight.size <= _WEIGHTS:
        share = _shares_apart(kind, x, weight, bias)
    else:
        whole = _arranged(kind, weight).dot(x.reshape(-1, x.shape[2]).T)
        if bias is not None:
            whole += _arranged(kind, bias)[:, None]
        share = whole.reshape(-1, times.count, times.batch).transpose(1, 0, 2)
    return share[::-1] if times.backwards else share


def _shares_apart(kind: Kind, x: Array, weight: Array, bias: Array | None) -> Array:
    """A product for each time; a bias is a weight of an input that is always 1."""
    if bias is None:
        return numpy.matmul(_arranged(kind, weight), x.transpose(0, 2, 1))
    count, batch, width = x.shape
    columns = numpy.empty((count, width + 1, batch), x.dtype)
    columns[:, :width], columns[:, width] = x.transpose(0, 2, 1), 1
    joined = numpy.empty((len(weight), width + 1), x.dtype)
    _arranged(kind, weight, joined[:, :width])
    _arranged(kind, bias, joined[:, width])
    return numpy.matmul(joined, columns)


def _one(dtype: Any) -> Array:
    """The number 1, which NumPy takes longer to look at as Python's."""
    known = (numbers32 if dtype is F32 else numbers64).get(1.0)
    return number_array(1.0, dtype) if known is None else known


def _sigmoid_of_negative(x: Array, one: Array) -> None:
    numpy.exp(x, x)
    numpy.add(x, one, x)
    numpy.reciprocal(x, x)


# LSTM: gates in the order leaving, entering, forgetting, candidate: three sigmoids side by side --


def _lstm_values(x: Array, hidden: Array, cell: Array, weights: Weights, times: Times) -> Kept:
    bias = weights.input_bias
    if bias is not None:
        bias = bias + weights.state_bias
    share = _inputs_share(LSTM, x, weights, times, bias)
    again, project = _arranged(LSTM, weights.of_state), weights.project
    width, one = cell.shape[1], _one(x.dtype)
    hiddens, cells = times.states(hidden), times.states(cell)
    gates = numpy.empty((times.count, 4 * width, times.batch), x.dtype)
    through = numpy.empty((times.count, width, times.batch), x.dtype)
    product = numpy.empty((width, times.batch), x.dtype)
    # Walking along arrays makes the views of a time in half the time that subscripts take.
    parts = gates.reshape(times.count, 4, width, times.batch)
    walk = zip(
        *(gates, share, gates[:, : 3 * width], parts[:, 0], parts[:, 1], parts[:, 2], parts[:, 3]),
        *(cells, cells[1:], hiddens, hiddens[1:], through),
        strict=False,  # there is a state more than times
    )
    for number, step in enumerate(walk):
        gate, given, sigmoids, leaving, entering, forgetting, candidate, *states, reached = step
        cell_before, cell_next, before, following = states
        again.dot(before, gate)
        numpy.add(gate, given, gate)
        _sigmoid_of_negative(sigmoids, one)
        numpy.tanh(candidate, candidate)
        numpy.multiply(forgetting, cell_before, cell_next)
        numpy.add(cell_next, numpy.multiply(entering, candidate, product), cell_next)
        numpy.tanh(cell_next, reached)
        if project is None:
            numpy.multiply(leaving, reached, following)
        else:
            project.dot(numpy.multiply(leaving, reached, product), following)
        if times.taking_part is not None:
            times.keep_rest(number, hiddens, cells)
    return Kept(hiddens, cells, gates, through)


def _lstm_adjoint(
    kept: Kept, g_out: Array | None, h: Array, c: Array, weights: Weights, times: Times
) -> Gradients:
    """`h` and `c` are gradients of the last states; they become those of the first ones."""
    factors, to_cell, parts = _lstm_factors(kept)
    pre = numpy.empty(factors.shape, factors.dtype)
    project, again = weights.project, numpy.ascontiguousarray(weights.of_state.T)
    projected = None if project is None else numpy.empty((times.count, *h.shape), h.dtype)
    for number in range(times.count - 1, -1, -1):
        made, size = pre[number], times.sizes[number]
        if g_out is not None:
            h += g_out[number]
        reached = h
        if projected is not None and project is not None:
            projected[number] = h
            projected[number, :, size:] = 0
            reached = project.T.dot(h)
        waiting = (h[:, size:].copy(), c[:, size:].copy()) if size < times.batch else None
        c += reached * to_cell[number]
        numpy.multiply(factors[number, :3], c, made[:3])
        numpy.multiply(factors[number, 3], reached, made[3])
        c *= parts[number, 2]
        if waiting is not None:
            made[:, :, size:] = 0
        again.dot(made.reshape(-1, times.batch), h)
        if waiting is not None:
            h[:, size:], c[:, size:] = waiting
    flat = pre.reshape(times.count, -1, times.batch)
    of_project = None
    if projected is not None:
        raw = parts[:, 0] * kept.more
        of_project = numpy.matmul(projected, raw.transpose(0, 2, 1)).sum(0)
    return Gradients(flat, flat, h, c, of_project)


def _lstm_factors(kept: Kept) -> tuple[Array, Array, Array]:
    """What gradients of cell and hidden state are multiplied by, and the gates, at all times."""
    assert kept.cell is not None  # as an LSTM has one
    assert kept.more is not None
    count, width, batch = kept.more.shape
    parts = kept.gates.reshape(count, 4, width, batch)
    leaving, entering, candidate = parts[:, 0], parts[:, 1], parts[:, 3]
    one = _one(parts.dtype)
    slopes = numpy.subtract(one, parts[:, :3])
    slopes *= parts[:, :3]
    factors = numpy.empty(parts.shape, parts.dtype)
    numpy.multiply(slopes[:, 1], candidate, factors[:, 0])
    numpy.multiply(slopes[:, 2], kept.cell[:-1], factors[:, 1])
    turned = numpy.square(candidate)
    numpy.multiply(numpy.subtract(one, turned, turned), entering, factors[:, 2])
    numpy.multiply(slopes[:, 0], kept.more, factors[:, 3])
    to_cell = numpy.square(kept.more)
    numpy.subtract(one, to_cell, to_cell)
    to_cell *= leaving
    return factors, to_cell, parts


# GRU: reset, update, candidate --------------------------------------------------------------------


def _gru_values(x: Array, hidden: Array, cell: None, weights: Weights, times: Times) -> Kept:
    width, one = hidden.shape[1], _one(x.dtype)
    bias, shift = weights.input_bias, None
    if bias is not None and weights.state_bias is not None:
        bias, shift = bias.copy(), weights.state_bias[2 * width :, None]
        bias[: 2 * width] += weights.state_bias[: 2 * width]
    share = _inputs_share(GRU, x, weights, times, bias)
    again = _arranged(GRU, weights.of_state)
    hiddens = times.states(hidden)
    gates = numpy.empty((times.count, 3 * width, times.batch), x.dtype)
    of_states = numpy.empty((times.count, width, times.batch), x.dtype)
    product = numpy.empty((3 * width, times.batch), x.dtype)
    for number, gate in enumerate(gates):
        again.dot(hiddens[number], product)
        sigmoids, candidate = gate[: 2 * width], gate[2 * width :]
        numpy.add(product[: 2 * width], share[number, : 2 * width], sigmoids)
        _sigmoid_of_negative(sigmoids, one)
        of_state = of_states[number]
        if shift is None:
            of_state[...] = product[2 * width :]
        else:
            numpy.add(product[2 * width :], shift, of_state)
        numpy.multiply(gate[:width], of_state, candidate)
        candidate += share[number, 2 * width :]
        numpy.tanh(candidate, candidate)
        following = numpy.subtract(hiddens[number], candidate, hiddens[number + 1])
        following *= gate[width : 2 * width]
        following += candidate
        if times.taking_part is not None:
            times.keep_rest(number, hiddens)
    return Kept(hiddens, None, gates, of_states)


def _gru_adjoint(
    kept: Kept, g_out: Array | None, h: Array, c: None, weights: Weights, times: Times
) -> Gradients:
    assert kept.more is not None  # the states' share of candidates
    count, width, batch = kept.more.shape
    parts = kept.gates.reshape(count, 3, width, batch)
    reset, update, candidate = parts[:, 0], parts[:, 1], parts[:, 2]
    one = _one(parts.dtype)
    # Of the gates' inputs; the state's share of the candidate is reset first.
    factors = numpy.empty(parts.shape, parts.dtype)
    to_candidate = (one - update) * (one - numpy.square(candidate))
    numpy.multiply(to_candidate, reset, factors[:, 2])
    numpy.multiply(factors[:, 2], (one - reset) * kept.more, factors[:, 0])
    numpy.multiply(kept.hidden[:-1] - candidate, update * (one - update), factors[:, 1])
    pre, again = numpy.empty(parts.shape, parts.dtype), numpy.ascontiguousarray(weights.of_state.T)
    arrived = numpy.empty(kept.more.shape, pre.dtype)
    for number in range(count - 1, -1, -1):
        made, size = pre[number], times.sizes[number]
        if g_out is not None:
            h += g_out[number]
        waiting = h[:, size:].copy() if size < batch else None
        arrived[number] = h
        numpy.multiply(factors[number], h, made)
        if waiting is not None:
            made[:, :, size:] = 0
            arrived[number, :, size:] = 0
        h *= update[number]
        h += again.dot(made.reshape(-1, batch))
        if waiting is not None:
            h[:, size:] = waiting
    from_input = pre.copy()
    numpy.multiply(arrived, to_candidate, from_input[:, 2])
    flat = (count, 3 * width, batch)
    return Gradients(from_input.reshape(flat), pre.reshape(flat), h)


# Plain --------------------------------------------------------------------------------------------


def _plain_values(activation: Callable[[Array, Array], Any]) -> Callable[..., Kept]:
    def values(x: Array, hidden: Array, cell: None, weights: Weights, times: Times) -> Kept:
        bias = weights.input_bias
        if bias is not None:
            bias = bias + weights.state_bias
        share = _inputs_share(RNN_TANH, x, weights, times, bias)
        hiddens = times.states(hidden)
        for number in range(times.count):
            gate = weights.of_state.dot(hiddens[number])
            gate += share[number]
            activation(gate, hiddens[number + 1])
            if times.taking_part is not None:
                times.keep_rest(number, hiddens)
        return Kept(hiddens, None, hiddens[1:], None)

    return values


def _plain_adjoint(slope: Callable[[Array], Array]) -> Callable[..., Gradients]:
    def adjoint(
        kept: Kept, g_out: Array | None, h: Array, c: None, weights: Weights, times: Times
    ) -> Gradients:
        factors = slope(kept.hidden[1:])
        pre = numpy.empty(factors.shape, factors.dtype)
        again = numpy.ascontiguousarray(weights.of_state.T)
        for number in range(times.count - 1, -1, -1):
            size = times.sizes[number]
            if g_out is not None:
                h += g_out[number]
            waiting = h[:, size:].copy() if size < times.batch else None
            made = numpy.multiply(h, factors[number], pre[number])
            if waiting is not None:
                made[:, size:] = 0
            again.dot(made, h)
            if waiting is not None:
                h[:, size:] = waiting
        return Gradients(pre, pre, h)

    return adjoint


def _relu(x: Array, out: Array) -> None:
    numpy.maximum(x, 0, out=out)


LSTM = Kind((3, 0, 1, 2), 3, _lstm_values, _lstm_adjoint)
GRU = Kind((0, 1, 2), 2, _gru_values, _gru_adjoint)
RNN_TANH = Kind((0,), 0, _plain_values(numpy.tanh), _plain_adjoint(lambda h: 1 - h * h))
RNN_RELU = Kind((0,), 0, _plain_values(_relu), _plain_adjoint(lambda h: (h > 0).astype(h.dtype)))
KINDS = {"LSTM": LSTM, "GRU": GRU, "RNN_TANH": RNN_TANH, "RNN_RELU": RNN_RELU}


def of_weights(
    made: Gradients, x: Array, kept: Kept, times: Times, wanted: Any
) -> tuple[Array, tuple[Array | None, ...]]:
    """Gradients of the inputs' share as rows; then those of weights and biases that are wanted."""
    rows = times.rows(made.from_input).reshape(times.count * times.batch, -1)
    same = made.from_state is made.from_input
    again = rows if same else times.rows(made.from_state).reshape(rows.shape)
    row = ones(numpy, len(rows), rows.dtype)
    before = times.rows(kept.hidden[:-1]).reshape(len(rows), -1) if wanted[1] else None
    of_bias = row.dot(rows) if wanted[2] or wanted[3] else None
    return rows, (
        rows.T.dot(x.reshape(len(rows), -1)) if wanted[0] else None,
        None if before is None else again.T.dot(before),
        of_bias if wanted[2] else None,
        None if not wanted[3] else of_bias if same else row.dot(again),
    )

"""Recurrent layers on arrays, all times in one go: values, and the adjoint by hand.

Inside, a state is (features, batch), so that each gate is one piece of memory: NumPy takes a third
of the time that columns of a matrix take it. What does not wait for the state before is done for
all times together. Times are in the order in which they are gone through; examples that have ended
(or not begun) in packed sequences keep their states.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy

from pullback.core.arrays import F32, Array, number_array, numbers32, numbers64
from pullback.operators.arrays import programs
from pullback.operators.arrays.native import MANY, by_machine_code
from pullback.operators.arrays.sums import ones

__all__ = [
    *("GRU", "RNN_RELU", "RNN_TANH", "Gradients", "Kept", "Kind", "Times", "Weights"),
    *("constant", "even", "inputs_share", "of_weights", "side_by_side", "sigmoid_of_half"),
]


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

    def columns(self, padded: Array) -> Array:
        """The same as (times, features, batch), in the order gone through; memory of its own."""
        # Whole rows first: 18 us where examples before times (batch_first) take 31 in one go.
        return numpy.ascontiguousarray(self.ordered(padded)).transpose(0, 2, 1).copy()

    def rows(self, columns: Array, like: Array | None = None) -> Array:
        """What `columns` made, as (times, batch, features); memory of its own.

        In the order of `like`, which may have all times of an example side by side (batch_first):
        what comes next then need not bring them together.
        """
        turned = self.ordered(columns).transpose(0, 2, 1)
        if like is None or like.strides[0] >= like.strides[1]:
            return turned.copy()
        made = numpy.empty((self.batch, self.count, turned.shape[2]), turned.dtype)
        made = made.transpose(1, 0, 2)
        made[...] = turned
        return made

    def matrix(self, columns: Array) -> Array:
        """The same as (times * batch, features), in memory as it is copied faster."""
        if self.batch < 32:
            return self.rows(columns).reshape(self.count * self.batch, -1)
        # Lines of examples stay whole: 103 us where rows take 331 (32 times, 32 examples, 512
        # features); for 16 examples 56 and 42. Products take either.
        lines = self.ordered(columns).transpose(1, 0, 2).copy()
        return lines.reshape(-1, self.count * self.batch).T

    def packed(self, whole: Array) -> Array:
        """The rows of those that take part, of (times, batch, features)."""
        return whole if self.taking_part is None else whole[self.taking_part]

    def ordered(self, times: Array) -> Array:
        """From the order of time to that gone through, and back."""
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


@lru_cache(64)
def even(count: int, batch: int, *, backwards: bool) -> Times:
    """Times at all of which all examples take part."""
    return Times([batch] * count, backwards=backwards)


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
    gates: Array | None = None  # (times, gates * width, batch)
    more: Array | None = None


class Gradients(NamedTuple):
    """Of what the gates are made of, and of the first states, as columns."""

    from_input: Array
    from_state: Array
    hidden: Array
    cell: Array | None = None
    project: Array | None = None


class Kind(NamedTuple):
    """A kind of layer: its gates, and its two directions."""

    gates: int
    sigmoids: int  # so many of the gates in front, when `turned` are brought there from the end
    turned: int
    values: Callable[..., tuple[Kept, Array | None]]  # and the last state of the cells
    adjoint: Callable[..., Gradients]


def side_by_side(kind: Kind, *given: Array | None) -> Array:
    """Weights, perhaps a bias, in the order of the kind, halved where `sigmoid_of_half` follows."""
    parts = [part if part.ndim == 2 else part[:, None] for part in given if part is not None]
    rows = len(parts[0])
    width = rows // kind.gates
    cut, sigmoids = rows - kind.turned * width, kind.sigmoids * width
    out = numpy.empty((rows, sum([part.shape[1] for part in parts])), parts[0].dtype)
    start = 0
    for part in parts:
        made = out[:, start : start + part.shape[1]]
        made[: rows - cut], made[rows - cut :] = part[cut:], part[:cut]
        start += part.shape[1]
    numpy.multiply(out[:sigmoids], constant(0.5, out.dtype), out[:sigmoids])
    return out


# A product for each time leaves what a time needs in one piece; for few examples, or weights that
# leave the cache in between, one product of all is faster, turned around afterwards.
_EXAMPLES = 8
_WEIGHTS = 1 << 13  # for each example


def inputs_share(kind: Kind, x: Array, of_input: Array, bias: Any, times: Times) -> Array:
    """What gates get of the inputs, at all times: (times, gates * width, batch).

    A bias is a weight of an input that is always 1.
    """
    weight = side_by_side(kind, of_input, bias)
    count, batch, width = x.shape
    if batch >= _EXAMPLES and weight.size <= batch * _WEIGHTS:
        columns = numpy.empty((count, weight.shape[1], batch), x.dtype)
        columns[:, width:] = 1
        columns[:, :width] = x.transpose(0, 2, 1)
        return times.ordered(numpy.matmul(weight, columns))
    rows = numpy.empty((count * batch, weight.shape[1]), x.dtype)
    rows[:, width:] = 1
    rows[:, :width] = x.reshape(count * batch, width)
    whole = weight.dot(rows.T).reshape(-1, count, batch)  # twice as fast as rows by weight.T
    return times.ordered(whole.transpose(1, 0, 2).copy())


def constant(value: float, dtype: Any) -> Array:
    """A number as an array, which NumPy takes less time to look at."""
    known = (numbers32 if dtype is F32 else numbers64).get(value)
    return number_array(value, dtype) if known is None else known


def sigmoid_of_half(x: Array, half: Array) -> None:
    """In place, given half of the argument; in two thirds of the time that exp would take."""
    numpy.tanh(x, x)
    numpy.multiply(x, half, x)
    numpy.add(x, half, x)


# GRU: reset, update, candidate --------------------------------------------------------------------


def _gru_values(
    x: Array, hidden: Array, cell: None, weights: Weights, times: Times
) -> tuple[Kept, None]:
    width, half = hidden.shape[1], constant(0.5, x.dtype)
    bias, shift = weights.input_bias, None
    if bias is not None and weights.state_bias is not None:
        bias, shift = bias.copy(), weights.state_bias[2 * width :, None]
        bias[: 2 * width] += weights.state_bias[: 2 * width]
    share = inputs_share(GRU, x, weights.of_input, bias, times)
    again = side_by_side(GRU, weights.of_state)
    hiddens = times.states(hidden)
    gates = numpy.empty((times.count, 3 * width, times.batch), x.dtype)
    of_states = numpy.empty((times.count, width, times.batch), x.dtype)
    product = numpy.empty((3 * width, times.batch), x.dtype)
    for number, gate in enumerate(gates):
        again.dot(hiddens[number], product)
        sigmoids, candidate = gate[: 2 * width], gate[2 * width :]
        numpy.add(product[: 2 * width], share[number, : 2 * width], sigmoids)
        sigmoid_of_half(sigmoids, half)
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
    return Kept(hiddens, gates, of_states), None


def _gru_adjoint(
    kept: Kept, g_out: Array | None, h: Array, c: None, weights: Weights, times: Times
) -> Gradients:
    assert kept.more is not None  # the states' share of candidates
    count, width, batch = kept.more.shape
    assert kept.gates is not None
    parts = kept.gates.reshape(count, 3, width, batch)
    reset, update, candidate = parts[:, 0], parts[:, 1], parts[:, 2]
    one = constant(1.0, parts.dtype)
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


def _plain_values(activation: Callable[[Array, Array], Any]) -> Callable[..., tuple[Kept, None]]:
    def values(
        x: Array, hidden: Array, cell: None, weights: Weights, times: Times
    ) -> tuple[Kept, None]:
        bias = weights.input_bias
        if bias is not None:
            bias = bias + weights.state_bias
        share = inputs_share(RNN_TANH, x, weights.of_input, bias, times)
        hiddens = times.states(hidden)
        for number in range(times.count):
            gate = weights.of_state.dot(hiddens[number])
            gate += share[number]
            activation(gate, hiddens[number + 1])
            if times.taking_part is not None:
                times.keep_rest(number, hiddens)
        return Kept(hiddens), None

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


GRU = Kind(3, 2, 0, _gru_values, _gru_adjoint)
RNN_TANH = Kind(1, 0, 0, _plain_values(numpy.tanh), _plain_adjoint(lambda h: 1 - h * h))
RNN_RELU = Kind(1, 0, 0, _plain_values(_relu), _plain_adjoint(lambda h: (h > 0).astype(h.dtype)))


def of_weights(
    made: Gradients, x: Array, kept: Kept, weights: Weights, times: Times, wanted: Any
) -> tuple[Array | None, tuple[Array | None, ...]]:
    """Gradients of the input, then those of weights and biases, as far as they are wanted."""
    same = made.from_state is made.from_input
    if same and wanted[0] and wanted[3] and wanted[4] and times.taking_part is None:
        found = _by_machine_code(made.from_input, x, kept, weights, times)
        if found is not None:
            of_input, *both, of_bias = found
            return of_input, (*both, *(of_bias if one else None for one in wanted[5:7]))
    rows = times.matrix(made.from_input)
    again = rows if same else times.matrix(made.from_state)
    row = ones(numpy, len(rows), rows.dtype)
    before = times.rows(kept.hidden[:-1]).reshape(len(rows), -1) if wanted[4] else None
    of_bias = row.dot(rows) if wanted[5] or wanted[6] else None
    of_input = None
    if wanted[0]:
        of_input = times.packed(rows.dot(weights.of_input).reshape(times.count, times.batch, -1))
    return of_input, (
        rows.T.dot(x.reshape(len(rows), -1)) if wanted[3] else None,
        None if before is None else again.T.dot(before),
        of_bias if wanted[5] else None,
        None if not wanted[6] else of_bias if same else row.dot(again),
    )


def _by_machine_code(gates: Array, x: Array, kept: Kept, weights: Weights, times: Times) -> Any:
    """Gradients of the input, of both weights and of the bias; None where that does not pay."""
    given = (gates, times.ordered(x), kept.hidden[:-1], weights.of_input)
    made = by_machine_code(programs.RECURRENT_WEIGHTS, given) if gates.size >= MANY else None
    if made is None:
        return None
    rows = made[0].reshape(times.count, times.batch, -1)
    return times.ordered(rows), *made[1:]

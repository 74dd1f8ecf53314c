"""LSTM layers on arrays, all times in one go; what is said in `recurrent_kernels` holds here too.

Two costs decide. A call of NumPy's takes as long as its work on a state of this size, so a time
makes nine of them: one product for states, inputs and bias, one tanh for all gates (a sigmoid is
`tanh(x / 2) / 2 + 1 / 2`, with halved weights). And arithmetic on pieces with gaps between them
takes three times as long as on one piece (copies do not), so what belongs to a time is one piece
where a time is computed, and what belongs to a gate is one where all times are.
"""

from __future__ import annotations

from itertools import repeat

import numpy

from pullback.core.arrays import Array
from pullback.nn.base import lstm_native, recurrent_kernels
from pullback.nn.base.recurrent_kernels import Gradients, Kept, Kind, Times, Weights

__all__ = ["LSTM"]

# Weights of states and inputs so large are better not gone through together at each time.
_JOINED = 1 << 17


def _values(
    x: Array, hidden: Array, cell: Array, weights: Weights, times: Times
) -> tuple[Kept, Array]:
    """`more` is what enters the cell, what stays in it, its tanh, and what a projection got.

    The states stand above the inputs and a 1, if one product is to be what gates get of all three.
    """
    count, batch, (size, width) = times.count, times.batch, (hidden.shape[1], cell.shape[1])
    bias, share = weights.input_bias, None
    if bias is not None:
        bias = bias + weights.state_bias
    if weights.of_input.size + weights.of_state.size <= _JOINED:
        again = recurrent_kernels.side_by_side(LSTM, weights.of_state, weights.of_input, bias)
        states = numpy.empty((count + 1, again.shape[1], batch), x.dtype)
        states[:-1, size : size + x.shape[2]] = times.ordered(x).transpose(0, 2, 1)
        states[:-1, size + x.shape[2] :] = 1
    else:
        again = recurrent_kernels.side_by_side(LSTM, weights.of_state)
        states = numpy.empty((count + 1, size, batch), x.dtype)
        share = recurrent_kernels.inputs_share(LSTM, x, weights.of_input, bias, times)
    states[0, :size] = hidden.T
    gates = numpy.empty((count, 4 * width, batch), x.dtype)
    if share is None and weights.project is None and times.taking_part is None:
        cells = times.states(cell)
        if lstm_native.go(again, states, cells, gates):
            return Kept(states[:, :size], gates, cells), cells[-1]
    more = numpy.empty((3 + (weights.project is not None), count, width, batch), x.dtype)
    cells = times.states(cell)
    _go(again, weights.project, share, states, size, cells, gates, more, times)
    return Kept(states[:, :size], gates, more), cells[-1]


def _go(
    again: Array,
    project: Array | None,
    share: Array | None,
    states: Array,
    size: int,
    cells: Array,
    gates: Array,
    more: Array,
    times: Times,
) -> None:
    """Go through the times, and fill in what is computed on the way."""
    width, half = cells.shape[1], recurrent_kernels.constant(0.5, gates.dtype)
    tanh, add, multiply, dot = numpy.tanh, numpy.add, numpy.multiply, again.dot
    hiddens = states[:, :size]
    raws = hiddens[1:] if project is None else more[3]
    # Walking along arrays makes the views of a time in half the time that subscripts take, and one
    # tuple serves for all times.
    for (
        moment,
        state,
        given,
        gate,
        sigmoids,
        leaving,
        entering,
        forgetting,
        candidate,
        entered,
        stayed,
        reached,
        before,
        after,
        raw,
    ) in zip(
        *(range(times.count), states, repeat(None) if share is None else share, gates),
        *(gates[:, : 3 * width], *_each(gates, width), *more[:3], cells, cells[1:], raws),
        strict=False,  # there is a state more than times
    ):
        dot(state, gate)
        if given is not None:
            add(gate, given, gate)
        tanh(gate, gate)
        multiply(sigmoids, half, sigmoids)
        add(sigmoids, half, sigmoids)
        multiply(entering, candidate, entered)
        multiply(forgetting, before, stayed)
        add(entered, stayed, after)
        tanh(after, reached)
        multiply(leaving, reached, raw)
        if project is not None:
            project.dot(raw, hiddens[moment + 1])
        if times.taking_part is not None:
            times.keep_rest(moment, hiddens, cells)


def _each(gates: Array, width: int) -> Array:
    """Of (times, 4 * width, batch), each gate apart: (4, times, width, batch)."""
    return gates.reshape(len(gates), 4, width, gates.shape[2]).transpose(1, 0, 2, 3)


def _adjoint(
    kept: Kept, g_out: Array | None, h: Array, c: Array, weights: Weights, times: Times
) -> Gradients:
    """`h` and `c` are gradients of the last states; they become those of the first ones."""
    if kept.more is not None and kept.more.ndim == 3:  # by machine code, which keeps less
        made = lstm_native.adjoint(kept, g_out, h, c, weights)
        if made is not None:
            return made
        kept = lstm_native.as_by_numpy(kept)
    factors = _factors(kept, projects=weights.project is not None)
    count, width, batch = factors[0].shape
    pre = numpy.empty((count, 4 * width, batch), h.dtype)
    project, dot = weights.project, weights.of_state.T.dot
    projected = None if project is None else numpy.zeros((count, *h.shape), h.dtype)
    add, multiply = numpy.add, numpy.multiply
    reached, share = h, numpy.empty((width, batch), h.dtype)
    for (
        moment,
        g,
        made,
        entering,
        forgetting,
        candidate,
        leaving,
        by_cell,
        of_entering,
        of_forgetting,
        of_candidate,
        of_leaving,
        stays,
    ) in zip(
        range(count - 1, -1, -1),
        repeat(None) if g_out is None else g_out[::-1],
        *(pre[::-1], *_each(pre[::-1], width), *[factor[::-1] for factor in factors]),
        strict=False,  # None is without end
    ):
        size = times.sizes[moment]
        if g is not None:
            add(h, g, h)
        if projected is not None and project is not None:
            projected[moment, :, :size] = h[:, :size]
            reached = project.T.dot(h)
        waiting = (h[:, size:].copy(), c[:, size:].copy()) if size < batch else None
        add(c, multiply(reached, by_cell, share), c)
        multiply(of_entering, c, entering)
        multiply(of_forgetting, c, forgetting)
        multiply(of_candidate, c, candidate)
        multiply(of_leaving, reached, leaving)
        multiply(c, stays, c)
        if waiting is not None:
            made[:, size:] = 0
        dot(made, h)
        if waiting is not None:
            h[:, size:], c[:, size:] = waiting
    of_project = None
    if projected is not None:
        assert kept.more is not None  # as an LSTM has it
        of_project = numpy.matmul(projected, kept.more[3].transpose(0, 2, 1)).sum(0)
    return Gradients(pre, pre, h, c, of_project)


def _factors(kept: Kept, *, projects: bool) -> tuple[Array, ...]:
    """What gradients are multiplied by on their way, at all times: (times, width, batch) each.

    To the cell from the hidden state; to entering, forgetting and candidate from the cell; to
    leaving from the hidden state; to the cell before. Every slope is found in products that there
    are: `s (1 - s) y` of a sigmoid s is `(s y) - (s y) s`.
    """
    assert kept.more is not None  # as an LSTM has it
    entered, stayed, reached = kept.more[:3]
    hidden = kept.more[3] if projects else kept.hidden[1:].copy()
    leaving, entering, forgetting, candidate = _each(kept.gates, entered.shape[1]).copy()
    multiply, subtract = numpy.multiply, numpy.subtract
    to_cell = multiply(hidden, reached)
    subtract(leaving, to_cell, to_cell)
    to_leaving = multiply(hidden, leaving, leaving)
    subtract(hidden, to_leaving, to_leaving)
    to_candidate = multiply(entered, candidate, candidate)
    subtract(entering, to_candidate, to_candidate)
    to_entering = multiply(entered, entering, entering)
    subtract(entered, to_entering, to_entering)
    to_forgetting = multiply(stayed, forgetting)
    subtract(stayed, to_forgetting, to_forgetting)
    return to_cell, to_entering, to_forgetting, to_candidate, to_leaving, forgetting


LSTM = Kind(4, 3, 1, _values, _adjoint)

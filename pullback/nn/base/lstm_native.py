"""LSTM layers by machine code, a kernel for each time: what `lstm_kernels` does in nine calls.

For all examples at all times, without projection. What is kept is less: the tanh of what each gate
got (a sigmoid is `tanh(x / 2) / 2 + 1 / 2`) and the cells. The adjoint by NumPy wants more, which
`as_by_numpy` works out, should machine code be turned off in between.
"""

from __future__ import annotations

import numpy

from pullback.core.arrays import Array
from pullback.nn.base.recurrent_kernels import Gradients, Kept, Weights
from pullback.operators.arrays import programs
from pullback.operators.arrays.native import kernel_of

__all__ = ["adjoint", "as_by_numpy", "go"]


def go(again: Array, states: Array, cells: Array, gates: Array) -> bool:
    """Go through the times, and fill all three; False where that is not to be had."""
    hiddens = states[:, : cells.shape[1]]
    first = (again, states[0], cells[0], gates[0], cells[1], hiddens[1])
    kernel = kernel_of(programs.LSTM_STEP, first)
    if kernel is None:
        return False
    run = kernel.run
    for state, before, tanhs, after, hidden in zip(
        *(states, cells, gates, cells[1:], hiddens[1:]),
        strict=False,  # there is a state more than times
    ):
        if run(again, state, before, tanhs, after, hidden) is None:
            kernel.run_beside((again, state, before, tanhs, after, hidden))
    return True


def adjoint(
    kept: Kept, g_out: Array | None, h: Array, c: Array, weights: Weights
) -> Gradients | None:
    """`h` and `c` are gradients of the last states; None where that is not to be had."""
    assert kept.gates is not None  # as `go` fills them
    assert kept.more is not None
    tanhs, cells, of_state = kept.gates, kept.more, weights.of_state
    pre = numpy.empty(tanhs.shape, tanhs.dtype)
    if g_out is None:
        g_out = numpy.zeros((len(tanhs), *h.shape), h.dtype)
    first = (of_state, tanhs[0], cells[0], cells[1], h, c, g_out[0], pre[0])
    kernel = kernel_of(programs.LSTM_STEP_BACK, first)
    if kernel is None:
        return None
    run = kernel.run
    for gates, before, after, g, made in zip(
        *(tanhs[::-1], cells[-2::-1], cells[:0:-1], g_out[::-1], pre[::-1]), strict=True
    ):
        found = run(of_state, gates, before, after, h, c, g, made)
        if found is None:
            found = kernel.run_beside((of_state, gates, before, after, h, c, g, made))
        h, c = found
    return Gradients(pre, pre, h, c)


def as_by_numpy(kept: Kept) -> Kept:
    """What NumPy's way keeps: gates, what entered the cell, what stayed in it, its tanh."""
    assert kept.gates is not None  # as `go` fills them
    assert kept.more is not None
    gates, cells = kept.gates.copy(), kept.more
    width = cells.shape[1]
    gates[:, : 3 * width] *= 0.5
    gates[:, : 3 * width] += 0.5
    _, entering, forgetting, candidate = (
        gates[:, start : start + width] for start in range(0, 4 * width, width)
    )
    more = entering * candidate, forgetting * cells[:-1], numpy.tanh(cells[1:])
    return Kept(kept.hidden, gates, numpy.stack(more))

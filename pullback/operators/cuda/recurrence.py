"""What a time of an LSTM or a GRU does besides its product: one launch forward, one back.

Arrays are rows in order: (batch, width) for states, (batch, gates * width) for gates, in torch's
order. Gates are kept as they came out; slopes follow from them.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.operators.cuda.launch import Kernels
from pullback.operators.cuda.stored import head_of

__all__ = ["Recurrence"]

_SOURCE = """
__device__ A sigmoid(A v) { return 1 / (1 + exp(-v)); }
extern "C" __global__ void pb_lstm(
        S* gates, const S* share, const S* before, S* after, S* hidden, int width, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int row = i / width, at = row * 4 * width + i - row * width;
    A enter = sigmoid(ld(gates[at]) + ld(share[at]));
    A keep = sigmoid(ld(gates[at + width]) + ld(share[at + width]));
    A fresh = tanh(ld(gates[at + 2 * width]) + ld(share[at + 2 * width]));
    A leave = sigmoid(ld(gates[at + 3 * width]) + ld(share[at + 3 * width]));
    A cell = keep * ld(before[i]) + enter * fresh;
    gates[at] = st(enter); gates[at + width] = st(keep);
    gates[at + 2 * width] = st(fresh); gates[at + 3 * width] = st(leave);
    after[i] = st(cell);
    hidden[i] = st(leave * tanh(cell)); }
extern "C" __global__ void pb_lstm_back(
        const S* gates, const S* before, const S* after, const S* g, const S* behind, S* cells,
        S* made, int width, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int row = i / width, at = row * 4 * width + i - row * width;
    A enter = ld(gates[at]), keep = ld(gates[at + width]);
    A fresh = ld(gates[at + 2 * width]), leave = ld(gates[at + 3 * width]);
    A reached = tanh(ld(after[i])), h = ld(behind[i]) + (g ? ld(g[i]) : 0);
    A c = ld(cells[i]) + h * leave * (1 - reached * reached);
    made[at] = st(c * fresh * enter * (1 - enter));
    made[at + width] = st(c * ld(before[i]) * keep * (1 - keep));
    made[at + 2 * width] = st(c * enter * (1 - fresh * fresh));
    made[at + 3 * width] = st(h * reached * leave * (1 - leave));
    cells[i] = st(c * keep); }
extern "C" __global__ void pb_gru(
        S* gates, const S* share, const S* bias, const S* before, S* of_state, S* hidden,
        int width, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int row = i / width, column = i - row * width, at = row * 3 * width + column;
    A r = ld(gates[at]), z = ld(gates[at + width]), own = ld(gates[at + 2 * width]);
    if (bias) {
        r += ld(bias[column]); z += ld(bias[column + width]); own += ld(bias[column + 2 * width]); }
    A reset = sigmoid(r + ld(share[at])), update = sigmoid(z + ld(share[at + width]));
    A fresh = tanh(ld(share[at + 2 * width]) + reset * own);
    gates[at] = st(reset); gates[at + width] = st(update); gates[at + 2 * width] = st(fresh);
    of_state[i] = st(own);
    hidden[i] = st(fresh + update * (ld(before[i]) - fresh)); }
extern "C" __global__ void pb_gru_back(
        const S* gates, const S* of_state, const S* before, const S* g, const S* behind, S* stays,
        S* of_input, S* made, int width, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int row = i / width, at = row * 3 * width + i - row * width;
    A reset = ld(gates[at]), update = ld(gates[at + width]), fresh = ld(gates[at + 2 * width]);
    A h = ld(behind[i]) + ld(stays[i]) + (g ? ld(g[i]) : 0);
    A of_fresh = h * (1 - update) * (1 - fresh * fresh);
    A of_reset = of_fresh * ld(of_state[i]) * reset * (1 - reset);
    A of_update = h * (ld(before[i]) - fresh) * update * (1 - update);
    of_input[at] = made[at] = st(of_reset);
    of_input[at + width] = made[at + width] = st(of_update);
    of_input[at + 2 * width] = st(of_fresh);
    made[at + 2 * width] = st(of_fresh * reset);
    stays[i] = st(h * update); }
"""
_NAMES = ("lstm", "lstm_back", "gru", "gru_back")
_NULL = numpy.uint64(0)
_THREADS = 128


class Recurrence:
    """The kernels, compiled for each dtype when first needed; None stands for no array."""

    def __init__(self, cupy: Any) -> None:
        self.is_there = hasattr(cupy, "RawModule")
        self._kernel = Kernels(cupy, lambda kind: head_of(kind) + _SOURCE, _NAMES)

    def lstm(self, gates: Any, share: Any, before: Any, after: Any, hidden: Any) -> None:
        """From products in `gates` to gates, and on to the next cell and hidden state."""
        self._run("lstm", hidden, gates, share, before, after, hidden)

    def lstm_back(
        self, gates: Any, before: Any, after: Any, g: Any, behind: Any, cells: Any, made: Any
    ) -> None:
        """Gradients of what gates got; `cells` become those of the cells before.

        `g` arrives at the output, `behind` comes from the following time.
        """
        self._run("lstm_back", behind, gates, before, after, g, behind, cells, made)

    def gru(
        self, gates: Any, share: Any, bias: Any, before: Any, of_state: Any, hidden: Any
    ) -> None:
        """The same of a GRU; `of_state` keeps what the candidate got of the state."""
        self._run("gru", hidden, gates, share, bias, before, of_state, hidden)

    def gru_back(
        self, gates: Any, of_state: Any, before: Any, g: Any, behind: Any, stays: Any,
        of_input: Any, made: Any,
    ) -> None:  # fmt: skip
        """Gradients of both shares; `stays` is what goes to the state before without a product."""
        arrays = gates, of_state, before, g, behind, stays, of_input, made
        self._run("gru_back", behind, *arrays)

    def _run(self, name: str, state: Any, *arrays: Any) -> None:
        given = [_NULL if one is None else one for one in arrays]
        sizes = numpy.int32(state.shape[1]), numpy.int32(state.size)
        launch = self._kernel(name, state.dtype.char)
        launch((-(-state.size // _THREADS),), (_THREADS,), (*given, *sizes))

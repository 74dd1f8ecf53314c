"""A recurrent layer as one node, for the usual call; everything else goes step by step.

Usual: plain tensors of float32 or float64, no transform, mode or observer. A backward pass that is
itself recorded (`create_graph`), batched or followed by tangents runs the steps again, so that
derivatives of all orders are those of the steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from pullback.autograd import grad
from pullback.autograd.function import Function
from pullback.autograd.grad_mode import enable_grad
from pullback.core.arrays import Array
from pullback.core.mode import fast, get_mode
from pullback.core.nesting import running
from pullback.core.tensor import Tensor, wrap
from pullback.nn.base import recurrent_kernels
from pullback.nn.base.lstm_kernels import LSTM
from pullback.nn.base.recurrent_kernels import Kept, Times, Weights
from pullback.nn.parameter import Parameter
from pullback.operators.watching.observe import look

__all__ = ["is_usual", "run"]

_PLAIN = frozenset((Tensor, Parameter))
KINDS = {
    "LSTM": LSTM,
    "GRU": recurrent_kernels.GRU,
    "RNN_TANH": recurrent_kernels.RNN_TANH,
    "RNN_RELU": recurrent_kernels.RNN_RELU,
}


def is_usual(tensors: list[Any]) -> bool:
    """Whether these are plain tensors of one real dtype that nobody looks on."""
    mode = get_mode()
    if (mode is not fast.plain and mode is not fast.no_grad) or look.by is not None:
        return False
    if running.get():  # inside a transform of functions
        return False
    dtype = tensors[0]._array.dtype
    if dtype.char not in "fd":
        return False
    for one in tensors:
        if one is None:
            continue
        array = one._array
        if one.__class__ not in _PLAIN or type(array) is not numpy.ndarray:
            return False
        if array.dtype is not dtype or not array.size:
            return False
    return True


class Layer(Function):
    """One layer in one direction: outputs at all times, then the last states."""

    @staticmethod
    def forward(ctx: Any, kind: str, times: Times, steps: Any, *tensors: Any) -> Any:
        """Values; `steps` is the same layer in operators, for derivatives of derivatives."""
        kept, results = _values(kind, times, tensors)
        ctx.kind, ctx.times, ctx.steps = kind, times, steps
        ctx.save_for_backward(*tensors, *(one if one is None else wrap(one) for one in kept))
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    def backward(ctx: Any, *g: Any) -> Any:
        """The gradients; those of options are None."""
        saved = ctx.saved_tensors
        given, kept = saved[:-3], saved[-3:]
        wanted = ctx.needs_input_grad[3:]
        if all(one is None for one in g):
            return (None,) * len(ctx.needs_input_grad)
        mode = get_mode()
        known = [one for one in (*g, *given) if one is not None]
        if mode is not fast.no_grad or any(type(one._array) is not numpy.ndarray for one in known):
            return None, None, None, *_by_steps(ctx.steps, given, wanted, g)
        arrays = [one if one is None else one._array for one in (*given, *g, *kept)]
        count = len(given)
        made = _gradients(
            ctx.kind,
            ctx.times,
            arrays[:count],
            arrays[count : count + len(g)],
            Kept(*arrays[count + len(g) :]),
            wanted,
        )
        return None, None, None, *(one if one is None else wrap(one) for one in made)


def _values(kind: str, times: Times, tensors: Any) -> tuple[Kept, tuple[Tensor, ...]]:
    """What the adjoint needs, and the results: outputs at all times, then the last states."""
    input, hidden, cell, *weights = [one if one is None else one._array for one in tensors]
    kept, last = KINDS[kind].values(times.padded(input), hidden, cell, Weights(*weights), times)
    out = times.packed(times.rows(kept.hidden[1:]))
    results = wrap(out), wrap(kept.hidden[-1].T.copy())
    return kept, results if last is None else (*results, wrap(last.T.copy()))


def _by_steps(steps: Any, given: Any, wanted: Any, g: Any) -> list[Any]:
    """The gradients by way of the steps, run again: they can be differentiated in their turn."""
    with enable_grad():
        made = steps(*given)
        pairs = [(out, one) for out, one in zip(made, g, strict=True) if one is not None]
        inputs = [one for one, is_wanted in zip(given, wanted, strict=True) if is_wanted]
        found = iter(
            grad(
                [out for out, _ in pairs],
                inputs,
                [one for _, one in pairs],
                create_graph=True,
                allow_unused=True,
            )
        )
    return [next(found) if is_wanted else None for is_wanted in wanted]


def _gradients(
    kind: str, times: Times, given: list[Any], g: list[Any], kept: Kept, wanted: Any
) -> list[Any]:
    input, hidden, cell, *rest = given
    weights = Weights(*rest)
    g_out, g_hidden, *g_cell = g
    if g_out is not None:
        g_out = times.columns(times.padded(g_out))
    states = [
        None if first is None else _started(gradient, first)
        for gradient, first in ((g_hidden, hidden), (g_cell[0] if g_cell else None, cell))
    ]
    made = KINDS[kind].adjoint(kept, g_out, *states, weights, times)
    rows, others = recurrent_kernels.of_weights(made, times.padded(input), kept, times, wanted[3:])
    of_input = None
    if wanted[0]:
        of_input = times.packed(rows.dot(weights.of_input).reshape(times.count, times.batch, -1))
    of_cell = None if made.cell is None else made.cell.T
    return [of_input, made.hidden.T, of_cell, *others, made.project]


def _started(gradient: Array | None, first: Array) -> Array:
    """The gradient of a last state as columns, to be gone back with: memory of its own."""
    if gradient is None:
        return numpy.zeros(first.shape[::-1], first.dtype)
    return gradient.T.copy()


def run(
    kind: str,
    sizes: list[int],
    steps: Callable[..., Any],
    tensors: list[Any],
    *,
    backwards: bool,
) -> tuple[Any, ...]:
    """Outputs and last states of one layer in one direction."""
    times = Times(sizes, backwards=backwards)
    if get_mode() is fast.no_grad:
        return _values(kind, times, tensors)[1]
    made: tuple[Any, ...] = Layer.apply(kind, times, steps, *tensors)
    return made

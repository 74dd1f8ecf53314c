"""A recurrent layer as one node, for the usual call; everything else goes step by step.

Usual: plain tensors of float32 or float64, no transform, mode or observer. A backward pass that is
itself recorded (`create_graph`), batched or followed by tangents runs the steps again, so that
derivatives of all orders are those of the steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

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
from pullback.operators.dispatch.observers import observers

__all__ = ["PLAIN", "Call", "by_steps", "is_usual", "is_watched", "run"]

PLAIN = frozenset((Tensor, Parameter))
KINDS = {
    "LSTM": LSTM,
    "GRU": recurrent_kernels.GRU,
    "RNN_TANH": recurrent_kernels.RNN_TANH,
    "RNN_RELU": recurrent_kernels.RNN_RELU,
}


def is_usual(tensors: list[Any]) -> bool:
    """Whether these are plain tensors of one real dtype that nobody looks on."""
    if is_watched():
        return False
    dtype = tensors[0]._array.dtype
    if dtype.char not in "fd":
        return False
    for one in tensors:
        if one is None:
            continue
        array = one._array
        if one.__class__ not in PLAIN or type(array) is not numpy.ndarray:
            return False
        if array.dtype is not dtype or not array.size:
            return False
    return True


def is_watched() -> bool:
    """Whether somebody could see the operators that a layer consists of."""
    mode = get_mode()
    usual = mode is fast.plain or mode is fast.no_grad
    return (
        not usual or observers.active is not None or bool(running.get())
    )  # in a transform of functions


class Call(NamedTuple):
    """What there is to a layer beside its tensors."""

    kind: str
    times: Times
    steps: Callable[..., Any]  # the same layer in operators, for derivatives of derivatives


class Layer(Function):
    """One layer in one direction: outputs at all times, then the last states."""

    @staticmethod
    def forward(ctx: Any, call: Call, *tensors: Any) -> Any:
        """Values; what is not there is not saved, as a tuple of tensors alone is kept as it is."""
        kept, results = _values(call, tensors)
        ctx.call, ctx.present = call, [one is not None for one in tensors]
        saved = [one for one in tensors if one is not None]
        ctx.save_for_backward(*saved, *[wrap(one) for one in kept if one is not None])
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    def backward(ctx: Any, *g: Any) -> Any:
        """The gradients; that of the call is None."""
        following = iter(ctx.saved_tensors)
        given = [next(following) if present else None for present in ctx.present]
        wanted = ctx.needs_input_grad[1:]
        plain = get_mode() is fast.no_grad
        arrays: list[Any] = []
        for one in (*given, *g):
            array = None if one is None else one._array
            plain = plain and (array is None or type(array) is numpy.ndarray)
            arrays.append(array)
        if g[0] is None and all(one is None for one in g):
            return (None,) * len(ctx.needs_input_grad)
        if not plain:
            return None, *by_steps(ctx.call.steps, given, wanted, g)
        kept = Kept(*[one._array for one in following])
        count = len(given)
        made = _gradients(ctx.call, arrays[:count], arrays[count:], kept, wanted)
        return None, *[one if one is None else wrap(one) for one in made]


def _values(call: Call, tensors: Any) -> tuple[Kept, tuple[Tensor, ...]]:
    """What the adjoint needs, and the results: outputs at all times, then the last states."""
    times = call.times
    input, hidden, cell, *weights = [one if one is None else one._array for one in tensors]
    values = KINDS[call.kind].values
    padded = times.padded(input)
    kept, last = values(padded, hidden, cell, Weights(*weights), times)
    out = times.packed(times.rows(kept.hidden[1:], padded))
    results = wrap(out), wrap(kept.hidden[-1:].transpose(0, 2, 1).copy())
    return kept, results if last is None else (*results, wrap(last.T.copy()[None]))


def by_steps(steps: Any, given: Any, wanted: Any, g: Any) -> list[Any]:
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
    call: Call, given: list[Any], g: list[Any], kept: Kept, wanted: Any
) -> tuple[Any, ...]:
    times = call.times
    input, hidden, cell, *rest = given
    weights = Weights(*rest)
    g_out, g_hidden, *g_cell = g
    if g_out is not None:
        g_out = times.columns(times.padded(g_out))
    h = _started(g_hidden, hidden)
    c = _started(g_cell[0], cell) if g_cell else None
    made = KINDS[call.kind].adjoint(kept, g_out, h, c, weights, times)
    x = times.padded(input)
    of_input, others = recurrent_kernels.of_weights(made, x, kept, weights, times, wanted)
    of_hidden = made.hidden.T if wanted[1] else None
    of_cell = made.cell.T if wanted[2] and made.cell is not None else None
    return of_input, of_hidden, of_cell, *others, made.project


def _started(gradient: Array | None, first: Array) -> Array:
    """The gradient of a last state as columns, to be gone back with: memory of its own."""
    if gradient is None:
        return numpy.zeros(first.shape[::-1], first.dtype)
    return gradient[0].T.copy()


def run(call: Call, tensors: list[Any]) -> tuple[Any, ...]:
    """Outputs and last states (each as of one layer of several) of one layer in one direction."""
    if get_mode() is fast.no_grad:
        return _values(call, tensors)[1]
    made: tuple[Any, ...] = Layer.apply(call, *tensors)
    return made

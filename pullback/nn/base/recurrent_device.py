"""LSTM and GRU layers on a device, in either direction: by cuDNN where it is installed.

Else a time is a product and a launch; in operators it is a dozen launches forward and twice as many
back. The inputs' share of all times is one product, the gradients of weights are one each, and only
the states' share waits for the time before. Usual calls alone: what is said in `fused` holds here
too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pullback.autograd.function import Function
from pullback.core.arrays import LIBRARIES
from pullback.core.mode import fast, get_mode
from pullback.core.ports import ports
from pullback.core.process.determinism import wish
from pullback.core.tensor import Tensor, wrap
from pullback.nn import functional as F
from pullback.nn.base.fused import PLAIN, by_steps, is_watched

__all__ = ["Call", "is_usual", "run"]

_GATES = {"LSTM": 4, "GRU": 3}


class Call(NamedTuple):
    """What there is to a layer beside its tensors."""

    kind: str
    backwards: bool
    steps: Callable[..., Any]  # the same layer in operators, for derivatives of derivatives


def is_usual(kind: str, tensors: list[Any]) -> bool:
    """Whether these are plain tensors of one real dtype on one device that has the kernels."""
    if kind not in _GATES or is_watched() or tensors[7] is not None:  # a projection
        return False
    first = tensors[0]._array
    library: Any = LIBRARIES.get(type(first))
    if library is None or library.count > 1 or not library.recurrence.is_there:
        return False
    if first.dtype.char not in "fd":
        return False
    for one in tensors:
        if one is None:
            continue
        array = one._array
        if one.__class__ not in PLAIN or type(array) is not type(first):
            return False
        if array.dtype is not first.dtype or not array.size:
            return False
    return True


def run(call: Call, tensors: list[Any]) -> tuple[Any, ...]:
    """Outputs and last states (each as of one layer of several) of one layer in one direction."""
    if get_mode() is fast.no_grad:
        layer = _by_cudnn(call, *tensors[:6])
        return _values(call, layer, *tensors[:7], training=False)[0]
    made: tuple[Any, ...] = Layer.apply(call, *tensors[:7])
    return made


class Layer(Function):
    """One layer in one direction: outputs at all times, then the last states."""

    @staticmethod
    def forward(ctx: Any, call: Call, *tensors: Any) -> Any:
        """Values; what is not there is not saved."""
        ctx.layer = _by_cudnn(call, *tensors[:6])
        results, kept = _values(call, ctx.layer, *tensors)
        ctx.call, ctx.present = call, [one is not None for one in tensors]
        saved = [one for one in tensors if one is not None]
        ctx.save_for_backward(*saved, results[0], *kept)
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    def backward(ctx: Any, *g: Any) -> Any:
        """The gradients; that of the call is None."""
        following = iter(ctx.saved_tensors)
        given: list[Any] = [next(following) if one else None for one in ctx.present]
        wanted = ctx.needs_input_grad[1:]
        if all(one is None for one in g):
            return (None,) * len(ctx.needs_input_grad)
        kind = type(given[0]._array)
        plain = get_mode() is fast.no_grad and all(
            one is None or type(one._array) is kind for one in (*given, *g)
        )
        if not plain:
            return None, *by_steps(ctx.call.steps, [*given, None], [*wanted, False], g)[:7]
        if ctx.layer is not None:
            return None, *_gradients_there(ctx.call, ctx.layer, given, list(following), g, wanted)
        return None, *_gradients(ctx.call, given, list(following), g, wanted)


def _values(
    call: Call, layer: Any, input: Any, hidden: Any, cell: Any, of_input: Any, of_state: Any,
    input_bias: Any, state_bias: Any, *, training: bool = True,
) -> tuple[tuple[Tensor, ...], list[Tensor]]:  # fmt: skip
    """The results, and what the adjoint needs: gates, and cells or what candidates got."""
    library: Any = LIBRARIES[type(input._array)]
    if layer is not None:
        weights = of_input, of_state, input_bias, state_bias
        return _values_there(library, layer, call, input, hidden, cell, weights, training=training)
    kernels, matmul, empty = library.recurrence, library.blas.matmul, library.cupy.empty
    is_lstm = call.kind == "LSTM"
    bias = input_bias
    if is_lstm and bias is not None:
        bias = bias + state_bias
    share = F.linear(input, of_input, bias)._array
    count, batch, width = share.shape[0], share.shape[1], hidden._array.shape[1]
    dtype = share.dtype
    out = empty((count, batch, width), dtype)
    gates = empty(share.shape, dtype)
    more = empty((count, batch, width), dtype)
    again, shift = of_state._array.T, None if state_bias is None else state_bias._array
    before = _in_order(library, hidden._array)
    inside = _in_order(library, cell._array) if is_lstm else None
    for time in reversed(range(count)) if call.backwards else range(count):
        matmul(before, again, gates[time])
        if is_lstm:
            kernels.lstm(gates[time], share[time], inside, more[time], out[time])
            inside = more[time]
        else:
            kernels.gru(gates[time], share[time], shift, before, more[time], out[time])
        before = out[time]
    states = [before, *([inside] if is_lstm else [])]
    lasts = [wrap(one[None].copy()) for one in states]
    return (wrap(out), *lasts), [wrap(gates), wrap(more)]


def _in_order(library: Any, array: Any) -> Any:
    return library.cupy.ascontiguousarray(array)


def _gradients(
    call: Call, given: list[Any], kept: list[Any], g: tuple[Any, ...], wanted: Any
) -> list[Any]:
    input, hidden, cell, of_input, of_state, *_ = given
    out, gates, more = (one._array for one in kept)
    library: Any = LIBRARIES[type(out)]
    made, from_state, of_hidden, of_cell = _back(
        library, call, out, gates, more, hidden._array, None if cell is None else cell._array,
        of_state._array, [None if one is None else _in_order(library, one._array) for one in g],
    )  # fmt: skip
    width = made.shape[-1]
    rows, again = wrap(made.reshape(-1, width)), wrap(from_state.reshape(-1, width))
    found: list[Any] = [None] * 7
    if wanted[0]:
        found[0] = (rows @ of_input.detach()).view(*input.shape)
    found[1] = wrap(of_hidden) if wanted[1] else None
    found[2] = wrap(of_cell) if wanted[2] and of_cell is not None else None
    if wanted[3]:
        found[3] = rows.t() @ input.detach().reshape(-1, input.shape[-1])
    if wanted[4]:
        states = _states_before(library, call, out, hidden._array)
        found[4] = again.t() @ wrap(states.reshape(-1, states.shape[-1]))
    if wanted[5]:
        found[5] = rows.sum(0)
    if wanted[6]:
        shared = found[5] is not None and from_state is made
        found[6] = found[5].clone() if shared else again.sum(0)
    return found


def _back(
    library: Any, call: Call, out: Any, gates: Any, more: Any, hidden: Any, cell: Any,
    of_state: Any, g: list[Any],
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Gradients of what gates got of inputs and of states, and of the first states."""
    kernels, matmul, cupy = library.recurrence, library.blas.matmul, library.cupy
    count = out.shape[0]
    g_out, g_hidden, *g_cell = g
    first = _in_order(library, hidden)
    zeros = cupy.zeros(first.shape, first.dtype)
    behind = zeros if g_hidden is None else g_hidden[0].copy()
    made = cupy.empty(gates.shape, gates.dtype)
    is_lstm = call.kind == "LSTM"
    from_state = made if is_lstm else cupy.empty(gates.shape, gates.dtype)
    carried = cupy.zeros(first.shape, first.dtype)  # of cells; of states past the product
    if g_cell and g_cell[0] is not None:
        carried[...] = g_cell[0][0]
    inside = _in_order(library, cell) if is_lstm else None
    order = list(reversed(range(count))) if call.backwards else list(range(count))
    for number in reversed(range(count)):
        time, earlier = order[number], order[number - 1] if number else None
        arrived = None if g_out is None else g_out[time]
        if is_lstm:
            before = inside if earlier is None else more[earlier]
            kernels.lstm_back(gates[time], before, more[time], arrived, behind, carried, made[time])
        else:
            before = first if earlier is None else out[earlier]
            kernels.gru_back(
                gates[time], more[time], before, arrived, behind, carried, made[time],
                from_state[time],
            )  # fmt: skip
        following = cupy.empty(first.shape, first.dtype)
        behind = matmul(from_state[time], of_state, following)
    if is_lstm:
        return made, from_state, behind, carried
    return made, from_state, behind + carried, None


def _states_before(library: Any, call: Call, out: Any, hidden: Any) -> Any:
    """The states that each time got, in the order of time."""
    states = library.cupy.empty(out.shape, out.dtype)
    if call.backwards:
        states[:-1], states[-1] = out[1:], hidden
    else:
        states[1:], states[0] = out[:-1], hidden
    return states


# By cuDNN -----------------------------------------------------------------------------------------


def _by_cudnn(
    call: Call, input: Any, hidden: Any, cell: Any, of_input: Any, of_state: Any, bias: Any
) -> Any:
    """What computes such a layer; None where that is left to kernels of our own."""
    library: Any = LIBRARIES[type(input._array)]
    if library.cudnn.library() is None:
        return None
    enabled, deterministic, exact = ports.cudnn_switches("rnn")
    if not enabled or deterministic or wish.enabled:  # its sums have no promised order
        return None
    how = {"has_bias": bias is not None, "exact": exact}
    return library.cudnn.layers.layer(call.kind, input._array, hidden._array.shape[-1], **how)


def _values_there(
    library: Any, layer: Any, call: Call, input: Any, hidden: Any, cell: Any, weights: Any, *,
    training: bool,
) -> tuple[tuple[Tensor, ...], list[Tensor]]:  # fmt: skip
    """The results, and what the library keeps for the way back: the weights in one piece."""
    x, first, inside = _given(library, call, input, hidden, cell)
    joined = layer.joined([None if one is None else one._array for one in weights])
    out, *lasts, kept = layer.forward(x, first, inside, joined, training=training)
    results = [wrap(one[None]) for one in lasts if one is not None]
    out = wrap(_turned(library, call, out))
    return (out, *results), [] if kept is None else [wrap(kept)]


def _gradients_there(
    call: Call, layer: Any, given: list[Any], kept: list[Any], g: tuple[Any, ...], wanted: Any
) -> list[Any]:
    out, reserved = (one._array for one in kept)
    library: Any = LIBRARIES[type(out)]
    input, hidden, cell, *weights = given
    x, first, inside = _given(library, call, input, hidden, cell)
    joined = layer.joined([None if one is None else one._array for one in weights])
    g_out, *g_states = (None if one is None else _in_order(library, one._array) for one in g)
    g_out = library.cupy.zeros(out.shape, out.dtype) if g_out is None else g_out
    arrived = _turned(library, call, g_out), *[*g_states, None][:2]
    of_x, of_hidden, of_cell, of_weights = layer.backward(
        x, first, inside, joined, _turned(library, call, out), reserved, arrived
    )
    found = [_turned(library, call, of_x), of_hidden, of_cell, *layer.apart(of_weights)]
    return [
        wrap(one) if one is not None and needed else None
        for one, needed in zip(found, wanted, strict=True)
    ]


def _given(library: Any, call: Call, input: Any, hidden: Any, cell: Any) -> tuple[Any, ...]:
    """Inputs in the order in which they are read, and first states, in order in memory."""
    x = _turned(library, call, _in_order(library, input._array))
    first = _in_order(library, hidden._array)
    return x, first, None if cell is None else _in_order(library, cell._array)


def _turned(library: Any, call: Call, array: Any) -> Any:
    """Last time first, for a layer that runs backwards."""
    return _in_order(library, array[::-1]) if call.backwards else array

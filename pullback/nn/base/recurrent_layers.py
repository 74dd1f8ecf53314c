"""Recurrent layers as functions of their weights: `nn.LSTM` and `torch.lstm` both end here."""

from __future__ import annotations

import operator
import sys
from functools import partial
from typing import Any

import numpy

from pullback.core.arrays import LIBRARIES
from pullback.core.dtype import float32
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor, wrap
from pullback.nn import functional as F
from pullback.nn.base import recurrent_device
from pullback.nn.base.fused import Call, is_usual, run
from pullback.nn.base.recurrent import STEPS, each, step_by_step
from pullback.nn.base.recurrent_kernels import Times, even
from pullback.operators.dispatch import asking
from pullback.operators.guarding import guard_all
from pullback.operators.shape.joining import cat, stack

__all__ = [
    *("KINDS", "gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh"),
    *("autocasts", "rnn_tanh_cell", "run_layers"),
]

# The weights of a layer in one direction, in this order.
KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
Weights = list[Any]


def run_layers(
    mode: str,
    input: Tensor,
    states: Any,
    weights: list[list[Weights]],
    sizes: list[int] | None,
    dropout: float,
) -> tuple[Tensor, Any]:
    """All layers, time first: the outputs of the last one, and the last states of all.

    `weights` are by layer and direction; `sizes` are the sequences that there are at each time,
    None where that is all of them. Without `states` each layer starts from zeros.
    """
    if sizes is not None and sizes[0] == sizes[-1]:
        # Packed sequences of one length are a batch as any other, in other dimensions.
        whole = input.reshape((len(sizes), sizes[0], input.shape[-1]))
        out, last = run_layers(mode, whole, states, weights, None, dropout)
        return out.reshape((input.shape[0], out.shape[-1])), last
    finals = []
    number = 0
    for layer, directions in enumerate(weights):
        if layer and dropout:
            input = F.dropout(input, dropout, True)
        outputs = []
        for backwards, own in enumerate(directions):
            if states is None:
                first = _zeros(mode, input, own, sizes)
            else:
                first = each(states, operator.itemgetter(number))
            out, *last = _one_direction(mode, input, first, own, sizes, backwards=bool(backwards))
            outputs.append(out)
            finals.append(last)
            number += 1
        input = outputs[0] if len(outputs) == 1 else cat(outputs, -1)
    ends = finals[0] if number == 1 else [cat(list(part)) for part in zip(*finals, strict=True)]
    return input, tuple(ends) if mode == "LSTM" else ends[0]


def _zeros(mode: str, input: Tensor, weights: Weights, sizes: list[int] | None) -> Any:
    """The first state, or both of an LSTM's, of one layer in one direction."""
    batch = input.shape[1] if sizes is None else sizes[0]

    def zeros(width: int) -> Tensor:
        if is_usual([input]):  # nobody looks on: `new_zeros` in a third of its time
            return wrap(numpy.zeros((batch, width), input._array.dtype))
        return input.new_zeros((batch, width))

    hidden = zeros(weights[1].shape[1])
    if mode != "LSTM":
        return hidden
    # Nobody writes to it, so one will do for both, unless they differ in size.
    return hidden, hidden if weights[4] is None else zeros(weights[4].shape[1])


def _one_direction(
    mode: str,
    input: Tensor,
    state: Any,
    weights: Weights,
    sizes: list[int] | None,
    *,
    backwards: bool,
) -> tuple[Tensor, ...]:
    """Outputs at all times, then the last states: (1, batch, features) each."""
    first = state if mode == "LSTM" else (state, None)
    tensors = [input, *first, *weights]
    if mode == "LSTM" and sizes is None and weights[4] is None and autocasts():
        tensors = _narrowed(tensors)
    steps = partial(_steps, mode, sizes, backwards)
    if LIBRARIES and sizes is None and recurrent_device.is_usual(mode, tensors):
        return recurrent_device.run(recurrent_device.Call(mode, backwards, steps), tensors)
    if input.shape[0] == 1 or not is_usual(tensors):
        return steps(*tensors)
    count, batch = input._array.shape[:2]
    times = Times(sizes, backwards=backwards) if sizes else even(count, batch, backwards=backwards)
    return run(Call(mode, times, steps), tensors)


def _steps(
    mode: str, sizes: list[int] | None, backwards: bool, *tensors: Any
) -> tuple[Tensor, ...]:
    out, *last = step_by_step(mode, sizes, backwards, *tensors)
    strides = tensors[0]._array.strides
    if sizes is None and strides[0] < strides[1]:  # as the kernels do: dropout draws in this order
        out = out.transpose(0, 1).contiguous().transpose(0, 1)
    return out, *[stack([one]) for one in last]


def autocasts() -> bool:
    """Whether products convert their operands, so that dtypes may differ."""
    autocast = get_mode().autocast
    return autocast is not None and "cpu" in autocast.enabled


def _narrowed(tensors: list[Any]) -> list[Any]:
    """Float32 in autocast's dtype, as torch has it for LSTMs that its quickest kernel runs."""
    dtype = sys.modules["pullback"].get_autocast_dtype("cpu")
    return [one if one is None or one.dtype != float32 else one.to(dtype=dtype) for one in tensors]


# torch's functions behind the modules -----------------------------------------------------------


def _cell(
    mode: str, input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Any, b_hh: Any
) -> Any:
    return STEPS[mode][0](F.linear(input, w_ih, b_ih), hx, w_hh, b_hh)


def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None
) -> Tensor:
    """The next state of a plain recurrent cell with tanh.

    >>> import pullback as torch
    >>> one = torch.ones(1, 1)
    >>> torch.rnn_tanh_cell(one, torch.zeros(1, 1), one, one)
    tensor([[0.7616]])
    """
    made: Tensor = _cell("RNN_TANH", input, hx, w_ih, w_hh, b_ih, b_hh)
    return made


def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None
) -> Tensor:
    """The next state of a plain recurrent cell with relu.

    >>> import pullback as torch
    >>> one = torch.ones(1, 1)
    >>> torch.rnn_relu_cell(one, one, one, one)
    tensor([[2.]])
    """
    made: Tensor = _cell("RNN_RELU", input, hx, w_ih, w_hh, b_ih, b_hh)
    return made


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None
) -> Tensor:
    """The next state of a GRU; the weights have the rows of three gates.

    >>> import pullback as torch
    >>> torch.gru_cell(torch.ones(1, 2), torch.zeros(1, 1), torch.ones(3, 2), torch.ones(3, 1))
    tensor([[0.1149]])
    """
    made: Tensor = _cell("GRU", input, hx, w_ih, w_hh, b_ih, b_hh)
    return made


def lstm_cell(
    input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None
) -> tuple[Tensor, Tensor]:
    """The next states of an LSTM, hidden and cell; the weights have the rows of four gates.

    >>> import pullback as torch
    >>> zero = torch.zeros(1, 1)
    >>> torch.lstm_cell(torch.ones(1, 2), (zero, zero), torch.ones(4, 2), torch.ones(4, 1))
    (tensor([[0.6081]]), tensor([[0.8491]]))
    """
    hidden, cell = hx
    made: tuple[Tensor, Tensor] = _cell("LSTM", input, (hidden, cell), w_ih, w_hh, b_ih, b_hh)
    return made


def _layers(mode: str, name: str) -> Any:
    """The function of all layers; the second form takes packed data and the sizes of batches."""

    def call(input: Any, *args: Any) -> Any:
        packed = isinstance(args[1], Tensor | list | tuple) and isinstance(args[0], Tensor)
        sizes = None
        batch_first = False
        if packed and not isinstance(args[2], bool):
            sizes, hx, params, has_biases, num_layers, dropout, train, both = args
            sizes = sizes.tolist()
        else:
            hx, params, has_biases, num_layers, dropout, train, both, batch_first = args
        weights = _grouped(list(params), num_layers, has_biases, both, projects=mode == "LSTM")
        given = input.transpose(0, 1) if batch_first else input
        states = tuple(hx) if mode == "LSTM" else hx
        out, last = run_layers(mode, given, states, weights, sizes, dropout if train else 0.0)
        out = out.transpose(0, 1) if batch_first else out
        return (out, *last) if mode == "LSTM" else (out, last)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"""All layers of a recurrent network, given its weights in a list.

    Called as `(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
    batch_first)`, or with packed data as `(data, batch_sizes, hx, ...)` without the last.

    >>> import pullback as torch
    >>> layer = torch.nn.{"LSTM" if mode == "LSTM" else "GRU" if mode == "GRU" else "RNN"}(2, 3)
    >>> start = torch.zeros(1, 4, 3)
    >>> hx = {"(start, start)" if mode == "LSTM" else "start"}
    >>> options = (True, 1, 0.0, False, False, False)
    >>> torch.{name}(torch.ones(5, 4, 2), hx, layer._flat_weights, *options)[0].shape
    torch.Size([5, 4, 3])
    """
    return call


def _grouped(
    params: list[Any], num_layers: int, has_biases: bool, both: bool, *, projects: bool
) -> list[list[Weights]]:
    """A flat list of weights by layer and direction."""
    count = len(params) // (num_layers * (2 if both else 1))
    usual = 4 if has_biases else 2
    directions = []
    for start in range(0, len(params), count):
        own = params[start : start + count]
        hr = own[-1] if projects and count > usual else None
        biases = own[2:4] if has_biases else [None, None]
        directions.append([*own[:2], *biases, hr])
    width = 2 if both else 1
    return [directions[start : start + width] for start in range(0, len(directions), width)]


lstm = _layers("LSTM", "lstm")
gru = _layers("GRU", "gru")
rnn_tanh = _layers("RNN_TANH", "rnn_tanh")
rnn_relu = _layers("RNN_RELU", "rnn_relu")

_FUNCTIONS = (
    *("gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh"),
    "rnn_tanh_cell",
)
guard_all(globals(), _FUNCTIONS)
asking.public(globals(), _FUNCTIONS)

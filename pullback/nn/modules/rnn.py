"""Recurrent layers: plain, LSTM and GRU, as layers over sequences and as single cells."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from pullback.core.origin import stacklevel
from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn import init
from pullback.nn.modules.module import Module
from pullback.nn.parameter import Parameter
from pullback.operators.create.sizes import empty, zeros
from pullback.operators.shape.joining import cat, stack

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

Step = Callable[[Any, Any, Any, Any], Any]


def _plain_step(activation: Callable[[Tensor], Tensor]) -> Step:
    def step(from_input: Tensor, state: Tensor, weight: Any, bias: Any) -> Tensor:
        return activation(from_input + F.linear(state, weight, bias))

    return step


def _gru_step(from_input: Tensor, state: Tensor, weight: Any, bias: Any) -> Tensor:
    reset_in, update_in, new_in = from_input.chunk(3, -1)
    reset_state, update_state, new_state = F.linear(state, weight, bias).chunk(3, -1)
    reset = (reset_in + reset_state).sigmoid()
    update = (update_in + update_state).sigmoid()
    candidate = (new_in + reset * new_state).tanh()
    return candidate + update * (state - candidate)


def _lstm_step(from_input: Tensor, state: Any, weight: Any, bias: Any) -> tuple[Tensor, Tensor]:
    hidden, cell = state
    gates = from_input + F.linear(hidden, weight, bias)
    entering, forgetting, candidate, leaving = gates.chunk(4, -1)
    cell = forgetting.sigmoid() * cell + entering.sigmoid() * candidate.tanh()
    return leaving.sigmoid() * cell.tanh(), cell


_STEPS: dict[str, tuple[Step, int]] = {
    "RNN_TANH": (_plain_step(F.tanh), 1),
    "RNN_RELU": (_plain_step(F.relu), 1),
    "LSTM": (_lstm_step, 4),
    "GRU": (_gru_step, 3),
}


def _initialise(module: Module, hidden_size: int) -> None:
    bound = 1 / math.sqrt(hidden_size) if hidden_size > 0 else 0
    for parameter in module.parameters():
        init.uniform_(parameter, -bound, bound)


class RNNBase(Module):
    """What recurrent layers share: parameters of all layers and directions, and the loop."""

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check()
        gates = _STEPS[mode][1] * hidden_size
        outputs = proj_size or hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else outputs * self._directions
            for suffix in self._suffixes(layer):
                shapes: dict[str, tuple[int, ...]] = {
                    "weight_ih": (gates, inputs),
                    "weight_hh": (gates, outputs),
                }
                if bias:
                    shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    made = Parameter(empty(shape, device=device, dtype=dtype))
                    self.register_parameter(name + suffix, made)
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}{end}" for end in ("", "_reverse")[: self._directions]]

    def _check(self) -> None:
        name = type(self).__name__
        if not 0 <= self.dropout <= 1:
            raise ValueError(f"{name}: dropout must be from 0 to 1, got {self.dropout}.")
        if self.hidden_size <= 0 or self.num_layers <= 0:
            raise ValueError(
                f"{name}: hidden_size and num_layers must be positive, got {self.hidden_size} and "
                f"{self.num_layers}."
            )
        if self.proj_size and (self.mode != "LSTM" or not 0 < self.proj_size < self.hidden_size):
            raise ValueError(
                f"{name}: proj_size is for LSTM, and smaller than hidden_size; got "
                f"{self.proj_size}."
            )
        if self.dropout and self.num_layers == 1:
            warnings.warn(
                f"{name}: dropout comes between layers, and there is one layer only.",
                UserWarning,
                stacklevel=stacklevel(),
            )

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        _initialise(self, self.hidden_size)

    def flatten_parameters(self) -> None:
        """Nothing: only some devices want their weights in one piece."""

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """The outputs of the last layer at all times, and the last states of all layers."""
        batched = input.ndim == 3
        if input.ndim not in (2, 3):
            raise ValueError(
                f"{type(self).__name__}: 2 or 3 dimensions are needed, got {tuple(input.shape)}."
            )
        if not batched:
            input = input.unsqueeze(1)
            hx = _each(hx, lambda state: state.unsqueeze(1))
        elif self.batch_first:
            input = input.transpose(0, 1)
        states = self._start(input) if hx is None else hx
        out, last = self._run(input, states)
        if not batched:
            return out.squeeze(1), _each(last, lambda state: state.squeeze(1))
        return (out.transpose(0, 1) if self.batch_first else out), last

    def _start(self, input: Tensor) -> Any:
        count = self.num_layers * self._directions
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)
        states = tuple(
            zeros(count, input.shape[1], size, dtype=input.dtype, device=input.device)
            for size in sizes
        )
        return states if self.mode == "LSTM" else states[0]

    def _run(self, input: Tensor, states: Any) -> tuple[Tensor, Any]:
        finals = []
        number = 0
        for layer in range(self.num_layers):
            if layer and self.dropout:
                input = F.dropout(input, self.dropout, self.training)
            outputs = []
            for suffix in self._suffixes(layer):
                first = _each(states, operator.itemgetter(number))
                out, last = self._one_direction(input, first, suffix)
                outputs.append(out)
                finals.append(last)
                number += 1
            input = outputs[0] if len(outputs) == 1 else cat(outputs, -1)
        if self.mode == "LSTM":
            return input, tuple(stack(list(part)) for part in zip(*finals, strict=True))
        return input, stack(finals)

    def _one_direction(self, input: Tensor, state: Any, suffix: str) -> tuple[Tensor, Any]:
        weight, bias = getattr(self, "weight_hh" + suffix), None
        bias_in = getattr(self, "bias_ih" + suffix) if self.bias else None
        if self.bias:
            bias = getattr(self, "bias_hh" + suffix)
        step = _STEPS[self.mode][0]
        # The inputs' share of all times in one product; only the states' has to wait.
        from_input = F.linear(input, getattr(self, "weight_ih" + suffix), bias_in)
        backwards = suffix.endswith("_reverse")
        times = from_input.unbind(0)
        outputs = []
        for one in reversed(times) if backwards else times:
            state = step(one, state, weight, bias)
            if self.proj_size:
                state = (F.linear(state[0], getattr(self, "weight_hr" + suffix)), state[1])
            outputs.append(state[0] if self.mode == "LSTM" else state)
        if backwards:
            outputs.reverse()
        return stack(outputs), state

    def extra_repr(self) -> str:
        """The sizes, and what differs from the defaults."""
        shown = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0),
            ("bidirectional", False),
        ):
            value = getattr(self, name)
            if value != usual:
                shown += f", {name}={value}"
        return shown


def _each(states: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same change of a state, or of both of an LSTM's."""
    if states is None:
        return None
    return tuple(map(change, states)) if isinstance(states, tuple) else change(states)


class RNN(RNNBase):
    """`h = tanh(W x + U h)`, over sequences.

    >>> import pullback as torch
    >>> out, h = torch.nn.RNN(3, 4)(torch.zeros(5, 2, 3))
    >>> out.shape, h.shape
    (torch.Size([5, 2, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if len(args) > 3:  # torch has it fourth
            kwargs["nonlinearity"] = args[3]
            args = (*args[:3], *args[4:])
        nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f'RNN: nonlinearity must be "tanh" or "relu", got {nonlinearity!r}.')
        if "proj_size" in kwargs:
            raise ValueError("RNN: proj_size is for LSTM only.")
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory, over sequences; states are pairs (hidden, cell)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Gated recurrent unit, over sequences."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("GRU: proj_size is for LSTM only.")
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Module):
    """One step of a recurrent layer."""

    _mode: ClassVar[str]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates = num_chunks * hidden_size
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (gates, input_size),
            "weight_hh": (gates, hidden_size),
            "bias_ih": (gates,),
            "bias_hh": (gates,),
        }
        for name, shape in shapes.items():
            wanted = bias or name.startswith("weight")
            made = empty(shape, device=device, dtype=dtype) if wanted else None
            self.register_parameter(name, None if made is None else Parameter(made))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        _initialise(self, self.hidden_size)

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """The next state."""
        if input.ndim not in (1, 2):
            raise ValueError(
                f"{type(self).__name__}: 1 or 2 dimensions are needed, got {tuple(input.shape)}."
            )
        if hx is None:
            shape = (*input.shape[:-1], self.hidden_size)
            empty_state = zeros(shape, dtype=input.dtype, device=input.device)
            hx = (empty_state, empty_state) if self._mode == "LSTM" else empty_state
        from_input = F.linear(input, self.weight_ih, self.bias_ih)
        return _STEPS[self._mode][0](from_input, hx, self.weight_hh, self.bias_hh)

    def extra_repr(self) -> str:
        """The sizes."""
        shown = f"{self.input_size}, {self.hidden_size}"
        return shown if self.bias else f"{shown}, bias={self.bias}"


class RNNCell(RNNCellBase):
    """One step of an RNN."""

    _mode = "RNN_TANH"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """The next state."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"RNNCell: unknown nonlinearity {self.nonlinearity!r}.")
        if self.nonlinearity == "tanh":
            return super().forward(input, hx)
        state = hx
        if state is None:
            shape = (*input.shape[:-1], self.hidden_size)
            state = zeros(shape, dtype=input.dtype, device=input.device)
        from_input = F.linear(input, self.weight_ih, self.bias_ih)
        return F.relu(from_input + F.linear(state, self.weight_hh, self.bias_hh))

    def extra_repr(self) -> str:
        """The sizes, and the nonlinearity if it is not the usual one."""
        shown = super().extra_repr()
        return shown if self.nonlinearity == "tanh" else f"{shown}, nonlinearity=relu"


class LSTMCell(RNNCellBase):
    """One step of an LSTM."""

    _mode = "LSTM"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)


class GRUCell(RNNCellBase):
    """One step of a GRU."""

    _mode = "GRU"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

"""Single steps of recurrent layers, as modules."""

from __future__ import annotations

from typing import Any, ClassVar

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.base.recurrent import STEPS, Step, initialise
from pullback.nn.base.weights import parameter_table
from pullback.nn.modules.module import Module
from pullback.nn.parameter import Parameter
from pullback.operators.create.sizes import empty, zeros

_ORDER = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
_NAMES = frozenset(_ORDER)


class RNNCellBase(Module):
    """One step of a recurrent layer.

    >>> import pullback as torch
    >>> cell = torch.nn.GRUCell(2, 3)
    >>> isinstance(cell, torch.nn.RNNCellBase), cell(torch.ones(5, 2)).shape
    (True, torch.Size([5, 3]))
    """

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
        initialise(self, self.hidden_size)

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """The next state."""
        sizes = input.shape
        if not 1 <= len(sizes) <= 2:
            name = type(self).__name__
            raise ValueError(f"{name}: 1 or 2 dimensions are needed, got {tuple(sizes)}.")
        *batch, width = sizes
        if width != self.input_size:
            name = type(self).__name__
            raise RuntimeError(f"{name}: input_size is {self.input_size}, the input has {width}.")
        shape = (*batch, self.hidden_size)
        if hx is None:
            start = zeros(shape, dtype=input.dtype, device=input.device)
            hx = (start, start) if self._mode == "LSTM" else start
        else:
            self._check_states(shape, hx)
        table = parameter_table(self, _NAMES)
        of_input, of_state, input_bias, bias = [
            table[name] if name in table else getattr(self, name) for name in _ORDER
        ]
        return self._step()(F.linear(input, of_input, input_bias), hx, of_state, bias)

    def _step(self) -> Step:
        return STEPS[self._mode][0]

    def _check_states(self, wanted: tuple[int, ...], states: Any) -> None:
        for state in states if isinstance(states, tuple | list) else (states,):
            shape = state.shape
            if not 1 <= len(shape) <= 2:
                raise ValueError(
                    f"{type(self).__name__}: a state has 1 or 2 dimensions, not {len(shape)}."
                )
            if shape != wanted:
                raise RuntimeError(
                    f"{type(self).__name__}: a state of shape {wanted} is needed, got "
                    f"{tuple(shape)}."
                )

    def extra_repr(self) -> str:
        """The sizes."""
        shown = f"{self.input_size}, {self.hidden_size}"
        return shown if self.bias else f"{shown}, bias={self.bias}"


class RNNCell(RNNCellBase):
    """One step of an RNN.

    >>> import pullback as torch
    >>> torch.nn.RNNCell(3, 5)(torch.randn(2, 3)).shape
    torch.Size([2, 5])
    """

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

    def _step(self) -> Step:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"RNNCell: unknown nonlinearity {self.nonlinearity!r}.")
        return STEPS[f"RNN_{self.nonlinearity.upper()}"][0]

    def extra_repr(self) -> str:
        """The sizes, and the nonlinearity if it is not the usual one."""
        shown = super().extra_repr()
        return shown if self.nonlinearity == "tanh" else f"{shown}, nonlinearity=relu"


class _GatedCell(RNNCellBase):
    """A cell with nothing to choose but its sizes."""

    _gates: ClassVar[int]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, self._gates, device, dtype)


class LSTMCell(_GatedCell):
    """One step of an LSTM.

    >>> import pullback as torch
    >>> h, c = torch.nn.LSTMCell(3, 5)(torch.randn(2, 3))
    >>> h.shape
    torch.Size([2, 5])
    """

    _mode = "LSTM"
    _gates = 4


class GRUCell(_GatedCell):
    """One step of a GRU.

    >>> import pullback as torch
    >>> torch.nn.GRUCell(3, 5)(torch.randn(2, 3)).shape
    torch.Size([2, 5])
    """

    _mode = "GRU"
    _gates = 3

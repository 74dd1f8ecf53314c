"""Recurrent layers over sequences: plain, LSTM and GRU. Their cells are in nn/layers."""

from __future__ import annotations

import inspect
import warnings
from functools import lru_cache
from typing import Any, ClassVar

from pullback.core.origin import stacklevel
from pullback.core.tensor import Tensor
from pullback.nn.base.recurrent import STEPS, each, initialise
from pullback.nn.base.recurrent_layers import KINDS, autocasts, run_layers
from pullback.nn.base.weights import parameter_table
from pullback.nn.layers.rnn_cells import GRUCell, LSTMCell, RNNCell, RNNCellBase
from pullback.nn.modules.module import Module
from pullback.nn.parameter import Parameter
from pullback.nn.utils.rnn import PackedSequence
from pullback.operators.create.sizes import empty

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]


def _kinds_of(bias: bool, projects: bool) -> list[str]:
    return [
        *("weight_ih", "weight_hh"),
        *(("bias_ih", "bias_hh") if bias else ()),
        *(("weight_hr",) if projects else ()),
    ]


def _suffixes_of(layer: int, both: bool) -> list[str]:
    return [f"_l{layer}{end}" for end in ("", "_reverse")[: 2 if both else 1]]


@lru_cache(64)
def _weight_names(
    layers: int, both: bool, bias: bool, projects: bool
) -> tuple[list[list[list[Any]]], frozenset[str]]:
    """By layer and direction: the names of `KINDS` there, None for what a layer lacks; and all."""
    present = _kinds_of(bias, projects)
    plan = [
        [
            [kind + suffix if kind in present else None for kind in KINDS]
            for suffix in _suffixes_of(layer, both)
        ]
        for layer in range(layers)
    ]
    every = [name for directions in plan for names in directions for name in names]
    return plan, frozenset(name for name in every if name is not None)


class RNNBase(Module):
    """What recurrent layers share: parameters of all layers and directions, and the loop.

    >>> import pullback as torch
    >>> layer = torch.nn.LSTM(2, 3, num_layers=2)
    >>> isinstance(layer, torch.nn.RNNBase), len(layer.all_weights)
    (True, 2)
    """

    __jit_unused_properties__: ClassVar[list[str]] = ["all_weights"]

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
        gates = STEPS[mode][1] * hidden_size
        outputs = proj_size or hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else outputs * self._directions
            shapes: dict[str, tuple[int, ...]] = {
                "weight_ih": (gates, inputs),
                "weight_hh": (gates, outputs),
                "bias_ih": (gates,),
                "bias_hh": (gates,),
                "weight_hr": (proj_size, hidden_size),
            }
            for suffix in self._suffixes(layer):
                for name in self._kinds:
                    made = Parameter(empty(shapes[name], device=device, dtype=dtype))
                    self.register_parameter(name + suffix, made)
        self.reset_parameters()

    def _made_as(self, name: str, mode: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Make a layer; of a wrong argument the error tells the class that the user wrote."""
        try:
            RNNBase.__init__(self, mode, *args, **kwargs)
        except TypeError as error:
            raise TypeError(str(error).replace("RNNBase.", f"{name}.")) from None

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def _kinds(self) -> list[str]:
        """The kinds of parameters that each layer and direction has."""
        return _kinds_of(self.bias, bool(self.proj_size))

    def _suffixes(self, layer: int) -> list[str]:
        return _suffixes_of(layer, self.bidirectional)

    @property
    def _all_weights(self) -> list[list[str]]:
        return [
            [kind + suffix for kind in self._kinds]
            for layer in range(self.num_layers)
            for suffix in self._suffixes(layer)
        ]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters, in a list for each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name, None) for name in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights: list[Any]) -> None:
        for name, weight in zip(self._flat_weights_names, weights, strict=True):
            if getattr(self, name, None) is not weight:
                setattr(self, name, weight)

    def _check(self) -> None:
        name = type(self).__name__
        if self.mode not in STEPS:
            raise ValueError(f"{name}: mode must be one of {list(STEPS)}, got {self.mode!r}.")
        for what in ("input_size", "hidden_size"):
            if not isinstance(getattr(self, what), int):
                raise TypeError(f"{name}: {what} must be an int, got {getattr(self, what)!r}.")
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
        initialise(self, self.hidden_size)

    def flatten_parameters(self) -> None:
        """Nothing: only some devices want their weights in one piece."""

    # ------------------------------------------------------------------ checks of arguments

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Refuse what does not fit."""
        name, wanted = type(self).__name__, 3 if batch_sizes is None else 2
        if input.dtype != self.weight_ih_l0.dtype and not autocasts():
            raise ValueError(
                f"{name}: the input is {input.dtype}, the weights are {self.weight_ih_l0.dtype}; "
                "convert one of them."
            )
        if input.ndim != wanted:
            raise RuntimeError(f"{name}: {wanted} dimensions are needed, got {tuple(input.shape)}.")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{name}: input_size is {self.input_size}, the input has {input.shape[-1]}."
            )

    def _batch(self, input: Tensor, batch_sizes: Tensor | None) -> int:
        if batch_sizes is not None:
            return int(batch_sizes[0])
        return input.shape[0 if self.batch_first else 1]

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of a state: (layers * directions, batch, features)."""
        count = self.num_layers * self._directions
        return count, self._batch(input, batch_sizes), self.proj_size or self.hidden_size

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "a state of shape {} is needed, got {}.",
    ) -> None:
        """Refuse a state of another shape."""
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Refuse an input and a state that do not fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The states in another order of the examples."""
        if permutation is None:
            return hx
        return each(hx, lambda state: state.index_select(1, permutation))

    # ------------------------------------------------------------------ running

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The outputs of the last layer at all times, and the last states of all layers."""
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.ndim not in (2, 3):
            raise ValueError(
                f"{type(self).__name__}: 2 or 3 dimensions are needed, got {tuple(input.shape)}."
            )
        batched = input.ndim == 3
        along = 0 if self.batch_first else 1
        if hx is not None:
            self._check_rank(hx, input.ndim)
        if not batched:
            input = input.unsqueeze(along)
            hx = each(hx, lambda state: state.unsqueeze(1))
        if hx is None:
            self.check_input(input, None)
        else:
            self.check_forward_args(input, hx, None)
        if self.batch_first:
            input = input.transpose(0, 1)
        out, last = self._run(input, hx, None)
        out = out.transpose(0, 1) if self.batch_first else out
        if not batched:
            return out.squeeze(along), each(last, lambda state: state.squeeze(1))
        return out, last

    def _forward_packed(self, packed: PackedSequence, hx: Any) -> Any:
        data, batch_sizes, order, back = packed
        if hx is None:
            self.check_input(data, batch_sizes)
        else:
            hx = self.permute_hidden(hx, order)
            self.check_forward_args(data, hx, batch_sizes)
        out, last = self._run(data, hx, batch_sizes.tolist())
        return PackedSequence(out, batch_sizes, order, back), self.permute_hidden(last, back)

    def _check_rank(self, states: Any, rank: int) -> None:
        for state in states if isinstance(states, tuple | list) else (states,):
            if state.ndim != rank:
                raise RuntimeError(
                    f"{type(self).__name__}: input and states must both have a batch or neither; "
                    f"got {rank} and {state.ndim} dimensions."
                )

    def _run(self, input: Tensor, states: Any, sizes: list[int] | None) -> tuple[Tensor, Any]:
        dropout = self.dropout if self.training else 0.0
        return run_layers(self.mode, input, states, self._weights(), sizes, dropout)

    def _weights(self) -> list[list[list[Any]]]:
        """By layer and direction: those of `KINDS`, None for what is not there."""
        plan, named = _weight_names(
            self.num_layers, bool(self.bidirectional), bool(self.bias), bool(self.proj_size)
        )
        table = parameter_table(self, named)
        return [
            [
                [
                    None if name is None else table[name] if name in table else getattr(self, name)
                    for name in names
                ]
                for names in directions
            ]
            for directions in plan
        ]

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
        self._made_as("RNN", f"RNN_{nonlinearity.upper()}", args, kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory over sequences; the state is a pair (hidden, cell).

    At each step, with `s` the sigmoid and `*` elementwise:

    `i = s(W_ii x + b_ii + W_hi h + b_hi)`, and likewise `f` and `o`;
    `g = tanh(W_ig x + b_ig + W_hg h + b_hg)`; then `c = f * c + i * g` and `h = o * tanh(c)`.

    Called with the input and, if wanted, the first state `(h_0, c_0)`, zeros otherwise; returns
    `output, (h_n, c_n)`. The input may be a packed sequence, and then the output is one.

    Args:
        input_size: Features of the input.
        hidden_size: Features of the hidden state.
        num_layers: Number of layers, each fed with the output of the one below.
        bias: Whether the gates have biases.
        batch_first: Whether input and output are (N, L, features), not (L, N, features); the states
            stay as they are.
        dropout: Probability of zeroing an output of each layer but the last, in training.
        bidirectional: Whether to run in both directions and concatenate the outputs.
        proj_size: If positive, the hidden state is projected to this size.
        device, dtype: Device and data type of the parameters.

    Shape:
        Input: (L, N, input_size), or (L, input_size) without a batch.
        output: (L, N, D * H), with D = 2 if bidirectional, else 1, and H the hidden (projected)
            size.
        h_0, h_n: (D * num_layers, N, H); c_0, c_n: (D * num_layers, N, hidden_size).

    >>> import pullback as torch
    >>> output, (h, c) = torch.nn.LSTM(3, 5, batch_first=True)(torch.randn(2, 7, 3))
    >>> output.shape, h.shape
    (torch.Size([2, 7, 5]), torch.Size([1, 2, 5]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._made_as("LSTM", "LSTM", args, kwargs)

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of the cells' state."""
        count = self.num_layers * self._directions
        return count, self._batch(input, batch_sizes), self.hidden_size

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Refuse an input and states that do not fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden[0], self.get_expected_hidden_size(input, batch_sizes))
        self.check_hidden_size(hidden[1], self.get_expected_cell_size(input, batch_sizes))


class GRU(RNNBase):
    """Gated recurrent units over sequences.

    At each step, with `s` the sigmoid and `*` elementwise:

    `r = s(W_ir x + b_ir + W_hr h + b_hr)`, likewise `z`;
    `n = tanh(W_in x + b_in + r * (W_hn h + b_hn))`; then `h = (1 - z) * n + z * h`.

    Called with the input and, if wanted, the first state `h_0`, zeros otherwise; returns
    `output, h_n`.

    Args:
        input_size: Features of the input.
        hidden_size: Features of the hidden state.
        num_layers: Number of layers, each fed with the output of the one below.
        bias: Whether the gates have biases.
        batch_first: Whether input and output are (N, L, features), not (L, N, features); the state
            stays as it is.
        dropout: Probability of zeroing an output of each layer but the last, in training.
        bidirectional: Whether to run in both directions and concatenate the outputs.
        device, dtype: Device and data type of the parameters.

    Shape:
        Input: (L, N, input_size), or (L, input_size) without a batch.
        output: (L, N, D * hidden_size), with D = 2 if bidirectional, else 1.
        h_0, h_n: (D * num_layers, N, hidden_size).

    >>> import pullback as torch
    >>> output, last = torch.nn.GRU(3, 5, batch_first=True)(torch.randn(2, 7, 3))
    >>> output.shape, last.shape
    (torch.Size([2, 7, 5]), torch.Size([1, 2, 5]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("GRU: proj_size is for LSTM only.")
        self._made_as("GRU", "GRU", args, kwargs)


def _show_signatures() -> None:
    """Let `help` and editors see the arguments, which differ in one place only."""
    whole = inspect.signature(RNNBase.__init__)
    shared = [one for one in whole.parameters.values() if one.name != "mode"]
    without = [one for one in shared if one.name != "proj_size"]
    kind = inspect.Parameter("nonlinearity", without[0].kind, default="tanh", annotation=str)
    at = [one.name for one in without].index("num_layers") + 1
    arguments = {LSTM: shared, GRU: without, RNN: [*without[:at], kind, *without[at:]]}
    for cls, listed in arguments.items():
        cls.__init__.__signature__ = whole.replace(parameters=listed)  # type: ignore[attr-defined]  # functions may have one


_show_signatures()


def _apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Any:
    return tensor.index_select(dim, permutation)


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Any:
    """The tensor in another order; an old name for index_select."""
    warnings.warn(
        "apply_permutation() is old; use tensor.index_select(dim, permutation).",
        FutureWarning,
        stacklevel=stacklevel(),
    )
    return _apply_permutation(tensor, permutation, dim)

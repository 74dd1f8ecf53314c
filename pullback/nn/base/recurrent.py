"""One step of each recurrent layer, and the states of sequences that begin or end on the way."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn import init
from pullback.operators.shape.joining import cat, stack

if TYPE_CHECKING:
    from pullback.nn.modules.module import Module

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


STEPS: dict[str, tuple[Step, int]] = {
    "RNN_TANH": (_plain_step(F.tanh), 1),
    "RNN_RELU": (_plain_step(F.relu), 1),
    "LSTM": (_lstm_step, 4),
    "GRU": (_gru_step, 3),
}


def step_by_step(
    mode: str,
    sizes: list[int] | None,
    backwards: bool,
    input: Tensor,
    hidden: Tensor,
    cell: Tensor | None,
    of_input: Any,
    weight: Any,
    input_bias: Any,
    bias: Any,
    project: Any,
) -> tuple[Tensor, ...]:
    """One layer in one direction: outputs at all times, then the last states."""
    step = STEPS[mode][0]
    state: Any = hidden if cell is None else (hidden, cell)
    # The inputs' share of all times in one product; only the states' has to wait.
    from_input = F.linear(input, of_input, input_bias)
    times = from_input.unbind(0) if sizes is None else from_input.split(sizes)
    rows = None if sizes is None else Rows(state, backwards=backwards)
    outputs = []
    for one in reversed(times) if backwards else times:
        if rows is not None:
            state = rows.fitted(state, one.shape[0])
        state = step(one, state, weight, bias)
        if project is not None:
            state = (F.linear(state[0], project), state[1])
        outputs.append(state[0] if mode == "LSTM" else state)
    if backwards:
        outputs.reverse()
    last = state if rows is None else rows.last(state)
    out: Tensor = stack(outputs) if rows is None else cat(outputs)
    return out, *(last if mode == "LSTM" else (last,))


def initialise(module: Module, hidden_size: int) -> None:
    """Draw all parameters evenly, the more states the smaller."""
    bound = 1 / math.sqrt(hidden_size) if hidden_size > 0 else 0
    for parameter in module.parameters():
        init.uniform_(parameter, -bound, bound)


class Rows:
    """States of packed sequences, whose number changes with time.

    Forwards, sequences end: their states are put aside. Backwards, they begin.
    """

    def __init__(self, first: Any, *, backwards: bool) -> None:
        self.first = first
        self.backwards = backwards
        self.ended: list[Any] = []
        self.count = 0 if backwards else row_count(first)

    def fitted(self, state: Any, count: int) -> Any:
        """The states of those sequences that have an element at this time."""
        before, self.count = self.count, count
        if before == count:
            return state
        if not self.backwards:
            self.ended.append(each(state, lambda one: one[count:]))
            return each(state, lambda one: one[:count])
        new = each(self.first, lambda one: one[before:count])
        return new if not before else joined([state, new])

    def last(self, state: Any) -> Any:
        """The last state of each sequence."""
        return joined([state, *reversed(self.ended)]) if self.ended else state


def row_count(state: Any) -> int:
    """Of how many sequences these are the states."""
    return int((state[0] if isinstance(state, tuple) else state).shape[0])


def joined(states: list[Any]) -> Any:
    """States of several groups of sequences as those of all."""
    if isinstance(states[0], tuple):
        return tuple(cat(list(parts)) for parts in zip(*states, strict=True))
    return cat(states)


def each(states: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same change of a state, or of both of an LSTM's."""
    if states is None:
        return None
    return tuple(map(change, states)) if isinstance(states, tuple | list) else change(states)

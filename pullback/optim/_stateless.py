"""Running an optimizer's step on other tensors than its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pullback.core.tensor import Tensor
from pullback.optim.optimizer import Optimizer

__all__ = ["swap_in_optimizer_params_and_state"]


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Inside, the optimizer has these parameters and this state; after, its own again.

    The parameters come in the optimizer's order, the state as `state_dict()` gives it. What is
    changed in place inside stays changed in the tensors given here.

    >>> import pullback as torch
    >>> x = torch.ones(1, requires_grad=True)
    >>> optimizer = torch.optim.SGD([x], lr=1.0)
    >>> other = torch.zeros(1, requires_grad=True)
    >>> other.grad = torch.ones(1)
    >>> with swap_in_optimizer_params_and_state(optimizer, {"x": other}, optimizer.state_dict()):
    ...     optimizer.step()
    >>> x.item(), other.item()
    (1.0, -1.0)
    """
    groups = swapin_optim_state["param_groups"]
    numbers = [number for group in groups for number in group["params"]]
    own = [len(group["params"]) for group in optimizer.param_groups]
    if [len(group["params"]) for group in groups] != own:
        raise ValueError(
            f"The groups of the state do not fit the optimizer's, of {own} parameters."
        )
    if len(swapin_parameters) != len(numbers):
        raise ValueError(
            f"The optimizer has {len(numbers)} parameters, and {len(swapin_parameters)} were given."
        )
    params = dict(zip(numbers, swapin_parameters.values(), strict=True))
    state: defaultdict[Any, Any] = defaultdict(dict)
    for number, held in swapin_optim_state["state"].items():
        state[params.get(number, number)] = dict(held) if isinstance(held, dict) else held
    before = optimizer.state, optimizer.param_groups
    optimizer.state = state
    optimizer.param_groups = [
        {**group, "params": [params[number] for number in group["params"]]} for group in groups
    ]
    try:
        yield
    finally:
        optimizer.state, optimizer.param_groups = before

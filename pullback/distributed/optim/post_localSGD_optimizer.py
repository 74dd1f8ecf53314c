"""An optimizer that lets a model averager average after its steps: one half of local SGD."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.distributed.algorithms.model_averaging.averagers import ModelAverager
from pullback.optim.optimizer import Optimizer

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Steps as `optim` does, then asks the averager; its state has the number of steps too.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    >>> def train():
    ...     p = torch.nn.Parameter(torch.zeros(1))
    ...     optimizer = dist.optim.PostLocalSGDOptimizer(
    ...         torch.optim.SGD([p], lr=1.0), PeriodicModelAverager(period=1)
    ...     )
    ...     (p * (1 + dist.get_rank())).sum().backward()
    ...     optimizer.step()
    ...     return p.item()
    >>> dist.threads.run(train, 2)
    [-1.5, -1.5]
    """

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim, self.averager = optim, averager
        self.param_groups = optim.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]  # that of the other optimizer
        """The optimizer's own."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step, and average if it is time."""
        loss = self.optim.step(closure) if closure is not None else self.optim.step()
        self.averager.average_parameters(self.param_groups)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget gradients."""
        self.optim.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Take more parameters in."""
        self.optim.add_param_group(param_group)

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state, and the averager's step."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take both again."""
        self.optim.load_state_dict(state_dict)
        self.param_groups = self.optim.param_groups
        self.averager.step = int(state_dict.get("step", 0))


__dir__ = _only_public(globals())

"""`torch.distributed.checkpoint.stateful`: objects that a checkpoint asks for their state."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Stateful", "StatefulT"]


@runtime_checkable
class Stateful(Protocol):
    """Whatever has `state_dict()` and `load_state_dict()`: models, optimizers, loaders, your own.

    >>> import pullback as torch
    >>> from pullback.distributed.checkpoint.stateful import Stateful
    >>> isinstance(torch.nn.Linear(1, 1), Stateful)
    True
    """

    def state_dict(self) -> dict[str, Any]:
        """What is saved; when loading, what is filled."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what was loaded."""
        ...


StatefulT = TypeVar("StatefulT", bound=Stateful)

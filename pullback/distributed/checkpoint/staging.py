"""`torch.distributed.checkpoint.staging`: the copy of a state that is saved while it changes."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.distributed.checkpoint.per_rank import PerRank
from pullback.distributed.tensor.dtensor import DTensor

__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"]


def staged(value: Any) -> Any:
    """The same nested dicts, with tensors and values of their own.

    >>> import pullback as torch
    >>> x = torch.ones(1)
    >>> staged({"x": x})["x"] is x
    False
    """
    if isinstance(value, DTensor):
        local = value._local_tensor.detach().cpu().clone()
        return DTensor(local, value.device_mesh, value.placements, value.shape)
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, Mapping):
        return {key: staged(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(staged(inner) for inner in value)
    if isinstance(value, PerRank):
        return PerRank(staged(value.value))
    return copy.deepcopy(value)


@dataclass
class StagingOptions:
    """Taken: a copy is made at once, in main memory."""

    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


class AsyncStager(ABC):
    """Copies a state for `async_save`; programs may give one of their own."""

    _synchronize_after_execute = True

    @property
    def should_synchronize_after_execute(self) -> bool:
        """Whether `synchronize_staging` is to be called."""
        return self._synchronize_after_execute

    @abstractmethod
    def stage(self, state_dict: dict[str, Any], **kwargs: Any) -> Any:
        """The copy, or a future of it."""

    def synchronize_staging(self) -> None:  # noqa: B027  stagers that copy at once need it not
        """Wait until the copy is there."""

    def close(self) -> None:  # noqa: B027  the same
        """Nothing more is copied."""


class DefaultStager(AsyncStager):
    """Copies at once.

    >>> import pullback as torch
    >>> from pullback.distributed.checkpoint.staging import DefaultStager
    >>> DefaultStager().stage({"x": torch.ones(2)})
    {'x': tensor([1., 1.])}
    """

    def __init__(self, config: StagingOptions | None = None) -> None:
        self._config = config or StagingOptions()

    def stage(self, state_dict: dict[str, Any], **kwargs: Any) -> Any:
        """The copy."""
        return staged(state_dict)


class BlockingAsyncStager(DefaultStager):
    """The same; torch's older name."""

    _synchronize_after_execute = False

    def __init__(self, cache_staged_state_dict: bool = False, type_check: bool = False) -> None:
        super().__init__()


__dir__ = _only_public(globals())

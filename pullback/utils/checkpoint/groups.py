"""GraphExecGroup: several passes that share one re-run of each checkpointed function."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from pullback.core.process.whole import Whole
from pullback.engine import task

__all__ = ["GraphExecGroup"]


class Sharing:
    """Stands for the passes between one entry and exit of a group; recomputed values live so long.

    Also made for a single read outside of any pass.
    """

    __slots__ = ("__weakref__",)


_sharing: ContextVar[Sharing | None] = ContextVar("pullback_checkpoint_group", default=None)


class GraphExecGroup(Whole):
    """Passes inside share one re-run per checkpointed function, instead of one each.

    They must not need the same saved tensors. Reentrant checkpoints are not affected.

    >>> import pullback as torch
    >>> from pullback.utils.checkpoint import GraphExecGroup, checkpoint
    >>> x = torch.ones(1, requires_grad=True)
    >>> a, b = checkpoint(lambda t: (t.sin(), t.cos()), x, use_reentrant=False)
    >>> with GraphExecGroup():
    ...     a.backward()
    ...     b.backward()
    """

    _mine: Sharing | None = None

    def _enter(self) -> GraphExecGroup:
        if _sharing.get() is not None:
            raise RuntimeError("GraphExecGroup contexts cannot be nested; leave the outer first.")
        self._mine = Sharing()
        _sharing.set(self._mine)
        return self

    def _leave(self) -> None:
        if _sharing.get() is self._mine:
            _sharing.set(None)


def current_use() -> Any:
    """For whom a value is recomputed now: the group, else the running pass, else this one read."""
    return _sharing.get() or task.running.get() or Sharing()


def is_shared(use: Any) -> bool:
    """Whether several passes share what is recomputed for this use."""
    return use is _sharing.get()

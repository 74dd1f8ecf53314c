"""Hook tables and the handles that take a hook out again."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType
from typing import Any

_next_id = itertools.count().__next__

# Leaves that have, or had, hooks, by id: as long as any is alive, leaves must be completed in order
# and
# not at the end of the pass.
leaf_hooks_in_use: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


class RemovableHandle:
    """Takes a hook away again: `remove()`, or leaving it as a context.

    >>> import pullback as torch
    >>> x = torch.ones(1, requires_grad=True)
    >>> with x.register_hook(lambda g: g * 10):
    ...     (x * 1).backward()
    >>> x.grad
    tensor([10.])
    """

    def __init__(self, hooks: OrderedDict[int, Any]) -> None:
        self._hooks: weakref.ref[OrderedDict[int, Any]] = weakref.ref(hooks)
        self.id = _next_id()

    @classmethod
    def add(cls, hooks: OrderedDict[int, Any], fn: Callable[..., Any]) -> RemovableHandle:
        """Enter `fn` in the table and return its handle."""
        handle = cls(hooks)
        hooks[handle.id] = fn
        return handle

    def remove(self) -> None:
        """Take the hook out; doing it again changes nothing."""
        hooks = self._hooks()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()

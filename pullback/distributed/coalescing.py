"""Several calls as one: what torch's inner `_coalescing_manager` promises to its callers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pullback.distributed.arguments import own_group
from pullback.distributed.call import Call
from pullback.distributed.group import ProcessGroup

__all__ = ["_coalescing_manager", "together"]


class Coalesced:
    """The calls that were made inside."""

    def __init__(self, group: ProcessGroup | None) -> None:
        self._group = group

    def wait(self) -> None:
        """Return when all of them are done: calls of a group keep their order."""
        if self._group is not None:
            call = Call("coalesced calls", "", self._group.timeout)
            self._group.do(call, lambda: None, later=True).wait()


def together(group: ProcessGroup, name: str, works: list[Any]) -> Any:
    """One call for several of this group that are under way: done when they are, or failed."""

    def act() -> None:
        for one in works:  # they were before it on the group's line
            one.wait()

    return group.do(Call(name, "", group.timeout), act, later=True)


@contextmanager
def _coalescing_manager(
    group: Any = None, device: Any = None, async_ops: bool = False
) -> Iterator[Coalesced]:
    """Inside, calls are made as they come; afterwards they are done, or `wait()` is called.

    Each travels by itself: engines here have no message for several.
    """
    made = Coalesced(own_group(group, "_coalescing_manager"))
    yield made
    if not async_ops:
        made.wait()

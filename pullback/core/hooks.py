"""Hook tables and the handles that take a hook out again."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar

from pullback.core.origin import Origin, getframe, internal, user_frame

# Leaves that have, or had, hooks, by id: as long as any is alive, leaves must be completed in order
# and not at the end of the pass.
leaf_hooks_in_use: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

_ids = itertools.count()  # next() of it is one step: two threads never get the same
_renumbering = threading.Lock()


class HookTable(OrderedDict[int, Any]):
    """Hooks by the id of their handle, with the user's line that registered each."""

    # Handle id -> code and instruction; made when first needed.
    places: dict[int, tuple[Any, int]] | None = None

    def origin(self, number: int) -> Origin | None:
        """The user's line that registered a hook."""
        place = None if self.places is None else self.places.get(number)
        return None if place is None else Origin(*place)

    def forget_removed(self) -> None:
        """Drop the lines of hooks that were taken out: handles do not."""
        places = self.places or {}
        self.places = {key: places[key] for key in self if key in places}

    def __reduce__(self) -> Any:
        return OrderedDict, (list(self.items()),)  # places in a program are not for storage


class _NextId:
    """`RemovableHandle.next_id`: the id that the next handle will have."""

    def __get__(self, handle: Any, owner: type) -> int:
        return int(repr(_ids)[len("count(") : -1])


class RemovableHandle:
    """Takes a hook away again: `remove()`, or leaving it as a context.

    The tables are held weakly, so they must be OrderedDicts: a plain dict cannot be. `extra_dict`
    is one more table, or a list of such, with an entry under the same id.

    >>> import pullback as torch
    >>> x = torch.ones(1, requires_grad=True)
    >>> with x.register_hook(lambda g: g * 10):
    ...     (x * 1).backward()
    >>> x.grad
    tensor([10.])
    """

    id: int
    next_id: ClassVar[Any] = _NextId()

    def __init__(
        self, hooks_dict: OrderedDict[int, Any], *, extra_dict: Any | list[Any] | None = None
    ) -> None:
        self.hooks_dict_ref: Any = weakref.ref(hooks_dict)
        self.id = next(_ids)
        self.extra_dict_ref: tuple[Any, ...] = ()
        if extra_dict is not None:
            self.extra_dict_ref = tuple(map(weakref.ref, _tables(extra_dict)))

    @classmethod
    def add(cls, hooks: OrderedDict[int, Any], fn: Callable[..., Any]) -> RemovableHandle:
        """Enter `fn` in the table and return its handle."""
        handle = cls(hooks)
        hooks[handle.id] = fn
        if hooks.__class__ is not HookTable:
            return handle
        frame: Any = getframe(2)  # who called register_hook()
        if internal[frame.f_code.co_filename]:
            frame = user_frame(frame)
        if frame is not None:
            if hooks.places is None:
                hooks.places = {}
            elif len(hooks.places) > 2 * len(hooks) + 8:
                hooks.forget_removed()
            hooks.places[handle.id] = (frame.f_code, frame.f_lasti)
        return handle

    def remove(self) -> None:
        """Take the hook out; doing it again changes nothing."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> Any:
        extra = tuple(reference() for reference in self.extra_dict_ref)
        return self.hooks_dict_ref(), self.id, extra

    def __setstate__(self, state: Any) -> None:
        global _ids
        hooks, self.id, *extra = state
        self.hooks_dict_ref = _reference(hooks)
        self.extra_dict_ref = tuple(map(_reference, extra[0])) if extra else ()
        with _renumbering:
            _ids = itertools.count(max(RemovableHandle.next_id, self.id + 1))

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *raised: object) -> None:
        self.remove()


def _tables(extra: Any) -> list[Any]:
    if extra is None:
        return []
    return extra if isinstance(extra, list) else [extra]


def _reference(table: Any) -> Any:
    """A weak reference; to something dead already where the table was gone when pickled."""
    return weakref.ref(OrderedDict() if table is None else table)

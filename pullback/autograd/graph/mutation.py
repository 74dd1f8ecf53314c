"""Saved tensors that may be written: old values are copied when, and only when, someone does."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pullback.autograd.graph.saved_hooks import saved_tensors_hooks
from pullback.core.arrays import Array
from pullback.core.process.whole import Whole
from pullback.core.tensor import Tensor, wrap
from pullback.operators.arrays.strides import address, root
from pullback.operators.running import inplace

__all__ = ["allow_mutation_on_saved_tensors"]


class _Handle:
    """Stands in a node for a saved value; the context's tables know it weakly."""

    __slots__ = ("__weakref__", "context", "sid", "tid")

    def __init__(self, context: MutationContext, sid: int, tid: tuple[Any, ...]) -> None:
        self.context = context
        self.sid = sid
        self.tid = tid

    def __del__(self) -> None:
        self.context.forget(self)


class MutationContext:
    """The values saved inside one `allow_mutation_on_saved_tensors()`.

    Each is an alias in `original` until its memory is about to change, then a copy in `cloned`.
    """

    def __init__(self) -> None:
        self.cloned: MutableMapping[_Handle, Tensor] = weakref.WeakKeyDictionary()
        self.original: MutableMapping[_Handle, Tensor] = weakref.WeakKeyDictionary()
        # A saved value by memory, place in it and version; values saved twice are kept once.
        self.tid_to_weakhandle: MutableMapping[tuple[Any, ...], _Handle] = (
            weakref.WeakValueDictionary()
        )
        # By the memory that they are in, since writes go through other tensors too. `original`
        # keeps that memory alive, so its id stays its own.
        self.sid_to_tid: dict[int, set[tuple[Any, ...]]] = {}

    def pack(self, tensor: Tensor) -> _Handle:
        """Keep a tensor as it is."""
        array = tensor._array
        sid = id(root(array))
        place = (address(array), array.shape, array.strides, array.dtype)
        tid = (sid, *place, tensor._cell[0])
        handle = self.tid_to_weakhandle.get(tid)
        if handle is None:
            handle = self.tid_to_weakhandle[tid] = _Handle(self, sid, tid)
            self.original[handle] = tensor._alias()
            self.sid_to_tid.setdefault(sid, set()).add(tid)
        return handle

    def unpack(self, handle: _Handle) -> Tensor:
        """The tensor as it was saved."""
        value = self.cloned.get(handle)
        if value is None:
            value = self.original.get(handle)
        assert value is not None, (
            "This graph was recorded inside an allow_mutation_on_saved_tensors() that has ended: "
            "backward runs outside the context in which the graph was recorded. Run it inside."
        )
        return value

    def before_write(self, array: Array) -> None:
        """Copy what was saved from this memory."""
        for tid in self.sid_to_tid.pop(id(root(array)), ()):
            handle = self.tid_to_weakhandle.pop(tid, None)
            if handle is not None:
                self.cloned[handle] = wrap(self.original.pop(handle)._array.copy())

    def forget(self, handle: _Handle) -> None:
        """Drop what is known of a handle that no node holds any more."""
        known = self.sid_to_tid.get(handle.sid)
        if known is not None and self.tid_to_weakhandle.get(handle.tid) in (None, handle):
            known.discard(handle.tid)
            if not known:
                del self.sid_to_tid[handle.sid]

    def clear(self) -> None:
        """Forget all values."""
        self.cloned.clear()
        self.original.clear()
        self.tid_to_weakhandle.clear()
        self.sid_to_tid.clear()


_open: ContextVar[MutationContext | None] = ContextVar("pullback_mutation", default=None)


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[MutationContext]:
    """Inside, saved tensors may be written; backward, inside too, uses the old values.

    >>> import pullback as torch
    >>> x = torch.ones(1, requires_grad=True)
    >>> with torch.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x * 3
    ...     z = (y * y).sum()
    ...     _ = y.zero_()
    ...     z.backward()
    >>> x.grad
    tensor([18.])
    """
    if _open.get() is not None:
        raise RuntimeError("allow_mutation_on_saved_tensors() contexts cannot be nested.")
    context = MutationContext()
    with _Allowing(context), saved_tensors_hooks(context.pack, context.unpack):
        yield context


class _Allowing(Whole):
    """Inside, writes are announced to `context`."""

    def __init__(self, context: MutationContext) -> None:
        self.context = context
        self.listener = context.before_write

    def _enter(self) -> None:
        inplace.before_write.append(self.listener)
        _open.set(self.context)

    def _leave(self) -> None:
        _open.set(None)
        if self.listener in inplace.before_write:
            inplace.before_write.remove(self.listener)
        self.context.clear()

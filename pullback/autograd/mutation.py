"""Saved tensors that may be written: old values are copied when, and only when, someone does."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from pullback.core.arrays import Array
from pullback.core.mode import change, changed, current, get_mode
from pullback.core.tensor import Tensor, wrap
from pullback.operators import inplace
from pullback.operators.strides import root

__all__ = ["allow_mutation_on_saved_tensors"]


class _Value:
    """A saved value: an alias of the tensor until its memory is about to change, then a copy."""

    __slots__ = ("__weakref__", "context", "tensor")

    def __init__(self, tensor: Tensor, context: MutationContext) -> None:
        self.tensor = tensor
        self.context = context


class MutationContext:
    """The values saved inside one `allow_mutation_on_saved_tensors()`."""

    def __init__(self) -> None:
        # By the memory that they are in; a value that no node holds any more leaves by itself.
        self.by_memory: dict[int, weakref.WeakSet[_Value]] = {}
        self.is_open = True

    def pack(self, tensor: Tensor) -> _Value:
        """Keep a tensor as it is."""
        value = _Value(tensor.detach(), self)
        memory = id(root(tensor._array))
        self.by_memory.setdefault(memory, weakref.WeakSet()).add(value)
        return value

    def unpack(self, value: _Value) -> Tensor:
        """The tensor as it was saved."""
        assert self.is_open, (
            "Values saved inside allow_mutation_on_saved_tensors() can only be used there."
        )
        return value.tensor

    def before_write(self, array: Array) -> None:
        """Copy what was saved from this memory."""
        for value in self.by_memory.pop(id(root(array)), ()):
            value.tensor = wrap(value.tensor._array.copy())

    def clear(self) -> None:
        """Forget all values."""
        self.by_memory.clear()


_open: list[MutationContext] = []


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
    if _open:
        raise RuntimeError("allow_mutation_on_saved_tensors() contexts cannot be nested.")
    context = MutationContext()
    mode = get_mode()
    if mode.saved_hooks_forbidden is not None:
        raise RuntimeError(mode.saved_hooks_forbidden)
    before = change(saved_hooks=(*mode.saved_hooks, (context.pack, context.unpack)))
    inplace.before_write.append(context.before_write)
    _open.append(context)
    try:
        yield context
    finally:
        _open.remove(context)
        inplace.before_write.remove(context.before_write)
        context.clear()
        context.is_open = False
        current.set(changed(get_mode(), saved_hooks=before.saved_hooks))

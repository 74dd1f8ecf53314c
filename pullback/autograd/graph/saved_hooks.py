"""What happens to values saved for backward: hooks around them, host memory, and forbidding both.

`core/saved.py` calls the hooks; here are the contexts in which they are in force.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.mode import Hooked, changed, current, get_mode, settle
from pullback.core.process.whole import Reentrant, Whole
from pullback.core.tensor import Tensor

__all__ = ["disable_saved_tensors_hooks", "save_on_cpu", "saved_tensors_hooks"]


class saved_tensors_hooks(Reentrant):
    """Inside, values saved for backward go through `pack_hook`, and back through `unpack_hook`.

    >>> import pullback as torch
    >>> x = torch.full((2,), 2.0, requires_grad=True)
    >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 10, lambda t: t / 10):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([4., 4.])
    """

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def _entry(self) -> Whole:
        for name in ("pack_hook", "unpack_hook"):
            if not callable(getattr(self, name)):
                got = type(getattr(self, name)).__name__
                raise TypeError(f"saved_tensors_hooks: {name} must be callable, got {got}.")
        return packing(self.pack_hook, self.unpack_hook)


def packing(pack_hook: Any, unpack_hook: Any) -> Whole:
    """A context in which these hooks are on, to be entered once."""
    mode = settle()
    if mode.saved_hooks_forbidden is not None:
        raise RuntimeError(mode.saved_hooks_forbidden)
    return _Packing((pack_hook, unpack_hook), len(mode.saved_hooks))


class _Packing(Whole):
    """The time while a pair of hooks is on, inside `depth` others."""

    def __init__(self, pair: tuple[Any, Any], depth: int) -> None:
        self.pair = pair
        self.depth = depth

    def _enter(self) -> None:
        mode = get_mode()
        current.set(changed(mode, saved_hooks=(*mode.saved_hooks, self.pair)))

    def _leave(self) -> None:
        mode = get_mode()
        if mode.__class__ is Hooked and not self.depth:
            current.set(mode.usual)
        elif len(mode.saved_hooks) > self.depth:
            current.set(changed(mode, saved_hooks=mode.saved_hooks[: self.depth]))


class save_on_cpu(saved_tensors_hooks):
    """Inside, values saved for backward wait in host memory, and return to their device when used.

    What is on the host already is kept as it is, unless `pin_memory` asks for a copy of its own;
    that is pinned only where there is a device of `device_type` to copy to.

    >>> import pullback as torch
    >>> x = torch.full((2,), 2.0, requires_grad=True)
    >>> with torch.autograd.graph.save_on_cpu():
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([4., 4.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        self.device_type = device_type

        def pack(tensor: Tensor) -> tuple[Any, Tensor]:
            # An alias: the tensor itself may be the output of the node that is to keep it.
            kept = tensor.detach().to("cpu")
            return tensor.device, kept.clone() if pin_memory else kept

        def unpack(packed: tuple[Any, Tensor]) -> Tensor:
            device, kept = packed
            return kept.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


class disable_saved_tensors_hooks(Reentrant):
    """Inside, using saved-tensor hooks raises a RuntimeError with exactly this message.

    >>> import pullback as torch
    >>> with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
    ...     with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
    ...         pass
    Traceback (most recent call last):
    RuntimeError: not here
    """

    def __init__(self, error_message: str) -> None:
        self.message = error_message

    def _entry(self) -> Whole:
        mode = settle()
        if mode.saved_hooks:
            raise RuntimeError(self.message)
        return _Forbidding(self.message, mode.saved_hooks_forbidden)


class _Forbidding(Whole):
    """The time while hooks are forbidden."""

    def __init__(self, message: str, before: str | None) -> None:
        self.message = message
        self.before = before

    def _enter(self) -> None:
        current.set(changed(get_mode(), saved_hooks_forbidden=self.message))

    def _leave(self) -> None:
        current.set(changed(get_mode(), saved_hooks_forbidden=self.before))

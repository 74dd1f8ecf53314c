"""Tools to look at and work with the backward graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from pullback.autograd.memory_map import MemoryMap, memory_map
from pullback.autograd.multi_hook import register_multi_grad_hook
from pullback.autograd.mutation import allow_mutation_on_saved_tensors
from pullback.core.graph import GradientEdge
from pullback.core.mode import changed, current, get_mode, settle
from pullback.core.node import Node, node_and_number
from pullback.core.tensor import Tensor
from pullback.core.version import INFERENCE_CELL, bump
from pullback.core.view import edge_of

__all__ = [
    "GradientEdge",
    "MemoryMap",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "memory_map",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The tensor's place in the graph: usable in backward() and grad() in its stead.

    >>> import pullback as torch
    >>> x = torch.ones(1, requires_grad=True)
    >>> y = x * 3
    >>> edge = torch.autograd.graph.get_gradient_edge(y)
    >>> torch.autograd.grad((y * y).sum(), edge)
    (tensor([6.]),)
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            "get_gradient_edge() needs a tensor that requires grad; this one does not."
        )
    node, number = node_and_number(edge_of(tensor))
    assert node is not None
    return GradientEdge(node, number, None)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Tell autograd of a write that it could not see, e.g. through the NumPy array.

    >>> import pullback as torch
    >>> t = torch.zeros(2)
    >>> t.numpy()[0] = 1
    >>> torch.autograd.graph.increment_version(t)
    >>> t._version
    1
    """
    for one in (tensor,) if isinstance(tensor, Tensor) else tensor:
        if not isinstance(one, Tensor):
            got = type(one).__name__
            raise RuntimeError(f"increment_version() takes tensors, got {got}.")  # noqa: TRY004 (torch's)
        if one._cell is not INFERENCE_CELL:
            bump(one, "increment_version")


class saved_tensors_hooks:  # noqa: N801 (torch's name)
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

    def __enter__(self) -> None:
        mode = settle()
        if mode.saved_hooks_forbidden is not None:
            raise RuntimeError(mode.saved_hooks_forbidden)
        pairs = (*mode.saved_hooks, (self.pack_hook, self.unpack_hook))
        current.set(changed(mode, saved_hooks=pairs))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        mode = get_mode()
        current.set(changed(mode, saved_hooks=mode.saved_hooks[:-1]))


class save_on_cpu(saved_tensors_hooks):  # noqa: N801
    """Inside, values saved for backward wait in host memory, and return to their device when used.

    >>> import pullback as torch
    >>> x = torch.full((2,), 2.0, requires_grad=True)
    >>> with torch.autograd.graph.save_on_cpu():
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([4., 4.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        if pin_memory:
            raise RuntimeError(
                f"save_on_cpu(pin_memory=True) needs a {device_type} device; there is none here."
            )

        def pack(tensor: Tensor) -> tuple[Any, Tensor]:
            return tensor.device, tensor.detach().clone()

        def unpack(packed: tuple[Any, Tensor]) -> Tensor:
            device, kept = packed
            return kept.to(device)  # type: ignore[no-any-return]  # operators are untyped here

        super().__init__(pack, unpack)


class disable_saved_tensors_hooks:  # noqa: N801
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

    def __enter__(self) -> None:
        mode = settle()
        if mode.saved_hooks:
            raise RuntimeError(self.message)
        self._before = mode.saved_hooks_forbidden
        current.set(changed(mode, saved_hooks_forbidden=self.message))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        current.set(changed(get_mode(), saved_hooks_forbidden=self._before))

"""One hook for several tensors: called when all of their gradients are known, or at the first."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Literal

from pullback.core.graph import GradientEdge
from pullback.core.hooks import RemovableHandle
from pullback.core.node import AccumulateGrad, Node, node_and_number
from pullback.core.tensor import Tensor
from pullback.core.view import edge_of
from pullback.engine import task

__all__ = ["register_multi_grad_hook"]


class _Handles(RemovableHandle):
    """Removes a hook from all of its tensors."""

    handles: tuple[RemovableHandle, ...]

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Take the hook off every tensor; doing it again changes nothing."""
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> tuple[RemovableHandle, ...]:
        return self.handles

    def __setstate__(self, state: tuple[RemovableHandle, ...]) -> None:
        self.handles = state


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., None], *, mode: Literal["all", "any"] = "all"
) -> RemovableHandle:
    """Call `fn` once per backward, with the list of all gradients ("all") or the first ("any").

    Tensors that a backward does not reach have None in the list. What `fn` returns is ignored.

    >>> import pullback as torch
    >>> x, y = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    >>> handle = torch.autograd.graph.register_multi_grad_hook((x, y), print)
    >>> (x * 2 + y * 3).sum().backward()
    [tensor([2.]), tensor([3.])]
    """
    if mode not in ("all", "any"):
        raise ValueError(f'register_multi_grad_hook(): mode must be "all" or "any", got {mode!r}.')
    if mode == "any":
        first = _First(fn)
        return _Handles([one.register_hook(first) for one in tensors if one.requires_grad])
    for index, tensor in enumerate(tensors):
        assert tensor.requires_grad, (
            f'register_multi_grad_hook(mode="all"): tensors[{index}] does not require grad, so its '
            "gradient would never come."
        )
    collector = _Collector(tensors, fn)
    return _Handles(
        [tensor.register_hook(collector.hook(index)) for index, tensor in enumerate(tensors)]
    )


def _running() -> Any:
    running = task.running.get()
    assert running is not None, "A multi-grad hook was called outside of a backward pass."
    return running


class _First:
    """Passes the first gradient of each pass on."""

    def __init__(self, fn: Callable[[Any], None]) -> None:
        self.fn = fn
        self.seen: weakref.WeakSet[Any] = weakref.WeakSet()  # passes
        self.lock = threading.Lock()

    def __call__(self, g: Any) -> None:
        running = _running()
        with self.lock:
            if running in self.seen:
                return
            self.seen.add(running)
        self.fn(g)


class _Waiting:
    """What one pass has brought so far."""

    __slots__ = ("gradients", "missing")

    def __init__(self, gradients: list[Any], missing: int) -> None:
        self.gradients = gradients
        self.missing = missing


class _Collector:
    """Gathers the gradients of a pass; those of passes that run at once are kept apart."""

    def __init__(self, tensors: Sequence[Tensor], fn: Callable[[list[Any]], None]) -> None:
        self.fn = fn
        # A leaf's accumulator is made for each graph anew, so leaves are asked when it matters;
        # weakly, as hooks must not keep their tensor alive. Others stay with their present node.
        self.places: list[Any] = [
            weakref.ref(one) if one.is_leaf else _place(one) for one in tensors
        ]
        self.passes: weakref.WeakKeyDictionary[Any, _Waiting] = weakref.WeakKeyDictionary()
        self.lock = threading.Lock()

    def hook(self, index: int) -> Callable[[Any], None]:
        """The hook for one of the tensors."""

        def arrived(g: Any) -> None:
            running = _running()
            with self.lock:
                waiting = self.passes.get(running)
                if waiting is None:
                    taking_part = sum(map(_takes_part, self.places))
                    waiting = _Waiting([None] * len(self.places), taking_part)
                    self.passes[running] = waiting
                waiting.gradients[index] = g
                waiting.missing -= 1
                if waiting.missing > 0:
                    return
                del self.passes[running]
            self.fn(waiting.gradients)

        return arrived


def _place(tensor: Tensor) -> GradientEdge:
    node, number = node_and_number(edge_of(tensor))
    assert node is not None
    return GradientEdge(node, number)


def _takes_part(place: Any) -> bool:
    """Whether a hook on this tensor runs in the present pass."""
    if isinstance(place, GradientEdge):
        node: Node | None = place.node
        return task.will_execute(node) or place[:2] in _captured()
    leaf = place()
    if leaf is None:
        return False
    node = leaf._leaf_mark()()
    # An error where the leaf is itself asked for by grad(): its accumulator never runs.
    return isinstance(node, AccumulateGrad) and task.will_execute(node)


def _captured() -> set[Any]:
    wanted = task.running.get().wanted
    return {node_and_number(edge) for edge in wanted or ()}

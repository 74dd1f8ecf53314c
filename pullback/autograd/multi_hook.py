"""One hook for several tensors: called when all of their gradients are known, or at the first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal

from pullback.core.hooks import RemovableHandle
from pullback.core.node import AccumulateGrad, Node, node_and_number
from pullback.core.tensor import Tensor
from pullback.core.view import edge_of
from pullback.engine import task

__all__ = ["register_multi_grad_hook"]


class _Handles(RemovableHandle):
    """Removes a hook from all of its tensors."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self._all = tuple(handles)
        self.id = self._all[0].id if self._all else -1

    def remove(self) -> None:
        """Take the hook off every tensor; doing it again changes nothing."""
        for handle in self._all:
            handle.remove()

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor],
    fn: Callable[..., None],
    *,
    mode: Literal["all", "any"] = "all",
) -> RemovableHandle:
    """Call `fn` once per backward, with the list of all gradients ("all") or the first ("any").

    Tensors that a backward does not reach have None in the list.

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
        return _Handles([tensor.register_hook(first) for tensor in tensors])
    collector = _Collector(tensors, fn)
    return _Handles(
        [tensor.register_hook(collector.hook(index)) for index, tensor in enumerate(tensors)]
    )


class _First:
    """Passes the first gradient of each pass on."""

    def __init__(self, fn: Callable[[Tensor], None]) -> None:
        self.fn = fn
        self.seen: int | None = None
        self.lock = threading.Lock()

    def __call__(self, g: Tensor) -> None:
        with self.lock:
            running = task.task_id()
            if self.seen == running:
                return
            self.seen = running
        self.fn(g)


class _Collector:
    """Gathers the gradients of a pass; those of passes that run at once are kept apart."""

    def __init__(self, tensors: Sequence[Tensor], fn: Callable[[list[Any]], None]) -> None:
        self.fn = fn
        self.nodes: list[Node | None] = [node_and_number(edge_of(tensor))[0] for tensor in tensors]
        self.waiting: dict[int, int] = {}  # pass -> gradients that are still to come
        self.gradients: dict[int, list[Any]] = {}
        self.lock = threading.Lock()

    def hook(self, index: int) -> Callable[[Any], None]:
        """The hook for one of the tensors."""

        def arrived(g: Any) -> None:
            running = task.task_id()
            with self.lock:
                if running not in self.waiting:
                    self.waiting[running] = sum(map(_takes_part, self.nodes))
                    self.gradients[running] = [None] * len(self.nodes)
                self.gradients[running][index] = g
                self.waiting[running] -= 1
                if self.waiting[running] > 0:
                    return
                del self.waiting[running]
                complete = self.gradients.pop(running)
            self.fn(complete)

        return arrived


def _takes_part(node: Node | None) -> bool:
    """Whether a hook on what this node makes runs in the present pass."""
    if node is None:
        return False
    try:
        return task.will_execute(node) or node in _captured()
    except RuntimeError:
        assert isinstance(node, AccumulateGrad)  # captured by grad(), which runs its hooks too
        return True


def _captured() -> set[Any]:
    wanted = task.running.get().wanted
    return {node_and_number(edge)[0] for edge in wanted or ()}

"""Logs every node of a graph when it runs: for one graph, without touching the engine's own log."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pullback.core.dtype import from_numpy_dtype
from pullback.core.graph import GradientEdge, internal_edge
from pullback.core.node import Node, node_and_number
from pullback.core.tensor import Tensor
from pullback.core.view import edge_of
from pullback.engine.task import LOGGER

__all__ = ["register_logging_hooks_on_whole_graph"]


def register_logging_hooks_on_whole_graph(
    outputs: Sequence[Tensor | GradientEdge],
) -> Callable[[], None]:
    """Log each node of the graphs of `outputs` before it runs; the result takes the hooks off.

    >>> import pullback as torch
    >>> y = (torch.ones(2, requires_grad=True) * 2).sum()
    >>> unregister = torch.autograd.graph._register_logging_hooks_on_whole_graph([y])
    >>> unregister()
    """
    log = logging.getLogger(LOGGER)
    handles = [node.register_prehook(_logging(log, node)) for node in _breadth_first(outputs)]

    def unregister() -> None:
        for handle in handles:
            handle.remove()

    return unregister


def _logging(log: logging.Logger, node: Node) -> Callable[[Sequence[Any]], None]:
    # The text is made now: a hook that knew its node would close a cycle with it.
    described = repr(node)

    def hook(gradients: Sequence[Any]) -> None:
        shown = ", ".join("None" if g is None else _described(g) for g in gradients)
        log.debug("Executing: %s with grad_outputs: [%s]", described, shown)

    return hook


def _described(g: Tensor) -> str:
    return f"{from_numpy_dtype(g._array.dtype)}{list(g._array.shape)}"


def _breadth_first(outputs: Sequence[Tensor | GradientEdge]) -> Iterator[Node]:
    edges = (
        internal_edge(one) if isinstance(one, GradientEdge) else edge_of(one) for one in outputs
    )
    waiting = deque(node_and_number(edge)[0] for edge in edges)
    seen: set[Node] = set()
    while waiting:
        node = waiting.popleft()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        waiting.extend(following for following, _ in node.next_functions)

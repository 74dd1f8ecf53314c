"""The pass that runs now in this thread: what may be asked of it, and who waits for its end."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

from pullback.core.dtype import from_numpy_dtype
from pullback.core.mode import current, get_mode
from pullback.core.node import AccumulateGrad, Node, walk
from pullback.core.passes import evaluating
from pullback.core.passes import running as running
from pullback.engine.filter import Filter

LOGGER = "pullback.autograd.graph"

next_id = itertools.count().__next__


def _innermost(what: str) -> Any:
    task = running.get()
    if task is None:
        raise RuntimeError(f"{what} is possible only during a backward pass; none runs here.")
    return task


def task_id() -> int:
    """The number of the innermost running pass, -1 outside."""
    task = running.get()
    return -1 if task is None else task.id


def current_node() -> Node | None:
    """The node whose backward or hooks run now; None outside."""
    return evaluating.get()


def keeps_graph() -> bool:
    """Whether the innermost running pass keeps what nodes saved; True outside."""
    task = running.get()
    return True if task is None else task.keep_graph


def is_checkpoint_valid() -> bool:
    """False in a pass with `inputs`, at any depth: a recomputation cannot know what it needs."""
    task = running.get()
    return task is None or not task.filtered


def queue_callback(callback: Callable[[], Any]) -> None:
    """Call `callback()` when the innermost running pass has finished all of its nodes."""
    _innermost("queue_callback()").callbacks.append(callback)


def run_callbacks(task: Any) -> None:
    """The queued callbacks, with those that they queue in turn; each starts in the pass's mode."""
    evaluating.set(None)
    mode = get_mode()
    callbacks = task.callbacks
    try:
        done = 0
        while done < len(callbacks):
            try:
                callbacks[done]()
            finally:
                current.set(mode)
            done += 1
    finally:
        callbacks.clear()


def will_execute(node: Any) -> bool:
    """Whether the innermost pass runs this node; an error for a leaf that grad() captures."""
    if not isinstance(node, Node):
        raise RuntimeError(f"A node of the graph is needed, got {type(node).__name__}.")
    task = _innermost("Asking which nodes will run")
    roots = [edge for edge, _ in task.roots]
    if task.wanted is None:
        return any(one is node for one in walk(iter(roots)))
    chosen = Filter(roots, task.wanted, accumulates=task.accumulates)
    if isinstance(node, AccumulateGrad):
        if node in chosen.captures:
            raise RuntimeError(
                "The gradient of this leaf is captured by grad(): its accumulator never runs. "
                "Ask about other nodes, or use backward(inputs=...)."
            )
        return node in chosen.reached
    return node in chosen.edges


def execution_order() -> list[Node]:
    """The nodes of the innermost pass in the order in which they run, from its start."""
    task = _innermost("Asking for the order of nodes")
    if get_mode().multithreading:
        raise RuntimeError(
            "The order is known only with set_multithreading_enabled(False) around backward()."
        )
    from pullback.engine.ordered import order_of  # the pass itself needs this module

    return order_of(task)


def logs_nodes() -> bool:
    """Whether the logger of the graph is on for DEBUG; not if nobody ever loaded logging."""
    if _known_logger is not None:
        known = _known_levels.get(10)  # what `isEnabledFor` found, until somebody sets a level
        if known is False:
            return False
        return bool(_known_logger.isEnabledFor(10))
    logging = sys.modules.get("logging")
    if not hasattr(logging, "getLogger"):  # not there, or being loaded by another thread
        return False
    return bool(_logger(logging).isEnabledFor(10))


_known_logger: Any = None
_known_levels: dict[int, bool] = {}


def _logger(logging: Any) -> Any:
    global _known_logger, _known_levels
    if _known_logger is None:
        logger = logging.getLogger(LOGGER)
        _known_levels = getattr(logger, "_cache", {})
        _known_logger = logger
    return _known_logger


def log_node(node: Node, gradients: tuple[Any, ...]) -> None:
    """Say which node runs next and on what."""
    shown = ", ".join("None" if g is None else _described(g) for g in gradients)
    _known_logger.debug("Executing: %r with grad_outputs: [%s]", node, shown)


def _described(g: Any) -> str:
    array = getattr(g, "_array", g)
    return f"{from_numpy_dtype(array.dtype)}{list(array.shape)}"

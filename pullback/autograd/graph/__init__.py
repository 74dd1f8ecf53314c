"""Tools to look at and work with the backward graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from numbers import Real
from typing import Any

from pullback.autograd.graph.creation import node_creation_hook
from pullback.autograd.graph.memory import MemoryMap, memory_map
from pullback.autograd.graph.multi_hook import register_multi_grad_hook
from pullback.autograd.graph.mutation import allow_mutation_on_saved_tensors
from pullback.autograd.graph.node import Node
from pullback.autograd.graph.saved_hooks import (
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from pullback.core.explain.absent import absent
from pullback.core.graph import GradientEdge
from pullback.core.listing import only_public as _only_public
from pullback.core.node import node_and_number
from pullback.core.tensor import Tensor
from pullback.core.version import INFERENCE_CELL, bump
from pullback.core.view import edge_of
from pullback.engine import task

__all__ = [
    "GradientEdge",
    "MemoryMap",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "memory_map",
    "node_creation_hook",
    "queue_callback",
    "region_activation_memory_budget",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_override_stale_capture_stream",
    "set_warn_on_accumulate_grad_stream_mismatch",
]


def queue_callback(callback: Callable[[], Any]) -> None:
    """Call `callback` when the backward pass that runs is over; for use in hooks and formulas.

    >>> import pullback as torch
    >>> x = torch.ones(1, requires_grad=True)
    >>> handle = x.register_hook(
    ...     lambda g: torch.autograd.graph.queue_callback(lambda: print("over", x.grad))
    ... )
    >>> (x * 2).sum().backward()
    over tensor([2.])
    """
    task.queue_callback(callback)


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
    if not isinstance(tensor, Tensor | Iterable):
        raise RuntimeError(
            "increment_version() takes a tensor or an iterable of tensors, got "
            f"{type(tensor).__name__}."
        )
    for one in (tensor,) if isinstance(tensor, Tensor) else tensor:
        if not isinstance(one, Tensor):
            got = type(one).__name__
            raise RuntimeError(f"increment_version() takes tensors, got {got}.")
        if one._cell is not INFERENCE_CELL:
            bump(one, "increment_version")


class _Switches:
    """Process-wide settings that only devices with streams look at."""

    __slots__ = ("override_stale_capture_stream", "warn_on_stream_mismatch")

    def __init__(self) -> None:
        self.warn_on_stream_mismatch = True
        self.override_stale_capture_stream = False


switches = _Switches()


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Whether to warn when a gradient is accumulated on another stream than it was made on.

    For the whole process; on at first. The host has no streams, so it never warns there.

    >>> import pullback as torch
    >>> torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(True)
    """
    switches.warn_on_stream_mismatch = bool(enabled)


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Whether capturing a GPU graph may take a stream in place of one whose capture has ended.

    For the whole process; off at first, and without effect on the host.

    >>> import pullback as torch
    >>> torch.autograd.graph.set_override_stale_capture_stream(False)
    """
    switches.override_stale_capture_stream = bool(enabled)


def region_activation_memory_budget(budget: float) -> Any:
    """The share of activations that a compiled region may keep; refused outside compilation.

    >>> import pullback as torch
    >>> torch.autograd.graph.region_activation_memory_budget(2)
    Traceback (most recent call last):
    ValueError: region_activation_memory_budget: the budget must be from 0 to 1, got 2.
    """
    if isinstance(budget, bool) or not isinstance(budget, Real):
        raise TypeError(
            "region_activation_memory_budget: the budget must be a number, got "
            f"{type(budget).__name__}."
        )
    if not 0 <= budget <= 1:
        raise ValueError(
            f"region_activation_memory_budget: the budget must be from 0 to 1, got {budget}."
        )
    raise RuntimeError(
        "region_activation_memory_budget works inside a compiled function only; here, use "
        "utils.checkpoint to trade memory for time."
    )


def _register_logging_hooks_on_whole_graph(
    outputs: Sequence[Tensor | GradientEdge],
) -> Callable[[], None]:
    """Log each node of these graphs before it runs; the result takes the hooks off."""
    from pullback.autograd.graph.logging import register_logging_hooks_on_whole_graph

    return register_logging_hooks_on_whole_graph(outputs)


# Loaded when first asked for.
_LAZY = {
    "debug": "debug",
    "flow": "answers.flow",
    "hooks": "graph.hook_list",
    "memory_budget": "budget",
    "memory_timeline": "answers.timeline",
    "name_modules": "answers.modules",
    "plan": "graph.order",
    "show": "show",
    "source": "graph.as_source",
    "unused": "answers.unused",
    "watch": "answers.watch",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"pullback.autograd.{_LAZY[name]}"), name)
    raise absent(__name__, name)


__dir__ = _only_public(globals(), "hooks memory_budget plan show source")

"""What a captured pass calls besides operators: a user's code, and writes to `.grad`.

These are the targets of such nodes in the graph that a compiler gets. The first argument of most is
the running pass (`hooks[0]`), which knows which node's turn it is.
"""

from __future__ import annotations

from typing import Any

from pullback.core.node import AccumulateGrad
from pullback.core.tensor import Tensor
from pullback.engine.accumulate import accumulate

__all__ = [
    "call_accumulate_grad",
    "call_backward",
    "call_hook",
    "call_node",
    "call_retain_grad",
    "exec_final_callbacks",
    "unpack",
]


def call_hook(turns: Any, hook: Any, *given: Any, hook_type: str, step: str) -> Any:
    """A hook on a gradient, on all gradients of a node, or on a leaf; what stands for them now."""
    return turns.hook(step, hook_type, hook, *given)


def unpack(turns: Any, hook: Any, data: Any, *, step: str) -> Any:
    """The saved tensor that an unpack hook makes of what was packed."""
    return turns.unpack(step)


def call_backward(turns: Any, ctx: Any, saved: Any, *gradients: Any, step: str) -> Any:
    """The backward of a custom Function: a gradient for each edge, None where there is none.

    `saved` is what its context has as `saved_tensors`.
    """
    return turns.formula(step, ctx, gradients)


def call_node(turns: Any, node: Any, unpacked: Any, *gradients: Any, step: str) -> Any:
    """A node that is no chain of operators, or whose saved values came from unpack hooks."""
    return turns.formula(step, node, gradients, unpacked)


def call_retain_grad(turns: Any, node: Any, number: int, g: Any, *, step: str) -> None:
    """Keep the gradient of one of a node's tensors in its `.grad`."""
    turns.retain(step, node, number, g)


def call_accumulate_grad(
    variable: Tensor, grad: Tensor | None, new_grad: Tensor, turns: Any = None, step: str = ""
) -> None:
    """Add a gradient to a leaf's `.grad`, which is `grad` when the pass begins."""
    if turns is None:
        accumulate(AccumulateGrad.of(variable), new_grad._array, owned=False)
    else:
        turns.accumulate(step, new_grad)


def exec_final_callbacks(turns: Any) -> None:
    """What was queued for the end of the pass."""
    turns.finish()

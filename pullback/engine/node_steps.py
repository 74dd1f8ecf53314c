"""Parts of a node's turn that the passes share: what is captured, what an error is told."""

from __future__ import annotations

from typing import Any

from pullback.engine.filter import Filter
from pullback.engine.hooks import run_tensor_hooks, tensors_of


def capture(node: Any, g: Any, chosen: Filter, captured: dict[tuple[Any, int], Any]) -> None:
    """Keep the gradient that arrived at a node for the caller of grad()."""
    gradients = g if node._g_sizes is not None else (g,)
    if g is None:
        gradients = (None,) * (len(node._g_sizes) if node._g_sizes is not None else 1)
    # A node that runs as well passes its tensors' hooks later; one that does not has them run here.
    cold = node._cold
    if node not in chosen.edges and cold is not None and (cold.tensor_hooks or cold.retained):
        gradients = run_tensor_hooks(cold, tuple(tensors_of(gradients)))
    for number in chosen.captures[node]:
        captured[node, number] = gradients[number]


def undefined(node: Any) -> Any:
    """What a node is given whose consumers all returned no gradient."""
    return None if node._g_sizes is None else [None] * len(node._g_sizes)


def annotate(error: BaseException, node: Any) -> None:
    """Add the forward line of the node at fault to an exception, once; None: before the first."""
    if node is None:
        return
    notes = getattr(error, "__notes__", ())
    if not any(note.startswith("in the backward of") for note in notes):
        where = f", recorded at {node._origin}" if node._origin is not None else ""
        error.add_note(f"in the backward of {type(node).name(node)}{where}")

"""Anomaly mode in captured passes: what a pass gave is searched for NaN at its end.

A program computes many nodes at once, so a NaN in its results does not say where it came from. The
engine's own arithmetic is then done once more node by node, on saved values that nobody released
yet. A user's code is not run again: sections have none, and what it gave in a pass that a compiler
of the user's made is known (`compiled_pass.py`). Where the search ends, `.grad`s are as before the
pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pullback.core import passes
from pullback.core.explain import anomaly
from pullback.core.mode import NO_GRAD, current
from pullback.core.node import AccumulateGrad, node_and_number
from pullback.engine.anomaly import NaNFound, holds_nan
from pullback.engine.backward import run_pass

__all__ = [
    "Stored",
    "check_results",
    "found_nan",
    "is_sought",
    "named",
    "refuse_stored",
    "told_by_engine",
]


def is_sought() -> bool:
    """Whether anomaly mode looks for NaN."""
    return anomaly.state.enabled and anomaly.state.check_nan


def refuse_stored(roots: list[tuple[Any, Any]]) -> None:
    """Raise where a NaN is in a leaf's `.grad` before the pass: it would be taken for a new one."""
    waiting = [edge for edge, _ in roots]
    seen: set[int] = set()
    while waiting:
        node, _ = node_and_number(waiting.pop())
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        leaf: Any = getattr(node, "variable", None)
        stored = None if leaf is None else leaf._stored_grad
        if stored is not None and bool(stored.isnan().any()):
            raise RuntimeError(
                f"Anomaly detection: the .grad of a leaf of shape {tuple(leaf.shape)} holds NaN "
                "before this backward pass begins. Set it to None, or look for NaN in the pass "
                "that left it there."
            )
        waiting += [edge for edge in node._edges if edge is not None]


class Stored:
    """The `.grad`s of leaves before a pass; one that finds NaN leaves them so."""

    def __init__(self, leaves: Iterable[Any]) -> None:
        self._kept = []
        for leaf in leaves:
            grad = leaf.variable._stored_grad
            copy = None if grad is None else grad.detach().clone()
            self._kept.append((leaf.variable, grad, None if grad is None else grad._cell[0], copy))

    def put_back(self) -> None:
        """Have them again: the same objects, with the values that they had."""
        before = current.get()
        try:
            current.set(NO_GRAD)
            for variable, grad, version, copy in self._kept:
                if grad is not None and grad._cell[0] != version:
                    grad.copy_(copy)
                variable._stored_grad = grad
        finally:
            current.set(before)


def check_results(
    roots: list[tuple[Any, Any]], targets: list[Any], results: dict[int, Any], nodes: Any
) -> None:
    """Raise where a pass gave NaN; `results` are those of `targets`, by place.

    With `nodes`, those of the graph, they are for `.grad`s, else for the caller of grad().
    """
    found = [
        f"inputs[{place}] of grad(), of shape {tuple(g.shape)}"
        if nodes is None
        else named(targets[place], nodes)
        for place, g in results.items()
        if g is not None and holds_nan(g)
    ]
    if found:
        raise found_nan(found, told_by_engine(roots, targets)).told()


def told_by_engine(roots: list[tuple[Any, Any]], targets: list[Any]) -> str | None:
    """What the engine says of the first node that gives NaN, with a warning of its forward call."""
    before = passes.taken_over.get()
    try:
        passes.taken_over.set(None)
        run_pass(roots, targets, retain_graph=True, create_graph=False)
    except RuntimeError as found:  # nobody else's code runs there
        return str(found)
    finally:
        passes.taken_over.set(before)
    return None


def found_nan(places: list[str], told: str | None) -> NaNFound:
    """An error with what is known: where NaN arrived, and the node that it came from."""
    if told is None:
        told = "No node gave NaN when the pass was run once more node by node: it came with the "
        told += "first gradients, or from a program that rounds otherwise than the engine."
    return NaNFound(f"Anomaly detection: this pass gave NaN for {'; '.join(places)}. {told}")


def named(place: Any, nodes: Iterable[Any]) -> str:
    """Where a gradient goes. Leaves have no names, so they are told by who uses them."""
    if not isinstance(place, AccumulateGrad):
        return f"the gradient that {type(place).name(place)} gets, recorded at {place._origin}"
    told = f"the .grad of a leaf of shape {tuple(place.variable.shape)}"
    for node in nodes:
        if any(edge is place for edge in node._edges):
            return f"{told}, an input of {type(node).name(node)} recorded at {node._origin}"
    return told

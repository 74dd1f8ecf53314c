"""Writes the part of a view operator's fast path that ties the view to its base.

As `attach` in core/view.py, in line for what is usual: calling it takes a sixth of the operator.
"""

from __future__ import annotations

from pullback.operators.writing.writer import block

# How a view was made, where grad mode is off.
VIEW_OF_MODE = "INFERENCE_VIEW if mode is fast.inference else NO_GRAD_VIEW"


def above_lines(source: str) -> list[str]:
    """The base `below`, None where `attach` is to find it, and the edge `n0`, as by `edge_of`."""
    return [
        f"above = {source}._node",
        f"cell = {source}._cell",
        "if above.__class__ is View:",
        "    below = above.base if above.manner is USUAL else None",
        "    n0 = above.node",
        "    if n0 is None:",
        "        if above.base._node is not None:",
        f"            n0 = edge_of({source})",
        "    elif n0.__class__ is Leaf or above.version != cell[0]:",
        f"        n0 = edge_of({source})",
        "else:",
        f"    below = {source} if cell is not INFERENCE_CELL else None",
        "    n0 = above",
        "    if n0.__class__ is Leaf:",
        f"        n0 = n0() or edge_of({source})",
    ]


def attach_lines(source: str) -> list[str]:
    """Make `result` a view of `below`, and of `source`, with history `node`."""
    return [
        *block("if below is None", [f"attach(result, {source}, node)", "return result"]),
        "if cell.__class__ is tuple:",
        f"    cell = {source}._cell = [*cell]",
        "info = View()",
        "info.base = below",
        "info.manner = USUAL",
        "info.node = node",
        "info.cell = result._cell = cell",
        "info.version = cell[0]",
        "result._node = info",
        "return result",
    ]

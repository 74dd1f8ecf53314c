"""Writes the part of a view operator's straight line that ties the view to its base.

As `attach` in core/view.py, in line for what is usual: calling it takes a sixth of the operator.
"""

from __future__ import annotations

from pullback.operators.writing.writer import block, indented

# How a view was made, where grad mode is off.
VIEW_OF_MODE = "INFERENCE_VIEW if mode is fast.inference else NO_GRAD_VIEW"


def attach_lines(source: str) -> list[str]:
    """Make `result` a view of `source` with history `node`."""
    unusual = [f"attach(result, {source}, node)", "return result"]
    return [
        f"above = {source}._node",
        f"cell = {source}._cell",
        "if above.__class__ is View:",
        *indented(block("if above.replay is not None or above.creation is not DEFAULT", unusual)),
        "    below = above.base",
        *block("elif cell is INFERENCE_CELL", unusual),
        "else:",
        f"    below = {source}",
        "if cell.__class__ is tuple:",
        f"    cell = {source}._cell = [*cell]",
        "info = View()",
        "info.base = below",
        "info.node = node",
        "info.cell = result._cell = cell",
        "info.version = cell[0]",
        "result._node = info",
        "return result",
    ]

"""How tensors print inside function transforms: one wrapper for each that runs, innermost first.

Derivatives have no wrappers here, so the text is made from what is known of the tensor: at which
derivatives its history began, or where it has a tangent.
"""

from __future__ import annotations

from textwrap import indent
from typing import Any

from pullback.core.mode import get_mode
from pullback.core.nesting import Derivative, running
from pullback.core.ports import ports
from pullback.core.tensor import Tensor
from pullback.core.view import edge_of
from pullback.transforms.batched import Batched, base_of

__all__ = ["shown_inside"]


def shown_inside(tensor: Tensor) -> str | None:
    """The text of a tensor that some running transform wraps; None if none does."""
    wrappers = sorted([*_batches(tensor), *_derivatives(tensor)])
    if not wrappers:
        return None
    base = base_of(tensor)
    tracked = any(kind == "GradTrackingTensor" for _, kind, _ in wrappers)
    text = repr(base._alias() if tracked else base)
    for number, kind, more in wrappers:
        text = f"{kind}(lvl={number}, {more}value=\n{indent(text, '    ')}\n)"
    return text


def _batches(tensor: Any) -> list[tuple[int, str, str]]:
    """Numbers and texts of the batches: transforms are counted from the outermost, 1."""
    found = []
    levels, derivatives = get_mode().levels, running.get()
    while tensor.__class__ is Batched:
        # Inside a derivative's pass, or of one that waits, a level may be out of sight.
        place = levels.index(tensor.level) if tensor.level in levels else len(levels)
        outside = sum(len(one.levels) <= place for one in derivatives)
        found.append((place + outside + 1, "BatchedTensor", f"bdim={tensor.bdim}, "))
        tensor = tensor.value
    return found


def _derivatives(tensor: Tensor) -> list[tuple[int, str, str]]:
    found = []
    batches = 0  # of the maps around; a derivative inside another sees no fewer
    for place, one in enumerate(running.get()):
        batches = max(batches, len(one.levels))
        if _is_tracked(tensor, one):
            found.append((batches + place + 1, "GradTrackingTensor", ""))
    return found


def _is_tracked(tensor: Tensor, derivative: Derivative) -> bool:
    base = base_of(tensor)
    if derivative.level is not None:
        return derivative.level.get(base) is not None or derivative.level.get(tensor) is not None
    if any(one is tensor or one is base for one in derivative.inputs):
        return True
    edge = edge_of(base)
    # Numbers count down: a smaller one was given out after the derivative began.
    return edge is not None and derivative.scope is not None and edge._seq < derivative.scope.start


ports.fill(shown_inside=shown_inside)

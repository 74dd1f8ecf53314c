"""Where two backward passes meet: what a second one shares with the one that freed its values.

Only for error messages, so it may walk whole graphs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback.core.passes import running

if TYPE_CHECKING:
    from pullback.core.saved import Freed


def told(freed: Freed) -> str:
    """How the pass that runs now came to values that `freed` stands for; nothing outside a pass."""
    request = running.get()
    if request is None or request.freed is freed:
        return ""
    from pullback.core.node import node_and_number  # which imports the errors, and they this

    roots = [node_and_number(edge)[0] for edge, _ in request.roots]
    first = [root for reference in freed.roots if (root := reference()) is not None]
    here = f" at {request.freed.by}" if request.freed.by is not None else ""
    if any(root in first for root in roots):
        return f"This pass{here} starts from the same result, which was not computed anew. "
    joint = _joint(roots, first)
    if joint is None:
        return ""
    place = joint._origin
    line = f" at {place}: `{place.source}`" if place is not None and place.source else ""
    return f"This pass{here} shares with that one what leads to {type(joint).name(joint)}{line}. "


def _joint(roots: list[Any], first: list[Any]) -> Any:
    """The newest node that both passes come to; leaves do not count."""
    from pullback.core.node import AccumulateGrad, walk

    known = {node for node in walk(iter(first)) if not isinstance(node, AccumulateGrad)}
    shared = [node for node in walk(iter(roots)) if node in known]
    return min(shared, key=lambda node: node._seq, default=None)

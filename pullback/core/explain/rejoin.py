"""Where two backward passes meet: what a second one shares with the one that freed its values.

Only for error messages, so it may walk whole graphs.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from pullback.core.passes import running

if TYPE_CHECKING:
    from pullback.core.node import Node
    from pullback.core.saved import Freed


def told(node: Node, freed: Freed) -> str:
    """How the pass that runs now came to `node`, freed before; nothing outside a pass."""
    request = running.get()
    if request is None or request.freed is freed:
        return ""
    from pullback.core.node import node_and_number  # which imports the errors, and they this

    roots = [node_and_number(edge)[0] for edge, _ in request.roots]
    first = [root for reference in freed.roots if (root := reference()) is not None]
    here = f" at {request.freed.by}" if request.freed.by is not None else ""
    if any(root in first for root in roots):
        return f"This pass{here} starts from the same result, which was not computed anew. "
    carried = _carried(roots, node, freed, request)
    if carried:
        return carried
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


def _carried(roots: list[Any], node: Any, freed: Freed, request: Any) -> str:
    """The state of a loop, as of an RNN, that brings the graph of the iteration before with it.

    Both passes begin at the same line, and this one has a node of the same call, made since.
    """
    same_line = freed.by is not None and freed.by == request.freed.by
    if not same_line or node._origin is None:
        return ""
    from pullback.core.node import node_and_number, walk

    nodes = list(walk(iter(roots)))
    twins = [
        one
        for one in nodes
        if type(one) is type(node)
        and one._seq < node._seq
        and one._origin == node._origin
        and not _was_freed(one, freed)
    ]
    if not twins:
        return ""
    users = [
        one
        for one in nodes
        if one._seq < node._seq and any(node_and_number(edge)[0] is node for edge in one._edges)
    ]
    place = max(users, key=lambda one: one._seq)._origin if users else node._origin
    name = None if place is None else _reassigned(place.source)
    what = f"`{name}`" if name else "a value"
    line = f" (`{place.source}` at {place})" if place is not None and place.source else ""
    cure = f"`{name} = {name}.detach()`" if name else "`.detach()` on it"
    return (
        f"The loop carries {what} from one iteration to the next{line}, and with it the graph of "
        f"the iteration before. To let go of that put {cure} at the start of each iteration. "
        "Else: "
    )


def _was_freed(node: Any, freed: Freed) -> bool:
    slots = [name for base in type(node).__mro__ for name in vars(base).get("__slots__", ())]
    return any(getattr(node, name, None) is freed for name in slots if name.startswith("s_"))


def _reassigned(source: str) -> str | None:
    """The name that a line both reads and assigns, as `h` in `y, h = rnn(x, h)`."""
    try:
        tree = ast.parse(source.strip())
    except SyntaxError:
        return None
    names = [one for one in ast.walk(tree) if isinstance(one, ast.Name | ast.Attribute)]
    written = [ast.unparse(one) for one in names if isinstance(one.ctx, ast.Store)]
    read = {ast.unparse(one) for one in names if isinstance(one.ctx, ast.Load)}
    return next((name for name in written if name in read), None)

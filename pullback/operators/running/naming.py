"""Names of composites in the graph.

Where torch has one node for what is several operators here, the last of them, which is the one that
`grad_fn` shows, goes by torch's name. The nodes behind it are still those of the steps.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pullback.core.node import OperatorNode, Output
from pullback.core.tensor import Tensor
from pullback.core.view import View

__all__ = ["renamed", "shown_as"]

T = TypeVar("T")

_renamed: dict[tuple[type, str], Any] = {}


def shown_as(name: str, result: T, *, behind: Any = ()) -> T:
    """`result`, whose node is shown by `name`.

    Not where the result is one of the inputs `behind` it, or has their history: then no step of
    the composite made it.
    """
    node = result._node if isinstance(result, Tensor) else None
    if node is None:
        return result
    if node.__class__ is View:
        node = node.node
    if node.__class__ is Output:
        node = node.node
    if isinstance(node, OperatorNode) and not any(result is one for one in behind):
        node.__class__ = renamed(type(node), name)
    return result


def renamed(kind: type, name: str) -> Any:
    """The same class of nodes under another name."""
    if kind.__name__ == name:
        return kind
    known = _renamed.get((kind, name))
    if known is None:
        members = {"__slots__": (), "__module__": kind.__module__}
        known = _renamed[kind, name] = type(name, (kind,), members)
    return known

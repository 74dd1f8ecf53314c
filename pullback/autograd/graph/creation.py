"""`node_creation_hook`: a call for every node that is made inside a block.

The nodes are found on the results of the operators, whose calls an observer is shown; so nothing
is asked of anybody while no such block is open.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any

from pullback.core.node import Node, Output
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_flatten
from pullback.core.view import View, edge_of
from pullback.operators.dispatch import observers

__all__ = ["node_creation_hook"]


class node_creation_hook:
    """Inside, `hook(node)` is called with every node that an operator or Function makes.

    The node is complete: its edges and saved values are there. The hook may look at it, keep a note
    in `node.metadata`, or register hooks for its backward; it returns None. Nodes of higher
    derivatives and of a checkpoint's second run count too; those of other threads do not, nor those
    that a leaf gets to collect its gradient. Of nested blocks the outer one's hook comes first.

    >>> import pullback as torch
    >>> x = torch.ones(1, requires_grad=True)
    >>> made = []
    >>> with torch.autograd.graph.node_creation_hook(made.append):
    ...     y = (x * 2).exp()
    >>> [node.name() for node in made]
    ['MulBackward0', 'ExpBackward0']
    """

    def __init__(self, hook: Callable[[Node], None]) -> None:
        if not callable(hook):
            raise TypeError(
                f"node_creation_hook: the hook must be callable, got {type(hook).__name__}."
            )
        self.hook = hook
        self._seen: weakref.WeakSet[Node] = weakref.WeakSet()
        self._start = self._thread = 0

    def __enter__(self) -> None:
        self._start, self._thread = numbering.next(), get_ident()
        observers.observe(self)

    def __exit__(self, *raised: object) -> None:
        observers.stop(self)

    # What an observer answers.

    def enter(self, op: Any, called: str) -> None:
        """Nothing is known of the node yet."""

    def leave(self, token: None, result: Any, operands: tuple[Any, ...]) -> None:
        """Look for new nodes behind the results, and behind what was written to."""
        if get_ident() != self._thread:
            return
        for tensor in tree_flatten((result, operands))[0]:
            if isinstance(tensor, Tensor) and tensor._node is not None:
                if tensor._node.__class__ is View:
                    self._tell_of(tensor._node.base)
                self._tell_of(tensor)

    def enter_function(self, cls: Any) -> None:
        """As `enter`, of a custom Function."""

    def leave_function(self, token: None, result: Any, args: tuple[Any, ...]) -> None:
        """As `leave`, of a custom Function."""
        self.leave(token, result, args)

    def _tell_of(self, tensor: Tensor) -> None:
        edge = edge_of(tensor)
        node = edge.node if isinstance(edge, Output) else edge
        # Numbers count down; leaves and edges that lead nowhere have none of their own.
        if node is None or node._seq >= self._start or node in self._seen:
            return
        self._seen.add(node)
        answer: Any = self.hook(node)
        if answer is not None:
            raise RuntimeError(
                f"node_creation_hook: a hook returns None, this one a {type(answer).__name__}."
            )

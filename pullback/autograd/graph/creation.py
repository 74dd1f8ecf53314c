"""`node_creation_hook`: hooks for every node that is made inside a block.

The nodes are found on the results of the operators, whose calls an observer is shown; so nothing
is asked of anybody while no such block is open.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from threading import get_ident
from types import TracebackType
from typing import Any

from pullback.core.node import Node, Output
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_flatten
from pullback.core.view import View, edge_of
from pullback.operators.watching import observe

__all__ = ["node_creation_hook"]


class node_creation_hook:
    """Inside, every node of an operator or Function gets `pre_hook` and `post_hook`.

    They are called in backward, as those of `Node.register_prehook` and `Node.register_hook`; of
    nested blocks those of the outer one first. Only this thread's nodes count; not those that a
    leaf gets to collect its gradient, nor those of assignments to an index (`x[0] = y`), which no
    observer is shown.

    >>> import pullback as torch
    >>> x = torch.ones(1, requires_grad=True)
    >>> with torch.autograd.graph.node_creation_hook(lambda grads: print("before", grads)):
    ...     y = x * 2
    >>> (y * 3).sum().backward()
    before (tensor([3.]),)
    """

    def __init__(
        self,
        pre_hook: Callable[..., Any] | None = None,
        post_hook: Callable[..., Any] | None = None,
        *,
        always_call: bool = False,
    ) -> None:
        if always_call:
            raise NotImplementedError(
                "node_creation_hook(always_call=True): hooks of a node that fails are not "
                "called here; use try and finally around the backward pass."
            )
        for name, hook in (("pre_hook", pre_hook), ("post_hook", post_hook)):
            if hook is not None and not callable(hook):
                raise TypeError(
                    f"node_creation_hook: {name} must be callable, got {type(hook).__name__}."
                )
        self._pre, self._post = pre_hook, post_hook
        self._seen: weakref.WeakSet[Node] = weakref.WeakSet()
        self._start = self._thread = 0

    def __enter__(self) -> None:
        self._start, self._thread = numbering.next(), get_ident()
        observe.observe(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        observe.stop(self)

    # What an observer answers.

    def enter(self, op: Any, called: str) -> None:
        """Nothing is known of the node yet."""

    def leave(self, token: None, result: Any, operands: tuple[Any, ...]) -> None:
        """Look for new nodes behind the results, and behind what was written to."""
        if get_ident() != self._thread:
            return
        for tensor in tree_flatten((result, operands))[0]:
            if isinstance(tensor, Tensor) and tensor._node is not None:
                self._hook(tensor)
                if tensor._node.__class__ is View:
                    self._hook(tensor._node.base)

    def enter_function(self, cls: Any) -> None:
        """As `enter`, of a custom Function."""

    def leave_function(self, token: None, result: Any, args: tuple[Any, ...]) -> None:
        """As `leave`, of a custom Function."""
        self.leave(token, result, args)

    def _hook(self, tensor: Tensor) -> None:
        edge = edge_of(tensor)
        node = edge.node if isinstance(edge, Output) else edge
        # Numbers count down; leaves and edges that lead nowhere have none of their own.
        if node is None or node._seq >= self._start or node in self._seen:
            return
        self._seen.add(node)
        if self._pre is not None:
            node.register_prehook(self._pre)
        if self._post is not None:
            node.register_hook(self._post)

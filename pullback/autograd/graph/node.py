"""`graph.Node`: what every node of a graph answers, as an abstract class.

Apart from the nodes themselves, because a user may derive from it: such a class has to say
everything on its own, and the nodes of the engine are no instances of it.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

from pullback.core import node as core
from pullback.core.hooks import RemovableHandle

__all__ = ["Node"]


class Node(abc.ABC):
    """The face of a backward node; `tensor.grad_fn` is one.

    >>> import pullback as torch
    >>> node = (torch.ones(1, requires_grad=True) * 2).grad_fn
    >>> isinstance(node, torch.autograd.graph.Node), node.name()
    (True, 'MulBackward0')
    """

    @abc.abstractmethod
    def name(self) -> str:
        """The operator's name, e.g. `MulBackward0`."""

    @property
    @abc.abstractmethod
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """For each differentiable input, the node its gradient goes to and the slot there."""

    @abc.abstractmethod
    def metadata(self) -> dict[str, Any]:
        """A dict for the user's own notes; an attribute of the engine's nodes."""

    @property
    @abc.abstractmethod
    def _input_metadata(self) -> Any:
        """Shape, dtype and device of each gradient that arrives."""

    @abc.abstractmethod
    def _register_hook_dict(self, tensor: Any) -> None:
        """Let the hooks of `tensor` see the gradient of the output that it is."""

    @abc.abstractmethod
    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn(grad_inputs, grad_outputs)` after the node ran; it may replace grad_inputs.

        >>> import pullback as torch
        >>> x = torch.ones(1, requires_grad=True)
        >>> y = x * 2
        >>> handle = y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 10, inputs[1]))
        >>> y.backward()
        >>> x.grad
        tensor([20.])
        """

    @abc.abstractmethod
    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn(grad_outputs)` before the node runs; it may replace them.

        >>> import pullback as torch
        >>> x = torch.ones(1, requires_grad=True)
        >>> y = x * 2
        >>> handle = y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 5,))
        >>> y.backward()
        >>> x.grad
        tensor([10.])
        """

    @abc.abstractmethod
    def _sequence_nr(self) -> int:
        """The node's place in the order of creation."""

    @classmethod
    def __subclasshook__(cls, subclass: type) -> Any:
        # Only for this very class: a node of the engine is no instance of what a user derives.
        if cls is Node and issubclass(subclass, core.Node):
            return True
        return NotImplemented

"""The classes of the built-in nodes by name, and two that stop gradients on their way.

`MulBackward0` and its like are found when first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

from pullback.core.mode import get_mode
from pullback.core.node import AccumulateGrad, Node, OperatorNode, Output
from pullback.core.origin import getframe, user_frame
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor
from pullback.core.view import edge_of
from pullback.operators.attach import names
from pullback.operators.declare import OPERATORS
from pullback.operators.running.inplace import CopySlices
from pullback.operators.writing.nodes import node_class

__all__ = ["AccumulateGrad", "CopySlices", "DelayedError", "Error", "UndefinedGrad"]


def _first_node(node: Any, inputs: tuple[Tensor, ...], results: list[Tensor]) -> None:
    """Make a node the history of all results, with an edge to each input."""
    node._edges = tuple(edge_of(one) for one in inputs)
    node._cold = None
    sizes = [(one._array.shape, one._array.dtype) for one in results]
    node._g_shape, node._g_dtype = sizes[0]
    node._g_sizes = None if len(results) == 1 else tuple(sizes)
    frame = user_frame(getframe(2))
    node._code, node._lasti = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
    node._seq = numbering.next()
    for number, result in enumerate(results):
        result._node = node if node._g_sizes is None else Output(node, number, *sizes[number])


def _is_recorded(inputs: tuple[Tensor, ...]) -> bool:
    mode = get_mode()
    return mode.grad and not mode.inference and any(one.requires_grad for one in inputs)


def _check_count(name: str, wanted: int, given: int) -> None:
    if wanted != given:
        raise TypeError(f"{name} takes {wanted} tensor{'s' * (wanted != 1)}, got {given}.")


class UndefinedGradBackward(OperatorNode):
    """Passes no gradient on."""

    __slots__ = ("_g_sizes",)

    _prefix = "torch::autograd::"

    def _run(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        return (None,) * len(edges)

    _run_tensors = _run


class UndefinedGrad:
    """`UndefinedGrad()(t)` is a copy of `t`, behind which backward finds no gradient.

    >>> import pullback as torch
    >>> x = torch.ones(1, requires_grad=True)
    >>> y = torch._C._functions.UndefinedGrad()(x)
    >>> torch.autograd.grad(y, x, allow_unused=True)
    (None,)
    """

    def __call__(self, *inputs: Tensor) -> Tensor:
        """A copy of the one tensor that is given."""
        _check_count("UndefinedGrad", 1, len(inputs))
        result = inputs[0].detach().clone()
        if _is_recorded(inputs):
            _first_node(UndefinedGradBackward(), inputs, [result])
        return result


class Error(OperatorNode):
    """Raises when a gradient arrives."""

    __slots__ = ("_g_sizes", "message")

    _prefix = "torch::autograd::"
    message: str

    def _run(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        raise RuntimeError(self.message)

    _run_tensors = _run


class DelayedError(Node):
    """`DelayedError(message, n)(t1, ..., tn)` gives aliases, whose backward raises `message`.

    All of them require grad if one of the tensors does.

    >>> import pullback as torch
    >>> x = torch.ones(1, requires_grad=True)
    >>> y = torch._C._functions.DelayedError("not twice", 1)(x)
    >>> try:
    ...     y.backward()
    ... except RuntimeError as error:
    ...     print(str(error).splitlines()[0])
    not twice
    """

    __slots__ = ("count", "message")

    _edges: ClassVar[tuple[()]] = ()  # type: ignore[misc]  # it becomes a node when it is called
    _prefix = "torch::autograd::"

    def __init__(self, message: str, num_inputs: int) -> None:
        self.message = message
        self.count = num_inputs
        self._cold = None

    def __call__(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Aliases of the tensors."""
        _check_count("This DelayedError", self.count, len(inputs))
        results = [one.detach() for one in inputs]
        if _is_recorded(inputs):
            node = Error()
            node.message = self.message
            _first_node(node, inputs, results)
        return results[0] if len(results) == 1 else tuple(results)


def __getattr__(name: str) -> type[Node]:
    found = _node_class(name)
    if found is None and not name.startswith("__"):
        for family in names.FUNCTIONS:
            import_module(f"pullback.operators.{family}")
        found = _node_class(name)
    if found is None:
        raise AttributeError(f"No operator has a node called {name!r}.")
    return found


def _node_class(name: str) -> type[Node] | None:
    named = (op for op in list(OPERATORS.values()) if op.rules and op.node_name == name)
    return next(map(node_class, named), None)

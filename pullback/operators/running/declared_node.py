"""What users see of a built-in node.

Its saved values by torch's names, and the node as a function.
"""

from __future__ import annotations

from typing import Any

from pullback.core import saved
from pullback.core.node import BuiltIn, OperatorNode
from pullback.core.size import Size
from pullback.core.tensor import Tensor

# Torch's name of a saved value -> ours, where they differ.
_NAMES = {"self": "input", "result": "out"}


class DeclaredNode(OperatorNode, metaclass=BuiltIn):
    """A node of a declared operator; the class that `nodes.py` writes adds slots and rules."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_saved_"):
            return saved_value(self, name.removeprefix("_saved_"), name)
        if name.startswith("_raw_saved_"):
            return raw_value(self, name.removeprefix("_raw_saved_"), name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")

    def __call__(self, *gradients: Any, **unsupported: Any) -> Any:
        """Evaluate the backward formula in the current grad mode: no hooks, nothing is freed."""
        sizes = self._g_sizes
        expected = 1 if sizes is None else len(sizes)
        if unsupported:
            raise TypeError(f"{type(self).__name__} takes no keyword arguments.")
        if len(gradients) != expected:
            raise TypeError(
                f"{type(self).__name__} takes {expected} gradients, one per output; got "
                f"{len(gradients)}."
            )
        for g in gradients:
            if g is not None and not isinstance(g, Tensor):
                raise TypeError(
                    f"{type(self).__name__} takes Tensors or None, got {type(g).__name__}."
                )
        if all(g is None for g in gradients):
            results: Any = (None,) * len(self._edges)
        else:
            given = gradients[0] if sizes is None else list(gradients)
            results = self._run_tensors(given, self._edges)
        return results[0] if len(results) == 1 else tuple(results)


def saved_value(node: Any, asked: str, attribute: str) -> Any:
    """A value that the node keeps, under torch's name for it."""
    plan = getattr(type(node), "plan", None)
    name = _NAMES.get(asked, asked)
    if name.endswith("_sym_sizes"):
        owner = name.removesuffix("_sym_sizes")
        name = _NAMES.get(owner, owner) + "_shape"
    if plan is None or not hasattr(type(node), f"s_{name}"):
        raise AttributeError(f"{type(node).__name__} keeps no value {attribute!r}.")
    if name in plan.outputs:
        return node._output_tensor(name)
    if any(param.name == name for param in plan.inputs):
        return saved.input_tensor(node, name)
    value = getattr(node, f"s_{name}")
    return Size(value) if name.endswith("_shape") else value


def raw_value(node: Any, asked: str, attribute: str) -> saved.SavedTensor:
    """A tensor that the node keeps, as it keeps it."""
    plan = getattr(type(node), "plan", None)
    name = _NAMES.get(asked, asked)
    if plan is not None and name in plan.outputs:
        return saved.SavedTensor.of(node, name, output=True)
    if plan is not None and any(param.name == name for param in plan.inputs):
        return saved.SavedTensor.of(node, name, output=False)
    raise AttributeError(f"{type(node).__name__} keeps no tensor {attribute!r}.")

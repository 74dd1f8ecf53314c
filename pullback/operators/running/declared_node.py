"""What users see of a built-in node.

Its saved values by torch's names, and the node as a function.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pullback.core import saved
from pullback.core.node import BuiltIn, OperatorNode
from pullback.core.size import Size
from pullback.core.tensor import Tensor

# Our name of a saved value -> torch's, where they differ.
_NAMES = {"input": "self", "out": "result"}


class DeclaredNode(OperatorNode, metaclass=BuiltIn):
    """A node of a declared operator; the class that `nodes.py` writes adds slots and rules."""

    __slots__ = ()

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


def saved_names(plan: Any) -> dict[str, property]:
    """What a node class has for reading the values that its nodes keep, under torch's names too.

    Properties of each class: with a `__getattr__` the interpreter looks up every slot of a node
    the slow path, which makes a pass a tenth slower.
    """
    made: dict[str, property] = {}
    tensors = {*plan.outputs, *(param.name for param in plan.inputs)}
    for name in plan.kept:
        value = property(partial(_saved_value, name=name))
        made |= dict.fromkeys([f"_saved_{shown}" for shown in _shown_as(name)], value)
        if name in tensors:
            raw = property(partial(_raw_value, name=name))
            made |= dict.fromkeys([f"_raw_saved_{shown}" for shown in _shown_as(name)], raw)
    if "dims" in plan.kept and ("first" in plan.kept or "indices" in plan.kept):
        made["_saved_indices"] = property(_saved_indices)
    return made


def _saved_indices(node: Any) -> tuple[Any, ...]:
    """What an indexing node was indexed with: a tensor for each dimension that has one, or None."""
    kept = type(node).plan.kept
    if "indices" in kept:
        given = _saved_value(node, "indices")
    else:
        given = [_saved_value(node, name) for name in ("first", "second") if name in kept]
    by_dim = dict(zip(node.s_dims, given, strict=False))
    return tuple(by_dim.get(dim) for dim in range(max(by_dim, default=-1) + 1))


def _shown_as(name: str) -> list[str]:
    """The names under which a value can be read: ours, and torch's where that is another."""
    owner = name.removesuffix("_shape")
    theirs = _NAMES.get(owner, owner)
    return [name, theirs if owner == name else f"{theirs}_sym_sizes"]


def _saved_value(node: Any, name: str) -> Any:
    """A value that the node keeps."""
    plan = type(node).plan
    if name in plan.outputs:
        return node._output_tensor(name)
    if any(param.name == name for param in plan.inputs):
        return saved.input_tensor(node, name)
    value = getattr(node, f"s_{name}")
    return Size(value) if name.endswith("_shape") else value


def _raw_value(node: Any, name: str) -> saved.SavedTensor:
    """A tensor that the node keeps, as it keeps it."""
    return saved.SavedTensor.of(node, name, output=name in type(node).plan.outputs)

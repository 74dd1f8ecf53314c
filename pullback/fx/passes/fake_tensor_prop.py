"""`FakeTensorProp`: runs a graph without data and notes what every node gives."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.core.trees import pytree
from pullback.fx.interpreter import Interpreter
from pullback.fx.node import Node

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """Runs a graph module on fake tensors and puts what nodes give into `node.meta["val"]`.

    Args:
        module: The graph module; its parameters are taken as fake ones.
        mode: The mode without data; a new one if left out.

    Example:
        >>> import pullback as torch
        >>> from pullback import fx
        >>> from pullback.fx.passes.fake_tensor_prop import FakeTensorProp
        >>> traced = fx.symbolic_trace(lambda x: x.sum(0))
        >>> out = FakeTensorProp(traced).propagate(torch.ones(1000, 3))
        >>> [tuple(n.meta["val"].shape) for n in traced.graph.nodes]
        [(1000, 3), (3,), (3,)]
    """

    def __init__(self, module: Any, mode: Any = None) -> None:
        super().__init__(module)
        made = import_module("pullback._subclasses.fake_tensor").FakeTensorMode
        self._mode = made(allow_non_fake_inputs=True) if mode is None else mode

    def run_node(self, n: Node) -> Any:
        """Run one node, and note what it gives."""
        result = super().run_node(n)
        n.meta["val"] = result
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on fake tensors like these."""
        fake = [self._fake(one) for one in args]
        return self.propagate_dont_convert_inputs(*fake)

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """Run the graph on these, which are fake already."""
        with self._mode:
            return self.run(*args)

    def fetch_attr(self, target: str) -> Any:
        """A parameter or buffer of the module, without its data."""
        return self._fake(super().fetch_attr(target))

    def _fake(self, value: Any) -> Any:
        return pytree.tree_map(
            lambda one: self._mode.from_tensor(one) if isinstance(one, Tensor) else one, value
        )


__dir__ = _only_public(globals())

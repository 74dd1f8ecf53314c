"""`ShapeProp`: runs a graph and notes the shape and dtype of every tensor."""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.fx.interpreter import Interpreter
from pullback.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its values."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    import pullback

    layout = None
    if include_contiguity:
        for one in (pullback.contiguous_format, pullback.channels_last):
            if (one is pullback.contiguous_format or result.ndim == 4) and result.is_contiguous(
                memory_format=one
            ):
                layout = one
                break
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(), layout, False, {}
    )


class ShapeProp(Interpreter):
    """Runs a graph module and puts `tensor_meta` and `type` into the meta data of its nodes.

    Example:
        >>> import pullback as torch
        >>> from pullback import fx
        >>> from pullback.fx.passes.shape_prop import ShapeProp
        >>> traced = fx.symbolic_trace(lambda x: x.sum(0))
        >>> out = ShapeProp(traced).propagate(torch.ones(2, 3))
        >>> [tuple(n.meta["tensor_meta"].shape) for n in traced.graph.nodes]
        [(2, 3), (3,), (3,)]
    """

    def __init__(self, gm: Any, fake_mode: Any = None) -> None:
        super().__init__(gm)
        if fake_mode is not None:
            raise NotImplementedError("ShapeProp runs on real tensors here; leave fake_mode away.")

    def run_node(self, n: Node) -> Any:
        """Run a node, and note what its result is."""
        result = super().run_node(n)
        found = False

        def noted(value: Any) -> Any:
            nonlocal found
            if isinstance(value, Tensor):
                found = True
                return _extract_tensor_metadata(value)
            return value

        meta = map_aggregate(result, noted)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on these arguments."""
        return super().run(*args)


__dir__ = _only_public(globals())

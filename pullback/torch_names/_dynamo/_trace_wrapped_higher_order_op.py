"""`torch._dynamo._trace_wrapped_higher_order_op`: a mode for masks of attention."""

from __future__ import annotations

from pullback.overrides import TorchFunctionMode

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(TorchFunctionMode):
    """In torch, makes `x[i]` with a tensor `i` work inside vmap; here it does without."""

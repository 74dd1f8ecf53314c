"""`torch._ops`: the classes of `torch.ops.aten.add.Tensor` and its like."""

from __future__ import annotations

from pullback.core.listing import only_public as _only_public
from pullback.library.overload import OpOverload, OpOverloadPacket

__all__ = ["OpOverload", "OpOverloadPacket"]

__dir__ = _only_public(globals())

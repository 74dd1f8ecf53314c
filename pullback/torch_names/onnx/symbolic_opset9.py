"""`torch.onnx.symbolic_opset9`: importing works; its functions write a format that is not here."""

from __future__ import annotations

from pullback.core.explain.absent import refuse_others
from pullback.core.listing import only_public as _only_public

__all__: list[str] = []

refuse_others(globals())
__dir__ = _only_public(globals())

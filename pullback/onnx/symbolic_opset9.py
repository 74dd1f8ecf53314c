"""`torch.onnx.symbolic_opset9`: importing works; its functions write a format that is not here."""

from __future__ import annotations

from pullback.core.explain.absent import all_absent
from pullback.core.listing import only_public as _only_public

__all__: list[str] = []

__getattr__ = all_absent(__name__)
__dir__ = _only_public(globals())

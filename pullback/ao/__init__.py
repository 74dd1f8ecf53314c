"""`torch.ao`: quantisation and sparsity for deployment, which are not here."""

from __future__ import annotations

from pullback.core.explain.absent import all_absent
from pullback.core.listing import only_public as _only_public

__getattr__ = all_absent(__name__)

__all__: list[str] = []
__dir__ = _only_public(globals(), "nn quantization")

"""`torch.ao.nn`: layers on quantised tensors, which are not here."""

from __future__ import annotations

from pullback.core.process.refused import refused

__getattr__ = refused(
    __name__,
    "quantised tensors need kernels for 8-bit integers, which NumPy does not have",
    "Use float16 or bfloat16 to save memory.",
)

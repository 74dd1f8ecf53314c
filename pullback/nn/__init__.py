"""`nn`: parameters, and the functions that layers are made of."""

from __future__ import annotations

from pullback.nn import functional, parameter
from pullback.nn.parameter import Parameter

__all__ = ["Parameter", "functional", "parameter"]

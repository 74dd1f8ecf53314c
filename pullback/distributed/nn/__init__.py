"""Collectives that autograd records."""

from __future__ import annotations

from pullback.distributed.nn import functional
from pullback.distributed.nn.functional import *

__all__ = [*functional.__all__, "functional"]

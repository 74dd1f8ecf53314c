"""Collectives that autograd records."""

from __future__ import annotations

from pullback.core.explain.absent import all_absent as _all_absent
from pullback.core.listing import only_public as _only_public
from pullback.distributed.nn import functional
from pullback.distributed.nn.functional import *

__all__ = [*functional.__all__, "functional"]

__getattr__ = _all_absent(__name__)

__dir__ = _only_public(globals(), "functional")

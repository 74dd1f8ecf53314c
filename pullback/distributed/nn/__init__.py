"""Collectives that autograd records."""

from __future__ import annotations

from pullback.core.explain.absent import refuse_others as _refuse_others
from pullback.core.listing import only_public as _only_public
from pullback.distributed.nn import functional
from pullback.distributed.nn.functional import *

__all__ = [*functional.__all__, "functional"]

_refuse_others(globals())

__dir__ = _only_public(globals(), "functional")

"""`torch.distributed.nn.api`: modules that are elsewhere."""

from __future__ import annotations

from pullback.core.explain.absent import refuse_others as _refuse_others
from pullback.core.listing import only_public as _only_public
from pullback.distributed.nn.api import remote_module

__all__ = ["remote_module"]

_refuse_others(globals())

__dir__ = _only_public(globals())

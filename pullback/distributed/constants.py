"""`torch.distributed.constants`: how long collectives wait where nobody says."""

from __future__ import annotations

from datetime import timedelta

from pullback.core.listing import only_public as _only_public
from pullback.distributed.group import DEFAULT_TIMEOUT

__all__ = ["default_pg_timeout"]

default_pg_timeout = timedelta(seconds=DEFAULT_TIMEOUT)

__dir__ = _only_public(globals())

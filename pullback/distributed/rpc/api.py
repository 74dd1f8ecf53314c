"""`torch.distributed.rpc.api`: where torch keeps the functions of `torch.distributed.rpc`."""

from __future__ import annotations

from typing import Any

import pullback.distributed.rpc as _rpc
from pullback.core.listing import only_public as _only_public

# "As the options say", which is what a call without a timeout means.
UNSET_RPC_TIMEOUT = -1.0


def __getattr__(name: str) -> Any:
    return getattr(_rpc, name)


__all__: list[str] = [*_rpc.__all__]
__dir__ = _only_public(globals())

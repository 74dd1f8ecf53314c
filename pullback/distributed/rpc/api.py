"""`torch.distributed.rpc.api`: where torch keeps the functions of `torch.distributed.rpc`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import pullback.distributed.rpc as _rpc
from pullback.core.listing import only_public as _only_public
from pullback.distributed.rpc.agent import current_agent

# "As the options say", which is what a call without a timeout means.
UNSET_RPC_TIMEOUT = -1.0


F = TypeVar("F", bound=Callable[..., Any])


def _require_initialized(func: F) -> F:
    """A function that is refused before `init_rpc`."""

    @wraps(func)
    def checked(*args: Any, **kwargs: Any) -> Any:
        current_agent()
        return func(*args, **kwargs)

    return cast("F", checked)


def __getattr__(name: str) -> Any:
    return getattr(_rpc, name)


__all__: list[str] = [*_rpc.__all__]
__dir__ = _only_public(globals())

"""`debugging_hooks`: what a step takes without its communication."""

from __future__ import annotations

from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.distributed.ddp.buckets import GradBucket
from pullback.futures import Future

__all__ = ["noop_hook"]


def noop_hook(_: Any, bucket: GradBucket) -> Future[Any]:
    """Leave the gradients as they are: each rank keeps its own."""
    future: Future[Any] = Future()
    future.set_result(bucket.buffer())
    return future


__dir__ = _only_public(globals())

"""`torch.multiprocessing.pool`: Python's own, which sends tensors through shared memory too."""

from __future__ import annotations

from multiprocessing.pool import Pool, ThreadPool

from pullback.core.listing import only_public as _only_public

__all__ = ["Pool", "ThreadPool"]

__dir__ = _only_public(globals())

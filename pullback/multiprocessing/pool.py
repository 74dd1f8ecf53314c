"""`torch.multiprocessing.pool`: Python's own, which sends tensors through shared memory too."""

from __future__ import annotations

from multiprocessing.pool import Pool, ThreadPool

__all__ = ["Pool", "ThreadPool"]

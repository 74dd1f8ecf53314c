"""`torch.multiprocessing.queue`: Python's own, which sends tensors through shared memory too."""

from __future__ import annotations

from multiprocessing.queues import JoinableQueue, Queue, SimpleQueue

from pullback.core.listing import only_public as _only_public

__all__ = ["JoinableQueue", "Queue", "SimpleQueue"]

__dir__ = _only_public(globals())

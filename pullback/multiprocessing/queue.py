"""`torch.multiprocessing.queue`: Python's own, which sends tensors through shared memory too."""

from __future__ import annotations

from multiprocessing.queues import JoinableQueue, Queue, SimpleQueue

__all__ = ["JoinableQueue", "Queue", "SimpleQueue"]

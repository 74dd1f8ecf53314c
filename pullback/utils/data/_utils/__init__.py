"""What a loader is made of: fetching, collating, the worker's side, messages between the two."""

from __future__ import annotations

from pullback.utils.data._utils import collate, fetch, pin_memory, worker

# Seconds that a loader waits for a worker that was asked to stop before it ends it.
MP_STATUS_CHECK_INTERVAL = 5.0

__all__ = ["MP_STATUS_CHECK_INTERVAL", "collate", "fetch", "pin_memory", "worker"]

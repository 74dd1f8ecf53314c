"""Who looks after a communicator of NCCL's while its calls are under way.

NCCL works on a stream and tells nobody when a peer is lost: whoever waits for the stream would wait
for ever. A thread asks it, and knows how long each call may take; if something is wrong it aborts
the communicator, which ends what hangs, and every later call raises why. The thread sleeps while
nothing is under way.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import Any

from pullback.core.process.alone import Servant
from pullback.distributed.call import Call, late_text
from pullback.distributed.engines.waiting import said_after, wait_until
from pullback.distributed.errors import DistBackendError
from pullback.operators.cuda.found import found

__all__ = ["Watched"]

_EVERY = 0.1  # seconds between two looks


class Watched:
    """NCCL's communicator on one device."""

    def __init__(self, comm: Any, rank: int, group: str) -> None:
        self.comm = comm
        self._rank, self._group = rank, group
        self._broken: str | None = None
        self._closed = False
        self._flying: deque[tuple[Any, Call, float]] = deque()
        self._changed = threading.Condition()
        self._thread = Servant(target=self._look_after, name=f"NCCL of {group}", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise what the communicator has failed with."""
        if self._broken is not None:
            raise DistBackendError(self._broken)

    def begun(self, call: Call) -> Any:
        """A call was put on the current stream; the event that comes after it."""
        event = found.cupy.cuda.Event(disable_timing=True)
        event.record()
        with self._changed:
            self._flying.append((event, call, time.monotonic() + call.timeout))
            self._changed.notify()
        return event

    def wait(self, event: Any, call: Call) -> None:
        """Until the event has come, or the communicator is found to be broken."""

        def over() -> bool:
            return bool(event.done) or self._broken is not None

        look = said_after(call.timeout, f"{call} waits for NCCL")
        wait_until(over, call.timeout + 5.0, look)
        self.check()

    def close(self, *, abort: bool = False) -> None:
        """Let go of NCCL's communicator."""
        with self._changed:
            was, self._closed = self._closed, True
            self._changed.notify()
        if not was:
            # What is broken would hang as it ends in the ordinary way.
            self.comm.abort() if abort or self._broken is not None else self.comm.destroy()
        if threading.current_thread() is not self._thread:
            self._thread.join(1.0)

    def _look_after(self) -> None:
        while True:
            with self._changed:
                while not self._flying and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
            wrong = self._wrong()
            if wrong is not None:
                self._broken = wrong
                logging.getLogger("pullback.distributed").error("%s", wrong)
                self.close(abort=True)
                return
            with self._changed:
                if self._flying and not self._closed:
                    self._changed.wait(_EVERY)

    def _wrong(self) -> str | None:
        """What is wrong with the call that has been under way for longest."""
        _, call, until = self._flying[0]
        try:
            while self._flying and self._flying[0][0].done:
                self._flying.popleft()
            if not self._flying:
                return None
            _, call, until = self._flying[0]
            self.comm.check_async_error()
        except Exception as error:  # NCCL's own, or of the device
            return (
                f"rank {self._rank}: {call} of {self._group}: NCCL says {error}; its communicator "
                "is aborted, and the group of no more use."
            )
        if time.monotonic() > until:
            return late_text(self._rank, self._group, call, [], call.timeout)
        return None

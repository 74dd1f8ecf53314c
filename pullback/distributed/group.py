"""A process group: a communicator, the order of its calls, and what is still under way.

What is started with `async_op=True` runs on the group's own thread, one call after the other, so
that every rank makes its calls in the order of its program.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pullback.distributed.call import Call
from pullback.distributed.engines.communicator import Communicator
from pullback.distributed.errors import DistBackendError
from pullback.distributed.group_calls import GroupCalls
from pullback.futures import Future

__all__ = ["ProcessGroup", "Work", "in_seconds"]

DEFAULT_TIMEOUT = 1800.0


def in_seconds(timeout: Any, otherwise: float) -> float:
    """A timeout, given as a timedelta or a number, in seconds."""
    if timeout is None:
        return otherwise
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    if seconds <= 0:
        raise ValueError(f"A timeout is more than 0 seconds, got {seconds}.")
    return seconds


class Work:
    """A call under way. Its tensors are to be left alone until `wait()` has returned.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def summed():
    ...     x = torch.tensor([dist.get_rank() + 1.0])
    ...     work = dist.all_reduce(x, async_op=True)
    ...     work.wait()
    ...     return x.item(), work.is_success()
    >>> dist.threads.run(summed, 2)
    [(3.0, True), (3.0, True)]
    """

    def __init__(self, call: Call, result: Any = None) -> None:
        self.call = call
        self._future: Future[Any] = Future()
        self._result = result
        self._source: int | None = None

    def run(self, act: Callable[[], Any]) -> None:
        """Do it, and tell who waits."""
        try:
            source = act()
        except Exception as error:
            self._future.set_exception(error)
        else:
            self._source = source
            self._future.set_result(self._result)

    def wait(self, timeout: Any = None) -> bool:
        """Return when it is done; raise what it failed with."""
        limit = in_seconds(timeout, self.call.timeout + 5.0)
        until = time.monotonic() + limit
        done = self._future._done
        with done:
            while not self._future.done():
                left = until - time.monotonic()
                if left <= 0:
                    raise DistBackendError(f"wait(): {self.call} was not done after {limit} s.")
                done.wait(left)
        self._future.value()
        return True

    def is_completed(self) -> bool:
        """Whether it is done, well or not."""
        return self._future.done()

    def is_success(self) -> bool:
        """Whether it is done, and well."""
        return self._future.done() and self._future._error is None

    def exception(self) -> BaseException | None:
        """What it failed with."""
        return self._future._error

    def result(self) -> Any:
        """The tensors that it filled."""
        self.wait()
        return self._result

    def source_rank(self) -> int:
        """Whose message a `recv` took."""
        self.wait()
        if self._source is None:
            raise RuntimeError(f"source_rank() is for recv; this is {self.call}.")
        return self._source

    def synchronize(self) -> None:
        """Wait, as there are no streams that could."""
        self.wait()

    _source_rank = source_rank

    def get_future(self) -> Future[Any]:
        """A future of the tensors that it fills."""
        return self._future


class _Line:
    """The thread on which a group's asynchronous calls run, one after the other."""

    def __init__(self, name: str) -> None:
        self._waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.busy = 0
        self._lock = threading.Lock()
        threading.Thread(target=self._serve, name=f"calls of {name}", daemon=True).start()

    def put(self, work: Work, act: Callable[[], Any]) -> None:
        with self._lock:
            self.busy += 1
        self._waiting.put((work, act))

    def stop(self) -> None:
        self._waiting.put(None)

    def _serve(self) -> None:
        while (item := self._waiting.get()) is not None:
            work, act = item
            work.run(act)
            with self._lock:
                self.busy -= 1
            item = work = act = None  # nothing is kept alive while the line waits


# What torch's profiler calls them, before `c10d::`; and after `gloo:`, where that is another.
_PROFILED = {
    "all_reduce": ("allreduce_", ""),
    "all_reduce_coalesced": ("allreduce_coalesced_", "all_reduce"),
    "reduce": ("reduce_", ""),
    "broadcast": ("broadcast_", ""),
    "all_gather": ("allgather_", ""),
    "all_gather_into_tensor": ("_allgather_base_", "all_gather"),
    "gather": ("gather_", ""),
    "scatter": ("scatter_", ""),
    "reduce_scatter": ("reduce_scatter_", ""),
    "reduce_scatter_tensor": ("_reduce_scatter_base_", "reduce_scatter"),
    "all_to_all": ("alltoall_", ""),
    "all_to_all_single": ("alltoall_base_", "all_to_all"),
    "barrier": ("barrier", ""),
    "send": ("send", ""),
    "recv": ("recv_", ""),
}


def _profiled(call: Call, backend: str, act: Callable[[], Any]) -> Callable[[], Any]:
    """The same; shown, where a profiler is on, as an operator and as what the engine does."""
    recording = sys.modules.get("pullback.autograd.profile.recorder")
    if recording is None or not recording.active():
        return act
    recorder = recording.active()[0]
    operator, engine = _PROFILED.get(call.name, (call.name, ""))
    called, thread = time.perf_counter_ns(), threading.get_ident()

    def shown() -> Any:
        started = time.perf_counter_ns()
        try:
            return act()
        finally:
            end = time.perf_counter_ns()
            for name, begin in (
                (f"c10d::{operator}", called),
                (f"{backend}:{engine or call.name}", started),
            ):
                recorder.raw.append(recording.Raw(name, begin, end, thread, recording.USER))

    return shown


class ProcessGroup(GroupCalls):
    """Some of the ranks, in an order of their own; every collective takes one as `group=`.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def odd_and_even():
    ...     groups = [dist.new_group([0, 2]), dist.new_group([1])]
    ...     mine = groups[dist.get_rank() % 2]
    ...     return mine.rank(), mine.size()
    >>> dist.threads.run(odd_and_even, 3)
    [(0, 2), (0, 1), (1, 2)]
    """

    def __init__(
        self, communicator: Communicator, ranks: list[int], timeout: float, backend: str
    ) -> None:
        self.communicator = communicator
        self.ranks = ranks
        self.timeout = timeout
        self.backend = backend
        self.group_name = communicator.name
        self.group_desc = communicator.name
        self._line: _Line | None = None
        self._messages: dict[Any, _Line] = {}

    def rank(self) -> int:
        """This rank's number in the group."""
        return self.communicator.rank

    def size(self) -> int:
        """How many ranks are in the group."""
        return self.communicator.size

    def set_timeout(self, timeout: Any) -> None:
        """How long calls wait for late ranks."""
        self.timeout = in_seconds(timeout, self.timeout)

    def shutdown(self) -> None:
        """End the group."""
        self.close()

    def abort(self) -> None:
        """Let the other ranks fail rather than wait for this one."""
        self.communicator.abort("the group was aborted")

    def name(self) -> str:
        """The engine's name."""
        return self.communicator.engine

    def __repr__(self) -> str:
        return f"<ProcessGroup of {self.size()} ranks on {self.backend}, this is {self.rank()}>"

    def do(self, call: Call, act: Callable[[], Any], *, later: bool, result: Any = None) -> Any:
        """Make a call now, or on the group's line; the order of calls is that of the program."""
        act = _profiled(call, self.backend, act)
        line = self._line
        if not later and (line is None or not line.busy):
            return act()
        if line is None:
            line = self._line = _Line(self.group_name)
        work = Work(call, result)
        line.put(work, act)
        if later:
            return work
        work.wait()
        return work._source

    def apart(self, key: Any, call: Call, act: Callable[[], Any], result: Any = None) -> Work:
        """Start a message: those of one `key` keep their order, others do not wait for it."""
        act = _profiled(call, self.backend, act)
        line = self._messages.get(key)
        if line is None:
            line = self._messages[key] = _Line(f"{key} in {self.group_name}")
        work = Work(call, result)
        line.put(work, act)
        return work

    def close(self) -> None:
        """Stop the lines and give back what the engine holds."""
        for line in (self._line, *self._messages.values()):
            if line is not None:
                line.stop()
        self._line = None
        self._messages.clear()
        self.communicator.close()

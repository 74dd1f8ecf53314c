"""A process group: a communicator, the order of its calls, and what is still under way.

What is started with `async_op=True` runs on the group's own thread, one call after the other, so
that every rank makes its calls in the order of its program.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import Enum, IntEnum
from typing import Any, ClassVar

from pullback.core.device import device
from pullback.distributed.call import Call, LateText
from pullback.distributed.engines.communicator import Communicator
from pullback.distributed.errors import DistBackendError, DistError
from pullback.distributed.group_calls import GroupCalls
from pullback.futures import Future

__all__ = ["ProcessGroup", "ProcessGroupGloo", "Work", "WorkResult", "in_seconds"]

DEFAULT_TIMEOUT = 1800.0


def in_seconds(timeout: Any, otherwise: float) -> float:
    """A timeout, given as a timedelta or a number, in seconds."""
    if timeout is None:
        return otherwise
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    if seconds <= 0:
        raise ValueError(f"A timeout is more than 0 seconds, got {seconds}.")
    return seconds


class WorkResult(IntEnum):
    """How a call ended, as `get_future_result` tells it: by a value, and not by an error."""

    SUCCESS = 0
    TIMEOUT = 1
    COMM_ERROR = 2
    UNKNOWN = 100


def _how_it_ended(done: Future[Any]) -> WorkResult:
    error = done._error
    if error is None:
        return WorkResult.SUCCESS
    if not isinstance(error, DistError):
        return WorkResult.UNKNOWN
    late = bool(error.args) and isinstance(error.args[0], LateText)
    return WorkResult.TIMEOUT if late else WorkResult.COMM_ERROR


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

    def block_current_stream(self) -> None:
        """Wait, for the same reason: what is computed after it finds the tensors filled."""
        self.wait()

    _source_rank = source_rank

    def get_future(self) -> Future[Any]:
        """A future of the tensors that it fills."""
        return self._future

    def get_future_result(self) -> Future[WorkResult]:
        """A future of how it ended, whose `wait()` gives a `WorkResult` whatever befell it."""
        return self._future.then(_how_it_ended)


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
    """The same; shown, where a profiler is on, as an operator and as what the engine does.

    Whoever counts calls (`tensor.debug.CommDebugMode`) is told of it, too.
    """
    counting = sys.modules.get("pullback.distributed.tensor.debug")
    if counting is not None:
        counting.saw(call)
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


class _BackendType(Enum):
    """Torch's numbers of back ends."""

    UNDEFINED = 0
    GLOO = 1
    NCCL = 2
    XCCL = 5
    UCC = 3
    MPI = 4
    CUSTOM = 6

    @classmethod
    def of(cls, backend: str) -> _BackendType:
        """That of a back end's name; those that torch has not are custom."""
        return cls.__members__.get(backend.upper(), cls.CUSTOM)


_BackendType.__name__ = "BackendType"
_BackendType.__qualname__ = "ProcessGroup.BackendType"


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

    BackendType = _BackendType
    UNDEFINED: ClassVar[_BackendType] = _BackendType.UNDEFINED
    GLOO: ClassVar[_BackendType] = _BackendType.GLOO
    NCCL: ClassVar[_BackendType] = _BackendType.NCCL
    XCCL: ClassVar[_BackendType] = _BackendType.XCCL
    UCC: ClassVar[_BackendType] = _BackendType.UCC
    MPI: ClassVar[_BackendType] = _BackendType.MPI
    CUSTOM: ClassVar[_BackendType] = _BackendType.CUSTOM

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
        self._bound: device | None = None
        self._store: Any = None  # made when it is first asked for

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

    def _get_backend_name(self) -> str:
        """The back end's name, as it was asked for."""
        return self.backend

    def _get_backend(self, device: Any = "cpu") -> ProcessGroup:
        """What serves a device's tensors: this group, for gloo under torch's name of the class."""
        if self.backend != "gloo":
            return self
        seen = object.__new__(ProcessGroupGloo)
        seen.__dict__ = self.__dict__  # one group: the order of its calls, its timeout, its lines
        return seen

    @property
    def bound_device_id(self) -> device | None:
        """The device of `init_process_group(device_id=...)`, with its number; None without one."""
        return self._bound

    @bound_device_id.setter
    def bound_device_id(self, given: Any) -> None:
        if given is not None and not isinstance(given, device):
            raise TypeError(
                f"bound_device_id is a torch.device or None, got {type(given).__name__}."
            )
        if given is not None and given.index is None:
            raise RuntimeError(f"bound_device_id: {given} has no number, as cuda:0 has.")
        self._bound = given

    def get_group_store(self) -> Any:
        """A store that the ranks of the group share.

        Where nobody gave `init_process_group` a store, processes make one when they first ask: all
        ranks of the group then ask. Ranks that are threads have one at once.
        """
        from pullback.distributed import group_store

        return group_store.of(self)

    def split_group(
        self,
        ranks: Sequence[int],
        timeout: Any = None,
        opts: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Any = None,
    ) -> ProcessGroup | None:
        """A group of some ranks, by their numbers in this one; None on others.

        Those ranks call it; the others need not.
        """
        from pullback.distributed import groups

        return groups.split_of(self, ranks, timeout, group_name, group_desc)

    def merge_remote_group(
        self,
        store: Any,
        size: int,
        timeout: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
    ) -> ProcessGroup:
        """One group of `size` ranks, of this one and others of the job that call it too.

        They meet in `store`; the ranks of the new group are in the order of the job's.
        """
        from pullback.distributed import groups

        return groups.merged(self, store, size, timeout, group_name, group_desc)

    def __repr__(self) -> str:
        kind, size = type(self).__name__, self.size()
        return f"<{kind} of {size} ranks on {self.backend}, this is {self.rank()}>"

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
        if (hang_up := getattr(self._store, "close", None)) is not None:
            hang_up()
        self.communicator.close()


class ProcessGroupGloo(ProcessGroup):
    """Torch's class of gloo groups: what `_get_backend` gives of one, which MPI carries here.

    With a `HashStore` that ranks share which are threads it makes a group of them.

    >>> import threading
    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> store, sums = dist.HashStore(), []
    >>> def one(rank):
    ...     x = torch.ones(1)
    ...     dist.ProcessGroupGloo(store, rank, 2).allreduce([x]).wait()
    ...     sums.append(x.item())
    >>> threads = [threading.Thread(target=one, args=(rank,)) for rank in range(2)]
    >>> _ = [one.start() for one in threads], [one.join() for one in threads]
    >>> sums
    [2.0, 2.0]
    """

    def __init__(self, store: Any, rank: int, size: int, timeout: Any = None) -> None:
        from pullback.distributed.meeting import joining
        from pullback.distributed.store import HashStore

        inner = store
        while (next_one := getattr(inner, "underlying_store", None)) is not None:
            inner = next_one
        if not isinstance(inner, HashStore):
            raise NotImplementedError(
                "ProcessGroupGloo takes a HashStore, which ranks share that are threads; processes "
                "are joined by init_process_group('gloo', store=...)."
            )
        made = joining.thread_of(store, rank, size)
        limit = in_seconds(timeout, DEFAULT_TIMEOUT)
        super().__init__(made, list(range(size)), limit, made.engine)
        self._store = store

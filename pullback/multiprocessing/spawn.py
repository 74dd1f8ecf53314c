"""`spawn`: run a function in several processes, and hear of it if one of them fails."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

from pullback.core.listing import only_public as _only_public

__all__ = [
    *("ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException"),
    *("SpawnContext", "spawn", "start_processes"),
]

_PATIENCE = 30.0  # seconds between asking a process to stop and making it


class ProcessException(Exception):  # noqa: N818 (torch's name)
    """A process that `spawn` started has failed; `error_index` says which."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = error_pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """The function raised in that process; the message has its traceback."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """The process ended with an exit code other than 0, or was killed by a signal."""

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> tuple[Any, ...]:
        place = self.error_index, self.error_pid
        return type(self), (self.msg, *place, self.exit_code, self.signal_name)


def _run(fn: Callable[..., Any], rank: int, args: tuple[Any, ...], report: str) -> None:
    """The body of a process: an error goes to the file `report` as text."""
    try:
        fn(rank, *args)
    except KeyboardInterrupt:
        pass  # the parent has it too
    except Exception:
        with open(report, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        raise SystemExit(1) from None


class ProcessContext:
    """The processes that `start_processes` started."""

    def __init__(self, processes: list[Any], error_files: list[str]) -> None:
        self.processes = processes
        self.error_files = error_files
        self.sentinels = {process.sentinel: rank for rank, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until one process has ended; True once all have.

        When one fails the others are stopped and the failure is raised here.
        """
        if not self.sentinels:
            return True
        ready = multiprocessing.connection.wait(list(self.sentinels), timeout=timeout)
        failed = None
        for sentinel in ready:
            rank = self.sentinels.pop(sentinel)
            self.processes[rank].join()
            if self.processes[rank].exitcode != 0 and failed is None:
                failed = rank
        if failed is None:
            done = not self.sentinels
            if done:
                self._forget_reports()
            return done
        _stop(self.processes, _PATIENCE if grace_period is None else grace_period)
        error = self._failure(failed)
        self.sentinels.clear()
        self._forget_reports()
        raise error

    def _failure(self, rank: int) -> ProcessException:
        process = self.processes[rank]
        text = _reported(self.error_files[rank])
        if text is not None:
            return ProcessRaisedException(
                f"Process {rank} failed. Its traceback:\n\n{text}", rank, process.pid
            )
        code = process.exitcode
        if code < 0:
            name = _signal_name(-code)
            return ProcessExitedException(
                f"Process {rank} was ended by {name}.", rank, process.pid, code, name
            )
        return ProcessExitedException(
            f"Process {rank} ended with exit code {code}.", rank, process.pid, code
        )

    def _forget_reports(self) -> None:
        for name in self.error_files:
            if os.path.exists(name):
                os.unlink(name)


SpawnContext = ProcessContext


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _reported(name: str) -> str | None:
    if not os.path.exists(name) or os.path.getsize(name) == 0:
        return None
    with open(name, "rb") as file:
        text: str = pickle.load(file)
        return text


def _stop(processes: list[Any], patience: float) -> None:
    """Ask processes to end, and kill those that do not."""
    alive = [process for process in processes if process.is_alive()]
    for process in alive:
        process.terminate()
    end = time.monotonic() + patience
    for process in alive:
        process.join(max(0.0, end - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """As `spawn`."""
    context = multiprocessing.get_context(start_method)
    processes: list[Any] = []
    reports: list[str] = []
    try:
        for rank in range(nprocs):
            handle, report = tempfile.mkstemp(prefix="pullback-spawn-")
            os.close(handle)
            reports.append(report)
            process: Any = context.Process(  # type: ignore[attr-defined]  # every context has one
                target=_run, args=(fn, rank, args, report), daemon=daemon
            )
            process.start()
            processes.append(process)
    except BaseException:
        _stop(processes, _PATIENCE)
        for report in reports:
            os.unlink(report)
        raise
    started = ProcessContext(processes, reports)
    if not join:
        return started
    try:
        while not started.join():
            pass
    finally:
        _stop(processes, _PATIENCE)
        started._forget_reports()
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run `fn(rank, *args)` in `nprocs` processes.

    With `join`, wait for all of them: if one fails the others are stopped, and its error is raised
    here with its traceback. Without, return a `ProcessContext` whose `join()` does that.

    Example:
        >>> import pullback.multiprocessing as mp
        >>> def double(rank, shared):
        ...     shared[rank] *= 2
        >>> shared = mp.Array("i", [1, 2])
        >>> mp.spawn(double, (shared,), nprocs=2, start_method="fork")
        >>> list(shared)
        [2, 4]
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)


__dir__ = _only_public(globals())

"""Iterating over a loader with workers: who gets which task, and which batch comes next."""

from __future__ import annotations

import itertools
import multiprocessing.connection
import os
import signal
import time
import weakref
from typing import Any

from pullback import multiprocessing as shared_multiprocessing
from pullback.utils.data._utils import MP_STATUS_CHECK_INTERVAL, channel
from pullback.utils.data._utils.worker import Ended, Failure, Job, Start, Started, work
from pullback.utils.data.iterators import BaseIterator
from pullback.utils.data.pipes import own_rank


class _Worker:
    """A worker process as the loader sees it."""

    __slots__ = ("connection", "ended", "process", "waiting_for")

    def __init__(self, process: Any, connection: Any) -> None:
        self.process = process
        self.connection = connection
        self.waiting_for = 0  # tasks given and not answered
        self.ended = False  # its part of an iterable dataset is exhausted

    def send(self, message: Any) -> None:
        """Give it a task; that a worker has died is noticed when its answer is waited for."""
        try:
            channel.send(self.connection, message)
        except (BrokenPipeError, ConnectionResetError):
            return


def _start(job: Job, context: Any, ends: list[Any], number: int, inherited: list[Any]) -> Any:
    process = context.Process(target=work, args=(job, ends[number], inherited), daemon=True)
    process.start()
    return process


def start_workers(loader: Any, base_seed: int, shared_seed: int | None = None) -> list[_Worker]:
    """Start the processes of a loader; if one cannot, none stays behind."""
    context = loader.multiprocessing_context or shared_multiprocessing.get_context()
    forks = context.get_start_method() == "fork"
    count = loader.num_workers
    pairs = [context.Pipe(duplex=True) for _ in range(count)]
    ours, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    workers: list[_Worker] = []
    try:
        for number in range(count):
            job = _job(loader, number, base_seed, shared_seed)
            others = theirs[number + 1 :]  # those before are closed here by now
            process = _start(job, context, theirs, number, ours + others if forks else [])
            workers.append(_Worker(process, ours[number]))
            theirs[number].close()
    except BaseException:
        for end in ours[len(workers) :] + theirs[len(workers) :]:
            end.close()
        stop_workers(workers, os.getpid())
        raise
    return workers


def _job(loader: Any, number: int, base_seed: int, shared_seed: int | None) -> Job:
    return Job(
        dataset=loader.dataset,
        iterable=loader._is_iterable,
        batched=loader._auto_collation,
        collate_fn=loader.collate_fn,
        drop_last=loader.drop_last,
        init_fn=loader.worker_init_fn,
        number=number,
        count=loader.num_workers,
        base_seed=base_seed,
        shared_seed=shared_seed,
        rank=own_rank(),
    )


def stop_workers(workers: list[_Worker], starter: int) -> None:
    """End the processes: ask, wait for what they are at, and end those that take too long.

    Only the process that started them does: one that was forked has a copy of the iterator.
    """
    if os.getpid() != starter:
        return
    for worker in workers:
        worker.send(None)
        worker.connection.close()  # whoever is sending a batch gets an error and ends
    end = time.monotonic() + MP_STATUS_CHECK_INTERVAL
    for worker in workers:
        worker.process.join(max(0.0, end - time.monotonic()))
    for worker in workers:
        if worker.process.is_alive():
            worker.process.terminate()
    for worker in workers:
        worker.process.join(1.0)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.process.close()
    workers.clear()


class WorkersIterator(BaseIterator):
    """Batches made by worker processes, in the order of the sampler unless told otherwise."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._prefetch = loader.prefetch_factor
        self._in_order = loader.in_order
        self._patience = loader.timeout
        self._workers = start_workers(loader, self._base_seed, self._shared_seed)
        # The processes end with the iterator, whoever drops it, and at the latest with Python.
        self._stop = weakref.finalize(self, stop_workers, self._workers, os.getpid())
        self._begin()

    def is_alive(self) -> bool:
        """Whether the workers are there."""
        return self._stop.alive

    def _begin(self) -> None:
        """Give the first tasks of an epoch."""
        self._given = 0  # tasks given, and so the number of the next
        self._next = 0  # the number of the batch that comes next
        self._tasks: dict[int, _Worker] = {}  # unanswered
        self._answers: dict[int, Any] = {}  # waiting for their turn
        self._turns = itertools.cycle(self._workers)
        for _ in range(self._prefetch * len(self._workers)):
            self._give()

    def _again(self, loader: Any) -> None:
        """Start the next epoch with the same workers."""
        # What an epoch that was left early has still to come is dropped; `Started` marks its end.
        self._answers.clear()
        self._tasks.clear()
        self._reset(loader)
        for worker in self._workers:
            worker.ended, worker.waiting_for = False, 0
            worker.send(Start(self._shared_seed))
        started = 0
        while started < len(self._workers):
            _, _, answer = self._receive()
            if isinstance(answer, Started):
                started += 1
        self._begin()

    # Giving tasks -------------------------------------------------------------------------------

    def _give(self) -> None:
        """Give the next task to the worker whose turn it is, if any may have more."""
        worker = self._free_worker()
        if worker is None:
            return
        try:
            place = self._next_index()
        except StopIteration:
            return
        self._tasks[self._given] = worker
        worker.waiting_for += 1
        worker.send((self._given, place))
        self._given += 1

    def _free_worker(self) -> _Worker | None:
        if not self._in_order:
            free = [w for w in self._workers if not w.ended and w.waiting_for < self._prefetch]
            return min(free, key=lambda worker: worker.waiting_for, default=None)
        for _ in self._workers:
            worker = next(self._turns)
            if not worker.ended:
                return worker
        return None

    # Taking answers -----------------------------------------------------------------------------

    def _next_data(self) -> Any:
        while True:
            if self._in_order:
                self._skip_ended()
                answer = self._answers.pop(self._next, self)
            else:
                answer = self._answers.pop(next(iter(self._answers), -1), self)
            if answer is not self:
                self._next += 1
                self._give()
                if isinstance(answer, Failure):
                    answer.reraise()
                return answer
            if not self._tasks:
                if not self._persistent:
                    self._stop()
                raise StopIteration
            self._take(*self._receive())

    def _skip_ended(self) -> None:
        """Pass over tasks that nobody will answer: their worker has come to its end."""
        while self._next < self._given and self._next not in self._answers:
            worker = self._tasks.get(self._next)
            if worker is not None and not worker.ended:
                return
            self._tasks.pop(self._next, None)
            self._next += 1

    def _take(self, worker: _Worker, number: int, answer: Any) -> None:
        if number not in self._tasks:
            return  # of an epoch before
        del self._tasks[number]
        worker.waiting_for -= 1
        if not isinstance(answer, Ended):
            self._answers[number] = answer
            return
        worker.ended = True
        for given in [given for given, whose in self._tasks.items() if whose is worker]:
            del self._tasks[given]
        self._give()
        if not self._persistent:
            worker.send(None)

    def _receive(self) -> tuple[_Worker, int, Any]:
        """The next answer of any worker; an error if one has died, or none comes in time."""
        senders = {worker.connection: worker for worker in self._workers if not worker.ended}
        deaths = {worker.process.sentinel: worker for worker in senders.values()}
        ready = multiprocessing.connection.wait([*senders, *deaths], timeout=self._patience or None)
        if not ready:
            for late in self._workers:
                late.process.terminate()  # who has waited so long does not wait for them to end
            self._stop()
            raise RuntimeError(
                f"DataLoader: no batch within {self._patience} seconds (timeout={self._patience}); "
                "the workers were stopped."
            )
        for place in ready:
            worker = senders.get(place)
            if worker is not None:
                try:
                    return worker, *channel.receive(worker.connection)
                except (EOFError, ConnectionResetError, BrokenPipeError):
                    raise self._death(worker) from None
        raise self._death(next(deaths[place] for place in ready if place in deaths))

    def _death(self, worker: _Worker) -> RuntimeError:
        process = worker.process
        process.join(MP_STATUS_CHECK_INTERVAL)
        number, pid, code = self._workers.index(worker), process.pid, process.exitcode
        self._stop()
        return RuntimeError(
            f"DataLoader: worker {number} (process {pid}) {_how(code)}; the others were stopped. "
            "With num_workers=0 the dataset runs in this process, where an error is easier to see."
        )


def _how(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exited unexpectedly with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    if -code == getattr(signal, "SIGKILL", None):
        return f"was killed ({name}), perhaps for lack of memory"
    return f"was ended by {name}"

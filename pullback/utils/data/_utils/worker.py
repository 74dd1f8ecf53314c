"""The worker's side of a loader: a process that turns places into batches until told to stop."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import pickle
import queue
import random
import signal
import threading
import traceback
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy

from pullback.operators.random.generator import manual_seed
from pullback.utils.data._utils import channel
from pullback.utils.data._utils.fetch import fetcher_of
from pullback.utils.data.pipes import begin_epoch, shard

__all__ = ["WorkerInfo", "get_worker_info"]


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker knows of itself: its number, how many there are, its seed and its dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process, who it is; None in the main process.

    Example:
        >>> from pullback.utils.data import get_worker_info
        >>> get_worker_info() is None
        True
    """
    return _worker_info


# What goes through the channel, besides places: (number, place) to a worker, (number, answer) back.


class Start:
    """Begin another epoch, with a seed for data pipes; only workers that stay are told."""

    def __init__(self, shared_seed: int | None = None) -> None:
        self.shared_seed = shared_seed


class Started:
    """The answer to `Start`."""


class Ended:
    """The worker's part of an iterable dataset is exhausted."""


class Failure:
    """An error in a worker, as text and type, to be raised again by the loader."""

    def __init__(self, error: BaseException, where: str) -> None:
        self.kind = _transported(type(error))
        self.text = (
            f"{type(error).__name__} in {where}. Its traceback:\n"
            + "".join(traceback.format_exception(error)).rstrip()
        )

    def reraise(self) -> None:
        """Raise the same type of error, with the worker's traceback as its message."""
        if issubclass(self.kind, KeyError):  # prints the repr of its message otherwise
            raise self.kind(_Verbatim(self.text))
        try:
            error = self.kind(self.text)
        except Exception:
            raise RuntimeError(self.text) from None  # it wants other arguments than a message
        raise error


def _transported(kind: type[BaseException]) -> type[BaseException]:
    """The type of error that the loader raises; one that it would take for its end is another."""
    if issubclass(kind, StopIteration):
        return RuntimeError
    try:
        pickle.dumps(kind)
    except Exception:  # defined inside a function, where no other process finds it
        return RuntimeError
    return kind


class _Verbatim(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return self


@dataclass
class Job:
    """What a worker needs to know; goes to the process when it starts."""

    dataset: Any
    iterable: bool
    batched: bool
    collate_fn: Any
    drop_last: bool
    init_fn: Any
    number: int
    count: int
    base_seed: int
    shared_seed: int | None = None  # of data pipes
    rank: tuple[int, int] = (0, 1)  # number and count

    @property
    def where(self) -> str:
        """Who it is, for messages."""
        return f"worker {self.number} of a DataLoader (process {os.getpid()})"


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Torch's seed of NumPy's global generator in a worker: four words from both numbers."""
    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    made: list[int] = numpy.random.SeedSequence(words).generate_state(4).tolist()
    return made


def _seed_all(job: Job) -> None:
    global _worker_info
    seed = job.base_seed + job.number
    random.seed(seed)
    manual_seed(seed)
    numpy.random.seed(_generate_state(job.base_seed, job.number))  # noqa: NPY002 (the user's global stream)
    _worker_info = WorkerInfo(job.number, job.count, seed, job.dataset)


def work(job: Job, connection: Any, inherited: list[Any]) -> None:
    """The body of a worker process."""
    # Ctrl-C reaches the whole group of processes; the loader decides what becomes of workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for other in inherited:  # copies that a fork made, which would keep those pipes open
        other.close()
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    reader = threading.Thread(target=_read, args=(connection, tasks), daemon=True)
    reader.start()
    # Those errors: the loader is gone, or does not want the batch any more.
    with suppress(BrokenPipeError, ConnectionResetError):
        _answer_all(job, connection, tasks)


def _read(connection: Any, tasks: queue.SimpleQueue[Any]) -> None:
    """Take tasks as they come, so that the loader never waits; end if the loader is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    waiting = [connection, parent.sentinel]
    while True:
        ready = multiprocessing.connection.wait(waiting)
        if parent.sentinel in ready and connection not in ready:
            os._exit(1)
        try:
            task = channel.receive(connection)
        except (EOFError, OSError):
            task = None
        tasks.put(task)
        if task is None:
            waiting = [parent.sentinel]
            multiprocessing.connection.wait(waiting)
            os._exit(1)


def _answer_all(job: Job, connection: Any, tasks: queue.SimpleQueue[Any]) -> None:
    failed = _begin(job)
    fetch = None
    ended = False
    while (task := tasks.get()) is not None:
        if isinstance(task, Start):
            fetch, ended = None, False
            job.shared_seed = task.shared_seed
            channel.send(connection, (-1, Started()))
            continue
        number, place = task
        if ended:
            continue  # the loader hears of the end once
        answer: Any
        if failed is not None:
            answer, failed = failed, None
        else:
            try:
                if fetch is None:
                    fetch = _fetcher(job)
                answer = fetch(place)
            except StopIteration as error:
                answer = Ended() if job.iterable else Failure(error, job.where)
                ended = job.iterable
            except Exception as error:
                answer = Failure(error, job.where)
        _send_answer(job, connection, number, answer)
        del answer  # a batch may be large; it need not wait for the next one to replace it


def _begin(job: Job) -> Failure | None:
    _seed_all(job)
    try:
        shard(job.dataset, job.number, job.count, job.rank)
        if job.init_fn is not None:
            job.init_fn(job.number)
    except Exception as error:
        return Failure(error, job.where)
    return None


def _fetcher(job: Job) -> Any:
    begin_epoch(job.dataset, job.shared_seed)
    return fetcher_of(
        job.dataset,
        iterable=job.iterable,
        batched=job.batched,
        collate_fn=job.collate_fn,
        drop_last=job.drop_last,
    )


def _send_answer(job: Job, connection: Any, number: int, answer: Any) -> None:
    try:
        channel.send(connection, (number, answer))
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception as error:  # what the user's batch raises when pickled
        channel.send(connection, (number, Failure(error, job.where)))

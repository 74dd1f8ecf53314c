"""Run a function on ranks that are threads: nothing to install, the same bits every time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextvars import Context
from typing import Any

from pullback.distributed import world
from pullback.distributed.engines.threads import Fault, ThreadCommunicator, ThreadWorld
from pullback.distributed.errors import DistError, RankErrors

__all__ = ["Fault", "run"]


def run(
    function: Callable[..., Any],
    size: int,
    *args: Any,
    timeout: float = 60.0,
    delay: Callable[[int, str, int], float] | None = None,
    faults: Mapping[int, Fault] | None = None,
    far: bool = False,
) -> list[Any]:
    """Call `function(*args)` on each of `size` ranks; what it returned on each.

    Args:
        function: what every rank does; `get_rank()` tells it which one it is.
        size: how many ranks.
        args: given to the function.
        timeout: seconds that a collective waits for late ranks.
        delay: `delay(rank, call, bytes)`, seconds by which a call is held up.
        faults: what befalls which rank.
        far: behave as if ranks were on machines of their own (DDP then sends early).

    Raises:
        RankErrors: what each rank died of, where any did.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> def total():
    ...     x = torch.tensor([dist.get_rank() + 1.0])
    ...     dist.all_reduce(x)
    ...     return x.item()
    >>> dist.threads.run(total, 3)
    [6.0, 6.0, 6.0]
    """
    job = _Job(function, args, size, timeout, delay, dict(faults or {}), far)
    return job.results()


class _Job:
    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        size: int,
        timeout: float,
        delay: Any,
        faults: dict[int, Fault],
        far: bool,
    ) -> None:
        if size < 1:
            raise ValueError(f"There must be 1 rank or more, got {size}.")
        self._function, self._args, self._timeout, self._far = function, args, timeout, far
        self._shared = ThreadWorld(size, delay, faults)
        self._values: list[Any] = [None] * size
        self._errors: dict[int, BaseException] = {}
        self._order: list[int] = []
        self._threads = [
            threading.Thread(target=Context().run, args=(self._be, rank), name=f"rank {rank}")
            for rank in range(size)
        ]

    def _be(self, rank: int) -> None:
        size = self._shared.size
        room = self._shared.room("world", tuple(range(size)))
        communicator = ThreadCommunicator(room, rank)
        communicator.is_far = self._far
        mine = world.enter_thread(communicator, self._timeout)
        try:
            self._values[rank] = self._function(*self._args)
        except BaseException as error:
            self._errors[rank] = error
            self._order.append(rank)
            self._shared.leave(rank, f"{type(error).__name__}: {error}")
        else:
            self._shared.leave(rank, "its function has returned")
        finally:
            mine.close()

    def results(self) -> list[Any]:
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        if not self._errors:
            return self._values
        # Who failed on its own comes before those who failed for want of it.
        own = [rank for rank in self._order if not isinstance(self._errors[rank], DistError)]
        first = (own or self._order)[0]
        raise RankErrors(self._errors, first) from self._errors[first]

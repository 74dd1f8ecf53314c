"""Run a function on ranks that are Ray actors: placed, watched and, if one dies, begun again."""

from __future__ import annotations

import contextlib
import logging
import os
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from pullback.distributed.engines.ray.loading import load_ray
from pullback.distributed.engines.ray.rank import Rank
from pullback.distributed.errors import DistError, RankErrors
from pullback.distributed.meeting import pmi

__all__ = ["run"]

_log = logging.getLogger("pullback.distributed")
_GRACE = 5.0  # seconds in which an actor that was ended must be gone


def run(
    function: Callable[..., Any],
    size: int,
    *args: Any,
    max_restarts: int = 0,
    resources: Mapping[str, float] | None = None,
    strategy: str = "PACK",
    timeout: float | None = None,
    start_timeout: float = 120.0,
) -> list[Any]:
    """Call `function(*args)` on each of `size` ranks, which are actors; what it returned on each.

    Inside, `init_process_group()` joins the ranks by MPI, and `init_rpc(name)` makes them workers
    whose calls Ray carries. A rank that fails ends the others; then all begin again, up to
    `max_restarts` times: a program that loads its last checkpoint (`distributed.checkpoint.latest`)
    goes on from there.

    Args:
        function: what every rank does; what it needs must be importable there.
        size: how many ranks.
        args: given to the function.
        max_restarts: how often to begin again after a failure.
        resources: what one rank needs, such as `{"CPU": 1, "GPU": 1}`; one CPU unless told.
        strategy: how to place ranks: "PACK", "SPREAD", "STRICT_PACK" or "STRICT_SPREAD".
        timeout: seconds for the whole program; without end unless told.
        start_timeout: seconds in which there must be place for all ranks.

    Raises:
        RankErrors: what the first rank died of, when there are no restarts left.
    """
    ray = load_ray()
    if size < 1:
        raise ValueError(f"There must be 1 rank or more, got {size}.")
    if not ray.is_initialized():
        ray.init(log_to_driver=True, include_dashboard=False)
    for attempt in range(max_restarts + 1):
        job = _Job(ray, size, dict(resources or {"CPU": 1}), strategy, attempt, start_timeout)
        try:
            return job.results(function, args, timeout)
        except RankErrors as error:
            if attempt == max_restarts:
                raise
            _log.warning("%s\nRestart %d of %d.", error, attempt + 1, max_restarts)
        finally:
            job.end()
    raise AssertionError("there is a first attempt")


class _Job:
    """The actors of one attempt."""

    def __init__(
        self, ray: Any, size: int, each: dict[str, float], strategy: str, attempt: int, limit: float
    ) -> None:
        self._ray, self._size, self._attempt = ray, size, attempt
        self._name = f"pullback-{uuid.uuid4().hex[:12]}"
        self._place = ray.util.placement_group([each] * size, strategy=strategy)
        self._actors: list[Any] = []
        self._pids: dict[int, int] = {}
        if not self._place.wait(limit):
            ray.util.remove_placement_group(self._place)
            raise DistError(
                f"Ray found no place for {size} ranks of {each} within {limit} s; the cluster has "
                f"{ray.cluster_resources()}."
            )
        try:
            self._start(each, limit)
        except BaseException:
            self.end()
            raise

    def _start(self, each: dict[str, float], limit: float) -> None:
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        more = {name: value for name, value in each.items() if name not in ("CPU", "GPU")}
        actor = self._ray.remote(Rank)
        for rank in range(self._size):
            self._actors.append(
                actor.options(
                    name=f"{self._name}-{rank}",
                    num_cpus=each.get("CPU", 0),
                    num_gpus=each.get("GPU", 0),
                    resources=more,
                    max_concurrency=1000,
                    max_restarts=0,
                    scheduling_strategy=PlacementGroupSchedulingStrategy(
                        self._place, placement_group_bundle_index=rank
                    ),
                ).remote()
            )
        self._places = self._ray.get([one.place.remote() for one in self._actors], timeout=limit)
        here = self._ray.util.get_node_ip_address()
        self._pids = {rank: pid for rank, (host, _, pid) in enumerate(self._places) if host == here}

    def _variables(self, rank: int) -> dict[str, str]:
        host, port, _ = self._places[0]
        before = [place[0] for place in self._places[:rank]]
        mine = self._places[rank][0]
        return {
            "RANK": str(rank),
            "LOCAL_RANK": str(before.count(mine)),
            "WORLD_SIZE": str(self._size),
            "LOCAL_WORLD_SIZE": str(sum(place[0] == mine for place in self._places)),
            "MASTER_ADDR": host,
            "MASTER_PORT": str(port),
            "PULLBACK_RAY_JOB": self._name,
            "TORCHELASTIC_RESTART_COUNT": str(self._attempt),
        }

    def results(self, function: Any, args: tuple[Any, ...], timeout: float | None) -> list[Any]:
        """What each rank returned; `ray.wait` sees a death while the others still run."""
        running = {
            actor.main.remote(self._variables(rank), function, args): rank
            for rank, actor in enumerate(self._actors)
        }
        values: list[Any] = [None] * self._size
        until = None if timeout is None else time.monotonic() + timeout
        while running:
            left = None if until is None else max(0.0, until - time.monotonic())
            ready, _ = self._ray.wait(list(running), num_returns=1, timeout=left)
            if not ready:
                raise DistError(
                    f"Rank(s) {sorted(running.values())} still ran after {timeout} s; the job is "
                    "ended."
                )
            rank = running.pop(ready[0])
            try:
                values[rank] = self._ray.get(ready[0])
            except self._ray.exceptions.RayError as error:
                cause = self._cause(rank, error)
                raise RankErrors({rank: cause}, rank) from cause
        return values

    def _cause(self, rank: int, error: Any) -> BaseException:
        if isinstance(error, self._ray.exceptions.RayTaskError):
            own: BaseException = getattr(error, "cause", None) or error
            return own
        return DistError(f"the actor of rank {rank} died ({type(error).__name__})")

    def end(self) -> None:
        """End all actors, and what they would leave behind."""
        left = set().union(*(pmi.shared_memory(pid) for pid in self._pids.values()))
        for actor in self._actors:
            with contextlib.suppress(Exception):  # gone already
                self._ray.kill(actor, no_restart=True)
        with contextlib.suppress(Exception):
            self._ray.util.remove_placement_group(self._place)
        until = time.monotonic() + _GRACE
        while any(map(_lives, self._pids.values())) and time.monotonic() < until:
            time.sleep(0.01)
        for path in left:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True

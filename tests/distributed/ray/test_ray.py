"""Ranks that are Ray actors: remote calls, deaths, and restarts from the last checkpoint."""

import os
import sys
import time
from pathlib import Path

import pytest

import pullback.distributed as dist

ray = pytest.importorskip("ray", reason="actors are Ray's: pullback[ray]")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(Path(__file__).parent))
import actors_do as scenarios  # beside, so that actors can import it too

sys.path.pop(0)


@pytest.fixture(scope="module", autouse=True)
def cluster():
    path = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
    given = {"env_vars": {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}}
    ray.init(
        num_cpus=4,
        object_store_memory=100 << 20,  # containers have little shared memory
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        runtime_env=given,
    )
    yield
    ray.shutdown()


def test_calls_and_gradients_go_through_actors():
    """B-8."""
    (called, seconds), nothing = dist.ray.run(scenarios.worker, 2, scenarios.everything, timeout=90)
    assert called == "called"
    assert nothing is None
    print(f"a backward through one remote call, median: {seconds * 1e3:.1f} ms")


def test_a_death_is_told_by_name_and_ends_the_job():
    """B-8, B-52."""
    started = time.monotonic()
    with pytest.raises(dist.RankErrors, match=r"rank [01]") as caught:
        dist.ray.run(scenarios.survive, 2, timeout=90)
    assert time.monotonic() - started < 60
    (error,) = caught.value.errors.values()
    assert "worker 'worker1' died" in str(error) or "the actor of rank 1 died" in str(error)


def test_a_rank_that_dies_restarts_from_the_checkpoint_to_the_same_bits(tmp_path):
    pytest.importorskip("mpi4py", reason="ranks reduce by MPI: pullback[mpi]")
    whole = dist.ray.run(scenarios.train, 2, str(tmp_path / "whole"), 6, None, timeout=90)
    broken = dist.ray.run(
        scenarios.train, 2, str(tmp_path / "broken"), 6, 4, max_restarts=1, timeout=90
    )
    assert [begin for begin, _ in whole] == [0, 0]
    assert [begin for begin, _ in broken] == [4, 4]
    assert len({bits for _, bits in whole + broken}) == 1


def test_wrong_requests_are_refused():
    with pytest.raises(ValueError, match="1 rank or more, got 0"):
        dist.ray.run(scenarios.die, 0)
    with pytest.raises(dist.DistError, match="no place for 2 ranks"):
        dist.ray.run(scenarios.die, 2, resources={"CPU": 64}, start_timeout=0.5)
    with pytest.raises(dist.DistError, match=r"Rank\(s\) \[0\] still ran after 0.5 s"):
        dist.ray.run(time.sleep, 1, 30, timeout=0.5)

"""Several hosts: ranks find one another, and a cut cable or a killed host is an error with a name.

Hosts are network namespaces, so that these run as root only, and only where they are asked for:
`make test-distributed` sets PULLBACK_TEST_HOSTS.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.distributed.hosts.spaces import ADDRESSES, Hosts, can_be_made

pytest.importorskip("mpi4py", reason="processes talk by MPI: pullback[mpi]")

ROOT = Path(__file__).parents[3]
PROGRAM = str(Path(__file__).with_name("program.py"))
PULLBACK = [sys.executable, "-m", "pullback"]

pytestmark = pytest.mark.skipif(
    "PULLBACK_TEST_HOSTS" not in os.environ, reason="PULLBACK_TEST_HOSTS is not set"
)


@pytest.fixture
def hosts():
    why = can_be_made()
    if why:
        pytest.skip(why)
    with Hosts() as made:
        yield made


def environment(**more):
    known = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "MPI"))}
    return {**known, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **more}


def outputs(processes, seconds):
    found = []
    for process in processes:
        try:
            found.append(process.communicate(timeout=seconds)[0])
        except subprocess.TimeoutExpired:
            process.kill()
            found.append(f"not ended: {process.communicate()[0]}")
    return found


@pytest.mark.parametrize("way", ["by_store", "by_file"])
def test_ranks_on_two_hosts_join_by_a_store_and_by_a_file(hosts, way, tmp_path):
    where = ADDRESSES[0] if way == "by_store" else str(tmp_path / "met")
    ranks = [
        hosts.start(rank, [*PULLBACK, "run", PROGRAM, way, where, str(rank)], **environment())
        for rank in range(2)
    ]
    told = outputs(ranks, 60)
    for rank in range(2):
        assert f"rank {rank} sums to 3 and 2, far True" in told[rank], told


def training(hosts, tmp_path):
    """A job of two launchers, when it is under way."""
    alive = tmp_path / "alive"
    given = ["--nnodes", "2", "--master-addr", ADDRESSES[0], "--master-port", "29500"]
    jobs = [
        hosts.start(
            node,
            [*PULLBACK, "launch", *given, "--node-rank", str(node), PROGRAM, "steps"],
            **environment(ALIVE=str(alive)),
        )
        for node in range(2)
    ]
    until = time.monotonic() + 60
    while not alive.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert alive.exists()
    return jobs


def test_a_cut_cable_is_an_error_that_names_the_host_within_ten_seconds(hosts, tmp_path):
    jobs = training(hosts, tmp_path)
    hosts.cut()
    cut = time.monotonic()
    first, second = outputs(jobs, 30)
    assert time.monotonic() - cut < 10 + 3  # and the launchers' own end
    assert f"rank 0: rank 1 is gone (its host {ADDRESSES[1]} does not answer" in first
    assert "rank 1: the job's launcher or service does not answer any more" in second


def test_a_killed_host_is_an_error_that_names_its_rank(hosts, tmp_path):
    jobs = training(hosts, tmp_path)
    jobs[1].kill()
    (first,) = outputs(jobs[:1], 30)
    assert "rank 0: rank 1 is gone" in first


def test_a_job_goes_on_without_a_host_that_is_killed(hosts, tmp_path):
    """`--nnodes 1:2`: both hosts reduce by MPI, then the one that is left does."""
    given = ["--nnodes", "1:2", "--rdzv-endpoint", f"{ADDRESSES[0]}:29400", "--max-restarts", "2"]
    given += ["--rdzv-conf", "last_call_timeout=3"]
    jobs = [
        hosts.start(
            node,
            [*PULLBACK, "launch", *given, PROGRAM, "until_alone"],
            **environment(ALIVE=str(tmp_path / "alive")),
        )
        for node in range(2)
    ]
    until = time.monotonic() + 60
    while not (tmp_path / "alive").exists() and time.monotonic() < until:
        time.sleep(0.05)
    jobs[1].kill()
    (first,) = outputs(jobs[:1], 60)
    assert jobs[0].returncode == 0, first
    assert "node 0 of 2, 2 ranks in all" in first
    assert "alone at last" in first
